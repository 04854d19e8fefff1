//! What the scheduler tells a runner.

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::{
    definition::Target,
    heartbeat::{TaskRef, Verdict},
    reference::CallbackView,
    time::Timestamp,
};

/// How many bytes of a task's output are kept, half from the head and half from the tail.
pub const LOG_LIMIT_BYTES: u64 = 64 * 1024 * 1024;

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Nothing to do: the answer to a beat.
    GoOn {
        /// The scheduler cannot commit at present.
        degraded: bool,
    },
    /// Start this task on this slot.
    RunNew {
        /// The slot.
        slot: u32,
        /// The dispatch.
        task: TaskRef,
        /// What to run.
        spec: Box<RunSpec>,
    },
    /// End every process of this task.
    Reset {
        /// The slot.
        slot: u32,
        /// The dispatch.
        task: TaskRef,
        /// How long its processes may take; `None` means the runner's default.
        grace: Option<Duration>,
    },
    /// The result is stored, or refused as the message says: forget it.
    ResultAck {
        /// The slot.
        slot: u32,
        /// The dispatch.
        task: TaskRef,
        /// Empty, or why the result was refused.
        message: String,
    },
    /// Finish what you have and take nothing new.
    Drain,
    /// Take new work again.
    Resume,
    /// Close the stream.
    Disconnect(Disconnect),
}

/// Why a stream is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// The scheduler stops as planned.
    Shutdown,
    /// A newer stream of the same runner counts.
    Replaced,
    /// Another host uses this runner id.
    DuplicateId,
    /// The runner did not read or answer its commands.
    Unresponsive,
    /// The runner broke a rule of the protocol.
    Protocol,
    /// The runner was given up as lost.
    Lost,
}

/// How to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnect {
    /// Why.
    pub reason: DisconnectReason,
    /// Not to dial again before this has passed.
    pub reconnect_after: Option<Duration>,
    /// The runner's tasks are safe for this long.
    pub hold_for: Option<Duration>,
    /// More in words.
    pub message: String,
}

impl Disconnect {
    /// For a reason, with words and nothing else.
    pub fn because(reason: DisconnectReason, message: impl Into<String>) -> Self {
        Self { reason, reconnect_after: None, hold_for: None, message: message.into() }
    }
}

/// What a runner must know of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The session.
    pub session_id: Uuid,
    /// The scheduler that holds it.
    pub scheduler_id: Uuid,
    /// What becomes of what the runner brought along.
    pub verdicts: Vec<(TaskRef, Verdict, Option<Duration>)>,
    /// All addresses of the cluster.
    pub endpoints: Vec<String>,
    /// The runner is drained by an operator.
    pub drained: bool,
    /// Something its operator should know.
    pub notice: String,
}

/// A frame to a runner.
#[derive(Debug, Clone, PartialEq)]
pub struct Down {
    /// Grows by one with each frame of the stream.
    pub seq: u64,
    /// The highest frame whose sign of life is committed.
    pub ack: u64,
    /// In the first frame, and only there.
    pub welcome: Option<Box<Welcome>>,
    /// What to do, in order.
    pub commands: Vec<Command>,
}

/// What to run, with nothing left to fill in.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// The job.
    pub job_id: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// The name of its config.
    pub job_name: String,
    /// The name of the task.
    pub task_name: String,
    /// What the task runs.
    pub target: Target,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs, relative to the runner's work directory.
    pub working_dir: String,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// End it when the runner has been cut off for this long.
    pub self_stop_after: Option<Duration>,
    /// The parameters of the job.
    pub params: BTreeMap<String, String>,
    /// The shard: index, count and item.
    pub shard: Option<(u32, u32, String)>,
    /// The instant the job was made for, if a schedule made it.
    pub fire_time: Option<Timestamp>,
    /// With what it is completed, if it waits for that.
    pub callback: Option<CallbackView>,
}

impl RunSpec {
    /// What its texts take in a frame, roughly.
    pub fn bytes(&self) -> usize {
        let target: usize = match &self.target {
            Target::Command(argv) => argv.iter().map(String::len).sum(),
            Target::Shell(script) => script.len(),
            Target::Http(http) => http.texts().map(|(_, text)| text.len()).sum(),
            Target::Job(_) => 0,
        };
        let pairs = self.env.iter().chain(&self.params);
        let item = self.shard.as_ref().map_or(0, |(.., item)| item.len());
        target + pairs.map(|(key, value)| key.len() + value.len()).sum::<usize>() + item
    }
}
