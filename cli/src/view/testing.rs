//! Jobs and tasks for the tests of this room.

use baton::v1::{Job, JobState, StateCount, Task, TaskKind, TaskState, TriggerKind};
use chrono::{DateTime, Utc};
use prost_types::Timestamp;

/// The moment at which tests look.
pub fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_000, 0).expect("an instant")
}

/// An instant so many seconds before `now`, as the messages have it.
#[allow(clippy::unnecessary_wraps)]
pub fn ago(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_000 - seconds, nanos: 0 })
}

/// A job that began 105 s ago.
pub fn job(state: JobState) -> Job {
    Job {
        id: "019366ab-1111-7222-8333-00007be0d21c".into(),
        name: "orders-etl".into(),
        version: 7,
        state: state.into(),
        trigger: TriggerKind::Manual.into(),
        create_time: ago(106),
        start_time: ago(105),
        tasks_total: 5,
        tasks_ended: 2,
        ..Job::default()
    }
}

/// A task in a state.
pub fn task(name: &str, state: TaskState) -> Task {
    Task {
        id: format!("id-{name}"),
        name: name.into(),
        kind: TaskKind::Task.into(),
        state: state.into(),
        max_attempts: 1,
        ..Task::default()
    }
}

/// A group with its shards counted.
pub fn group(name: &str, count: u32, states: &[(TaskState, u32)]) -> Task {
    Task {
        kind: TaskKind::Group.into(),
        shard_count: Some(count),
        shard_states: states
            .iter()
            .map(|(state, count)| StateCount { state: (*state).into(), count: *count })
            .collect(),
        ..task(name, TaskState::Running)
    }
}
