//! The answer in a sentence, and what to look at when nothing holds the task.

use super::{Facts, Hold, counted, spell};
use crate::domain::task::{Kind, TaskState};

/// The answer in a sentence.
pub(super) fn of(facts: &Facts<'_>, hold: Option<&Hold>) -> String {
    let (label, state) = (facts.label(), facts.task.state.word());
    let span = facts.task.since.map_or_else(String::new, |since| format!(" for {}", spell(facts.now.since(since))));
    match hold {
        Some(hold) if facts.task.state.is_terminal() => format!("{label} is {state}: {}", hold.because),
        Some(hold) => format!("{label} is {state}{span}: {}", hold.because),
        None => match facts.task.state {
            TaskState::Finished => format!("{label} is {state}: {}", finished(facts)),
            TaskState::Running if facts.task.kind == Kind::Group => {
                let shards = facts.shards.unwrap_or_default();
                format!(
                    "{label} is {state}{span}: {} of {} ended",
                    shards.ended,
                    counted(shards.count as usize, "shard")
                )
            }
            TaskState::Running => {
                let runner = facts.task.runner.unwrap_or("its runner");
                let timeout = match (facts.config.timeout, facts.task.started_at) {
                    (Some(timeout), Some(started)) => {
                        let left = timeout.saturating_sub(facts.now.since(started));
                        format!(", times out in {}", spell(left))
                    }
                    _ => String::new(),
                };
                let long =
                    if facts.task.reason.is_empty() { String::new() } else { format!(", {}", facts.task.reason) };
                format!("{label} is {state}{span} on {runner}{timeout}{long}")
            }
            _ => format!("{label} is {state}{span}"),
        },
    }
}

fn finished(facts: &Facts<'_>) -> String {
    match (facts.task.kind, facts.task.started_at) {
        _ if !facts.task.reason.is_empty() => facts.task.reason.to_owned(),
        (Kind::Group, _) => {
            let shards = facts.shards.unwrap_or_default();
            format!("{} of {} finished", shards.finished, counted(shards.count as usize, "shard"))
        }
        (_, Some(started)) => {
            let took = facts.task.since.unwrap_or(facts.now).since(started);
            format!("it took {}", spell(took))
        }
        _ => "its work is done".to_owned(),
    }
}

/// What to look at when nothing holds it.
pub(super) fn next(facts: &Facts<'_>) -> Vec<String> {
    match (facts.task.state, facts.task.kind) {
        (_, Kind::Group) => vec![format!("baton get tasks {}", facts.job.id)],
        (TaskState::Running | TaskState::Finished, _) if facts.child.is_some() => {
            let child = facts.child.map_or("", |child| child.id);
            vec![format!("baton describe job {child}")]
        }
        (TaskState::Running, _) => vec![format!("baton logs {} -f", facts.address())],
        (TaskState::Finished, _) => vec![format!("baton logs {}", facts.address())],
        _ => Vec::new(),
    }
}
