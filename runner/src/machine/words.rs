//! What goes into the machine and what comes out of it.

use std::time::{Duration, SystemTime};

use crate::task::{End, RunSpec, TaskRef, TaskResult};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// A connection stands; `others` says whether there is another endpoint to go to. The hello goes out.
    Opened {
        /// Whether another endpoint is known.
        others: bool,
    },
    /// The stream ended.
    Closed,
    /// A frame came from the scheduler.
    Received(Received),
    /// A task's main process runs.
    Started {
        /// The slot.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// The process, if it is one.
        pid: Option<u32>,
        /// When, by the wall clock.
        start_time: SystemTime,
    },
    /// Every process of a task is gone, or it never had one.
    Ended {
        /// The slot.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// How.
        end: End,
    },
    /// Time has passed.
    Tick,
    /// The runner is to leave once it has finished what it holds.
    Leave,
    /// The runner is to leave now: what runs is stopped, and no attempt is burnt.
    StopAll,
}

/// A frame from the scheduler.
#[derive(Debug, Clone, Default)]
pub struct Received {
    /// Its number.
    pub seq: u64,
    /// The newest of our frames whose sign of life is committed.
    pub ack: u64,
    /// The session, in the first frame.
    pub welcome: Option<Welcome>,
    /// What to do, in order.
    pub orders: Vec<Order>,
}

/// The session as far as the machine is concerned.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// How often to beat.
    pub heartbeat_interval: Duration,
    /// How long a beat may stay without an answer.
    pub answer_timeout: Duration,
    /// What becomes of what was held.
    pub verdicts: Vec<Verdict>,
    /// The scheduler wants this runner drained.
    pub drained: bool,
}

/// What becomes of one item of the inventory.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The item.
    pub task: TaskRef,
    /// What becomes of it.
    pub kind: VerdictKind,
    /// How long its processes may take to end.
    pub grace: Option<Duration>,
}

/// What becomes of something a runner holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerdictKind {
    /// Go on.
    Adopt,
    /// End it: taken back, replaced, unknown, or being terminated.
    Reset,
    /// Its result is stored, or not wanted.
    Ack,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Order {
    /// Nothing.
    GoOn,
    /// Start a task; a spec that makes no sense is a reason in words.
    RunNew {
        /// On this slot.
        slot: u32,
        /// This task.
        task: TaskRef,
        /// In this way.
        spec: Result<Box<RunSpec>, String>,
    },
    /// End every process of a task.
    Reset {
        /// The slot it is thought to be in.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// How long its processes may take to end.
        grace: Option<Duration>,
    },
    /// The result of a task is stored, or refused.
    ResultAck {
        /// The task.
        task: TaskRef,
    },
    /// Take nothing new.
    Drain,
    /// Take new work again.
    Resume,
    /// Close the stream and dial again.
    Disconnect {
        /// The scheduler's tasks are safe for so long.
        hold_for: Duration,
    },
    /// A kind of command from a later version.
    Unknown {
        /// Its number.
        kind: i32,
        /// The slot it names.
        slot: u32,
        /// The task it names, if it names one.
        task: Option<TaskRef>,
    },
}

/// Something to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this frame on the present stream.
    Send(Frame),
    /// Start this task, then say `Started` or `Ended`.
    Start {
        /// The slot.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// How.
        spec: Box<RunSpec>,
    },
    /// End this task's processes, then say `Ended`. May be repeated: the shorter time counts.
    Stop {
        /// The slot.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// How long they may take after SIGTERM.
        grace: Duration,
    },
    /// Write this result down before anything later in this list is done.
    Keep {
        /// The slot.
        slot: u32,
        /// The task.
        task: TaskRef,
        /// The result.
        result: Box<TaskResult>,
    },
    /// Forget what is written down about this slot.
    Forget {
        /// The slot.
        slot: u32,
    },
    /// The scheduler knows what an earlier boot left behind.
    EndedTold,
    /// Close the stream and dial again.
    Redial(Redial),
    /// Everything is finished and said: the runner may go.
    Left,
}

/// Why and how to dial again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redial {
    /// The scheduler does not answer.
    Deaf,
    /// The scheduler answers but cannot commit, and there is another.
    NotAcked,
    /// The scheduler said so. When is the line's business.
    Told,
}

/// A frame to the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its number.
    pub seq: u64,
    /// The newest command frame that is fully taken in.
    pub ack: u64,
    /// What is held, in the first frame.
    pub hello: Option<Inventory>,
    /// What slots have to say.
    pub slots: Vec<Report>,
    /// Whether new work is taken.
    pub drain: Drain,
}

/// What the runner holds at the start of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Tasks held and results not yet acknowledged.
    pub held: Vec<Report>,
    /// Tasks of an earlier boot whose processes were ended without a result.
    pub ended: Vec<TaskRef>,
}

/// Whether new work is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// Yes.
    Working,
    /// No: what is held is finished.
    Draining,
    /// No: nothing is held, and this is the last frame.
    Leaving,
}

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It holds nothing.
    Idle,
    /// It holds a task that starts, runs or stops.
    Running,
    /// Its task succeeded; the result is kept until it is acknowledged.
    Finished,
    /// Its task ended otherwise.
    Failed,
}

/// The answer to a command that was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The slot holds another task.
    RejectedBusy,
    /// The runner takes nothing new.
    RejectedDraining,
    /// The command came when its time was over.
    RejectedLate,
    /// The target is unknown.
    RejectedTarget,
    /// The spec makes no sense.
    RejectedSpec,
    /// A higher lease of the task is known, or this one's story is over.
    Stale,
    /// No process and no result of it exists, and none can come.
    NotHeld,
    /// The kind of command is unknown.
    Unsupported,
}

/// What a slot has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The slot.
    pub slot: u32,
    /// What it does.
    pub status: Status,
    /// The task it holds, or the one the answer is about.
    pub task: Option<TaskRef>,
    /// An answer.
    pub answer: Option<Answer>,
    /// The answer in words.
    pub message: String,
    /// The process, once it runs.
    pub pid: Option<u32>,
    /// When it started, by the wall clock.
    pub start_time: Option<SystemTime>,
    /// How it ended: once a stream.
    pub result: Option<Box<TaskResult>>,
}

impl Report {
    /// Of a slot that has something to do, and nothing more to say yet.
    pub(crate) fn running(slot: u32) -> Self {
        Self {
            slot,
            status: Status::Running,
            task: None,
            answer: None,
            message: String::new(),
            pid: None,
            start_time: None,
            result: None,
        }
    }
}
