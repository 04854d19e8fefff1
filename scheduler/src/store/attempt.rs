//! Attempts that others follow, and what only few tasks have: a policy that is part used up, a warning that was given, an
//! end that is not proven.

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
    sql::{self, Input, bigint, boolean, int, text, uuid},
    task::TaskRow,
};
use crate::domain::{heartbeat::TaskRef, time::Timestamp};

/// An attempt that another followed.
#[derive(Debug, Clone)]
pub struct AttemptRow {
    /// Its task.
    pub task_id: Uuid,
    /// The lease it ended under.
    pub lease: u64,
    /// Its number.
    pub number: u32,
    /// The runner that had it.
    pub runner_id: Option<String>,
    /// How it ended.
    pub reason: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub exit_signal: Option<i32>,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Whether the end of its processes is proven.
    pub gone: bool,
}

/// A dispatch whose end is not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unproven {
    /// The dispatch.
    pub task: TaskRef,
    /// The job of the task.
    pub job_id: Uuid,
}

/// Keeps attempts that others follow.
pub async fn archive(tx: &Tx, attempts: &[AttemptRow]) -> Result<(), Error> {
    if attempts.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("task_id"),
        bigint("lease"),
        int("number"),
        text("runner_id").nullable(),
        text("reason"),
        int("exit_code").nullable(),
        int("exit_signal").nullable(),
        bigint("started_at").nullable(),
        bigint("ended_at"),
        boolean("gone"),
    ]);
    for attempt in attempts {
        input.push([
            attempt.task_id.into(),
            attempt.lease.cast_signed().into(),
            attempt.number.cast_signed().into(),
            attempt.runner_id.as_deref().into(),
            attempt.reason.as_str().into(),
            attempt.exit_code.into(),
            attempt.exit_signal.into(),
            attempt.started_at.map(|at| at.0).into(),
            attempt.ended_at.0.into(),
            attempt.gone.into(),
        ]);
    }
    let text = "WITH {input} INSERT INTO task_attempt (task_id, lease, number, runner_id, reason, exit_code,
                    exit_signal, started_at, ended_at, gone)
                SELECT task_id, lease, number, runner_id, reason, exit_code, exit_signal, started_at, ended_at, gone
                FROM input";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Writes what only few tasks have, of tasks whose other changes this transaction has written: what they ask of a runner
/// now, the tries on the runner whose turn it is, and the warning.
pub async fn note(tx: &Tx, tasks: &[&TaskRow]) -> Result<(), Error> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("id"), text("class"), int("tried"), bigint("warned_at").nullable()]);
    for task in tasks {
        input.push([
            task.id.into(),
            task.class.as_str().into(),
            task.counters.tried.cast_signed().into(),
            task.warned_at.map(|at| at.0).into(),
        ]);
    }
    let text = "WITH {input} UPDATE task SET class = input.class, tried = input.tried, warned_at = input.warned_at
                FROM input WHERE task.id = input.id";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// The dispatches to a runner whose end is not proven, the last ones of their tasks and earlier ones.
pub async fn unproven_of(tx: &Tx, runner_id: &str) -> Result<Vec<Unproven>, Error> {
    let text = "SELECT task.id, task.attempt, task.lease, task.job_id FROM task
                WHERE NOT task.gone AND task.runner_id = :runner
                UNION ALL
                SELECT task.id, task_attempt.number, task_attempt.lease, task.job_id
                FROM task_attempt JOIN task ON task.id = task_attempt.task_id
                WHERE NOT task_attempt.gone AND task_attempt.runner_id = :runner";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("runner", runner_id.into())])).await?;
    rows.iter()
        .map(|row| {
            let lease: i64 = row.column("lease")?;
            let (task, attempt) = (row.column("id")?, row.number("attempt")?);
            let task = TaskRef { task, attempt, lease: lease.cast_unsigned() };
            Ok(Unproven { task, job_id: row.column("job_id")? })
        })
        .collect()
}

/// Records that earlier attempts of tasks, of which others followed, are gone. Returns how many were not known to be.
pub async fn prove_gone(tx: &Tx, attempts: &[TaskRef]) -> Result<u64, Error> {
    if attempts.is_empty() {
        return Ok(0);
    }
    let mut input = Input::new([uuid("task_id"), bigint("lease")]);
    for attempt in attempts {
        input.push([attempt.task.into(), attempt.lease.cast_signed().into()]);
    }
    let text = "WITH {input} UPDATE task_attempt SET gone = true FROM input
                WHERE task_attempt.task_id = input.task_id AND task_attempt.lease = input.lease
                AND NOT task_attempt.gone";
    tx.execute(input.statement(tx.backend(), text, &[])).await
}
