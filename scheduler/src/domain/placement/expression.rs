//! Conditions on one label of a runner: `in`, `not_in`, `exists`, `does_not_exist`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Expression {
    /// The label's key.
    pub key: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; none for `exists` and `does_not_exist`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub values: BTreeSet<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The runner has the label with one of the values.
    In,
    /// The runner does not have the label with one of the values; one without the label suits.
    NotIn,
    /// The runner has the label, with whatever value.
    Exists,
    /// The runner does not have the label.
    DoesNotExist,
}

impl Operator {
    /// Every operator, in the order of the protocol.
    pub const ALL: [Self; 4] = [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist];

    /// The operator of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::NotIn => "not_in",
            Self::Exists => "exists",
            Self::DoesNotExist => "does_not_exist",
        }
    }

    /// Whether it is given values.
    pub fn takes_values(self) -> bool {
        matches!(self, Self::In | Self::NotIn)
    }
}

impl Expression {
    /// Whether a runner with these labels suits: values are compared whole.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

/// As people write it: `zone in (a, b)`, `gpu exists`.
impl fmt::Display for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.operator.name().replace('_', " ");
        if !self.operator.takes_values() {
            return write!(to, "{} {words}", self.key);
        }
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        write!(to, "{} {words} ({})", self.key, values.join(", "))
    }
}
