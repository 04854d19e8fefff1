//! What goes into one turn of the engine and what comes out of it: the words in which the engine, the turn and the
//! stations speak to each other.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{
    callbacker::Attempt,
    changes::Change,
    order::{Order, OrderAnswer},
    picker::Memory,
    plan::Plans,
    pulse::Judge,
    sub_jobs::Handover,
};
use crate::{
    domain::{
        callback::delivery::Backoff,
        command::RunSpec,
        heartbeat::{Admission, Hello, TaskRef, TaskResult, Verdict},
        placement::Offer,
        task::Ending,
        time::Timestamp,
        timing::Timing,
    },
    store::{Store, callback::Claimed, task::TaskRow},
};

/// What a turn is given.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// What was asked for through the API.
    pub orders: Vec<Order>,
    /// Runners that dialed.
    pub hellos: Vec<HelloInput>,
    /// What frames told.
    pub facts: Vec<Fact>,
    /// Runners that leave.
    pub leaving: Vec<Leaving>,
    /// Runners that began or ceased to drain by themselves: id, session, draining.
    pub draining: Vec<(String, Uuid, bool)>,
    /// Sessions with idle slots, which this turn may fill; none when nothing is to be given out.
    pub idle: Vec<IdleSession>,
    /// The sessions of this scheduler, when it is time to look at what nobody tells: what they are owed, jobs left to be
    /// written, deadlines gone by, tasks that wait for a retry. Any other turn asks the database only for what came in.
    pub look: Option<Vec<Uuid>>,
    /// The sessions of this scheduler, when an order completes a task that a runner of theirs may wait with.
    pub completing: Vec<Uuid>,
    /// What callbacks came to that were tried.
    pub tried: Vec<Attempt>,
    /// Callbacks that start jobs.
    pub starts: Vec<Claimed>,
    /// How many callbacks there is room for to be tried, beside those that are.
    pub callbacks_room: u32,
    /// Whether to look for callbacks that are due; those that a turn writes are looked for by it anyway.
    pub callbacks_due: bool,
    /// Whether the last turn was committed is not known: what was given out is compared with what was sent.
    pub in_doubt: bool,
    /// By which right silent runners are given up in this turn, if they are.
    pub sweep: Option<Judge>,
    /// Whether to look for schedules that are due.
    pub fire: bool,
    /// A job ended since the last turn: others may have waited for that.
    pub job_ended: bool,
    /// What the last turn left for this one.
    pub handover: Handover,
    /// The clock of the database may have been set back.
    pub clock_set_back: bool,
}

/// What has to leave after the commit.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// One answer an order, in their order.
    pub orders: Vec<OrderAnswer>,
    /// One answer a hello, in their order.
    pub hellos: Vec<HelloAnswer>,
    /// What became of each fact, in their order.
    pub facts: Vec<Outcome>,
    /// Tasks given out.
    pub dispatched: Vec<Dispatch>,
    /// Tasks to be ended.
    pub resets: Vec<Reset>,
    /// Tasks that are DISPATCHED in sessions of ours, after a turn whose outcome is not known.
    pub doubtful: Vec<Reset>,
    /// Runners given up, with the session that counted.
    pub lost: Vec<(String, Uuid)>,
    /// There are more silent runners than one turn gives up.
    pub sweep_again: bool,
    /// Sessions that no longer count.
    pub superseded: Vec<Uuid>,
    /// Runners an operator drained, when it was time to look.
    pub drained: Option<Vec<String>>,
    /// Tasks whose templates fail, to be failed by the next turn.
    pub unrenderable: Vec<(TaskRef, Uuid, String)>,
    /// Callbacks to be tried.
    pub claimed: Vec<Claimed>,
    /// When the next callback is due, if that was looked for.
    pub next_callback: Option<Awaited>,
    /// Jobs that changed.
    pub changed: Vec<Change>,
    /// Sessions that told something about jobs that are laid aside: it was not taken.
    pub untaken: Vec<Uuid>,
    /// A job that was laid aside goes on.
    pub unparked: bool,
    /// There is more in the database than one turn takes up: the next is to look at once.
    pub more: bool,
    /// A job ended: others may have waited for that.
    pub job_ended: bool,
    /// A job FINISHED, and a job config comes after its own.
    pub followed: bool,
    /// What the next turn is to go on with.
    pub handover: Handover,
    /// A job was born that waits for something.
    pub waits: bool,
    /// Keys were in the hands of another scheduler: the next pick is to come soon.
    pub keys_busy: bool,
    /// When the next task that waits for a retry may be picked.
    pub next_wake: Option<Timestamp>,
    /// What schedules wait for, if that was looked for.
    pub agenda: Option<Agenda>,
    /// There are more schedules that were planned by a clock that was set back since.
    pub more_ahead: bool,
    /// The time of the turn.
    pub now: Timestamp,
    /// When that time was read, by the clock of this machine.
    pub read_at: Option<Instant>,
}

/// When the next of a kind is due; none when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Awaited(pub Option<Timestamp>);

/// What schedules wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agenda {
    /// When the next one is due.
    pub due: Option<Timestamp>,
    /// Something waits for the end of a job.
    pub waiters: bool,
}

/// A task to be ended on its runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reset {
    pub session: Uuid,
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub grace: Option<Duration>,
}

impl Reset {
    /// For a task that is to be ended, if a session has it.
    pub(super) fn of(task: &TaskRow) -> Option<Self> {
        let grace = task.end_grace.map(|micros| Duration::from_micros(micros.unsigned_abs()));
        let (session, slot) = (task.session_id?, task.slot?);
        Some(Self { session, slot, task: task.reference(), job_id: task.job_id, grace })
    }
}

/// What a turn needs besides its input.
#[derive(Debug)]
pub(super) struct Context {
    pub store: Store,
    pub timing: Timing,
    pub scheduler: Uuid,
    pub plans: Plans,
    /// What the picker remembers.
    pub memory: Memory,
    /// How hard callbacks are tried.
    pub backoff: Backoff,
    /// Whether other schedulers may share the database.
    pub clustered: bool,
    /// Where services find a scheduler for their callbacks.
    pub public_url: String,
    /// Whether any job config comes after another, where this scheduler alone can change that; `None` when it is to be
    /// asked.
    pub followed: Option<bool>,
}

/// Something a frame told about a dispatch.
#[derive(Debug, Clone)]
pub(super) struct Fact {
    /// The session that told it; `None` when it is our own finding.
    pub source: Option<(Uuid, u32)>,
    /// The dispatch.
    pub task: TaskRef,
    /// The job of the task.
    pub job_id: Uuid,
    /// What was told.
    pub news: News,
}

/// What can be told about a dispatch.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// It runs.
    Started,
    /// It ended like this.
    Result(Box<TaskResult>),
    /// It ended, and this is all that is known.
    Ended(Ending, String),
    /// Its slot is idle although the command was taken in.
    IdlePastAck,
    /// It runs for longer than its `warn_after`.
    TakesLong,
    /// What it is to run cannot be worked out.
    Unrenderable(String),
}

impl News {
    /// Whether none of its processes can be left once this is told.
    pub(super) fn is_an_end(&self) -> bool {
        match self {
            Self::Result(_) | Self::Ended(..) | Self::IdlePastAck => true,
            Self::Started | Self::TakesLong | Self::Unrenderable(_) => false,
        }
    }
}

/// What became of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// It was news about the task's present dispatch.
    pub counted: bool,
    /// Its job is laid aside: nobody is answered, and it is told again later.
    pub untaken: bool,
    /// What to tell the runner with the RESULT_ACK; empty unless the result was refused.
    pub refused: String,
}

/// A runner that dialed.
#[derive(Debug, Clone)]
pub(super) struct HelloInput {
    /// What it said.
    pub hello: Hello,
    /// The session it gets if it is admitted.
    pub session: Uuid,
}

/// What a runner that dialed is told.
#[derive(Debug, Clone)]
pub(super) enum HelloAnswer {
    /// It is in.
    Admitted {
        /// A verdict for each inventory item, in their order, with the grace for those to be ended.
        verdicts: Vec<(TaskRef, Verdict, Option<i64>)>,
        /// What it goes on with: slot, dispatch, job.
        adopted: Vec<Adopted>,
        /// An operator drained it.
        drained: bool,
    },
    /// It is not, and why.
    Refused(Admission),
}

/// A task that a runner goes on with.
#[derive(Debug, Clone)]
pub(super) struct Adopted {
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub started_at: Timestamp,
    pub timeout: Option<Duration>,
    pub warn_after: Option<Duration>,
    pub cancelled: bool,
}

/// A runner that says it leaves and holds nothing.
#[derive(Debug, Clone)]
pub(super) struct Leaving {
    pub runner: String,
    pub session: Uuid,
}

/// A session with idle slots.
#[derive(Debug, Clone)]
pub(super) struct IdleSession {
    /// The session.
    pub session: Uuid,
    /// The runner, with the number of slots that are idle before this turn.
    pub offer: Offer,
    /// Those slots.
    pub slots: Vec<u32>,
}

/// A task that was given out.
#[derive(Debug, Clone)]
pub(super) struct Dispatch {
    pub session: Uuid,
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub warn_after: Option<Duration>,
    pub spec: RunSpec,
}
