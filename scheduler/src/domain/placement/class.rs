//! What a task asks of a runner, and whether a runner has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{expression::Expression, limit::Limit, routing::Routing, version::Version};
use crate::domain::selector::Selector;

/// Bytes of a class's text. It stands in an index, whose entries may not be larger.
pub const CLASS_BYTES_MAX: usize = 2_400;

/// What a runner must have to take a task, and how it is chosen. Tasks that ask for the same are one class in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Class {
    /// What it must be able to run.
    pub capability: String,
    /// The one runner that may take it: of a shard for each runner, or of a run for one runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
    /// The labels it must have.
    #[serde(with = "labels", skip_serializing_if = "is_default")]
    pub selector: Selector,
    /// What else its labels must be like.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub expressions: BTreeSet<Expression>,
    /// The oldest version that will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version: Option<Version>,
    /// The runners that may take it; none named means any.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub runners: BTreeSet<String>,
    /// The runners that the definition excludes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub excluded: BTreeSet<String>,
    /// The runners that this task may not use any more, because it failed there.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub spent: BTreeSet<String>,
    /// The one runner that may take its next attempt: its turn is not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stay: Option<String>,
    /// How one of those that may take it is chosen.
    #[serde(skip_serializing_if = "is_default")]
    pub routing: Routing,
    /// The key it needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

/// What is asked of a runner, in the order in which it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// To be able to run the target.
    Capability,
    /// To be the one that the task is pinned to.
    Pin,
    /// To be one of those named.
    Runners,
    /// Not to be excluded.
    Excluded,
    /// Not to be one where the task failed already.
    Spent,
    /// To be the one whose turn it is.
    Stay,
    /// To be new enough.
    MinVersion,
    /// To have certain labels.
    Labels,
    /// To have labels that certain conditions hold for.
    Expressions,
}

/// What keeps a runner from taking tasks of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The first thing asked that it does not have.
    pub ask: Ask,
    /// The same in words.
    pub why: String,
}

/// What a runner has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traits {
    /// Its id.
    pub id: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it can run.
    pub capabilities: Vec<String>,
    /// The version of its software, as it reports it.
    pub version: String,
}

impl Class {
    /// What any runner of a capability may take.
    pub fn of(capability: &str) -> Self {
        Self { capability: capability.to_owned(), ..Self::default() }
    }

    /// Reads the canonical text back; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let class = if text.starts_with('{') {
            serde_json::from_str(text).ok()?
        } else {
            let mut parts = text.splitn(3, ';');
            let (capability, pin, selector) = (parts.next()?, parts.next()?, parts.next()?);
            Self {
                pin: (!pin.is_empty()).then(|| pin.to_owned()),
                selector: Selector::parse(selector)?,
                ..Self::of(capability)
            }
        };
        (class.to_string() == text).then_some(class)
    }

    /// The same for a task that may not use this runner any more.
    #[must_use]
    pub fn without(mut self, runner: &str) -> Self {
        self.spent.insert(runner.to_owned());
        self
    }

    /// Whether this runner may take tasks of the class.
    pub fn suits(&self, runner: &Traits) -> bool {
        self.fault(runner).is_none()
    }

    /// What keeps this runner from taking tasks of the class; `None` when nothing does.
    pub fn mismatch(&self, runner: &Traits) -> Option<Mismatch> {
        let ask = self.fault(runner)?;
        let why = match ask {
            Ask::Capability => format!("it cannot run {:?} targets", self.capability),
            Ask::Pin => format!("only runner {} may take it", self.pin.as_deref().unwrap_or_default()),
            Ask::Runners => "it is not among those named".to_owned(),
            Ask::Excluded => "it is excluded".to_owned(),
            Ask::Spent => "the task failed on it already".to_owned(),
            Ask::Stay => format!("its retries stay on {}", self.stay.as_deref().unwrap_or_default()),
            Ask::MinVersion => match runner.version.parse::<Version>() {
                Ok(version) => format!("it is of version {version}"),
                Err(_) => format!("its version {:?} cannot be compared", runner.version),
            },
            Ask::Labels => {
                let missing =
                    self.selector.labels().iter().filter(|(key, value)| runner.labels.get(*key) != Some(value));
                let missing: Vec<String> = missing
                    .map(|(key, value)| match runner.labels.get(key) {
                        Some(other) => format!("{key}={value} (it has {key}={other})"),
                        None => format!("{key}={value}"),
                    })
                    .collect();
                format!("it lacks {}", missing.join(", "))
            }
            Ask::Expressions => {
                let failing = self.expressions.iter().filter(|expression| !expression.holds(&runner.labels));
                let failing: Vec<String> = failing
                    .map(|expression| match runner.labels.get(&expression.key) {
                        Some(value) => format!("{expression} (it has {}={value})", expression.key),
                        None => format!("{expression} (it has no {})", expression.key),
                    })
                    .collect();
                format!("not so: {}", failing.join(", "))
            }
        };
        Some(Mismatch { ask, why })
    }

    /// The first thing that is asked and this runner has not. The one place where it is decided who may take what.
    pub fn fault(&self, runner: &Traits) -> Option<Ask> {
        let id = &runner.id;
        let new_enough = |least: &Version| runner.version.parse::<Version>().is_ok_and(|version| version >= *least);
        if !runner.capabilities.contains(&self.capability) {
            Some(Ask::Capability)
        } else if self.pin.as_ref().is_some_and(|pin| pin != id) {
            Some(Ask::Pin)
        } else if !self.runners.is_empty() && !self.runners.contains(id) {
            Some(Ask::Runners)
        } else if self.excluded.contains(id) {
            Some(Ask::Excluded)
        } else if self.spent.contains(id) {
            Some(Ask::Spent)
        } else if self.stay.as_ref().is_some_and(|stay| stay != id) {
            Some(Ask::Stay)
        } else if !self.min_version.as_ref().is_none_or(new_enough) {
            Some(Ask::MinVersion)
        } else if !self.selector.matches(&runner.labels) {
            Some(Ask::Labels)
        } else if !self.expressions.iter().all(|expression| expression.holds(&runner.labels)) {
            Some(Ask::Expressions)
        } else {
            None
        }
    }

    /// Whether it says no more than `capability;pin;labels` can.
    fn is_plain(&self) -> bool {
        let Self { capability, pin, selector, .. } = self;
        *self == Self { pin: pin.clone(), selector: selector.clone(), ..Self::of(capability) }
    }
}

/// The canonical text: `capability;pin;labels` where that says all (neither a capability nor a runner's id holds a `;`),
/// else a JSON document, which no scheduler of an earlier version takes for a class of its own.
impl fmt::Display for Class {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            return write!(to, "{};{};{}", self.capability, self.pin.as_deref().unwrap_or_default(), self.selector);
        }
        to.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A selector as a map of its labels.
mod labels {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::domain::selector::Selector;

    pub(super) fn serialize<S: Serializer>(selector: &Selector, to: S) -> Result<S::Ok, S::Error> {
        selector.labels().serialize(to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Selector, D::Error> {
        BTreeMap::deserialize(from).map(Selector::new)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::expression::Operator, *};

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn set(values: &[&str]) -> BTreeSet<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    fn expression(key: &str, operator: Operator, values: &[&str]) -> Expression {
        Expression { key: key.into(), operator, values: set(values) }
    }

    fn traits(pairs: &[(&str, &str)]) -> Traits {
        let capabilities = vec!["command".to_owned()];
        Traits { id: "etl-2".into(), labels: labels(pairs), capabilities, version: "1.4.0".into() }
    }

    #[test]
    fn each_thing_asked_for_is_met_or_named() {
        let plain = Class::of("command");
        let having = traits(&[("pool", "etl2"), ("zone", "b")]);
        let with = |operator, values: &[&str]| Class {
            expressions: BTreeSet::from([expression("zone", operator, values)]),
            ..plain.clone()
        };
        let least = |version: &str| Class { min_version: version.parse().ok(), ..plain.clone() };
        let rows: [(Class, Option<&str>); 21] = [
            (plain.clone(), None),
            (Class::of("http"), Some("it cannot run \"http\" targets")),
            (Class { pin: Some("etl-2".into()), ..plain.clone() }, None),
            (Class { pin: Some("a".into()), ..plain.clone() }, Some("only runner a may take it")),
            (Class { runners: set(&["a", "etl-2"]), ..plain.clone() }, None),
            (Class { runners: set(&["a", "etl-20"]), ..plain.clone() }, Some("it is not among those named")),
            (Class { excluded: set(&["etl-2"]), ..plain.clone() }, Some("it is excluded")),
            (plain.clone().without("etl-2"), Some("the task failed on it already")),
            (least("1.4"), None),
            (least("1.4.1"), Some("it is of version 1.4.0")),
            (Class { selector: Selector::new(labels(&[("zone", "b")])), ..plain.clone() }, None),
            (
                Class { selector: Selector::new(labels(&[("pool", "etl"), ("gpu", "1")])), ..plain.clone() },
                Some("it lacks gpu=1, pool=etl (it has pool=etl2)"),
            ),
            (with(Operator::In, &["a", "b"]), None),
            (with(Operator::In, &["a"]), Some("not so: zone in (a) (it has zone=b)")),
            (with(Operator::NotIn, &["a"]), None),
            (with(Operator::NotIn, &["b"]), Some("not so: zone not in (b) (it has zone=b)")),
            (with(Operator::Exists, &[]), None),
            (with(Operator::DoesNotExist, &[]), Some("not so: zone does not exist (it has zone=b)")),
            (
                Class { expressions: BTreeSet::from([expression("gpu", Operator::NotIn, &["a"])]), ..plain.clone() },
                None,
            ),
            (
                Class { expressions: BTreeSet::from([expression("gpu", Operator::In, &["a"])]), ..plain.clone() },
                Some("not so: gpu in (a) (it has no gpu)"),
            ),
            (
                Class { expressions: BTreeSet::from([expression("gpu", Operator::Exists, &[])]), ..plain.clone() },
                Some("not so: gpu exists (it has no gpu)"),
            ),
        ];
        for (class, why) in rows {
            let found = class.mismatch(&having).map(|mismatch| mismatch.why);
            assert_eq!(found.as_deref(), why, "{class}");
            assert_eq!(class.suits(&having), why.is_none(), "{class}");
        }
        let strange = Traits { version: "built yesterday".into(), ..having };
        let why = least("1.0").mismatch(&strange).unwrap().why;
        assert_eq!(why, "its version \"built yesterday\" cannot be compared");
    }

    #[test]
    fn a_plain_class_has_the_text_it_always_had() {
        let class = Class { selector: Selector::new(labels(&[("pool", "etl")])), ..Class::of("shell") };
        assert_eq!(class.to_string(), "shell;;pool=etl");
        let routed = Class { routing: Routing::First, ..class };
        assert_eq!(routed.to_string(), r#"{"capability":"shell","selector":{"pool":"etl"},"routing":"first"}"#);
    }

    #[test]
    fn what_is_not_canonical_is_no_class() {
        for text in ["", "command", "{", "{\"capability\":\"a\"}", "{\"routing\":\"first\", \"capability\":\"a\"}"] {
            assert_eq!(Class::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_class_reads_back_as_it_was_written(
            capability in "[a-z]{1,8}", pin in proptest::option::of("[a-z0-9.-]{1,8}"),
            pairs in proptest::collection::btree_map(".{0,6}", ".{0,6}", 0..3),
            values in proptest::collection::btree_set(".{0,4}", 0..3), names in proptest::collection::btree_set("[a-z]{1,3}", 0..3),
            version in proptest::option::of("[0-9]{1,2}\\.[0-9]{1,2}\\.[0-9]{1,2}(-rc\\.[0-9])?"), which in 0..9_usize,
        ) {
            let class = Class {
                pin,
                selector: Selector::new(pairs),
                expressions: values.iter().map(|value| expression(value, Operator::In, &[value])).collect(),
                min_version: version.map(|version| version.parse().unwrap()),
                runners: names.clone(),
                stay: names.first().cloned(),
                spent: names,
                routing: Routing::ALL[which],
                limit: (which % 2 == 0).then(|| Limit::new("default", "key", 3)),
                ..Class::of(&capability)
            };
            prop_assert_eq!(Class::parse(&class.to_string()), Some(class));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = Class::parse(&text);
        }
    }
}
