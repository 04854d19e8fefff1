//! Tasks that wait in vain for a runner: the one whose turn it is went away, or every one that is left was given up.

use std::collections::HashSet;

use uuid::Uuid;

use super::{ending::cut, work::Work};
use crate::{
    domain::{
        placement::{Class, Outlook, outlook},
        task::{Event, TaskState},
        timing::Timing,
    },
    store::{self, Tx},
};

/// How many classes of queued tasks are looked at.
const CLASSES_MAX: u32 = 1_000;
/// How many tasks one turn moves on.
const TASKS_MAX: u32 = 500;

/// Tasks that seem to wait in vain, with their jobs; whether they do is decided under the lock of those.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    tasks: Vec<Uuid>,
    /// The jobs to be locked.
    pub jobs: HashSet<Uuid>,
}

/// Looks for tasks that wait in vain. Where no task was ever transferred it is one question, about classes.
pub(super) async fn stranded(tx: &Tx, timing: &Timing) -> Result<Stranded, store::Error> {
    let mut stranded = Stranded::default();
    let mut classes = store::task::queued_classes(tx, "", CLASSES_MAX).await?;
    classes.retain(|class| Class::parse(class).is_some_and(|class| class.was_tried()));
    if classes.is_empty() {
        return Ok(stranded);
    }
    let now = store::scheduler::now(tx).await?;
    let present = store::runner::present(tx, timing.heard_since(now)).await?;
    for name in classes {
        let class = Class::parse(&name).filter(|class| outlook(class, &present) != Outlook::Waits);
        let room = TASKS_MAX.saturating_sub(u32::try_from(stranded.tasks.len()).unwrap_or(TASKS_MAX));
        if class.is_none() || room == 0 {
            continue;
        }
        for (task, job) in store::task::queued_of_class(tx, &name, room).await? {
            stranded.tasks.push(task);
            stranded.jobs.insert(job);
        }
    }
    Ok(stranded)
}

/// Lets tasks whose runner went away go to another, and fails those for which none is left.
pub(super) async fn pass(tx: &Tx, timing: &Timing, work: &mut Work, stranded: &Stranded) -> Result<(), store::Error> {
    if stranded.tasks.is_empty() {
        return Ok(());
    }
    work.take_tasks(store::task::lock(tx, &stranded.tasks).await?);
    let present = store::runner::present(tx, timing.heard_since(work.now)).await?;
    for &id in &stranded.tasks {
        let Some(task) = work.task(id).filter(|task| task.state == TaskState::Queued) else { continue };
        let Some(mut class) = Class::parse(&task.class) else { continue };
        match outlook(&class, &present) {
            Outlook::Waits => {}
            Outlook::Free => {
                class.stay = None;
                let row = work.note(id);
                row.class = class.to_string();
                row.counters.tried = 0;
            }
            Outlook::NoneLeft => {
                let given_up: Vec<&str> = class.spent.iter().map(String::as_str).collect();
                let reason =
                    format!("{}; no runner is left to transfer to, given up on {}", task.reason, given_up.join(", "));
                work.happen(id, Event::GivenUp, cut(&reason));
            }
        }
    }
    Ok(())
}
