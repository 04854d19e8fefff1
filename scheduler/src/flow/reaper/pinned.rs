//! Tasks that wait for the one runner that may take them, when that has been gone for long.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::take_queued;
use crate::{
    domain::{
        placement::{Class, pinned_in_vain},
        task::{Event, TaskState},
        timing::Timing,
    },
    flow::{batch::Context, work::Work},
    store::{self, Tx, runner::RunnerRow},
};

/// How many classes of queued tasks one sweep looks at for pins.
const CLASSES_MAX: u32 = 5_000;

/// How many tasks that wait for a runner which is gone one turn gives up, of each class.
const TASKS_MAX: u32 = 500;

/// Tasks that seem to wait in vain for the one runner that may take them.
#[derive(Debug, Default)]
pub(in crate::flow) struct Pinned {
    /// Those runners.
    pub runners: Vec<String>,
    /// The tasks: id, job, runner.
    tasks: Vec<(Uuid, Uuid, String)>,
}

impl Pinned {
    /// The jobs that this turn must lock.
    pub(in crate::flow) fn jobs(&self) -> impl Iterator<Item = Uuid> {
        self.tasks.iter().map(|(_, job, _)| *job)
    }
}

/// Looks for tasks whose one runner seems to be gone; whether it is, is decided under its lock.
pub(in crate::flow) async fn pinned(tx: &Tx, timing: &Timing) -> Result<Pinned, store::Error> {
    let now = store::scheduler::now(tx).await?;
    let mut pins: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in store::task::queued_classes(tx, "", CLASSES_MAX).await? {
        if let Some(pin) = Class::parse(&name).and_then(|class| class.pin) {
            pins.entry(pin).or_default().push(name);
        }
    }
    let ids: Vec<String> = pins.keys().cloned().collect();
    let signs = store::runner::signs(tx, &ids).await?;
    let before = timing.heard_since(now);
    let mut found = Pinned::default();
    for (runner, classes) in pins {
        if !pinned_in_vain(signs.get(&runner), before, now, timing.lost_after) {
            continue;
        }
        for class in classes {
            let tasks = store::task::queued_before(tx, &class, before, TASKS_MAX).await?;
            found.tasks.extend(tasks.into_iter().map(|(task, job)| (task, job, runner.clone())));
        }
        found.runners.push(runner);
    }
    Ok(found)
}

/// Fails tasks that wait for the one runner that may take them, when that has been gone for long.
pub(super) async fn pass(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    pinned: &Pinned,
    runners: &BTreeMap<String, RunnerRow>,
) -> Result<(), store::Error> {
    let ids: BTreeSet<Uuid> = pinned.tasks.iter().map(|(task, ..)| *task).collect();
    take_queued(tx, work, &ids.into_iter().collect::<Vec<_>>()).await?;
    for (id, _, runner) in &pinned.tasks {
        let signs = runners.get(runner).map(RunnerRow::signs);
        let Some(task) = work.task(*id).filter(|task| task.state == TaskState::Queued) else { continue };
        let since = task.queued_at.unwrap_or_default();
        if !pinned_in_vain(signs.as_ref(), since, work.now, context.timing.lost_after) {
            continue;
        }
        let silence = signs.map(|signs| work.now.since(signs.last_seen_at).as_secs());
        let silence = silence.map_or_else(|| "it was never heard".to_owned(), |secs| format!("not heard for {secs} s"));
        work.happen(*id, Event::GivenUp, format!("only runner {runner} may take it, and it is gone: {silence}"));
    }
    Ok(())
}
