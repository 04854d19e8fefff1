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

/// How many runs of nodes that follow one another are queued by one statement.
const RUNS_MAX: usize = 5_000;

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

/// What the expander leaves to the turn.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// Tasks in hand whose gates are open from the start.
    pub opening: Vec<Uuid>,
    /// A job is still unfinished.
    pub more: bool,
    /// Tasks were queued that are not in hand.
    pub queued: bool,
}

/// Writes the next tasks of jobs that are CREATED; with its last task a job becomes RUNNING. Nothing of a job is queued
/// before.
pub(super) async fn pass(tx: &Tx, work: &mut Work) -> Result<Expanded, store::Error> {
    let mut budget = NODES_MAX;
    let mut expanded = Expanded::default();
    let created: Vec<Uuid> = work
        .jobs()
        .filter(|job| job.row.state == JobState::Created && !job.row.waiting && !parked::is_parked(job))
        .map(|job| job.row.id)
        .collect();
    for id in created {
        if budget == 0 {
            expanded.more = true;
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
            expanded.more = true;
            continue;
        }
        row.state = row.state.after(job::Event::Expanded).expect("a created job can be expanded");
        row.started_at = Some(now);
        // A job that a task stands for may have less time than its definition gives it.
        let own = plan.config.timeout.map(|timeout| now + timeout);
        row.deadline_at = row.deadline_at.into_iter().chain(own).min();
        row.warn_at = plan.config.warn_after.map(|after| now + after);
        // A disabled task is skipped at once, whatever its gate.
        let open: Vec<u32> = (0..to)
            .filter(|&node| {
                plan.graph.parents(node).is_empty()
                    || plan.rule(node) == TriggerRule::Always
                    || plan.task(node).enabled == Some(false)
            })
            .collect();
        // Those of earlier slices are not read to be queued, which most are to be: there may be a hundred thousand.
        let earlier = open.iter().copied().filter(|node| work.node(id, *node).is_none());
        let (queued, absent): (Vec<u32>, Vec<u32>) = earlier.partition(|node| plan.only_queues(*node));
        let absent: Vec<(Uuid, u32)> = absent.into_iter().map(|node| (id, node)).collect();
        work.take_tasks(store::task::lock_nodes(tx, &absent).await?);
        expanded.opening.extend(open.iter().filter_map(|node| work.node(id, *node)));
        expanded.queued |= !queued.is_empty();
        queue(tx, work, id, &queued).await?;
    }
    Ok(expanded)
}

/// Queues tasks of a job whose gates are open, and whose rows are not in hand.
async fn queue(tx: &Tx, work: &Work, job: Uuid, nodes: &[u32]) -> Result<(), store::Error> {
    let runs: Vec<(u32, u32)> =
        nodes.chunk_by(|one, next| one + 1 == *next).filter_map(|run| Some((*run.first()?, *run.last()?))).collect();
    let mut written = 0;
    for runs in runs.chunks(RUNS_MAX) {
        written += store::task::queue_nodes(tx, job, runs, work.now, work.next_seq(job)).await?;
    }
    let asked = nodes.len() as u64;
    if written == asked { Ok(()) } else { Err(store::Error::Missed { asked, written }) }
}
