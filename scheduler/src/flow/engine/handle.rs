//! What others ask of the engine: each call is an event, and most wait for the turn that answers it.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Engine, Event, Refusal};
use crate::{
    domain::{
        command::Down,
        heartbeat::{Frame, Hello},
    },
    flow::{
        changes::Subscription,
        keeper::{Keep, Kept},
        order::{Order, OrderAnswer},
        pulse::Seen,
        request::{
            self, Applied, Apply, Backfill, CancelBackfill, Complete, Delete, DeleteCalendar, MarkTask, PutCalendar,
            PutCalendars, Repaired, Rerun, Run, Switch, Terminate,
        },
    },
};

/// How long an order may wait to be taken in before its caller is told to come again.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Stores definitions, all or none.
    pub async fn apply(&self, order: Apply) -> Result<Vec<Applied>, request::Error> {
        match self.order(Order::Apply(order)).await? {
            OrderAnswer::Applied(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    /// Makes a job; when this returns it survives any crash.
    pub async fn run(&self, order: Run) -> Result<Uuid, request::Error> {
        match self.order(Order::Run(order)).await? {
            OrderAnswer::Job(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    /// Ends a job or a task; returns how many tasks that concerned.
    pub async fn terminate(&self, order: Terminate) -> Result<u32, request::Error> {
        self.count(Order::Terminate(order)).await
    }

    /// Completes a task that waits for its callback; when this returns that survives any crash.
    pub async fn complete(&self, order: Complete) -> Result<(), request::Error> {
        self.done(Order::Complete(order)).await
    }

    /// Runs tasks of a job again.
    pub async fn rerun(&self, order: Rerun) -> Result<Repaired, request::Error> {
        self.repaired(Order::Rerun(order)).await
    }

    /// Takes a person's word for how a task ended.
    pub async fn mark(&self, order: MarkTask) -> Result<Repaired, request::Error> {
        self.repaired(Order::Mark(order)).await
    }

    /// Removes what is not kept any more, a slice of it.
    pub(in crate::flow) async fn keep(&self, keep: Keep) -> Result<Kept, request::Error> {
        match self.order(Order::Keep(keep)).await? {
            OrderAnswer::Kept(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    /// Takes a job config out of use; returns how many of its jobs are live.
    pub async fn delete(&self, order: Delete) -> Result<u32, request::Error> {
        self.count(Order::Delete(order)).await
    }

    /// Switches schedules off or on; returns how many changed.
    pub async fn switch(&self, order: Switch) -> Result<u32, request::Error> {
        self.count(Order::Switch(order)).await
    }

    /// Begins a backfill; returns its id.
    pub async fn backfill(&self, order: Backfill) -> Result<Uuid, request::Error> {
        match self.order(Order::Backfill(order)).await? {
            OrderAnswer::Job(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    /// Lets a backfill make no more jobs; returns how many of its jobs live.
    pub async fn cancel_backfill(&self, order: CancelBackfill) -> Result<u32, request::Error> {
        self.count(Order::CancelBackfill(order)).await
    }

    /// Stores calendars, all or none.
    pub async fn put_calendars(&self, order: PutCalendars) -> Result<Vec<PutCalendar>, request::Error> {
        match self.order(Order::PutCalendars(order)).await? {
            OrderAnswer::Calendars(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    /// Deletes a calendar that no schedule names.
    pub async fn delete_calendar(&self, order: DeleteCalendar) -> Result<(), request::Error> {
        self.count(Order::DeleteCalendar(order)).await.map(|_| ())
    }

    /// Drains a runner, or lets it work again.
    pub async fn drain_runner(&self, runner: String, drained: bool, reason: String) -> Result<(), request::Error> {
        self.done(Order::DrainRunner { runner, drained, reason }).await
    }

    /// Drains a scheduler, or lets it work again.
    pub async fn drain_scheduler(&self, scheduler: Uuid, drained: bool) -> Result<(), request::Error> {
        self.done(Order::DrainScheduler { scheduler, drained }).await
    }

    /// Sends a callback again.
    pub async fn resend(&self, callback: Uuid) -> Result<(), request::Error> {
        self.done(Order::Resend(callback)).await
    }

    /// Opens a session for a runner that dialed. Frames to it come out of `out`, the welcome first.
    pub async fn connect(&self, hello: Hello, first_seq: u64, out: mpsc::Sender<Down>) -> Result<Uuid, Refusal> {
        let (reply, answer) = oneshot::channel();
        let event = Event::Hello { hello: Box::new(hello), first_seq, out, reply };
        self.events.send(event).await.map_err(|_| Refusal::Unavailable)?;
        answer.await.unwrap_or(Err(Refusal::Unavailable))
    }

    /// Takes in a frame of a session.
    pub async fn frame(&self, session: Uuid, frame: Frame) {
        let _ = self.events.send(Event::Frame(session, frame)).await;
    }

    /// Takes in that a stream has ended.
    pub async fn closed(&self, session: Uuid) {
        let _ = self.events.send(Event::Closed(session)).await;
    }

    /// Has the engine look at the database: another scheduler changed something.
    pub async fn wake(&self) {
        let _ = self.events.send(Event::Wake).await;
    }

    /// Watches for changes of jobs.
    pub fn subscribe(&self, job: Uuid) -> Subscription {
        self.changes.subscribe(job)
    }

    /// Stops as planned: gives out nothing more, finishes the turn under way, holds the tasks of its runners, and tells
    /// those where to go.
    pub async fn stop(&self) {
        let (reply, done) = oneshot::channel();
        if self.events.send(Event::Stop(reply)).await.is_ok() {
            let _ = done.await;
        }
    }

    pub(in crate::flow) async fn seen(&self, seen: Seen) {
        let _ = self.events.send(Event::Seen(seen)).await;
    }

    async fn order(&self, order: Order) -> Result<OrderAnswer, request::Error> {
        let (reply, answer) = oneshot::channel();
        match self.events.send_timeout(Event::Order(order, reply), ORDER_PATIENCE).await {
            Ok(()) => answer.await.map_err(|_| stopping()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err(too_many()),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(stopping()),
        }
    }

    async fn count(&self, order: Order) -> Result<u32, request::Error> {
        match self.order(order).await? {
            OrderAnswer::Count(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    async fn repaired(&self, order: Order) -> Result<Repaired, request::Error> {
        match self.order(order).await? {
            OrderAnswer::Repaired(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }

    async fn done(&self, order: Order) -> Result<(), request::Error> {
        match self.order(order).await? {
            OrderAnswer::Done(answer) => answer,
            other => Err(mismatch(&other)),
        }
    }
}

pub(super) fn too_many() -> request::Error {
    request::Error::Busy("too many requests wait; try again in a moment".to_owned())
}

pub(super) fn stopping() -> request::Error {
    request::Error::Unavailable("the scheduler is stopping; try another, or again".to_owned())
}

fn mismatch(answer: &OrderAnswer) -> request::Error {
    request::Error::Internal(format!("the engine answered another question: {answer:?}"))
}
