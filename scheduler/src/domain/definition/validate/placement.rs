//! Placement: what is asked of a runner can be met by one, and a shared key is one.

use super::{
    super::{
        Concurrency, JobConfig, LabelExpression, Placement, TaskConfig,
        limits::{
            AT_ONCE, CONCURRENCY_KEY_MAX, EXPRESSIONS_MAX, PRIORITIES, ROUTING_KEY_MAX, SPAN_MAX, VALUES_OF_ONE_MAX,
        },
        problem::{Part, Path, Problem},
        span,
    },
    labels,
};
use crate::domain::{
    placement::{CLASS_BYTES_MAX, Operator, Routing, Version},
    runner, template,
};

/// Tells what is wrong with how many jobs of a config may run.
pub(super) fn job(config: &JobConfig, path: &Path, problems: &mut Vec<Problem>) {
    if config.max_active_jobs.is_some_and(|limit| !AT_ONCE.contains(&limit)) {
        let message = format!("max_active_jobs is from {} to {}", AT_ONCE.start(), AT_ONCE.end());
        let problem = Problem::new(path.key("max_active_jobs"), message);
        problems.push(problem.suggest("leave it out to let any number run".to_owned()));
    }
}

/// The keys about placement that a task has as well as the defaults of tasks.
pub(super) struct Asked<'c> {
    pub(super) match_labels: &'c std::collections::BTreeMap<String, String>,
    pub(super) placement: &'c Placement,
    pub(super) queue_timeout: Option<std::time::Duration>,
    pub(super) concurrency: Option<&'c Concurrency>,
    pub(super) priority: Option<i32>,
}

impl Asked<'_> {
    /// Tells everything that is wrong with it.
    pub(super) fn check(&self, path: &Path, problems: &mut Vec<Problem>) {
        let runner = path.key("runner");
        labels(self.match_labels, &runner.key("match_labels"), problems);
        placement(self.placement, &runner, problems);
        if let Some(timeout) = self.queue_timeout {
            let here = path.key("queue_timeout");
            if timeout.is_zero() {
                let problem = Problem::new(here, "a queue_timeout of nothing would fail everything at once");
                problems.push(problem.suggest("leave it out to wait for ever".to_owned()));
            } else if timeout > SPAN_MAX {
                problems.push(Problem::new(here, span::too_long()));
            }
        }
        if let Some(concurrency) = self.concurrency {
            self::concurrency(concurrency, &path.key("concurrency"), problems);
        }
        if self.priority.is_some_and(|priority| !PRIORITIES.contains(&priority)) {
            let message = format!("a priority is from {} to {}", PRIORITIES.start(), PRIORITIES.end());
            problems.push(Problem::new(path.key("priority"), message));
        }
    }
}

/// Tells when what the tasks ask for together with the defaults is too much for one index entry.
pub(super) fn together(config: &JobConfig, resolved: &[TaskConfig], problems: &mut Vec<Problem>) {
    for (place, task) in resolved.iter().enumerate() {
        let concurrency = task.concurrency.as_ref();
        let class = task.placement.class(task.target.capability(), &task.match_labels, &config.namespace, concurrency);
        // A pin may come to it.
        let bytes = class.to_string().len() + runner::ID_MAX;
        if bytes > CLASS_BYTES_MAX {
            let over = bytes - CLASS_BYTES_MAX;
            let message = format!("what task {:?} asks of a runner is {over} bytes too long in all", task.name);
            let problem = Problem::new(Path::default().key("tasks").index(place).key("runner"), message);
            problems.push(problem.suggest("give the runners one label that says the same, and ask for it".to_owned()));
        }
    }
}

fn placement(placement: &Placement, path: &Path, problems: &mut Vec<Problem>) {
    let here = path.key("match_expressions");
    if placement.match_expressions.len() > EXPRESSIONS_MAX {
        let message = format!("{} conditions; at most {EXPRESSIONS_MAX}", placement.match_expressions.len());
        problems.push(Problem::new(here.clone(), message));
    }
    for (place, one) in placement.match_expressions.iter().enumerate() {
        expression(one, &here.index(place), problems);
    }
    if !placement.min_version.is_empty()
        && let Err(why) = placement.min_version.parse::<Version>()
    {
        problems.push(Problem::new(path.key("min_version"), why));
    }
    for (key, runners) in [("runners", &placement.runners), ("exclude_runners", &placement.exclude_runners)] {
        if runners.len() > VALUES_OF_ONE_MAX {
            let message = format!("{} runners; at most {VALUES_OF_ONE_MAX}", runners.len());
            let problem = Problem::new(path.key(key), message);
            problems.push(problem.suggest("give them a label, and ask for it".to_owned()));
        }
        for (place, runner) in runners.iter().enumerate() {
            if !runner::is_id(runner) {
                let message =
                    format!("the id of a runner is 1 to {} of a-z, A-Z, 0-9, \"-\", \"_\" and \".\"", runner::ID_MAX);
                problems.push(Problem::new(path.key(key).index(place), message));
            }
        }
    }
    if let Some(both) = placement.runners.iter().find(|runner| placement.exclude_runners.contains(runner)) {
        let message = format!("runner {both:?} is named and excluded at once");
        problems.push(Problem::new(path.key("exclude_runners"), message));
    }
    if !placement.routing_key.is_empty() && placement.routing != Some(Routing::ConsistentHash) {
        let message = "routing_key means something with `routing: consistent_hash` alone";
        let problem = Problem::new(path.key("routing_key"), message).about(Part::Key);
        problems.push(problem.suggest("add routing: consistent_hash beside it".to_owned()));
    }
    if placement.routing_key.len() > ROUTING_KEY_MAX {
        let message = format!("the key has {} bytes; at most {ROUTING_KEY_MAX}", placement.routing_key.len());
        problems.push(Problem::new(path.key("routing_key"), message));
    }
}

fn expression(expression: &LabelExpression, path: &Path, problems: &mut Vec<Problem>) {
    if expression.key.is_empty() {
        let problem = Problem::new(path.key("key"), "the condition names no label").about(Part::Missing);
        problems.push(problem.suggest("write it like {key: zone, operator: in, values: [a, b]}".to_owned()));
    }
    let Some(operator) = expression.operator else {
        let problem = Problem::new(path.key("operator"), "the condition says no operator").about(Part::Missing);
        let words: Vec<&str> = Operator::ALL.iter().map(|operator| operator.name()).collect();
        problems.push(problem.suggest(format!("it is one of {}", words.join(", "))));
        return;
    };
    let (count, name) = (expression.values.len(), operator.name());
    if operator.takes_values() && !(1..=VALUES_OF_ONE_MAX).contains(&count) {
        let message = format!("{name} compares with 1 to {VALUES_OF_ONE_MAX} values; here are {count}");
        let part = if count == 0 { Part::Missing } else { Part::Value };
        problems.push(Problem::new(path.key("values"), message).about(part));
    } else if !operator.takes_values() && count > 0 {
        problems.push(Problem::new(path.key("values"), format!("{name} takes no values")).about(Part::Key));
    }
}

fn concurrency(concurrency: &Concurrency, path: &Path, problems: &mut Vec<Problem>) {
    let key = &concurrency.key;
    if key.is_empty() {
        let problem = Problem::new(path.key("key"), "the concurrency names no key").about(Part::Missing);
        problems.push(problem.suggest("write it like {key: warehouse, limit: 1}".to_owned()));
    } else if key.len() > CONCURRENCY_KEY_MAX || key.chars().any(char::is_control) {
        let message = format!("a key has at most {CONCURRENCY_KEY_MAX} bytes and no control characters");
        problems.push(Problem::new(path.key("key"), message));
    } else if template::is_template(key) {
        let problem = Problem::new(path.key("key"), "the key is taken literally, it cannot be a template");
        problems.push(problem.suggest("give each of them a task of its own, with its own key".to_owned()));
    }
    if !AT_ONCE.contains(&concurrency.limit) {
        let message = format!("limit must be set, from {} to {}", AT_ONCE.start(), AT_ONCE.end());
        problems.push(Problem::new(path.key("limit"), message).about(Part::Missing));
    }
}
