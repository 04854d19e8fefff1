//! The names that conditions and templates use, and the values behind them.

use std::{collections::BTreeMap, ops::Range};

use chrono::{DateTime, FixedOffset};
use serde_json::Value;

/// A name in a text, and the bytes where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// What is named.
    pub name: Name,
    /// Where.
    pub at: Range<usize>,
}

/// What a text can name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// `params.x`.
    Param(String),
    /// `tasks['name'].state`.
    State(String),
    /// `tasks['name'].output`, or a part of it.
    Output(String),
    /// `shard.index`, `shard.count`, `shard.item`.
    Shard(String),
    /// `callback.url`, `callback.token`.
    Callback(String),
    /// `job.id`, `job.name`.
    Job(String),
    /// A part of `event`, in callbacks.
    Event(String),
    /// `logical_time`.
    LogicalTime,
    /// Anything else.
    Unknown(String),
}

impl Name {
    /// The task that is named, if one is.
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::State(task) | Self::Output(task) => Some(task),
            _ => None,
        }
    }
}

/// What is wrong with a text, and the bytes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// Where.
    pub at: Range<usize>,
    /// What to write instead.
    pub suggestion: Option<String>,
}

impl Fault {
    /// Tells a fault and its place.
    pub fn new(message: impl Into<String>, at: Range<usize>) -> Self {
        Self { message: message.into(), at, suggestion: None }
    }

    /// Says what to write instead.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// The values behind the names, when a text is worked out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    /// The job's parameters.
    pub params: BTreeMap<String, String>,
    /// The tasks that the text names, by name.
    pub tasks: BTreeMap<String, TaskView>,
    /// The shard, if the text is worked out for one.
    pub shard: Option<ShardView>,
    /// The callback, if the text is worked out for an attempt that waits for one.
    pub callback: Option<CallbackView>,
    /// The job's id.
    pub job_id: String,
    /// The job's name.
    pub job_name: String,
    /// The fire time or the time of the request, in the zone of the schedule or UTC.
    pub logical_time: DateTime<FixedOffset>,
    /// What a callback tells of; `Null` anywhere else.
    pub event: Value,
}

/// What a text can see of an ancestor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskView {
    /// Its state, as `FINISHED`.
    pub state: String,
    /// What it wrote to `BATON_OUTPUT`; `Null` if nothing; for a group the list of what its shards wrote.
    pub output: Value,
}

/// What a text can see of its shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardView {
    /// Its number, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
    /// The item it works on, if the group was made from items.
    pub item: Option<String>,
}

/// What a text can see of the callback that its task waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallbackView {
    /// Good once, for this attempt.
    pub token: String,
    /// Where to POST to; the token is part of it.
    pub url: String,
}

/// The bracket form of a task's name.
pub fn bracketed(task: &str) -> String {
    format!("tasks['{task}']")
}
