//! What a definition says about placement, in words.

use baton::v1::{LabelOperator, RunnerSelector, TaskConfig};

use super::{Facts, proto_span, time, word};
use crate::output::facts::pairs;

/// Where a task may run, which runner gets it, and what it shares with others.
pub(super) fn add(facts: &mut Facts, task: &TaskConfig) {
    if let Some(runner) = &task.runner {
        facts.add("  runner", asks(runner).join(", "));
        let routing = word(runner.routing().as_str_name(), "ROUTING_");
        let key = &runner.routing_key;
        facts.add("  routing", if key.is_empty() { routing } else { format!("{routing} by {key}") });
    }
    if let Some(concurrency) = &task.concurrency {
        facts.add("  concurrency", format!("{}, at most {} at once", concurrency.key, concurrency.limit));
    }
    if let Some(timeout) = proto_span(task.queue_timeout) {
        facts.add("  queue timeout", time::span(timeout));
    }
    if let Some(priority) = task.priority {
        facts.add("  priority", priority.to_string());
    }
}

/// What a runner must have, one thing each.
fn asks(runner: &RunnerSelector) -> Vec<String> {
    let mut asks = Vec::new();
    if !runner.match_labels.is_empty() {
        asks.push(pairs(&runner.match_labels));
    }
    asks.extend(runner.match_expressions.iter().map(|expression| {
        let operator = word(expression.operator().as_str_name(), "LABEL_OPERATOR_").replace('_', " ");
        match expression.operator() {
            LabelOperator::In | LabelOperator::NotIn => {
                format!("{} {operator} ({})", expression.key, expression.values.join(", "))
            }
            _ => format!("{} {operator}", expression.key),
        }
    }));
    if !runner.min_version.is_empty() {
        asks.push(format!("version {} or newer", runner.min_version));
    }
    if !runner.runners.is_empty() {
        asks.push(format!("one of {}", runner.runners.join(", ")));
    }
    if !runner.exclude_runners.is_empty() {
        asks.push(format!("not {}", runner.exclude_runners.join(", ")));
    }
    asks
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use baton::v1::LabelExpression;

    use super::*;

    #[test]
    fn what_is_asked_of_a_runner_reads_like_a_sentence() {
        let expression = |operator: LabelOperator, values: &[&str]| LabelExpression {
            key: "zone".to_owned(),
            operator: operator.into(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let runner = RunnerSelector {
            match_labels: HashMap::from([("pool".to_owned(), "etl".to_owned())]),
            match_expressions: vec![
                expression(LabelOperator::NotIn, &["a", "b"]),
                expression(LabelOperator::DoesNotExist, &[]),
            ],
            min_version: "1.4".to_owned(),
            runners: vec!["r1".to_owned(), "r2".to_owned()],
            exclude_runners: vec!["r3".to_owned()],
            ..RunnerSelector::default()
        };
        let words = "pool=etl, zone not in (a, b), zone does not exist, version 1.4 or newer, one of r1, r2, not r3";
        assert_eq!(asks(&runner).join(", "), words);
    }
}
