//! Rows that tests begin with.

use uuid::Uuid;

use crate::{
    domain::{
        job::JobState,
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::{
        job::{self, JobRow},
        task::{self, TaskRow},
    },
};

/// A running job of three tasks.
pub(crate) fn a_job() -> JobRow {
    let birth = job::Birth {
        id: Uuid::now_v7(),
        job_config_id: Uuid::now_v7(),
        version: 1,
        namespace: "default".into(),
        name: "job".into(),
        tasks_total: 3,
        at: Timestamp(1),
    };
    JobRow { state: JobState::Running, expanded: 3, ..JobRow::born(birth) }
}

/// The task of a node of a job, queued in the order of the nodes.
pub(crate) fn a_task(job: &JobRow, node: u32, state: TaskState) -> TaskRow {
    let birth = task::Birth {
        id: Uuid::now_v7(),
        job_id: job.id,
        task_config_id: Uuid::now_v7(),
        node,
        kind: Kind::Task,
        class: "command;;".into(),
        at: Timestamp(1),
    };
    TaskRow { state, queued_at: Some(Timestamp(i64::from(node))), ..TaskRow::born(birth) }
}
