//! Old rows rest: what has ended long ago is removed.
//!
//! The keeper goes round the job configs, again and again. What it does in the database it does in turns of the engine, as
//! anybody else; each takes at most [`ROWS_MAX`] rows, and after each the keeper rests [`REST`] times as long as that
//! took, waiting included. So it never has more than a small share of the engine, and the less the busier that is.
//! Schedulers that share a database take different jobs: marks are set and rows removed under the job's lock, which is
//! never waited for.

mod progress;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use tracing::{debug, info};
use uuid::Uuid;

pub(super) use self::progress::{Progress, Reached};
use super::{engine::Engine, request::Error};
use crate::{
    domain::{
        retention::{AGE, COUNT_MAX, End, Policy, too_old},
        time::Timestamp,
    },
    store::{
        self, Store, Tx,
        retention::{self as old, Ended, Span},
    },
};

/// How many rows one turn removes at most.
pub(super) const ROWS_MAX: u64 = 500;
/// How many job configs one turn looks at.
const CONFIGS_MAX: u32 = 50;
/// How many ended jobs one turn asks whether they can go, or their output can.
pub(super) const LOOKED_MAX: u32 = 500;
/// How many newer jobs one turn counts.
const COUNTED_MAX: u32 = COUNT_MAX;
/// How many jobs one turn marks, and how many are removed at a time.
const JOBS_MAX: usize = 50;
/// How many pieces of output one transaction of the log store removes.
const CHUNKS_MAX: u32 = 200;
/// How long the keeper rests after each slice, as a multiple of the time that took.
const REST: u32 = 9;
/// How long it rests at least.
const REST_MIN: Duration = Duration::from_millis(20);
/// How long it rests between looks that find nothing to do: a million job configs of which none has anything to remove cost
/// next to nothing then, and a round over them takes an hour and a half, which is little beside the days that things are kept.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// How long it rests when everything is kept that is to be kept.
const ROUND_PAUSE: Duration = Duration::from_secs(10);

/// What the keeper asks of the engine.
#[derive(Debug, Clone)]
pub(super) enum Keep {
    /// To mark what is not kept any more, of the job configs after this one.
    Look { after: Uuid, policy: Policy, progress: Arc<Progress> },
    /// To remove rows of what has no output any more.
    Remove(Going),
}

/// Jobs whose output is to be removed, and then more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Going {
    /// All that is left of these.
    pub jobs: Vec<Uuid>,
    /// Nothing else of these.
    pub only_logs: Vec<Uuid>,
    /// The memory of these, which were removed long ago; output of theirs came late.
    pub memory: Vec<Uuid>,
}

/// What that came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Where the next look goes on; none at the end of a round.
    pub next: Option<Uuid>,
    /// What is to be removed.
    pub going: Going,
    /// How far the jobs of configs were looked at.
    pub reached: Vec<(Uuid, Reached)>,
    /// How many rows went.
    pub rows: u64,
    /// How many jobs were looked at.
    pub looked: u32,
    /// How many jobs were marked.
    pub marked: usize,
}

impl Going {
    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// All whose output goes.
    pub(super) fn all(&self) -> impl Iterator<Item = Uuid> {
        self.jobs.iter().chain(&self.only_logs).chain(&self.memory).copied()
    }
}

/// Does what the keeper asks, in a turn.
pub(super) async fn pass(tx: &Tx, now: Timestamp, keep: &Keep) -> Result<Kept, store::Error> {
    match keep {
        Keep::Look { after, policy, progress } => look(tx, now, *after, policy, progress).await,
        Keep::Remove(going) => remove(tx, going).await,
    }
}

async fn look(
    tx: &Tx,
    now: Timestamp,
    after: Uuid,
    policy: &Policy,
    progress: &Progress,
) -> Result<Kept, store::Error> {
    let mut kept = Kept::default();
    let configs = old::configs(tx, after, CONFIGS_MAX).await?;
    let (mut counted, mut passed) = (0, after);
    for config in &configs {
        let count = config.own.count.filter(|_| config.oldest.is_some());
        if counted > 0 && counted + count.unwrap_or(0) > COUNTED_MAX {
            break;
        }
        counted += count.unwrap_or(0);
        let beyond = match count {
            Some(count) => old::newest_but(tx, config.config, count).await?,
            None => None,
        };
        let mut reached = progress.of(config.config);
        let due = policy.goes_up_to(config.own, now, beyond);
        let mut all = true;
        if let Some(last) = due.filter(|last| config.oldest.is_some_and(|oldest| oldest <= last.at))
            && let Some(newest) = old::newest_but(tx, config.config, 0).await?
        {
            let span = Span { after: reached.jobs, last, limit: LOOKED_MAX - kept.looked };
            let jobs = old::ended(tx, config.config, span, newest).await?;
            let part = chosen(&jobs, span, JOBS_MAX - kept.marked.min(JOBS_MAX));
            kept.marked += old::mark(tx, &part.jobs, now).await?;
            kept.looked += part.looked;
            reached.jobs = part.to;
            all &= part.all;
        }
        let before = too_old(now, policy.logs_of(config.own));
        if let Some(before) = before.filter(|before| config.oldest_logs.is_some_and(|oldest| oldest < *before)) {
            let last = End { at: before, id: Uuid::nil() };
            let span = Span { after: reached.logs, last, limit: LOOKED_MAX - kept.looked };
            let jobs = old::with_logs(tx, config.config, span).await?;
            let part = chosen(&jobs, span, JOBS_MAX - kept.going.only_logs.len());
            kept.going.only_logs.extend(part.jobs);
            kept.looked += part.looked;
            reached.logs = part.to;
            all &= part.all;
        }
        if reached != progress.of(config.config) {
            kept.reached.push((config.config, reached));
        }
        if !all {
            break;
        }
        passed = config.config;
    }
    kept.rows += old::forget_fires(tx, (after, passed), now, policy.age, ROWS_MAX).await?;
    if after.is_nil() {
        if let Some(before) = too_old(now, policy.age) {
            kept.rows += old::forget_callbacks(tx, before, ROWS_MAX - kept.rows).await?;
            kept.rows += old::forget_backfills(tx, before, ROWS_MAX - kept.rows).await?;
        }
        if let Some(before) = too_old(now, policy.audit) {
            kept.rows += old::forget_audit(tx, before, ROWS_MAX - kept.rows).await?;
        }
        // Those that a person asked for, or a count, go although nothing goes by its age.
        let remembered = if policy.age.is_zero() { AGE } else { policy.age };
        kept.going.memory = old::long_gone(tx, now - remembered, JOBS_MAX as u32).await?;
    }
    kept.going.jobs = old::removing(tx, JOBS_MAX as u32).await?;
    let whole = configs.last().is_none_or(|config| config.config == passed);
    kept.next = (!whole || configs.len() == CONFIGS_MAX as usize).then_some(passed);
    Ok(kept)
}

/// Those of a page that can go, as far as there is room for them.
struct Part {
    jobs: Vec<Uuid>,
    looked: u32,
    /// Up to where the page was looked at.
    to: Option<End>,
    /// There are no more.
    all: bool,
}

fn chosen(page: &[Ended], span: Span, room: usize) -> Part {
    let mut part = Part { jobs: Vec::new(), looked: 0, to: span.after, all: page.len() < span.limit as usize };
    for job in page {
        if job.at_rest {
            if part.jobs.len() == room {
                part.all = false;
                break;
            }
            part.jobs.push(job.end.id);
        }
        part.looked += 1;
        part.to = Some(job.end);
    }
    part
}

async fn remove(tx: &Tx, going: &Going) -> Result<Kept, store::Error> {
    old::logs_removed(tx, &going.only_logs).await?;
    let mut kept = Kept { rows: old::forget_jobs(tx, &going.memory).await?, ..Kept::default() };
    let jobs = old::claim(tx, &going.jobs).await?;
    kept.rows += old::remove(tx, &jobs, ROWS_MAX - kept.rows).await?;
    Ok(kept)
}

/// Keeps what is to be kept and removes the rest, until it is stopped.
pub async fn keep(store: Store, engine: Engine, policy: Policy, stop: CancellationToken) {
    let mut after = Uuid::nil();
    let mut progress = Arc::new(Progress::begun(Instant::now()));
    loop {
        let pause = tokio::select! {
            () = stop.cancelled() => return,
            done = step(&store, &engine, policy, after, &mut progress) => match done {
                Ok(Step { next, more }) => {
                    after = next.unwrap_or_default();
                    if next.is_none() {
                        Arc::make_mut(&mut progress).round(Instant::now());
                    }
                    match next {
                        _ if more => REST_MIN,
                        Some(_) => LOOK_PAUSE,
                        None => ROUND_PAUSE,
                    }
                }
                // The next round finds what this one left.
                Err(error) => {
                    debug!(%error, "what is not kept any more was not removed");
                    progress = Arc::new(Progress::begun(Instant::now()));
                    after = Uuid::nil();
                    ROUND_PAUSE
                }
            },
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Step {
    next: Option<Uuid>,
    /// More may be left to be removed.
    more: bool,
}

/// One look, and the removal of what is marked, slice by slice.
async fn step(
    store: &Store,
    engine: &Engine,
    policy: Policy,
    after: Uuid,
    progress: &mut Arc<Progress>,
) -> Result<Step, Error> {
    let kept = rested(engine.keep(Keep::Look { after, policy, progress: progress.clone() })).await?;
    let Kept { next, mut going, reached, rows, .. } = kept;
    for (config, reached) in reached {
        Arc::make_mut(progress).note(config, reached);
    }
    if going.is_empty() {
        return Ok(Step { next, more: rows >= ROWS_MAX });
    }
    let all: Vec<Uuid> = going.all().collect();
    while rested(remove_logs(store, &all)).await? {}
    let jobs = going.jobs.len();
    while rested(engine.keep(Keep::Remove(going.clone()))).await?.rows >= ROWS_MAX {
        going.only_logs.clear();
        going.memory.clear();
    }
    if jobs > 0 {
        info!(jobs, "jobs that are not kept any more were removed");
    }
    Ok(Step { next, more: true })
}

/// Whether output of the jobs is left.
async fn remove_logs(store: &Store, jobs: &[Uuid]) -> Result<bool, Error> {
    let removed = store.logs().remove(jobs, CHUNKS_MAX).await;
    removed.map(|removed| removed == u64::from(CHUNKS_MAX)).map_err(|error| Error::Unavailable(error.to_string()))
}

/// Does something, then rests for longer than that took.
async fn rested<T>(slice: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let begun = Instant::now();
    let outcome = slice.await;
    tokio::time::sleep((begun.elapsed() * REST).max(REST_MIN)).await;
    outcome
}
