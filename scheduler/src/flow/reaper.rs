//! Runners gone silent, and deadlines gone by.

mod pinned;

use std::{collections::BTreeMap, time::Instant};

use tracing::warn;
use uuid::Uuid;

pub(super) use self::pinned::{Pinned, pinned};
use super::{
    batch::{Context, Output},
    ending,
    pulse::Judge,
    work::{JobWork, Work},
};
use crate::{
    domain::{
        definition::span,
        job::JobState,
        task::{Event, TaskState},
        timing::Timing,
    },
    store::{self, Tx, runner::RunnerRow},
};

/// How many silent runners one turn gives up at most.
const RUNNERS_MAX: u32 = 100;

/// How many late jobs one turn ends at most.
const JOBS_MAX: u32 = 50;

/// How many alarms of tasks that wait for a runner one turn looks at.
pub(super) const ALARMS_MAX: u32 = 500;

/// Alarms of tasks that have waited for a runner for too long; whether they have, is decided under the lock of their job.
pub(super) async fn late_tasks(tx: &Tx) -> Result<Vec<(Uuid, Option<Uuid>)>, store::Error> {
    let now = store::scheduler::now(tx).await?;
    store::alarm::due(tx, now, ALARMS_MAX).await
}

/// Fails tasks that have waited for a runner for longer than they may.
pub(super) async fn overdue(tx: &Tx, work: &mut Work, alarms: &[(Uuid, Option<Uuid>)]) -> Result<(), store::Error> {
    let ids: Vec<Uuid> = alarms.iter().filter_map(|(task, job)| job.map(|_| *task)).collect();
    take_queued(tx, work, &ids).await?;
    for id in ids {
        let Some(task) = work.task(id).filter(|task| task.state == TaskState::Queued) else { continue };
        let timeout = work.plan(task.job_id).task(task.node).queue_timeout;
        let Some((timeout, since)) = timeout.zip(task.queued_at).filter(|(timeout, at)| *at + *timeout <= work.now)
        else {
            continue;
        };
        let waited = work.now.since(since).as_secs();
        let allowed = span::format(timeout);
        let reason = format!("queue_timeout: no runner took it for {waited} s, and it may wait for {allowed}");
        work.happen(id, Event::GivenUp, reason);
    }
    let ids: Vec<Uuid> = alarms.iter().map(|(task, _)| *task).collect();
    store::alarm::clear(tx, &ids, work.now).await
}

/// Takes tasks in hand whose jobs are.
async fn take_queued(tx: &Tx, work: &mut Work, tasks: &[Uuid]) -> Result<(), store::Error> {
    let rows = store::task::lock(tx, tasks).await?;
    let rows = rows.into_iter().filter(|task| work.job(task.job_id).is_some()).collect();
    work.take_tasks(rows);
    Ok(())
}

/// Runners that seem to have been silent for too long; whether they were is decided under their lock.
pub(super) async fn silent(tx: &Tx, timing: &Timing) -> Result<Vec<String>, store::Error> {
    let now = store::scheduler::now(tx).await?;
    store::runner::silent(tx, timing.heard_since(now), now, RUNNERS_MAX).await
}

/// Jobs whose time seems to be over, or that take long; whether it is, is decided under their lock.
pub(super) async fn late_jobs(tx: &Tx) -> Result<Vec<Uuid>, store::Error> {
    let now = store::scheduler::now(tx).await?;
    let mut late = store::job::past_deadline(tx, now, JOBS_MAX).await?;
    late.extend(store::job::to_warn_of(tx, now, JOBS_MAX).await?);
    Ok(late)
}

/// Ends jobs that are late, and tells of those that take long.
pub(super) async fn late(tx: &Tx, work: &mut Work) -> Result<(), store::Error> {
    warn_of_long_jobs(work);
    let late: Vec<Uuid> = work
        .jobs()
        .filter(|job| matches!(job.row.state, JobState::Created | JobState::Running))
        .filter(|job| job.row.deadline_at.is_some_and(|at| at <= work.now))
        .map(|job| job.row.id)
        .collect();
    for job in late {
        let timeout = work.plan(job).config.timeout;
        let row = work.job_mut(job).expect("the job is in hand");
        row.timed_out = true;
        let own = row.started_at.zip(timeout).map(|(start, timeout)| start + timeout);
        let reason = match timeout {
            Some(timeout) if own == row.deadline_at => format!("timed out after {}", span::format(timeout)),
            _ => "the time of the task that it stands for is over".to_owned(),
        };
        ending::terminate_job(tx, work, job, &reason, None).await?;
    }
    Ok(())
}

/// What a turn that sweeps has looked up and locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep<'a> {
    /// Says whether this scheduler may judge who is lost.
    pub judge: Judge,
    /// Runners that seem to be silent.
    pub silent: &'a [String],
    /// Tasks that seem to wait in vain for one runner.
    pub pinned: &'a Pinned,
    /// The runners that are locked.
    pub runners: &'a BTreeMap<String, RunnerRow>,
}

/// Gives up what is lost [8].
pub(super) async fn sweep(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    Sweep { judge, silent, pinned, runners }: Sweep<'_>,
    output: &mut Output,
) -> Result<(), store::Error> {
    // The turn may have waited for long: for a lock, for a database that stood still, or frozen as a whole. Then it is
    // our own absence that the rows show.
    if !judge.may_still(work.now, Instant::now()) {
        return Ok(());
    }
    pinned::pass(tx, context, work, pinned, runners).await?;
    output.sweep_again = silent.len() >= RUNNERS_MAX as usize;
    for id in silent {
        let Some(runner) = runners.get(id) else { continue };
        let (Some(session), known) = (runner.session_id, &runner.known) else { continue };
        let held = known.hold_until.is_some_and(|until| until > work.now);
        // It was heard after all, or another scheduler was first.
        if held || known.last_seen_at + context.timing.lost_after > work.now {
            continue;
        }
        let tasks = store::task::lock_held_by(tx, id).await?;
        let parked = tasks.iter().any(|task| work.is_parked(task.job_id));
        let silence = work.now.since(known.last_seen_at);
        warn!(runner.id = %id, silence_s = silence.as_secs(), tasks = tasks.len(), "runner lost");
        let reason = format!("runner {id} lost: not heard for {} s", silence.as_secs());
        ending::lose(work, tasks, false, &reason);
        // What it held of a job that is laid aside is decided when that can be read: until then it is not forgotten.
        if !parked {
            store::runner::end_session(tx, id).await?;
        }
        output.lost.push((id.clone(), session));
    }
    Ok(())
}

/// Records, once a job, that it takes long.
fn warn_of_long_jobs(work: &mut Work) {
    let now = work.now;
    let takes_long = |job: &&JobWork| {
        let row = &job.row;
        row.state == JobState::Running && row.warned_at.is_none() && row.warn_at.is_some_and(|at| at <= now)
    };
    let long: Vec<Uuid> = work.jobs().filter(takes_long).map(|job| job.row.id).collect();
    for job in long {
        let after = work.plan(job).config.warn_after.unwrap_or_default();
        let row = work.job_mut(job).expect("the job is in hand");
        row.warned_at = Some(now);
        warn!(job.id = %job, job.name = %row.name, ?after, "job runs long");
        work.slow(job, None);
    }
}
