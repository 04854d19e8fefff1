//! What can be asked of the engine, and what it answers.

mod schedules;

use std::{collections::BTreeMap, time::Duration};

use uuid::Uuid;

pub use self::schedules::{Backfill, CancelBackfill, DeleteCalendar, Position, PutCalendar, PutCalendars, Switch};
use crate::domain::{definition::JobConfig, repair::Mark};

/// Who asks, and how a repetition of the same request is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// Whose request ids these are; "local" while there are no users.
    pub principal: String,
    /// Repeating a request with the same id gives the stored answer; empty means never a repetition.
    pub request_id: String,
    /// A hash of the request's body: another body under the same id is refused.
    pub body_hash: Vec<u8>,
}

/// Asks to store definitions, all or none. They have been validated.
#[derive(Debug, Clone)]
pub struct Apply {
    /// Who asks.
    pub caller: Caller,
    /// The definitions, each with the text it came from (empty if it came as a message).
    pub configs: Vec<(JobConfig, String)>,
}

/// What an apply did to one job config.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Applied {
    /// The config's id.
    pub id: Uuid,
    /// Its version now.
    pub version: u32,
    /// What was done.
    pub change: Change,
    /// Live jobs on earlier versions.
    pub jobs_on_earlier_versions: u32,
}

/// What an apply does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)]
pub enum Change {
    Created,
    Updated,
    Unchanged,
}

/// Asks to make a job.
#[derive(Debug, Clone)]
pub struct Run {
    /// Who asks.
    pub caller: Caller,
    /// The config's namespace.
    pub namespace: String,
    /// The config's name.
    pub name: String,
    /// Values for its parameters.
    pub params: BTreeMap<String, String>,
    /// The one runner that may take its tasks; `None` for any that suits.
    pub runner: Option<String>,
}

/// Asks to end a job or one task of it.
#[derive(Debug, Clone)]
pub struct Terminate {
    /// Who asks.
    pub caller: Caller,
    /// The job.
    pub job_id: Uuid,
    /// The task's name; `None` means the whole job.
    pub task: Option<String>,
    /// Which shard; `None` means the whole task.
    pub shard_index: Option<u32>,
    /// How long processes may take to end by themselves.
    pub grace: Option<Duration>,
    /// Why.
    pub reason: String,
}

/// Which tasks of a job are run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// Those that failed and those that were cut short; of a group only such shards.
    Failed,
    /// One task, or one shard of it; and with it what comes after it, if so asked.
    Task {
        /// Its name.
        name: String,
        /// Which shard; `None` means the whole task.
        shard: Option<u32>,
        /// What comes after it is run again too, finished or not.
        following: bool,
    },
}

/// Asks to run tasks of a job again.
#[derive(Debug, Clone)]
pub struct Rerun {
    /// Who asks.
    pub caller: Caller,
    /// The job.
    pub job_id: Uuid,
    /// Which of its tasks.
    pub again: Again,
    /// Also where an earlier attempt is not proven gone.
    pub force: bool,
    /// Why.
    pub reason: String,
}

/// What a person says about a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// How it ended.
    Ended(Mark),
    /// That nothing is left of its attempts whose end is not proven.
    Gone,
}

/// Asks to take a person's word for how a task ended.
#[derive(Debug, Clone)]
pub struct MarkTask {
    /// Who asks.
    pub caller: Caller,
    /// The job.
    pub job_id: Uuid,
    /// The task's name.
    pub task: String,
    /// Which shard; `None` means the whole task.
    pub shard: Option<u32>,
    /// What is said.
    pub said: Said,
    /// Only if it waits still.
    pub waiting_only: bool,
    /// Why.
    pub reason: String,
}

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Repaired {
    /// Tasks that are run again or were marked; a group that is run again as a whole counts as one.
    pub tasks: u32,
    /// Skipped tasks that are decided again.
    pub reconsidered: u32,
    /// The state of the job, or of the task that was marked, before.
    pub before: String,
    /// And now.
    pub after: String,
}

/// Asks to delete a job config.
#[derive(Debug, Clone)]
pub struct Delete {
    /// Who asks.
    pub caller: Caller,
    /// The config's namespace.
    pub namespace: String,
    /// The config's name.
    pub name: String,
    /// Although others name it.
    pub force: bool,
}

/// Asks to complete a task that waits for its callback.
#[derive(Debug, Clone)]
pub struct Complete {
    /// What is kept of the token.
    pub token_hash: String,
    /// The job of the task that it belongs to.
    pub job_id: Uuid,
    /// Whether the work failed.
    pub failed: bool,
    /// What later tasks may read, as a task would write it to `BATON_OUTPUT`.
    pub output: String,
    /// What happened, in words.
    pub message: String,
}

/// The reason of a refusal: the token was used before.
pub const TOKEN_USED: &str = "TOKEN_USED";
/// The reason of a refusal: the attempt that the token belongs to is over.
pub const ATTEMPT_OVER: &str = "ATTEMPT_OVER";

/// Why the engine did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// There is no such thing.
    #[error("{kind} {name:?} does not exist")]
    NotFound {
        /// "job config", "job", "task", "runner", "scheduler".
        kind: &'static str,
        /// What was asked for.
        name: String,
    },
    /// It was there, and is not kept any more.
    #[error("{kind} {name:?} is not kept any more, or not all of it")]
    Expired {
        /// "job".
        kind: &'static str,
        /// What was asked for.
        name: String,
    },
    /// Values of the request are wrong: the path of each, what is wrong with it and what would be right.
    #[error("{}", .0.iter().map(|(field, message)| format!("{field} {message}")).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<(String, String)>),
    /// The request does not fit what is.
    #[error("{message}")]
    Conflict {
        /// A stable reason in capitals, such as `JOB_ENDED`.
        reason: &'static str,
        /// What is in the way and how to go on.
        message: String,
    },
    /// Too much is waiting; try again later.
    #[error("the scheduler is busy: {0}")]
    Busy(String),
    /// The database is out of reach, or the scheduler is stopping; try again, perhaps elsewhere.
    #[error("{0}")]
    Unavailable(String),
    /// A fault of ours or of the database.
    #[error("{0}")]
    Internal(String),
}
