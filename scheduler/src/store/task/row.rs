//! The row of a task, and how one begins.

use uuid::Uuid;

use crate::domain::{
    gate::{Parents, SkipCause},
    heartbeat::TaskRef,
    task::{Counters, Kind, TaskState},
    time::Timestamp,
};

/// A task, as a turn sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    /// Its id.
    pub id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// The task config it stands for.
    pub task_config_id: Uuid,
    /// The position of that config in its definition.
    pub node: u32,
    /// What it stands for.
    pub kind: Kind,
    /// The group it is a shard of.
    pub group_id: Option<Uuid>,
    /// Its number among the shards.
    pub shard_index: Option<u32>,
    /// How many shards there are.
    pub shard_count: Option<u32>,
    /// The item it works on.
    pub shard_item: String,
    /// Its state.
    pub state: TaskState,
    /// Why.
    pub reason: String,
    /// Why it was skipped.
    pub skip_cause: Option<SkipCause>,
    /// Attempt, lease, deaths, refusals, tries, not-before.
    pub counters: Counters,
    /// Higher goes first.
    pub priority: i32,
    /// What a runner must have to take it.
    pub class: String,
    /// The runner it was last given to.
    pub runner_id: Option<String>,
    /// The slot of that runner.
    pub slot: Option<u32>,
    /// The session it was given out or adopted in.
    pub session_id: Option<Uuid>,
    /// When it was reported that the present attempt takes long.
    pub warned_at: Option<Timestamp>,
    /// How many attempts there were before somebody ran it again; they do not count against its retries.
    pub attempts_before: u32,
    /// Whether the end of the last attempt's processes is proven; also while there is none.
    pub gone: bool,
    /// The grace that a terminate asked for, in microseconds.
    pub end_grace: Option<i64>,
    /// The exit code of the last attempt.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub exit_signal: Option<i32>,
    /// What it wrote to `BATON_OUTPUT`, as JSON.
    pub output: String,
    /// Bytes written to standard output.
    pub stdout_bytes: i64,
    /// Bytes written to standard error.
    pub stderr_bytes: i64,
    /// Its parents, counted.
    pub parents: Parents,
    /// Shards that count as a success.
    pub shards_succeeded: u32,
    /// Shards that ended.
    pub shards_ended: u32,
    /// When the row was made.
    pub created_at: Timestamp,
    /// When it was last queued.
    pub queued_at: Option<Timestamp>,
    /// When it was last given out.
    pub dispatched_at: Option<Timestamp>,
    /// When its last attempt began to run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The job's seq at its last change.
    pub seq: i64,
}

/// What a task is from its birth on.
#[derive(Debug, Clone)]
pub struct Birth {
    /// Its id.
    pub id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// The task config it stands for.
    pub task_config_id: Uuid,
    /// The position of that config in its definition.
    pub node: u32,
    /// What it stands for.
    pub kind: Kind,
    /// What a runner must have to take it.
    pub class: String,
    /// When it is born.
    pub at: Timestamp,
}

impl TaskRow {
    /// A task that is born, CREATED: without parents, and nothing has become of it.
    pub fn born(birth: Birth) -> Self {
        let Birth { id, job_id, task_config_id, node, kind, class, at } = birth;
        Self {
            id,
            job_id,
            task_config_id,
            node,
            kind,
            group_id: None,
            shard_index: None,
            shard_count: None,
            shard_item: String::new(),
            state: TaskState::Created,
            reason: String::new(),
            skip_cause: None,
            counters: Counters { attempt: 0, lease: 0, deaths: 0, refusals: 0, tried: 0, not_before: Timestamp(0) },
            priority: 0,
            class,
            runner_id: None,
            slot: None,
            session_id: None,
            warned_at: None,
            attempts_before: 0,
            gone: true,
            end_grace: None,
            exit_code: None,
            exit_signal: None,
            output: String::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            parents: Parents::default(),
            shards_succeeded: 0,
            shards_ended: 0,
            created_at: at,
            queued_at: None,
            dispatched_at: None,
            started_at: None,
            ended_at: None,
            seq: 0,
        }
    }

    /// Its present dispatch.
    pub fn reference(&self) -> TaskRef {
        TaskRef { task: self.id, attempt: self.counters.attempt, lease: self.counters.lease }
    }
}
