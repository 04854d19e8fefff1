//! What may be said about how long ended jobs are kept.

use std::time::Duration;

use super::super::{JobConfig, Path, Problem, limits::SPAN_MAX, span};
use crate::domain::retention::COUNT_MAX;

/// Checks `retention`.
pub(super) fn check(config: &JobConfig, root: &Path, problems: &mut Vec<Problem>) {
    let Some(retention) = config.retention else { return };
    let path = root.key("retention");
    for (key, kept) in [("age", retention.age), ("logs", retention.logs)] {
        if kept.is_some_and(|kept| kept > SPAN_MAX) {
            problems.push(Problem::new(path.key(key), span::too_long()));
        }
    }
    if let Some(count) = retention.count.filter(|count| !(1..=COUNT_MAX).contains(count)) {
        let message = format!("count is from 1 to {COUNT_MAX}, not {count}; leave it out to keep any number");
        problems.push(Problem::new(path.key("count"), message));
    }
    let (age, logs) = (retention.age.unwrap_or_default(), retention.logs.unwrap_or_default());
    if age > Duration::ZERO && logs > age {
        let message = "logs are never kept longer than their job: make it no more than retention.age, or leave it out";
        problems.push(Problem::new(path.key("logs"), message));
    }
}
