//! The outbox of callbacks as rows. A claim moves the next try beyond the time that any try takes, so that a scheduler
//! that dies with one in hand leaves nothing behind that must be cleaned up.

#[cfg(test)]
mod tests;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, bigint, boolean, int, text, uuid},
};
use crate::domain::{
    callback::{Event, State},
    definition::callback::Action,
    time::Timestamp,
};

/// One event for one receiver, as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct CallbackRow {
    /// Its id, which a receiver knows a repetition by.
    pub id: Uuid,
    /// The id of the event.
    pub event_id: Uuid,
    /// What happened.
    pub event: Event,
    /// The job config it is about.
    pub job_config_id: Uuid,
    /// The namespace of that.
    pub namespace: String,
    /// The name of that.
    pub name: String,
    /// The job; none for a fire that made no job.
    pub job_id: Option<Uuid>,
    /// The task; none for an event of the job itself.
    pub task_id: Option<Uuid>,
    /// The name of the task.
    pub task_name: String,
    /// Its place among the callbacks of the job config or the task.
    pub position: u32,
    /// What is done.
    pub action: Action,
    /// What is told, as JSON.
    pub payload: String,
    /// Its task is held until it is delivered or given up.
    pub blocking: bool,
    /// How many jobs led to the job of the event.
    pub depth: u32,
    /// Why it is given up from the start, if it is.
    pub given_up: Option<String>,
    /// When the event happened.
    pub created_at: Timestamp,
}

/// A callback that a scheduler has claimed and is to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// Its id.
    pub id: Uuid,
    /// The id of the event.
    pub event_id: Uuid,
    /// What happened.
    pub event: Event,
    /// The namespace of the job config.
    pub namespace: String,
    /// What is done.
    pub action: Action,
    /// What is told.
    pub payload: String,
    /// The job of the event; none for a fire that made no job.
    pub job_id: Option<Uuid>,
    /// The task that it holds, if it holds one.
    pub holds: Option<Uuid>,
    /// How many jobs led to the job of the event.
    pub depth: u32,
    /// Which try this is, from 1. It is the token of the claim, too: a later one has another.
    pub tries: u32,
}

/// What a try came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The callback.
    pub id: Uuid,
    /// Which try it was.
    pub tries: u32,
    /// Where that leaves it.
    pub state: State,
    /// When to try again.
    pub next_try_at: Timestamp,
    /// The answer.
    pub response_code: Option<i32>,
    /// Why it failed.
    pub error: String,
    /// The job that it started.
    pub made_job_id: Option<Uuid>,
}

/// What holds a task in CALLBACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Its id.
    pub id: Uuid,
    /// Its task.
    pub task_id: Uuid,
    /// How the work of the task ended.
    pub event: Event,
    /// Where it is.
    pub state: State,
    /// Its place among the callbacks of the task.
    pub position: u32,
    /// Why the last try failed.
    pub last_error: String,
    /// When the event happened.
    pub created_at: Timestamp,
}

impl Hold {
    /// Whether it still holds.
    pub fn is_pending(&self) -> bool {
        self.state == State::Pending
    }

    /// What is to be said of a task that these held: which of them were given up, and why.
    pub fn remark(holds: &[&Self]) -> String {
        let newest = holds.iter().map(|hold| hold.created_at).max();
        let given_up = holds.iter().filter(|hold| hold.state == State::GivenUp && Some(hold.created_at) == newest);
        let remarks: Vec<String> =
            given_up.map(|hold| format!("callback {} was given up: {}", hold.position, hold.last_error)).collect();
        remarks.join("; ")
    }

    /// Whether the work of a task with these holds ended well, by the newest of them: a task may have been re-run.
    pub fn ended_well(holds: &[&Self]) -> bool {
        holds.iter().max_by_key(|hold| hold.id).is_some_and(|hold| hold.event == Event::Finished)
    }
}

/// Writes callbacks down.
pub async fn insert(tx: &Tx, callbacks: &[CallbackRow]) -> Result<(), Error> {
    if callbacks.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        uuid("event_id"),
        text("event"),
        uuid("job_config_id"),
        text("namespace"),
        text("name"),
        uuid("job_id").nullable(),
        uuid("task_id").nullable(),
        text("task_name"),
        int("position"),
        text("kind"),
        text("action"),
        text("payload"),
        boolean("blocking"),
        int("depth"),
        text("state"),
        text("last_error"),
        bigint("created_at"),
        bigint("ended_at").nullable(),
    ]);
    for callback in callbacks {
        let given_up = callback.given_up.is_some();
        input.push([
            callback.id.into(),
            callback.event_id.into(),
            callback.event.word().into(),
            callback.job_config_id.into(),
            callback.namespace.as_str().into(),
            callback.name.as_str().into(),
            callback.job_id.into(),
            callback.task_id.into(),
            callback.task_name.as_str().into(),
            callback.position.cast_signed().into(),
            kind(&callback.action).into(),
            serde_json::to_string(&callback.action).expect("an action has a JSON form").into(),
            callback.payload.as_str().into(),
            callback.blocking.into(),
            callback.depth.cast_signed().into(),
            if given_up { State::GivenUp } else { State::Pending }.word().into(),
            callback.given_up.as_deref().unwrap_or_default().into(),
            callback.created_at.0.into(),
            given_up.then_some(callback.created_at.0).into(),
        ]);
    }
    let text =
        "WITH {input} INSERT INTO callback (id, event_id, event, job_config_id, namespace, name, job_id, task_id,
                    task_name, position, kind, action, payload, blocking, depth, state, last_error, next_try_at,
                    created_at, ended_at)
                SELECT id, event_id, event, job_config_id, namespace, name, job_id, task_id, task_name, position, kind,
                    action, payload, blocking, depth, state, last_error, created_at, created_at, ended_at
                FROM input";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Claims callbacks whose time has come, the longest overdue first, leaving out what another scheduler has in hand. Until
/// `expires` nobody else claims them.
pub async fn claim(
    tx: &Tx,
    owner: Uuid,
    now: Timestamp,
    expires: Timestamp,
    limit: u32,
) -> Result<Vec<Claimed>, Error> {
    let text = "WITH due AS MATERIALIZED (
                    SELECT id AS due_id FROM callback WHERE state = 'PENDING' AND next_try_at <= :now
                    ORDER BY next_try_at, id LIMIT :limit {skip_locked})
                UPDATE callback SET owner = :owner, next_try_at = :expires, tries = tries + 1
                FROM due WHERE callback.id = due.due_id
                RETURNING id, event_id, event, namespace, job_id, task_id, action, payload, blocking, depth, tries";
    let params = [
        ("owner", owner.into()),
        ("expires", expires.0.into()),
        ("now", now.0.into()),
        ("limit", i64::from(limit).into()),
    ];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let (mut readable, mut others) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in &rows {
        match claimed(row) {
            Ok(callback) => readable.push(callback),
            // One that another version wrote must not hold up the rest.
            Err(Error::Unreadable { .. }) => others.push(row.column("id")?),
            Err(error) => return Err(error),
        }
    }
    give_up(tx, now, &others, "this version of the scheduler cannot read it").await?;
    readable.sort_unstable_by_key(|callback| callback.id);
    Ok(readable)
}

/// When the next callback is to be tried.
pub async fn next_due(tx: &Tx) -> Result<Option<Timestamp>, Error> {
    let text = "SELECT min(next_try_at) AS next FROM callback WHERE state = 'PENDING'";
    let rows = tx.query(sql::statement(tx.backend(), text, &[])).await?;
    let next: Option<i64> = rows.first().map(|row| row.column("next")).transpose()?.flatten();
    Ok(next.map(Timestamp))
}

/// Locks those of these callbacks that are still in the hands of this scheduler, each with the try it made of it.
pub async fn lock_owned(tx: &Tx, owner: Uuid, tries: &[(Uuid, u32)]) -> Result<Vec<Uuid>, Error> {
    if tries.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([uuid("wanted"), int("tried")]);
    for (id, tries) in tries {
        input.push([(*id).into(), tries.cast_signed().into()]);
    }
    let text = "WITH {input} SELECT id FROM callback
                WHERE state = 'PENDING' AND owner = :owner AND (id, tries) IN (SELECT wanted, tried FROM input)
                ORDER BY id {for_update}";
    let rows = tx.query(input.statement(tx.backend(), text, &[("owner", owner.into())])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Records what tries came to, of callbacks that this transaction has locked.
pub async fn record(tx: &Tx, now: Timestamp, tried: &[Tried]) -> Result<(), Error> {
    if tried.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        text("state"),
        bigint("next_try_at"),
        int("response_code").nullable(),
        text("last_error"),
        uuid("made_job_id").nullable(),
        bigint("ended_at").nullable(),
    ]);
    for one in tried {
        input.push([
            one.id.into(),
            one.state.word().into(),
            one.next_try_at.0.into(),
            one.response_code.into(),
            one.error.as_str().into(),
            one.made_job_id.into(),
            (one.state != State::Pending).then_some(now.0).into(),
        ]);
    }
    let text = "WITH {input} UPDATE callback SET state = input.state, owner = NULL, next_try_at = input.next_try_at,
                    response_code = input.response_code, last_error = input.last_error,
                    made_job_id = input.made_job_id, ended_at = input.ended_at
                FROM input WHERE callback.id = input.id";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// What holds these tasks, in the order of their ids, locked.
pub async fn lock_holds(tx: &Tx, tasks: &[Uuid]) -> Result<Vec<Hold>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let text = "WITH {input} SELECT callback.id, callback.task_id, callback.event, callback.state, callback.position,
                    callback.last_error, callback.created_at
                FROM callback WHERE callback.blocking AND callback.task_id IN (SELECT id FROM input)
                ORDER BY callback.id {for_update}";
    let rows = tx.query(ids(tasks).statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = row.column("id")?;
            Ok(Hold {
                id,
                task_id: row.column("task_id")?,
                event: event(row, id)?,
                state: state(row, id)?,
                position: row.number("position")?,
                last_error: row.column("last_error")?,
                created_at: Timestamp(row.column("created_at")?),
            })
        })
        .collect()
}

/// Gives up callbacks that this transaction has locked and that are still tried.
pub async fn give_up(tx: &Tx, now: Timestamp, callbacks: &[Uuid], reason: &str) -> Result<(), Error> {
    if callbacks.is_empty() {
        return Ok(());
    }
    let text =
        "WITH {input} UPDATE callback SET state = 'GIVEN_UP', owner = NULL, last_error = :reason, ended_at = :now
                WHERE state = 'PENDING' AND id IN (SELECT id FROM input)";
    let params = [("reason", reason.into()), ("now", now.0.into())];
    tx.execute(ids(callbacks).statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Lets go of what those had claimed that a starting scheduler takes the place of: all of them on a database that has one
/// scheduler, else those at its address.
pub async fn release_of_gone(tx: &Tx, heir: Uuid, address: Option<&str>, now: Timestamp) -> Result<u64, Error> {
    let text = "UPDATE callback SET owner = NULL, next_try_at = :now
                WHERE state = 'PENDING' AND owner IS NOT NULL AND owner <> :heir AND (:address = ''
                      OR owner IN (SELECT id FROM scheduler WHERE address = :address))";
    let params = [("now", now.0.into()), ("heir", heir.into()), ("address", address.unwrap_or_default().into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

/// Lets go of what a scheduler that stops has claimed.
pub async fn release(tx: &Tx, owner: Uuid, now: Timestamp) -> Result<u64, Error> {
    let text = "UPDATE callback SET owner = NULL, next_try_at = :now WHERE state = 'PENDING' AND owner = :owner";
    tx.execute(sql::statement(tx.backend(), text, &[("now", now.0.into()), ("owner", owner.into())])).await
}

/// Has a callback tried once more, at once, whatever came of it. `false` if there is none, or if it is being tried.
pub async fn resend(tx: &Tx, id: Uuid, now: Timestamp) -> Result<bool, Error> {
    let text = "UPDATE callback SET state = 'PENDING', tries = 0, next_try_at = :now, ended_at = NULL
                WHERE id = :id AND owner IS NULL AND made_job_id IS NULL";
    Ok(tx.execute(sql::statement(tx.backend(), text, &[("now", now.0.into()), ("id", id.into())])).await? > 0)
}

/// The jobs that these callbacks tell of.
pub async fn jobs_of(tx: &Tx, callbacks: &[Uuid]) -> Result<Vec<Uuid>, Error> {
    if callbacks.is_empty() {
        return Ok(Vec::new());
    }
    let text = "WITH {input} SELECT DISTINCT job_id FROM callback
                WHERE job_id IS NOT NULL AND id IN (SELECT id FROM input)";
    let rows = tx.query(ids(callbacks).statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| row.column("job_id")).collect()
}

/// The job that a callback started, if it did; `None` if there is no such callback.
pub async fn made_job(tx: &Tx, id: Uuid) -> Result<Option<Option<Uuid>>, Error> {
    let text = "SELECT made_job_id FROM callback WHERE id = :id";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("id", id.into())])).await?;
    rows.first().map(|row| row.column("made_job_id")).transpose()
}

/// The word of the database for a way of telling.
fn kind(action: &Action) -> &'static str {
    match action {
        Action::Http(_) => "HTTP",
        Action::Email(_) => "EMAIL",
        Action::Job(_) => "JOB",
    }
}

fn ids(ids: &[Uuid]) -> Input<1> {
    let mut input = Input::new([uuid("id")]);
    for id in ids {
        input.push([(*id).into()]);
    }
    input
}

pub(super) fn event(row: &impl Row, id: Uuid) -> Result<Event, Error> {
    let word: String = row.column("event")?;
    Event::from_word(&word).ok_or_else(|| unreadable("callback", id, "the event is not one of ours"))
}

pub(super) fn state(row: &impl Row, id: Uuid) -> Result<State, Error> {
    let word: String = row.column("state")?;
    State::from_word(&word).ok_or_else(|| unreadable("callback", id, "the state is not one of ours"))
}

pub(super) fn action(row: &impl Row, id: Uuid) -> Result<Action, Error> {
    let text: String = row.column("action")?;
    serde_json::from_str(&text).map_err(|_| unreadable("callback", id, "what it does cannot be read"))
}

fn claimed(row: &impl Row) -> Result<Claimed, Error> {
    let id: Uuid = row.column("id")?;
    let blocking: bool = row.column("blocking")?;
    let task: Option<Uuid> = row.column("task_id")?;
    Ok(Claimed {
        id,
        event_id: row.column("event_id")?,
        event: event(row, id)?,
        namespace: row.column("namespace")?,
        action: action(row, id)?,
        payload: row.column("payload")?,
        job_id: row.column("job_id")?,
        holds: task.filter(|_| blocking),
        depth: row.number("depth")?,
        tries: row.number("tries")?,
    })
}
