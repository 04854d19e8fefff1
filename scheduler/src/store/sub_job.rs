//! Tasks that stand for a job, and the jobs they stand for.
//!
//! The row of the child names the task and the attempt that made it, under a unique index: one attempt, one child.

use sea_orm::{DbBackend, Statement};
use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, uuid},
    task::RANK,
};
use crate::domain::{job::JobState, placement::SUB_JOB, time::Timestamp};

/// A task that stands for a job, by its job and itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The job.
    pub job: Uuid,
    /// The task.
    pub task: Uuid,
}

/// The child of the present attempt of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The child.
    pub id: Uuid,
    /// Its job config.
    pub config: Uuid,
    /// The version it was made from.
    pub version: u32,
    /// The name of its config.
    pub name: String,
    /// Its state.
    pub state: JobState,
    /// Why.
    pub reason: String,
    /// Running out of time is what ended it.
    pub timed_out: bool,
}

const JOIN: &str = "JOIN job ON job.parent_task_id = task.id AND job.parent_attempt = task.attempt";

/// What holds of tasks that wait for their child; SQLite takes the index only where its very condition stands.
fn with_child() -> String {
    format!("task.class = '{SUB_JOB}' AND task.state IN ('RUNNING', 'TERMINATING')")
}

/// Tasks whose child has ended, and tasks that are to be ended while their child is not: what a lost signal left undone.
pub async fn unsettled(tx: &Tx, limit: u32) -> Result<Vec<Place>, Error> {
    let with_child = with_child();
    let text = format!(
        "SELECT task.job_id, task.id FROM task {JOIN} WHERE {with_child}
         AND (job.state IN ('FINISHED', 'FAILED', 'SKIPPED', 'TERMINATED')
              OR (task.state = 'TERMINATING' AND job.state IN ('CREATED', 'RUNNING')))
         ORDER BY task.id LIMIT :limit"
    );
    let unsettled = sql::statement(tx.backend(), &text, &[("limit", i64::from(limit).into())]);
    places(&tx.query(unsettled).await?)
}

/// Tasks that may be given a child now, in the order in which a runner would take them.
pub async fn due(tx: &Tx, now: Timestamp, limit: u32) -> Result<Vec<Place>, Error> {
    places(&tx.query(childless(tx.backend(), now, limit)).await?)
}

/// The question of [`due`].
fn childless(backend: DbBackend, now: Timestamp, limit: u32) -> Statement {
    let text = format!(
        "SELECT task.job_id, task.id FROM task
         WHERE task.state = 'QUEUED' AND task.class = :class AND task.not_before <= :now
         ORDER BY {RANK}, task.id LIMIT :limit"
    );
    let params = [("class", SUB_JOB.into()), ("now", now.0.into()), ("limit", i64::from(limit).into())];
    sql::statement(backend, &text, &params)
}

fn places(rows: &[impl Row]) -> Result<Vec<Place>, Error> {
    rows.iter().map(|row| Ok(Place { job: row.column("job_id")?, task: row.column("id")? })).collect()
}

/// The children of the present attempts of tasks, by task. Read without a lock they may have ended meanwhile; that they
/// ended stays true.
pub async fn children(tx: &Tx, tasks: &[Uuid]) -> Result<Vec<(Uuid, Child)>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([uuid("wanted")]);
    for task in tasks {
        input.push([(*task).into()]);
    }
    let text = format!(
        "WITH {{input}} SELECT task.id AS task_id, job.id, job.job_config_id, job.version, job.name, job.state,
             job.reason, job.timed_out
         FROM input JOIN task ON task.id = input.wanted {JOIN} ORDER BY job.id"
    );
    let rows = tx.query(input.statement(tx.backend(), &text, &[])).await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = row.column("id")?;
            let state: String = row.column("state")?;
            let child = Child {
                id,
                config: row.column("job_config_id")?,
                version: row.number("version")?,
                name: row.column("name")?,
                state: JobState::from_word(&state)
                    .ok_or_else(|| unreadable("job", id, "the state is not one of ours"))?,
                reason: row.column("reason")?,
                timed_out: row.column("timed_out")?,
            };
            Ok((row.column("task_id")?, child))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{index_use, testing};

    #[tokio::test]
    async fn who_is_given_a_child_next_is_read_off_the_queue_in_its_order() {
        let world = testing::sqlite().await;
        let plan = index_use::plan(&world, childless(DbBackend::Sqlite, Timestamp(1), 1)).await;
        assert!(plan.iter().any(|step| step.contains("USING INDEX task_rank")), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }
}
