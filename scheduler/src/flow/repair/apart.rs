//! Copies that may still live: what a repair must not run beside, and how a person says that nothing is left of them.

use uuid::Uuid;

use super::{NAMED_MAX, Outcome, name_of, take_shards};
use crate::{
    domain::task::Kind,
    flow::{
        request::{Error, Repaired},
        work::Work,
    },
    store::{self, Tx, task::TaskRow},
};

/// Whether nothing can be left of any earlier attempt of these tasks; else why they are not run again.
pub(super) async fn proven_gone(tx: &Tx, work: &Work, job: Uuid, tasks: &[Uuid]) -> Outcome<()> {
    let mut doubted: Vec<(Uuid, Option<String>)> = store::repair::attempts_in_doubt(tx, job).await?;
    doubted.extend(
        work.tasks().filter(|task| task.job_id == job && !task.gone).map(|task| (task.id, task.runner_id.clone())),
    );
    doubted.retain(|(task, _)| tasks.contains(task));
    doubted.sort_unstable();
    doubted.dedup();
    if doubted.is_empty() {
        return Ok(Ok(()));
    }
    let named: Vec<String> = doubted
        .iter()
        .take(NAMED_MAX)
        .filter_map(|(task, runner)| {
            let name = name_of(work, work.task(*task)?);
            Some(format!("{name} may still live on runner {:?}", runner.as_deref().unwrap_or("unknown")))
        })
        .collect();
    let message = format!(
        "an old copy of {}; make sure that it is gone and say so with `baton mark JOB/TASK gone`, or use --force",
        named.join(", of ")
    );
    Ok(Err(Error::Conflict { reason: "NOT_PROVEN_GONE", message }))
}

/// Takes a person's word that nothing is left of the attempts of a task, or of all shards of a group.
pub(super) async fn declare_gone(tx: &Tx, work: &mut Work, row: &TaskRow) -> Outcome<Repaired> {
    let mut tasks = vec![row.id];
    if row.kind == Kind::Group {
        tasks.extend(take_shards(tx, work, row.id).await?);
    }
    let mut found = store::repair::declare_gone(tx, &tasks).await? > 0;
    let mut count = 0;
    for id in tasks {
        if work.task(id).is_some_and(|task| !task.gone) {
            work.edit(id).gone = true;
            found = true;
            count += 1;
        }
    }
    if !found {
        let message = "every attempt of it is proven gone already".to_owned();
        return Ok(Err(Error::Conflict { reason: "NOTHING_TO_MARK", message }));
    }
    let state = row.state.word().to_owned();
    Ok(Ok(Repaired { tasks: count.max(1), reconsidered: 0, before: state.clone(), after: state }))
}
