//! Rows that tests begin with.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::{
    domain::{
        gate::Parents,
        job::JobState,
        origin::Trigger,
        task::{Counters, Kind, TaskState},
        time::Timestamp,
    },
    store::{job::JobRow, task::TaskRow},
};

/// A running job of three tasks.
pub(crate) fn a_job() -> JobRow {
    JobRow {
        id: Uuid::now_v7(),
        job_config_id: Uuid::now_v7(),
        version: 1,
        namespace: "default".into(),
        name: "job".into(),
        labels: BTreeMap::new(),
        state: JobState::Running,
        reason: String::new(),
        params: BTreeMap::new(),
        created_at: Timestamp(1),
        started_at: None,
        ended_at: None,
        deadline_at: None,
        warn_at: None,
        warned_at: None,
        trigger: Trigger::Manual,
        schedule: None,
        fire_time: None,
        rerun_no: 0,
        backfill_id: None,
        parent: None,
        depth: 0,
        logical: None,
        waiting: false,
        held: false,
        pin: None,
        stopping: false,
        timed_out: false,
        expanded: 3,
        tasks_total: 3,
        tasks_ended: 0,
        tasks_failed: 0,
        seq: 0,
    }
}

/// The task of a node of a job, queued in the order of the nodes.
pub(crate) fn a_task(job: &JobRow, node: u32, state: TaskState) -> TaskRow {
    TaskRow {
        id: Uuid::now_v7(),
        job_id: job.id,
        task_config_id: Uuid::now_v7(),
        node,
        kind: Kind::Task,
        group_id: None,
        shard_index: None,
        shard_count: None,
        shard_item: String::new(),
        state,
        reason: String::new(),
        skip_cause: None,
        counters: Counters { attempt: 0, lease: 0, deaths: 0, refusals: 0, tried: 0, not_before: Timestamp(0) },
        priority: 0,
        class: "command;;".into(),
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
        created_at: Timestamp(1),
        queued_at: Some(Timestamp(i64::from(node))),
        dispatched_at: None,
        started_at: None,
        ended_at: None,
        seq: 0,
    }
}
