//! Runners gone silent, and deadlines gone by.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

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
        placement::{Class, pinned_in_vain},
        task::{Event, TaskState},
        time::{Timestamp, micros},
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

/// How many classes of queued tasks one sweep looks at for pins.
const CLASSES_MAX: u32 = 5_000;

/// How many tasks that wait for a runner which is gone one turn gives up, of each class.
const STRANDED_MAX: u32 = 500;

/// Tasks that seem to wait in vain for the one runner that may take them.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    /// Those runners.
    pub runners: Vec<String>,
    /// The tasks: id, job, runner.
    tasks: Vec<(Uuid, Uuid, String)>,
}

impl Stranded {
    /// The jobs that this turn must lock.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Uuid> {
        self.tasks.iter().map(|(_, job, _)| *job)
    }
}

/// Looks for tasks whose one runner seems to be gone; whether it is, is decided under its lock.
pub(super) async fn stranded(tx: &Tx, timing: &Timing) -> Result<Stranded, store::Error> {
    let now = store::scheduler::now(tx).await?;
    let mut pinned: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in store::task::queued_classes(tx, "", CLASSES_MAX).await? {
        if let Some(pin) = Class::parse(&name).and_then(|class| class.pin) {
            pinned.entry(pin).or_default().push(name);
        }
    }
    let ids: Vec<String> = pinned.keys().cloned().collect();
    let signs = store::runner::signs(tx, &ids).await?;
    let before = Timestamp(now.0 - micros(timing.lost_after));
    let mut stranded = Stranded::default();
    for (runner, classes) in pinned {
        if !pinned_in_vain(signs.get(&runner), before, now, timing.lost_after) {
            continue;
        }
        for class in classes {
            let tasks = store::task::queued_before(tx, &class, before, STRANDED_MAX).await?;
            stranded.tasks.extend(tasks.into_iter().map(|(task, job)| (task, job, runner.clone())));
        }
        stranded.runners.push(runner);
    }
    Ok(stranded)
}

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
        let reason = format!("queue_timeout: no runner took it for {waited} s, and it may wait for {timeout:?}");
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

/// Fails tasks that wait for the one runner that may take them, when that has been gone for long.
async fn give_up_pinned(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    stranded: &Stranded,
    runners: &BTreeMap<String, RunnerRow>,
) -> Result<(), store::Error> {
    let ids: BTreeSet<Uuid> = stranded.tasks.iter().map(|(task, ..)| *task).collect();
    take_queued(tx, work, &ids.into_iter().collect::<Vec<_>>()).await?;
    for (id, _, runner) in &stranded.tasks {
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
#[allow(clippy::too_many_arguments)]
pub(super) async fn pass(
    tx: &Tx,
    context: &Context,
    work: &mut Work,
    sweep: Option<Judge>,
    silent: &[String],
    stranded: &Stranded,
    runners: &BTreeMap<String, RunnerRow>,
    output: &mut Output,
) -> Result<(), store::Error> {
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
    // The turn may have waited for long: for a lock, for a database that stood still, or frozen as a whole. Then it is
    // our own absence that the rows show.
    if !sweep.is_some_and(|judge| judge.may_still(work.now, Instant::now())) {
        return Ok(());
    }
    give_up_pinned(tx, context, work, stranded, runners).await?;
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
