//! One job with its tasks, as these tests tell of it.

use std::collections::HashMap;

use baton::v1::*;
use prost_types::Timestamp;
use tonic::Status;

/// The job of these tests.
pub const JOB: &str = "019366ab-1111-7222-8333-00007be0d21c";

/// An instant, as the messages have it.
#[allow(clippy::unnecessary_wraps)]
pub fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_764_504_000 + seconds, nanos: 0 })
}

/// The job in a state.
pub fn job(state: JobState) -> Job {
    Job {
        id: JOB.into(),
        namespace: "default".into(),
        name: "orders-etl".into(),
        version: 7,
        state: state.into(),
        trigger: TriggerKind::Manual.into(),
        params: HashMap::from([("region".into(), "eu".into()), ("day".into(), "2026-11-30".into())]),
        create_time: at(0),
        start_time: at(1),
        end_time: if matches!(state, JobState::Created | JobState::Running) { None } else { at(42) },
        seq: 12,
        tasks_total: 2,
        tasks_ended: 1,
        ..Job::default()
    }
}

/// A task of it in a state.
pub fn task(name: &str, state: TaskState) -> Task {
    Task {
        id: format!("id-{name}"),
        job_id: JOB.into(),
        name: name.into(),
        kind: TaskKind::Task.into(),
        state: state.into(),
        attempt: 1,
        max_attempts: 1,
        runner_id: "etl-2".into(),
        start_time: at(1),
        end_time: if state == TaskState::Running { None } else { at(42) },
        ..Task::default()
    }
}

/// What a watch sends.
#[allow(clippy::unnecessary_wraps)]
pub fn seen(seq: u64, state: JobState, tasks: Vec<Task>) -> Result<WatchJobResponse, Status> {
    Ok(WatchJobResponse { job: Some(job(state)), tasks, seq })
}

/// A piece of a log.
pub fn chunk(name: &str, data: &'static [u8]) -> LogChunk {
    LogChunk {
        name: name.into(),
        task_id: format!("id-{name}"),
        attempt: 1,
        stream: LogStream::Stdout.into(),
        data: data.into(),
        ..LogChunk::default()
    }
}
