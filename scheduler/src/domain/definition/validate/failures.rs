//! What is said of failures: numbers within their bounds, and nothing that could not come about.

use std::time::Duration;

use super::super::{
    JobConfig, OnFailure, Retry, Shards, Split, TaskConfig,
    limits::{ATTEMPTS, EXIT_CODES, EXIT_CODES_MAX, FACTORS, JITTER_RATIOS, SPAN_MAX},
    problem::{Path, Problem},
    span,
};

pub(super) fn retry(retry: Option<&Retry>, path: &Path, problems: &mut Vec<Problem>) {
    let Some(retry) = retry else { return };
    if !ATTEMPTS.contains(&retry.max_attempts) {
        let message = format!("max_attempts must be set, from {} to {}", ATTEMPTS.start(), ATTEMPTS.end());
        problems.push(Problem::new(path.key("max_attempts"), message));
    }
    for (key, wait) in [("delay", Some(retry.delay)), ("max_delay", retry.max_delay)] {
        if wait.is_some_and(|wait| wait > SPAN_MAX) {
            problems.push(Problem::new(path.key(key), span::too_long()));
        }
    }
    if retry.max_delay.is_some_and(|most| most < retry.delay) {
        let problem = Problem::new(path.key("max_delay"), "max_delay is shorter than delay");
        problems.push(problem.suggest(format!("make it at least {}", span::format(retry.delay))));
    }
    if !FACTORS.contains(&retry.factor) {
        let message = format!("a factor is from {} to {}", FACTORS.start(), FACTORS.end());
        problems.push(Problem::new(path.key("factor"), message));
    }
    if !JITTER_RATIOS.contains(&retry.jitter_ratio) {
        let message = format!("a jitter_ratio is from {} to {}", JITTER_RATIOS.start(), JITTER_RATIOS.end());
        problems.push(Problem::new(path.key("jitter_ratio"), message));
    }
    let codes = path.key("no_retry_exit_codes");
    if retry.no_retry_exit_codes.len() > EXIT_CODES_MAX {
        problems.push(Problem::new(codes.clone(), format!("at most {EXIT_CODES_MAX} exit codes can be named")));
    }
    for (place, code) in retry.no_retry_exit_codes.iter().enumerate() {
        if !EXIT_CODES.contains(code) {
            let message =
                format!("{code} is no exit code of a failure: {} to {}", EXIT_CODES.start(), EXIT_CODES.end());
            problems.push(Problem::new(codes.index(place), message));
        }
    }
}

/// A warning that comes with the timeout or after it would never be seen.
pub(super) fn warning(
    warn_after: Option<Duration>,
    timeout: Option<Duration>,
    path: &Path,
    problems: &mut Vec<Problem>,
) {
    let Some(after) = warn_after else { return };
    if after.is_zero() {
        let problem = Problem::new(path.clone(), "a warning after nothing would come each time");
        problems.push(problem.suggest("leave it out for no warning".to_owned()));
    } else if after > SPAN_MAX {
        problems.push(Problem::new(path.clone(), span::too_long()));
    } else if let Some(timeout) = timeout.filter(|timeout| after >= *timeout) {
        let message = format!("the timeout of {} comes first: the warning would never be seen", span::format(timeout));
        problems.push(Problem::new(path.clone(), message).suggest("make it shorter than the timeout".to_owned()));
    }
}

/// What the policies of tasks make of each other, with their defaults filled in (`resolved`).
pub(super) fn policies(config: &JobConfig, resolved: &[TaskConfig], problems: &mut Vec<Problem>) {
    for (place, (task, resolved)) in config.tasks.iter().zip(resolved).enumerate() {
        let path = Path::default().key("tasks").index(place);
        // Where both are defaults it is told once, there.
        if task.warn_after.is_some() {
            warning(task.warn_after, resolved.timeout, &path.key("warn_after"), problems);
        } else if task.timeout.is_some() {
            let inherited = resolved.warn_after.filter(|after| !after.is_zero());
            warning(inherited, resolved.timeout, &path.key("timeout"), problems);
        }
        policy(task, resolved.on_failure.unwrap_or(OnFailure::Fail), &path, problems);
    }
}

fn policy(task: &TaskConfig, on_failure: OnFailure, path: &Path, problems: &mut Vec<Problem>) {
    if on_failure == OnFailure::Transfer && task.retry.is_some() {
        let problem = Problem::new(path.key("retry"), "`retry` is not looked at with `on_failure: transfer`");
        problems.push(problem.suggest("write on_failure: retry_then_transfer, or take one of them out".to_owned()));
    }
    if on_failure.transfers() && matches!(task.shards, Some(Shards { split: Split::OnePerRunner, .. })) {
        let message =
            format!("a shard of one_per_runner belongs to its runner, so {} has none to go to", on_failure.name());
        let problem = Problem::new(path.key("on_failure"), message);
        problems.push(problem.suggest("write on_failure: fail and retry".to_owned()));
    }
}
