//! The job becomes tasks.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{
    parked,
    work::{NewTask, Work},
};
use crate::{
    domain::{
        definition::TriggerRule,
        job::{self, JobState},
        task::Kind,
    },
    store::{self, Tx},
};

/// How many nodes become rows in one turn: a job of 100,000 tasks must not hold up everybody else's.
const NODES_MAX: u32 = 5_000;

/// How many jobs that an earlier turn left are taken up in one turn.
pub(super) const JOBS_MAX: u32 = 200;

/// Jobs whose tasks are not all written: those that a turn had no room for, and those of a scheduler that is gone.
/// Those that are laid aside take no place among them.
pub(super) async fn left(tx: &Tx, laid_aside: &BTreeSet<Uuid>) -> Result<Vec<Uuid>, store::Error> {
    let room = JOBS_MAX + u32::try_from(laid_aside.len()).unwrap_or(u32::MAX);
    let mut left = store::job::to_expand(tx, room).await?;
    left.retain(|job| !laid_aside.contains(job));
    left.truncate(JOBS_MAX as usize);
    Ok(left)
}

/// Writes the next tasks of jobs that are CREATED; with its last task a job becomes RUNNING. Nothing of a job is queued
/// before. Returns the tasks whose gates are open from the start, and whether a job is still unfinished.
pub(super) async fn pass(tx: &Tx, work: &mut Work) -> Result<(Vec<Uuid>, bool), store::Error> {
    let mut budget = NODES_MAX;
    let (mut opening, mut more) = (Vec::new(), false);
    let created: Vec<Uuid> = work
        .jobs()
        .filter(|job| job.row.state == JobState::Created && !job.row.waiting && !parked::is_parked(job))
        .map(|job| job.row.id)
        .collect();
    for id in created {
        if budget == 0 {
            more = true;
            break;
        }
        let plan = work.plan(id);
        let now = work.now;
        let row = work.job_mut(id).expect("the job is in hand");
        let pin = row.pin.clone();
        let (from, to) = (row.expanded, row.tasks_total.min(row.expanded + budget));
        budget -= to - from;
        row.expanded = to;
        for node in from..to {
            let kind = if plan.is_group(node) { Kind::Group } else { Kind::Task };
            let new = NewTask {
                id: Uuid::now_v7(),
                job_id: id,
                node,
                kind,
                group_id: None,
                shard: None,
                class: plan.class(node, pin.as_deref()),
            };
            work.new_task(new.row(&plan, now));
        }
        let row = work.job_mut(id).expect("the job is in hand");
        if to < row.tasks_total {
            more = true;
            continue;
        }
        row.state = row.state.after(job::Event::Expanded).expect("a created job can be expanded");
        row.started_at = Some(now);
        // A job that a task stands for may have less time than its definition gives it.
        let own = plan.config.timeout.map(|timeout| now + timeout);
        row.deadline_at = row.deadline_at.into_iter().chain(own).min();
        row.warn_at = plan.config.warn_after.map(|after| now + after);
        // A disabled task is skipped at once, whatever its gate.
        let open: Vec<(Uuid, u32)> = (0..to)
            .filter(|&node| {
                plan.graph.parents(node).is_empty()
                    || plan.rule(node) == TriggerRule::Always
                    || plan.task(node).enabled == Some(false)
            })
            .map(|node| (id, node))
            .collect();
        let absent: Vec<(Uuid, u32)> =
            open.iter().copied().filter(|(job, node)| work.node(*job, *node).is_none()).collect();
        work.take_tasks(store::task::lock_nodes(tx, &absent).await?);
        opening.extend(open.iter().filter_map(|(job, node)| work.node(*job, *node)));
    }
    Ok((opening, more))
}
