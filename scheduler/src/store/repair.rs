//! What a repair reads and writes beside the rows of a turn: whole graphs, what persons said, attempts in doubt.

use std::collections::HashSet;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
    sql::{self, Input, int, text, uuid},
    task::{self, TaskRow},
};
use crate::domain::{task::TaskState, time::Timestamp};

/// Locks every task of a job but the shards.
pub async fn lock_graph(tx: &Tx, job: Uuid) -> Result<Vec<TaskRow>, Error> {
    let text = format!(
        "SELECT {} FROM task WHERE job_id = :job AND shard_index = -1 ORDER BY id {{for_update}}",
        task::COLUMNS
    );
    task::read_all(&tx.query(sql::statement(tx.backend(), &text, &[("job", job.into())])).await?)
}

/// Locks every shard of a group.
pub async fn lock_shards(tx: &Tx, group: Uuid) -> Result<Vec<TaskRow>, Error> {
    let text = format!("SELECT {} FROM task WHERE group_id = :group ORDER BY id {{for_update}}", task::COLUMNS);
    task::read_all(&tx.query(sql::statement(tx.backend(), &text, &[("group", group.into())])).await?)
}

/// Writes what a shard works on when its group is split anew: index of its items, the item, who may take it.
pub async fn resplit(tx: &Tx, shards: &[&TaskRow]) -> Result<(), Error> {
    if shards.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("id"), int("shard_count"), text("shard_item"), text("class")]);
    for shard in shards {
        input.push([
            shard.id.into(),
            shard.shard_count.unwrap_or_default().cast_signed().into(),
            shard.shard_item.as_str().into(),
            shard.class.as_str().into(),
        ]);
    }
    let text = "WITH {input} UPDATE task SET shard_count = input.shard_count, shard_item = input.shard_item,
                    class = input.class FROM input WHERE task.id = input.id";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// The tasks of a job whose end a person said.
pub async fn marked(tx: &Tx, job: Uuid) -> Result<HashSet<Uuid>, Error> {
    let text = "SELECT task_id FROM task_mark WHERE job_id = :job";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("job", job.into())])).await?;
    rows.iter().map(|row| row.column("task_id")).collect()
}

/// Writes down that a person said how a task ended.
pub async fn put_mark(
    tx: &Tx,
    task: &TaskRow,
    state: TaskState,
    actor: &str,
    reason: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let text = "INSERT INTO task_mark (task_id, job_id, state, before, actor, reason, marked_at)
                VALUES (:task, :job, :state, :before, :actor, :reason, :now)
                ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, before = excluded.before,
                    actor = excluded.actor, reason = excluded.reason, marked_at = excluded.marked_at";
    let params = [
        ("task", task.id.into()),
        ("job", task.job_id.into()),
        ("state", state.word().into()),
        ("before", task.state.word().into()),
        ("actor", actor.into()),
        ("reason", reason.into()),
        ("now", now.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Forgets what persons said of tasks: they are run again.
pub async fn unmark(tx: &Tx, tasks: &[Uuid]) -> Result<(), Error> {
    if tasks.is_empty() {
        return Ok(());
    }
    let text = "WITH {input} DELETE FROM task_mark WHERE task_id IN (SELECT id FROM input)";
    tx.execute(task::ids(tasks).statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// The tasks of a job of which an attempt that others followed is not proven gone, with its runner.
pub async fn attempts_in_doubt(tx: &Tx, job: Uuid) -> Result<Vec<(Uuid, Option<String>)>, Error> {
    let text = "SELECT task_attempt.task_id, task_attempt.runner_id FROM task_attempt
                JOIN task ON task.id = task_attempt.task_id
                WHERE NOT task_attempt.gone AND task.job_id = :job";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("job", job.into())])).await?;
    rows.iter().map(|row| Ok((row.column("task_id")?, row.column("runner_id")?))).collect()
}

/// Takes the earlier attempts of tasks for gone. Returns how many were in doubt.
pub async fn declare_gone(tx: &Tx, tasks: &[Uuid]) -> Result<u64, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let text = "WITH {input} UPDATE task_attempt SET gone = true
                WHERE NOT gone AND task_id IN (SELECT id FROM input)";
    tx.execute(task::ids(tasks).statement(tx.backend(), text, &[])).await
}
