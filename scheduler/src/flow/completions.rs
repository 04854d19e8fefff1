//! Attempts that wait for their callbacks: a token goes out with each dispatch, and comes back to complete it.
//!
//! The completion ends the task itself, under the lock of its job like any result, so that it survives from the moment it is
//! answered, whatever becomes of the runner that waits. That one is told afterwards to end its wait; what it then reports
//! comes too late to change anything, and frees its slot.

use uuid::Uuid;

use super::{
    batch::Reset,
    ending::{cut, finish},
    request::{ATTEMPT_OVER, Complete, Error, TOKEN_USED},
    work::Work,
};
use crate::{
    domain::{
        completion::{self, Refusal},
        heartbeat::{EndReason, TaskResult},
        reference::CallbackView,
    },
    store::{self, Tx},
};

/// What the called service is given with a new dispatch.
pub(super) fn issue(public_url: &str) -> CallbackView {
    completion::callback(public_url, [Uuid::new_v4().as_u128(), Uuid::new_v4().as_u128()])
}

/// Completes the dispatch that a token belongs to.
pub(super) async fn complete(tx: &Tx, work: &mut Work, order: &Complete) -> Result<Result<(), Error>, store::Error> {
    let unknown = || Error::NotFound { kind: "token", name: "***".to_owned() };
    let Some(standing) = store::completion::find(tx, &order.token_hash).await? else { return Ok(Err(unknown())) };
    let (id, lease) = (standing.right.task.task, standing.right.task.lease);
    if work.job(order.job_id).is_some() {
        work.take_tasks(store::task::lock(tx, &[id]).await?);
    }
    let present = work.task(id).map(|task| (task.state, task.counters.lease));
    match completion::admit(standing.used, lease, present) {
        Ok(()) => {}
        Err(Refusal::Used) => {
            let message = "this token was used: the task was completed before".to_owned();
            return Ok(Err(Error::Conflict { reason: TOKEN_USED, message }));
        }
        Err(Refusal::Over) => {
            let message = "the attempt that this token belongs to is over; another attempt has a token of its own";
            return Ok(Err(Error::Conflict { reason: ATTEMPT_OVER, message: message.to_owned() }));
        }
    }
    let held = work.task(id).and_then(|task| task.session_id.zip(task.slot));
    finish(work, id, &result(order));
    if !order.failed && !order.message.is_empty() {
        work.edit(id).reason = cut(&order.message);
    }
    store::completion::used(tx, &order.token_hash, held, work.now).await?;
    Ok(Ok(()))
}

/// What the completion says, as a runner would report it.
fn result(order: &Complete) -> TaskResult {
    let message = match (order.failed, order.message.as_str()) {
        (false, _) => String::new(),
        (true, "") => "completed as failed".to_owned(),
        (true, message) => format!("completed as failed: {message}"),
    };
    TaskResult {
        end_reason: EndReason::Exit,
        exit_code: (!order.failed).then_some(0),
        signal: None,
        message,
        output: order.output.clone().into_bytes(),
        // What was logged is with the runner, which goes on shipping it.
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

/// The waits that are to end in these sessions, because their tasks were completed.
pub(super) async fn to_tell(tx: &Tx, sessions: &[Uuid]) -> Result<Vec<Reset>, store::Error> {
    let untold = store::completion::tell(tx, sessions).await?.into_iter();
    Ok(untold
        .map(|untold| Reset {
            session: untold.session,
            slot: untold.slot,
            task: untold.task,
            job_id: untold.job_id,
            grace: None,
        })
        .collect())
}
