//! The check of a task that stands for a job: what it waits for there.

use super::{Facts, Verdict};
use crate::domain::{sub_job::Meaning, sub_job::meaning, task::TaskState};

/// How the job stands that the task stands for.
pub(super) fn check(facts: &Facts<'_>) -> Verdict {
    let Some(target) = facts.sub_job() else { return Verdict::Foreign };
    let name = &target.name;
    let Some(child) = facts.child else {
        return match facts.task.state {
            TaskState::Queued => about_to_be_made(name),
            _ => Verdict::not_asked(format!("it stands for job {name}, which was not made")),
        };
    };
    let standing = format!(
        "job {} ({}) is {}, {} of {} tasks ended",
        child.name,
        child.id,
        child.state.word(),
        child.tasks_ended,
        child.tasks_total
    );
    let look = vec![format!("baton explain {}", child.id)];
    match facts.task.state {
        TaskState::Queued => about_to_be_made(name),
        TaskState::Running if meaning(child.state, false) == Meaning::Wait => {
            Verdict::holds(standing.clone(), format!("it waits for {standing}"), look)
        }
        TaskState::Terminating if !child.state.is_terminal() => {
            Verdict::holds(standing.clone(), format!("it is over when {standing} comes to its end"), look)
        }
        TaskState::Running | TaskState::Terminating => {
            let fixes = vec!["nothing: look again in a moment".to_owned()];
            Verdict::holds(standing, "its job has ended, which it is about to be told", fixes)
        }
        _ => Verdict::passed(standing),
    }
}

fn about_to_be_made(name: &str) -> Verdict {
    let because = format!("job {name} is about to be made for it");
    Verdict::holds(because.clone(), because, vec!["nothing: look again in a moment".to_owned()])
}
