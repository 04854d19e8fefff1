//! What a definition says about placement beside labels: which runners may take a task, which of them gets it, what it
//! shares with others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reader::Fields;
use crate::domain::{
    placement::{Class, Expression, Limit, Operator, Routing, Version},
    selector::Selector,
};

/// The keys of `runner` but for `match_labels`, as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// Conditions on labels, all of which must hold.
    pub match_expressions: Vec<LabelExpression>,
    /// The oldest version that will do; empty means any.
    pub min_version: String,
    /// The runners that may take it; none means any.
    pub runners: Vec<String>,
    /// The runners that may not.
    pub exclude_runners: Vec<String>,
    /// How one of those that may is chosen; `None` means `any`.
    pub routing: Option<Routing>,
    /// A template of what `consistent_hash` goes by; empty means the task's name.
    pub routing_key: String,
}

/// A condition on a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelExpression {
    /// The label's key.
    pub key: String,
    /// How it is compared; must be set.
    pub operator: Option<Operator>,
    /// With what.
    pub values: Vec<String>,
}

/// A key that only so many tasks may hold at once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Concurrency {
    /// The key.
    pub key: String,
    /// How many may hold it.
    pub limit: u32,
}

impl Placement {
    /// Takes over from the defaults what is not set.
    pub(super) fn fill(&mut self, defaults: &Self) {
        let Self { match_expressions, min_version, runners, exclude_runners, routing, routing_key } = self;
        if match_expressions.is_empty() {
            match_expressions.clone_from(&defaults.match_expressions);
        }
        if min_version.is_empty() {
            min_version.clone_from(&defaults.min_version);
        }
        if runners.is_empty() {
            runners.clone_from(&defaults.runners);
        }
        if exclude_runners.is_empty() {
            exclude_runners.clone_from(&defaults.exclude_runners);
        }
        // A key without its strategy means nothing: both are taken over, or neither.
        if routing.is_none() {
            *routing = defaults.routing;
            if routing_key.is_empty() {
                routing_key.clone_from(&defaults.routing_key);
            }
        }
    }

    /// What a runner must have to take a task that asks for this, as far as it makes sense.
    pub fn class(
        &self,
        capability: &str,
        labels: &BTreeMap<String, String>,
        namespace: &str,
        concurrency: Option<&Concurrency>,
    ) -> Class {
        let expressions = self.match_expressions.iter().filter_map(|expression| {
            let (key, values) = (expression.key.clone(), expression.values.iter().cloned().collect());
            Some(Expression { key, operator: expression.operator?, values })
        });
        Class {
            selector: Selector::new(labels.clone()),
            expressions: expressions.collect(),
            min_version: self.min_version.parse::<Version>().ok(),
            runners: self.runners.iter().cloned().collect(),
            excluded: self.exclude_runners.iter().cloned().collect(),
            routing: self.routing.unwrap_or_default(),
            limit: concurrency.map(|concurrency| Limit::new(namespace, &concurrency.key, concurrency.limit)),
            ..Class::of(capability)
        }
    }

    /// What differs from nothing, as fields and their values in words.
    pub(super) fn fields(&self, mut set: impl FnMut(&str, String)) {
        let Self { match_expressions, min_version, runners, exclude_runners, routing, routing_key } = self;
        for (place, LabelExpression { key, operator, values }) in match_expressions.iter().enumerate() {
            let operator = operator.map_or("", Operator::name);
            let values = if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
            set(&format!("runner.match_expressions[{place}]"), format!("{key} {operator}{values}"));
        }
        let lists = [("runner.runners", runners), ("runner.exclude_runners", exclude_runners)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            set(name, list.join(", "));
        }
        let texts = [("runner.min_version", min_version), ("runner.routing_key", routing_key)];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            set(name, text.clone());
        }
        if let Some(routing) = routing {
            set("runner.routing", routing.name().to_owned());
        }
    }
}

/// Reads `runner`: its labels, and everything else.
pub(super) fn runner(fields: Option<Fields>) -> (BTreeMap<String, String>, Placement) {
    let Some(mut fields) = fields else { return Default::default() };
    let expression = |mut fields: Fields| LabelExpression {
        key: fields.text("key").unwrap_or_default(),
        operator: fields.text("operator").and_then(|name| Operator::named(&name)),
        values: fields.texts("values").unwrap_or_default(),
    };
    let placement = Placement {
        match_expressions: fields
            .objects("match_expressions")
            .unwrap_or_default()
            .into_iter()
            .map(expression)
            .collect(),
        min_version: fields.text("min_version").unwrap_or_default(),
        runners: fields.texts("runners").unwrap_or_default(),
        exclude_runners: fields.texts("exclude_runners").unwrap_or_default(),
        routing: fields.text("routing").and_then(|name| Routing::named(&name)),
        routing_key: fields.text("routing_key").unwrap_or_default(),
    };
    (fields.pairs("match_labels").unwrap_or_default(), placement)
}

/// Reads `concurrency`.
pub(super) fn concurrency(mut fields: Fields) -> Concurrency {
    let limit = fields.integer("limit").map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX));
    Concurrency { key: fields.text("key").unwrap_or_default(), limit }
}
