//! The rights to complete attempts that wait for their callbacks.

use sea_orm::{ConnectionTrait as _, DbBackend, Statement};
use uuid::Uuid;

use super::{
    Error, Store, Tx,
    row::Row,
    sql::{self, Input, bigint, int, text, uuid},
};
use crate::domain::{heartbeat::TaskRef, time::Timestamp};

/// The right to complete one dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// What is kept of its token.
    pub token_hash: String,
    /// The dispatch.
    pub task: TaskRef,
    /// Its job.
    pub job_id: Uuid,
}

/// A right as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The right.
    pub right: Right,
    /// Whether it was used.
    pub used: bool,
}

/// A dispatch that was completed and whose runner still waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The dispatch.
    pub task: TaskRef,
    /// Its job.
    pub job_id: Uuid,
    /// The session it was held in.
    pub session: Uuid,
    /// The slot it was held by.
    pub slot: u32,
}

/// Keeps new rights.
pub async fn insert(tx: &Tx, rights: &[Right], now: Timestamp) -> Result<(), Error> {
    if rights.is_empty() {
        return Ok(());
    }
    let columns = [text("token_hash"), uuid("task_id"), uuid("job_id"), int("attempt"), bigint("lease")];
    let mut input = Input::new(columns);
    for Right { token_hash, task, job_id } in rights {
        let (attempt, lease) = (task.attempt.cast_signed(), task.lease.cast_signed());
        input.push([token_hash.as_str().into(), task.task.into(), (*job_id).into(), attempt.into(), lease.into()]);
    }
    let text = "WITH {input} INSERT INTO completion (token_hash, task_id, job_id, attempt, lease, state, created_at)
                SELECT token_hash, task_id, job_id, attempt, lease, 'OPEN', :now FROM input";
    tx.execute(input.statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    Ok(())
}

/// The right that a token gives. Read under the lock of its job it stays as it is.
pub async fn find(tx: &Tx, token_hash: &str) -> Result<Option<Standing>, Error> {
    tx.query(of_token(tx.backend(), token_hash)).await?.first().map(standing).transpose()
}

/// The question which right a token gives.
fn of_token(backend: DbBackend, token_hash: &str) -> Statement {
    let text = "SELECT token_hash, task_id, job_id, attempt, lease, state FROM completion WHERE token_hash = :hash";
    sql::statement(backend, text, &[("hash", token_hash.into())])
}

/// Uses a right; the runner in that slot of that session is to be told, if one holds it.
pub async fn used(tx: &Tx, token_hash: &str, held: Option<(Uuid, u32)>, now: Timestamp) -> Result<(), Error> {
    let text = "UPDATE completion SET state = :state, session_id = :session, slot = :slot, used_at = :now
                WHERE token_hash = :hash AND state = 'OPEN'";
    let params = [
        ("state", if held.is_some() { "USED" } else { "TOLD" }.into()),
        ("session", held.map(|(session, _)| session).into()),
        ("slot", held.map(|(_, slot)| slot.cast_signed()).into()),
        ("now", now.0.into()),
        ("hash", token_hash.into()),
    ];
    match tx.execute(sql::statement(tx.backend(), text, &params)).await? {
        1 => Ok(()),
        written => Err(Error::Missed { asked: 1, written }),
    }
}

/// The dispatches in these sessions that were completed since this was asked last. Each is told once: who misses it because
/// its stream breaks is told by the verdict of its next hello.
pub async fn tell(tx: &Tx, sessions: &[Uuid]) -> Result<Vec<Untold>, Error> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([uuid("id")]);
    for session in sessions {
        input.push([(*session).into()]);
    }
    // The condition is that of the index: while nobody waits this costs a look at nothing.
    let text = "WITH {input} UPDATE completion SET state = 'TOLD'
                WHERE state = 'USED' AND session_id IN (SELECT id FROM input)
                RETURNING task_id, job_id, attempt, lease, session_id, slot";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            Ok(Untold {
                task: task(row)?,
                job_id: row.column("job_id")?,
                session: row.column("session_id")?,
                slot: row.number("slot")?,
            })
        })
        .collect()
}

impl Store {
    /// The right that a token gives, as it stands at the moment.
    pub async fn completion(&self, token_hash: &str) -> Result<Option<Standing>, Error> {
        let row = self.reader().query_one_raw(of_token(self.backend(), token_hash)).await?;
        row.as_ref().map(standing).transpose()
    }
}

fn standing(row: &impl Row) -> Result<Standing, Error> {
    let state: String = row.column("state")?;
    let right = Right { token_hash: row.column("token_hash")?, task: task(row)?, job_id: row.column("job_id")? };
    Ok(Standing { right, used: state != "OPEN" })
}

fn task(row: &impl Row) -> Result<TaskRef, Error> {
    let lease: i64 = row.column("lease")?;
    Ok(TaskRef { task: row.column("task_id")?, attempt: row.number("attempt")?, lease: lease.cast_unsigned() })
}
