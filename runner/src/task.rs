//! What a task is to a runner: which one, what to run, and how it ended.

use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The most a task may write to the file named in `BATON_OUTPUT`.
pub const OUTPUT_MAX: usize = 64 * 1024;

/// The most of a message that is sent.
pub const MESSAGE_MAX: usize = 4 * 1024;

/// One dispatch of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskRef {
    /// The task.
    pub id: Uuid,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The fencing token: of two dispatches of a task the one with the higher lease counts.
    pub lease: u64,
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.id, self.attempt, self.lease)
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program and its arguments.
    Command(Vec<String>),
    /// A script for `/bin/sh -e`.
    Shell(String),
    /// An HTTP request.
    Http(Box<HttpRequest>),
    /// Something this runner does not know.
    Unknown,
}

/// An HTTP request, with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Its method.
    pub method: String,
    /// Where to ask, in this order.
    pub urls: Vec<String>,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: String,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the service may be silent.
    pub read_timeout: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// The statuses that are a success.
    pub success: Vec<RangeInclusive<u16>>,
    /// Which redirects are followed.
    pub redirects: Redirects,
    /// How many bytes of a response are read.
    pub response_max: u64,
    /// Whether a success only begins the wait for its callback.
    pub wait_for_callback: bool,
}

impl HttpRequest {
    /// How long connecting may take when nobody says.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    /// How long a service may be silent when nobody says.
    pub const READ_TIMEOUT: Duration = Duration::from_secs(30);
    /// How long a request may take when nobody says.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(5);
    /// How many bytes of a response are read when nobody says.
    pub const RESPONSE_MAX: u64 = 1 << 20;

    /// Whether a status is a success.
    pub fn succeeds(&self, status: u16) -> bool {
        self.success.iter().any(|range| range.contains(&status))
    }
}

/// Which redirects are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirects {
    /// None.
    None,
    /// Those to the same host and port, or from http to https on one host.
    SameHost,
    /// All.
    Any,
}

/// With what a task is completed that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// Good once, for this attempt.
    pub token: String,
    /// Where to POST to; the token is part of it.
    pub url: String,
}

/// A task as it is given to a runner, with nothing left to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpec {
    /// The job.
    pub job_id: String,
    /// The namespace of the job.
    pub namespace: String,
    /// The name of the job config.
    pub job_name: String,
    /// The name of the task config.
    pub task_name: String,
    /// What to run.
    pub target: Target,
    /// Environment variables of the task.
    pub env: BTreeMap<String, String>,
    /// Where to run, relative to the runner's work directory.
    pub working_dir: String,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// How long its processes may take to end after SIGTERM, when not the runner's default.
    pub grace: Option<Duration>,
    /// End it when the runner has been cut off for this long.
    pub self_stop_after: Option<Duration>,
    /// The parameters of the job.
    pub params: BTreeMap<String, String>,
    /// The shard, if it is one.
    pub shard_index: Option<u32>,
    /// How many shards there are.
    pub shard_count: Option<u32>,
    /// The item of the shard, if it has one.
    pub shard_item: String,
    /// How many bytes of output to keep in all.
    pub log_limit_bytes: u64,
    /// The fire time of the job, in UTC.
    pub fire_time: Option<SystemTime>,
    /// With what it is completed, if it waits for that.
    pub callback: Option<Callback>,
}

/// How a task came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// Its main process exited.
    Exit,
    /// A signal that Baton did not send ended it.
    Signal,
    /// It ran into its timeout.
    Timeout,
    /// It was ended by a RESET.
    Reset,
    /// The runner was stopped as planned.
    RunnerStop,
    /// The runner was cut off for too long.
    SelfStop,
    /// It could not be started.
    StartFailed,
}

/// How a task ended: what is reported until the scheduler has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// How it came to its end.
    pub end_reason: EndReason,
    /// The exit code of the main process, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process, if one did.
    pub signal: Option<i32>,
    /// What happened, in words.
    pub message: String,
    /// What the task wrote to `BATON_OUTPUT`. Kept as it is, beside the rest of a stored result.
    #[serde(skip)]
    pub output: Vec<u8>,
    /// How many bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// How many bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// When it started, by the wall clock.
    pub start_time: Option<SystemTime>,
    /// When it ended, by the wall clock.
    pub end_time: Option<SystemTime>,
    /// How long it ran, by a clock that only goes forward.
    pub run_time: Duration,
}

impl TaskResult {
    /// Whether the task did what it was to do.
    pub fn succeeded(&self) -> bool {
        self.end_reason == EndReason::Exit && self.exit_code == Some(0)
    }
}

/// What became of the work itself, before it is known why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ended, but what it left behind cannot be accepted.
    Unusable(String),
    /// It could not be started.
    NotStarted(String),
}

/// The end of the work, as the one who ran it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// What became of it.
    pub exit: Exit,
    /// Something worth saying, such as that processes were left over.
    pub note: String,
    /// What it wrote to `BATON_OUTPUT`.
    pub output: Vec<u8>,
    /// How many bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// How many bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// When it started, by the wall clock.
    pub start_time: Option<SystemTime>,
    /// When it ended, by the wall clock.
    pub end_time: Option<SystemTime>,
    /// How long it ran.
    pub run_time: Duration,
}

impl End {
    /// The end of something that never began.
    pub fn not_started(why: impl Into<String>) -> Self {
        Self {
            exit: Exit::NotStarted(why.into()),
            note: String::new(),
            output: Vec::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            start_time: None,
            end_time: None,
            run_time: Duration::ZERO,
        }
    }

    /// The result: `stopped` is why the runner ended the task, if it did.
    pub fn into_result(self, stopped: Option<EndReason>) -> TaskResult {
        let (reason, exit_code, signal, said) = match self.exit {
            Exit::Code(code) => (EndReason::Exit, Some(code), None, String::new()),
            Exit::Signal(signal) => (EndReason::Signal, None, Some(signal), String::new()),
            // Without its exit code nobody can take it for a success.
            Exit::Unusable(why) => (EndReason::Exit, None, None, why),
            Exit::NotStarted(why) => (EndReason::StartFailed, None, None, why),
        };
        let mut message = match (said.is_empty(), self.note.is_empty()) {
            (false, false) => format!("{said}; {}", self.note),
            (false, true) => said,
            (true, _) => self.note,
        };
        truncate(&mut message, MESSAGE_MAX);
        TaskResult {
            end_reason: stopped.unwrap_or(reason),
            exit_code,
            signal,
            message,
            output: self.output,
            stdout_bytes: self.stdout_bytes,
            stderr_bytes: self.stderr_bytes,
            start_time: self.start_time,
            end_time: self.end_time,
            run_time: self.run_time,
        }
    }
}

/// Cuts a text to at most `max` bytes, between characters.
pub(crate) fn truncate(text: &mut String, max: usize) {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max));
    }
}
