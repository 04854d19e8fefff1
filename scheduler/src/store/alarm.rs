//! When tasks that wait for a runner have waited for too long. Only tasks with a `queue_timeout` have a row, and keep it
//! until that time, whatever became of them.

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
    sql::{self, Input, bigint, uuid},
};
use crate::domain::time::Timestamp;

/// Sets alarms; a task has one at most.
pub async fn set(tx: &Tx, alarms: &[(Uuid, Timestamp)]) -> Result<(), Error> {
    if alarms.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("task_id"), bigint("due_at")]);
    for (task, due) in alarms {
        input.push([(*task).into(), due.0.into()]);
    }
    let text = "WITH {input} INSERT INTO task_alarm (task_id, due_at) SELECT task_id, due_at FROM input WHERE true
                ON CONFLICT (task_id) DO UPDATE SET due_at = excluded.due_at";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// The alarms that are due, the oldest first: the task, and its job if it is queued still. Nothing is locked.
pub async fn due(tx: &Tx, now: Timestamp, limit: u32) -> Result<Vec<(Uuid, Option<Uuid>)>, Error> {
    // The state is looked at last, where it cannot lead PostgreSQL to everything that is queued.
    let text = "SELECT task_alarm.task_id, CASE WHEN task.state = 'QUEUED' THEN task.job_id END AS job_id
                FROM task_alarm LEFT JOIN task ON task.id = task_alarm.task_id
                WHERE task_alarm.due_at <= :now ORDER BY task_alarm.due_at LIMIT :limit";
    let params = [("now", now.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| Ok((row.column("task_id")?, row.column("job_id")?))).collect()
}

/// Takes alarms away that were due at this time. One that was set anew meanwhile stays.
pub async fn clear(tx: &Tx, tasks: &[Uuid], now: Timestamp) -> Result<(), Error> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("id")]);
    for task in tasks {
        input.push([(*task).into()]);
    }
    let text = "WITH {input} DELETE FROM task_alarm WHERE task_id IN (SELECT id FROM input) AND due_at <= :now";
    tx.execute(input.statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    Ok(())
}
