//! What is to be told is claimed and handed to the courier; what came of each try is written down, and tasks that were
//! held by it are let go.
//!
//! A claim expires by itself: a scheduler that dies with a callback in hand leaves it to whoever looks next, which is
//! why a receiver may be told twice, and knows it by the callback's id.

use std::{collections::BTreeSet, time::Duration};

use tracing::{info, warn};
use uuid::Uuid;

use super::{
    batch::{Awaited, Context, Input, Output},
    birth::{self, Cause, Kin},
    ending::cut,
    order::Order,
    plan::readable,
    request::Error,
    work::Work,
};
use crate::{
    domain::{
        callback::{State, delivery::Verdict},
        definition::callback::{Action, StartJob},
        origin,
        task::TaskState,
        time::Timestamp,
    },
    store::{
        self, Tx,
        callback::{Claimed, Hold, Tried},
    },
};

/// How long a claim lasts. Longer than any try takes, see [`super::courier::TRY_MAX`].
const CLAIM: Duration = Duration::from_mins(1);

/// How long to leave a due callback to another scheduler that has it in hand.
const DUE_AGAIN: Duration = Duration::from_millis(5);

/// What a try came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// Whether it arrived.
    pub verdict: Verdict,
    /// The answer: a status of HTTP or a reply of SMTP.
    pub code: Option<i32>,
    /// Why it did not arrive.
    pub error: String,
    /// How long the receiver asked to be left alone.
    pub asked: Option<Duration>,
}

impl Outcome {
    /// A try without an answer.
    pub(super) fn failed(verdict: Verdict, error: impl Into<String>) -> Self {
        Self { verdict, code: None, error: error.into(), asked: None }
    }
}

/// A callback that was tried.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub callback: Claimed,
    pub outcome: Outcome,
    /// Spreads the wait for the next try, from 0 to 1.
    pub chance: f64,
}

/// The jobs whose tasks may be let go by what this turn is told.
pub(super) fn jobs_of(input: &Input) -> impl Iterator<Item = Uuid> {
    let tried = input.tried.iter().map(|attempt| &attempt.callback);
    tried.chain(&input.starts).filter(|callback| callback.holds.is_some()).filter_map(|callback| callback.job_id)
}

/// The jobs whose callbacks are to be sent again: locked, none of them can be removed meanwhile.
pub(super) async fn jobs_told_again(tx: &Tx, orders: &[Order]) -> Result<Vec<Uuid>, store::Error> {
    let callbacks: Vec<Uuid> = orders.iter().filter_map(Order::callback).collect();
    store::callback::jobs_of(tx, &callbacks).await
}

/// Writes down what tries came to, starts the jobs that callbacks start, and lets go of tasks that nothing holds any
/// more.
pub(super) async fn pass(tx: &Tx, context: &mut Context, work: &mut Work, input: &Input) -> Result<(), store::Error> {
    if input.tried.is_empty() && input.starts.is_empty() {
        return Ok(());
    }
    let callbacks = || input.tried.iter().map(|attempt| &attempt.callback).chain(&input.starts);
    let held: BTreeSet<Uuid> = callbacks().filter_map(|callback| callback.holds).collect();
    let held: Vec<Uuid> = held.into_iter().collect();
    work.take_tasks(store::task::lock(tx, &held).await?);

    let claims: Vec<(Uuid, u32)> = callbacks().map(|callback| (callback.id, callback.tries)).collect();
    let ours: BTreeSet<Uuid> = store::callback::lock_owned(tx, context.scheduler, &claims).await?.into_iter().collect();
    let mut tried = Vec::with_capacity(ours.len());
    for Attempt { callback, outcome, chance } in &input.tried {
        if ours.contains(&callback.id) {
            tried.push(judge(context, work.now, callback, outcome, *chance));
        }
    }
    for callback in &input.starts {
        if ours.contains(&callback.id) {
            let (outcome, made) = match start(tx, context, work, callback).await? {
                Ok(job) => (Outcome::failed(Verdict::Delivered, ""), Some(job)),
                Err(problem) => (Outcome::failed(Verdict::GiveUp, problem), None),
            };
            tried.push(Tried { made_job_id: made, ..judge(context, work.now, callback, &outcome, 0.0) });
        }
    }
    store::callback::record(tx, work.now, &tried).await?;

    let held: Vec<Uuid> = held.into_iter().filter(|id| is_held(work, *id)).collect();
    let holds = store::callback::lock_holds(tx, &held).await?;
    for id in held {
        let of_task: Vec<&Hold> = holds.iter().filter(|hold| hold.task_id == id).collect();
        if !of_task.iter().any(|hold| hold.is_pending()) {
            work.called_back(id, Hold::ended_well(&of_task), &Hold::remark(&of_task));
        }
    }
    Ok(())
}

fn is_held(work: &Work, task: Uuid) -> bool {
    work.task(task).is_some_and(|task| task.state == TaskState::Callback)
}

/// Where a try leaves a callback.
fn judge(context: &Context, now: Timestamp, callback: &Claimed, outcome: &Outcome, chance: f64) -> Tried {
    let wait = match outcome.verdict {
        Verdict::Retry => context.backoff.wait(callback.tries, chance, outcome.asked),
        Verdict::Delivered | Verdict::GiveUp => None,
    };
    let state = match (outcome.verdict, wait) {
        (Verdict::Delivered, _) => State::Delivered,
        (Verdict::Retry, Some(_)) => State::Pending,
        (Verdict::Retry | Verdict::GiveUp, _) => State::GivenUp,
    };
    if state == State::GivenUp {
        warn!(callback.id = %callback.id, tries = callback.tries, error = outcome.error, "callback given up");
    }
    Tried {
        id: callback.id,
        tries: callback.tries,
        state,
        next_try_at: now + wait.unwrap_or_default(),
        response_code: outcome.code,
        // No database takes that character.
        error: cut(&outcome.error.replace('\0', "")),
        made_job_id: None,
    }
}

/// Starts the job that a callback starts; `Err` is why there is none. The callback is written down as delivered in the
/// same transaction: told twice or not, there is one job.
async fn start(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    callback: &Claimed,
) -> Result<Result<Uuid, String>, store::Error> {
    let Action::Job(StartJob { name, params }) = &callback.action else {
        return Ok(Err("it starts no job".to_owned()));
    };
    let depth = match origin::deeper(callback.depth) {
        Ok(depth) => depth,
        Err(problem) => return Ok(Err(problem)),
    };
    let kin = match readable(Kin::newest(tx, context, &callback.namespace, name).await)? {
        Ok(Some(kin)) => kin,
        Ok(None) => return Ok(Err(format!("job config {name:?} does not exist"))),
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(birth::bear(work, kin, params, Cause::Callback { parent: callback.job_id, depth })
        .inspect(|job| info!(callback.id = %callback.id, job.id = %job, job.name = name, "callback started a job"))
        .map_err(|wrong| birth::in_words("params", wrong)))
}

/// Has a callback sent again. One that was delivered or given up is tried from the start, under the same id.
pub(super) async fn resend(tx: &Tx, work: &mut Work, id: Uuid) -> Result<Result<(), Error>, store::Error> {
    if store::retention::takes_callback(tx, id).await? {
        return Ok(Err(Error::Expired { kind: "job of callback", name: id.to_string() }));
    }
    if store::callback::resend(tx, id, work.now).await? {
        work.told();
        return Ok(Ok(()));
    }
    let message = match store::callback::made_job(tx, id).await? {
        None => return Ok(Err(Error::NotFound { kind: "callback", name: id.to_string() })),
        Some(Some(job)) => format!("it started job {job}, and starts no second one: run its job config"),
        Some(None) => "it is being tried right now; look again in a moment".to_owned(),
    };
    Ok(Err(Error::Conflict { reason: "CALLBACK_NOT_RESENT", message }))
}

/// Claims what is due, as much as there is room for.
pub(super) async fn claim(
    tx: &Tx,
    context: &Context,
    now: Timestamp,
    room: u32,
    output: &mut Output,
) -> Result<(), store::Error> {
    output.claimed = store::callback::claim(tx, context.scheduler, now, now + CLAIM, room).await?;
    // What is due still is more than there is room for, or in the hands of another scheduler.
    let next = store::callback::next_due(tx).await?;
    output.next_callback = Some(Awaited(next.map(|due| due.max(now + DUE_AGAIN))));
    Ok(())
}
