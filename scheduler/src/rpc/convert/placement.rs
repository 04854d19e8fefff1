//! What a definition says about placement, into messages and back.

use std::collections::BTreeMap;

use baton::v1;

use super::{Fields, sorted, unsorted};
use crate::domain::{
    definition::{Concurrency, LabelExpression, Placement},
    placement::{Operator, Routing},
};

pub(super) fn selector(labels: &BTreeMap<String, String>, placement: &Placement) -> Option<v1::RunnerSelector> {
    if labels.is_empty() && *placement == Placement::default() {
        return None;
    }
    let expression = |expression: &LabelExpression| v1::LabelExpression {
        key: expression.key.clone(),
        operator: operator(expression.operator).into(),
        values: expression.values.clone(),
    };
    Some(v1::RunnerSelector {
        match_labels: unsorted(labels),
        match_expressions: placement.match_expressions.iter().map(expression).collect(),
        min_version: placement.min_version.clone(),
        runners: placement.runners.clone(),
        exclude_runners: placement.exclude_runners.clone(),
        routing: routing(placement.routing).into(),
        routing_key: placement.routing_key.clone(),
    })
}

pub(super) fn concurrency(concurrency: &Concurrency) -> v1::Concurrency {
    v1::Concurrency { key: concurrency.key.clone(), limit: concurrency.limit }
}

pub(super) fn read_concurrency(concurrency: v1::Concurrency) -> Concurrency {
    Concurrency { key: concurrency.key, limit: concurrency.limit }
}

fn operator(operator: Option<Operator>) -> v1::LabelOperator {
    match operator {
        None => v1::LabelOperator::Unspecified,
        Some(Operator::In) => v1::LabelOperator::In,
        Some(Operator::NotIn) => v1::LabelOperator::NotIn,
        Some(Operator::Exists) => v1::LabelOperator::Exists,
        Some(Operator::DoesNotExist) => v1::LabelOperator::DoesNotExist,
    }
}

fn routing(strategy: Option<Routing>) -> v1::Routing {
    match strategy {
        None => v1::Routing::Unspecified,
        Some(Routing::Any) => v1::Routing::Any,
        Some(Routing::First) => v1::Routing::First,
        Some(Routing::Last) => v1::Routing::Last,
        Some(Routing::RoundRobin) => v1::Routing::RoundRobin,
        Some(Routing::Random) => v1::Routing::Random,
        Some(Routing::ConsistentHash) => v1::Routing::ConsistentHash,
        Some(Routing::LeastRecentlyUsed) => v1::Routing::LeastRecentlyUsed,
        Some(Routing::LeastFrequentlyUsed) => v1::Routing::LeastFrequentlyUsed,
        Some(Routing::LeastLoaded) => v1::Routing::LeastLoaded,
    }
}

impl Fields {
    /// The labels of a selector, and everything else of it.
    pub(super) fn selector(
        &mut self,
        field: &str,
        selector: Option<v1::RunnerSelector>,
    ) -> (BTreeMap<String, String>, Placement) {
        let selector = selector.unwrap_or_default();
        let expressions = selector.match_expressions.into_iter().enumerate();
        let match_expressions = expressions
            .map(|(place, one)| {
                let inside = format!("{field}.match_expressions[{place}].operator");
                let known = self.one_of(inside, one.operator, &Operator::ALL, operator, "is no operator");
                LabelExpression { key: one.key, operator: known, values: one.values }
            })
            .collect();
        let inside = format!("{field}.routing");
        let routing = self.one_of(inside, selector.routing, &Routing::ALL, routing, "is no routing");
        let placement = Placement {
            match_expressions,
            min_version: selector.min_version,
            runners: selector.runners,
            exclude_runners: selector.exclude_runners,
            routing,
            routing_key: selector.routing_key,
        };
        (sorted(selector.match_labels), placement)
    }
}

/// Every key set, for the test that nothing is lost on the way.
#[cfg(test)]
pub(super) fn full() -> Placement {
    let expression = |operator: Operator| LabelExpression {
        key: operator.name().to_owned(),
        operator: Some(operator),
        values: if operator.takes_values() { vec!["a".to_owned(), "b".to_owned()] } else { Vec::new() },
    };
    Placement {
        match_expressions: Operator::ALL.map(expression).into(),
        min_version: "1.2.3".to_owned(),
        runners: vec!["one".to_owned()],
        exclude_runners: vec!["two".to_owned()],
        routing: Some(Routing::ConsistentHash),
        routing_key: "{{ params.day }}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_and_operator_has_its_number() {
        for strategy in Routing::ALL {
            let name = format!("ROUTING_{}", strategy.name().to_uppercase());
            assert_eq!(routing(Some(strategy)).as_str_name(), name);
        }
        for known in Operator::ALL {
            let name = format!("LABEL_OPERATOR_{}", known.name().to_uppercase());
            assert_eq!(operator(Some(known)).as_str_name(), name);
        }
    }
}
