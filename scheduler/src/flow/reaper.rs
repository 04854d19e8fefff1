//! Runners gone silent, and deadlines gone by.

use std::{collections::BTreeMap, time::Instant};

use tracing::warn;
use uuid::Uuid;

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
        time::{Timestamp, micros},
        timing::Timing,
    },
    store::{self, Tx, runner::RunnerRow},
};

/// How many silent runners one turn gives up at most.
const RUNNERS_MAX: u32 = 100;

/// How many late jobs one turn ends at most.
const JOBS_MAX: u32 = 50;

/// Runners that seem to have been silent for too long; whether they were is decided under their lock.
pub(super) async fn silent(tx: &Tx, timing: &Timing) -> Result<Vec<String>, store::Error> {
    let now = store::scheduler::now(tx).await?;
    store::runner::silent(tx, Timestamp(now.0 - micros(timing.lost_after)), now, RUNNERS_MAX).await
}

/// Jobs whose time seems to be over, or that take long; whether it is, is decided under their lock.
pub(super) async fn late_jobs(tx: &Tx) -> Result<Vec<Uuid>, store::Error> {
    let now = store::scheduler::now(tx).await?;
    let mut late = store::job::past_deadline(tx, now, JOBS_MAX).await?;
    late.extend(store::job::to_warn_of(tx, now, JOBS_MAX).await?);
    Ok(late)
}

/// Ends what is late, and gives up what is lost [8].
pub(super) async fn pass(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    sweep: Option<Judge>,
    silent: &[String],
    runners: &BTreeMap<String, RunnerRow>,
    output: &mut Output,
) -> Result<(), store::Error> {
    warn_of_long_jobs(work);
    let late: Vec<Uuid> = work
        .jobs()
        .filter(|job| job.row.state == JobState::Running && job.row.deadline_at.is_some_and(|at| at <= work.now))
        .map(|job| job.row.id)
        .collect();
    for job in late {
        let row = work.job_mut(job).expect("the job is in hand");
        row.timed_out = true;
        let timeout = row.deadline_at.unwrap_or_default().since(row.started_at.unwrap_or_default());
        ending::terminate_job(tx, work, job, &format!("timed out after {}", span::format(timeout)), None).await?;
    }
    // The turn may have waited for long: for a lock, for a database that stood still, or frozen as a whole. Then it is
    // our own absence that the rows show.
    if !sweep.is_some_and(|judge| judge.may_still(work.now, Instant::now())) {
        return Ok(());
    }
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
    }
}
