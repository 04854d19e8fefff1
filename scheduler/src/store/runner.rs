//! Runners as rows: which session counts, when each was last heard, which are drained.

use std::collections::BTreeMap;

use sea_orm::DbBackend;
use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, text, uuid},
    task,
};
use crate::domain::{
    heartbeat::{Hello, Known},
    placement::{Present, Traits},
    runner::Signs,
    time::Timestamp,
};

/// A runner, locked.
#[derive(Debug, Clone)]
pub struct RunnerRow {
    /// Its name.
    pub id: String,
    /// What a hello is judged by.
    pub known: Known,
    /// The session that counts.
    pub session_id: Option<Uuid>,
    /// Drained by an operator.
    pub drained: bool,
}

impl RunnerRow {
    /// The signs of life of it.
    pub fn signs(&self) -> Signs {
        let Known { has_session, last_seen_at, hold_until, .. } = self.known;
        Signs { has_session, draining: self.drained, last_seen_at, hold_until }
    }
}

/// Locks runners in id order; those not seen before are not in the answer.
pub async fn lock(tx: &Tx, ids: &[String]) -> Result<BTreeMap<String, RunnerRow>, Error> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut input = Input::new([text("wanted")]);
    for id in ids {
        input.push([id.as_str().into()]);
    }
    let text = "WITH {input} SELECT id, install_id, boot_id, boot_number, boot_numbered, conn, session_id, drained,
                    last_seen_at, hold_until
                FROM runner WHERE id IN (SELECT wanted FROM input) ORDER BY id {for_update}";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| read(row).map(|runner| (runner.id.clone(), runner))).collect()
}

/// Makes a row for a runner not seen before, so that it can be locked; does nothing when there is one.
pub async fn ensure(tx: &Tx, hello: &Hello, now: Timestamp) -> Result<(), Error> {
    let text = "INSERT INTO runner (id, install_id, boot_id, conn, labels, version, capabilities, slots, last_seen_at,
                    created_at)
                VALUES (:id, :install, '', 0, '{}', '', '[]', 0, :now, :now) ON CONFLICT (id) DO NOTHING";
    let text = text.replace("'{}'", ":labels");
    let params = [
        ("id", hello.runner_id.as_str().into()),
        ("install", hello.install_id.as_str().into()),
        ("labels", "{}".into()),
        ("now", now.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), &text, &params)).await?;
    Ok(())
}

/// Makes a session the one that counts. The hello is a sign of life. A planned stop holds the runner's tasks all the
/// same until it is heard again: it goes on with them, by its own clock, until the welcome reaches it.
pub async fn take(tx: &Tx, hello: &Hello, session: Uuid, scheduler: Uuid, now: Timestamp) -> Result<(), Error> {
    let labels = serde_json::to_string(&hello.labels).expect("a map of texts has a JSON form");
    let capabilities = serde_json::to_string(&hello.capabilities).expect("a list of texts has a JSON form");
    let text = "UPDATE runner SET install_id = :install, boot_id = :boot, boot_number = :boot_number,
                    boot_numbered = :boot, conn = :conn, session_id = :session, scheduler_id = :scheduler, labels = :labels, version = :version, capabilities = :capabilities,
                    slots = :slots, draining = :draining, last_seen_at = :now
                WHERE id = :id";
    let draining = hello.drain.is_some_and(|drain| drain != crate::domain::heartbeat::Drain::Working);
    let params = [
        ("id", hello.runner_id.as_str().into()),
        ("install", hello.install_id.as_str().into()),
        ("boot", hello.boot_id.as_str().into()),
        ("boot_number", hello.boot_number.cast_signed().into()),
        ("conn", hello.conn.cast_signed().into()),
        ("session", session.into()),
        ("scheduler", scheduler.into()),
        ("labels", labels.into()),
        ("version", hello.version.as_str().into()),
        ("capabilities", capabilities.into()),
        ("slots", hello.slots.cast_signed().into()),
        ("draining", draining.into()),
        ("now", now.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Records signs of life of sessions, those alone that still count, and leaves out rows that others hold: the next
/// call takes them. Whoever is heard after its hello is no longer held by a planned stop. Returns the sessions recorded.
pub async fn touch(tx: &Tx, sessions: &[(String, Uuid)]) -> Result<Vec<Uuid>, Error> {
    let text = "WITH {input}, heard AS (
                    SELECT runner.id FROM runner JOIN input ON runner.id = input.runner
                    WHERE runner.session_id = input.session ORDER BY runner.id {of_runner}
                )
                UPDATE runner SET last_seen_at = {now}, hold_until = NULL
                WHERE id IN (SELECT id FROM heard) RETURNING session_id";
    let text = text.replace(
        "{of_runner}",
        if tx.backend() == DbBackend::Postgres { "FOR NO KEY UPDATE OF runner SKIP LOCKED" } else { "" },
    );
    ask_of(tx, sessions, &text).await
}

/// Which of these sessions may be given work, those alone whose rows nobody holds: they cannot be replaced before this
/// transaction ends. A drain that was answered is obeyed here, whoever has heard of it.
pub async fn counting(tx: &Tx, sessions: &[(String, Uuid)]) -> Result<Vec<Uuid>, Error> {
    let text = format!("WITH {{input}} {OF_SESSIONS} {WORKS} {}", locked(tx.backend()));
    ask_of(tx, sessions, &text).await
}

/// Which of these sessions still count at this moment.
pub async fn still_counting(tx: &Tx, sessions: &[(String, Uuid)]) -> Result<Vec<Uuid>, Error> {
    let text = format!("WITH {{input}} {OF_SESSIONS}");
    ask_of(tx, sessions, &text).await
}

/// The classes of the tasks that are queued, as [`task::queued_classes`] gives them from the first on, and in the same breath
/// which of these sessions may be given work, as [`counting`] says it. The sessions are left alone where nothing waits:
/// neither there nor, so `in_hand`, with who asks.
pub async fn classes_and_counting(
    tx: &Tx,
    limit: u32,
    sessions: &[(String, Uuid)],
    in_hand: bool,
) -> Result<(Vec<String>, Vec<Uuid>), Error> {
    let text = format!(
        "WITH RECURSIVE {{input}}, {classes}, counting AS (
             {OF_SESSIONS} {WORKS} AND (:in_hand OR EXISTS (SELECT 1 FROM classes WHERE class IS NOT NULL)) {lock}
         )
         SELECT class, NULL AS session_id
         FROM (SELECT class FROM classes WHERE class IS NOT NULL LIMIT :limit) AS waiting
         UNION ALL SELECT NULL, session_id FROM counting",
        classes = task::CLASSES,
        lock = locked(tx.backend()),
    );
    let params = [("after", "".into()), ("limit", i64::from(limit).into()), ("in_hand", in_hand.into())];
    let (mut classes, mut counting) = (Vec::new(), Vec::new());
    for row in tx.query(of_sessions(sessions).statement(tx.backend(), &text, &params)).await? {
        classes.extend(row.column::<Option<String>>("class")?);
        counting.extend(row.column::<Option<Uuid>>("session_id")?);
    }
    Ok((classes, counting))
}

/// The sessions of an input that count.
const OF_SESSIONS: &str = "SELECT runner.session_id FROM runner JOIN input ON runner.id = input.runner
    WHERE runner.session_id = input.session";

/// Of those, the ones that may be given work.
const WORKS: &str = "AND NOT runner.drained AND NOT EXISTS
    (SELECT 1 FROM scheduler WHERE scheduler.id = runner.scheduler_id AND scheduler.state = 'DRAINED')";

/// How their rows are locked: against whoever takes, ends or drains a session, who all lock the row whole, and not against signs
/// of life, which would be left out for as long as a busy scheduler picks.
fn locked(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "ORDER BY runner.id FOR KEY SHARE OF runner SKIP LOCKED",
        _ => "",
    }
}

/// Asks a question about sessions that is answered by some of them.
async fn ask_of(tx: &Tx, sessions: &[(String, Uuid)], text: &str) -> Result<Vec<Uuid>, Error> {
    let rows = tx.query(of_sessions(sessions).statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| row.column("session_id")).collect()
}

fn of_sessions(sessions: &[(String, Uuid)]) -> Input<2> {
    let mut input = Input::new([text("runner"), uuid("session")]);
    for (runner, session) in sessions {
        input.push([runner.as_str().into(), (*session).into()]);
    }
    input
}

/// Runners that were silent for too long and are not held by a planned stop.
pub async fn silent(tx: &Tx, since: Timestamp, now: Timestamp, limit: u32) -> Result<Vec<String>, Error> {
    let text = "SELECT id FROM runner WHERE session_id IS NOT NULL AND last_seen_at <= :since
                AND (hold_until IS NULL OR hold_until <= :now) ORDER BY last_seen_at LIMIT :limit";
    let params = [("since", since.0.into()), ("now", now.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Ends the session of a runner that left or was given up.
pub async fn end_session(tx: &Tx, id: &str) -> Result<(), Error> {
    let text = "UPDATE runner SET session_id = NULL, hold_until = NULL WHERE id = :id";
    tx.execute(sql::statement(tx.backend(), text, &[("id", id.into())])).await?;
    Ok(())
}

/// Records that runners finish what they have by their own wish, or no longer do.
pub async fn set_draining(tx: &Tx, id: &str, session: Uuid, draining: bool) -> Result<(), Error> {
    let text = "UPDATE runner SET draining = :draining WHERE id = :id AND session_id = :session";
    let params = [("id", id.into()), ("session", session.into()), ("draining", draining.into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Records that an operator drains a runner or resumes it. `false` when there is no such runner.
pub async fn set_drained(tx: &Tx, id: &str, drained: bool, reason: &str) -> Result<bool, Error> {
    let text = "UPDATE runner SET drained = :drained, drain_reason = :reason WHERE id = :id";
    let params = [("id", id.into()), ("drained", drained.into()), ("reason", reason.into())];
    Ok(tx.execute(sql::statement(tx.backend(), text, &params)).await? == 1)
}

/// Which runners among these are drained by an operator.
pub async fn drained_of(tx: &Tx, scheduler: Uuid) -> Result<Vec<String>, Error> {
    let text = "SELECT id FROM runner WHERE scheduler_id = :scheduler AND session_id IS NOT NULL AND drained = true";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("scheduler", scheduler.into())])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Holds the tasks of a scheduler's runners over a planned stop: nobody decides their loss before `until`. The rows are
/// locked in id order first, as everywhere.
pub async fn hold(tx: &Tx, scheduler: Uuid, until: Timestamp) -> Result<(), Error> {
    let text = "WITH held AS (
                    SELECT id FROM runner WHERE scheduler_id = :scheduler AND session_id IS NOT NULL
                    ORDER BY id {for_update}
                )
                UPDATE runner SET hold_until = :until WHERE id IN (SELECT id FROM held)";
    let params = [("scheduler", scheduler.into()), ("until", until.0.into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// The runners that are there, and those that were heard since then and may come back.
pub async fn present(tx: &Tx, since: Timestamp) -> Result<Vec<Present>, Error> {
    let text = "SELECT id, labels, capabilities, version, drained FROM runner
                WHERE session_id IS NOT NULL OR last_seen_at > :since ORDER BY id";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("since", since.0.into())])).await?;
    rows.iter().map(|row| Ok(Present { traits: traits(row)?, drained: row.column("drained")? })).collect()
}

/// The runners that are alive, with what decides whether they may take a task.
pub async fn alive(tx: &Tx) -> Result<Vec<Traits>, Error> {
    let text = "SELECT id, labels, capabilities, version FROM runner
                WHERE session_id IS NOT NULL AND drained = false AND draining = false ORDER BY id";
    tx.query(sql::statement(tx.backend(), text, &[])).await?.iter().map(traits).collect()
}

/// One runner with what decides whether it may take a task, and whether a session of it counts.
pub async fn one(tx: &Tx, id: &str) -> Result<Option<(Traits, bool)>, Error> {
    let text = "SELECT id, labels, capabilities, version, session_id FROM runner WHERE id = :id";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("id", id.into())])).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let session: Option<Uuid> = row.column("session_id")?;
    Ok(Some((traits(row)?, session.is_some())))
}

/// The signs of life of runners, without a lock; those that never said hello are not in the answer.
pub async fn signs(tx: &Tx, ids: &[String]) -> Result<BTreeMap<String, Signs>, Error> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut input = Input::new([text("wanted")]);
    for id in ids {
        input.push([id.as_str().into()]);
    }
    let text = "WITH {input} SELECT id, session_id, drained, draining, last_seen_at, hold_until FROM runner
                WHERE id IN (SELECT wanted FROM input)";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            let session: Option<Uuid> = row.column("session_id")?;
            let (drained, draining): (bool, bool) = (row.column("drained")?, row.column("draining")?);
            let signs = Signs {
                has_session: session.is_some(),
                draining: drained || draining,
                last_seen_at: Timestamp(row.column("last_seen_at")?),
                hold_until: row.time("hold_until")?,
            };
            Ok((row.column("id")?, signs))
        })
        .collect()
}

fn traits(row: &impl Row) -> Result<Traits, Error> {
    let id: String = row.column("id")?;
    let (labels, capabilities): (String, String) = (row.column("labels")?, row.column("capabilities")?);
    match (serde_json::from_str(&labels), serde_json::from_str(&capabilities)) {
        (Ok(labels), Ok(capabilities)) => Ok(Traits { id, labels, capabilities, version: row.column("version")? }),
        _ => Err(unreadable("runner", id, "its labels or capabilities are not JSON")),
    }
}

fn read(row: &impl Row) -> Result<RunnerRow, Error> {
    let session_id: Option<Uuid> = row.column("session_id")?;
    let boot_id: String = row.column("boot_id")?;
    // A scheduler of the version before takes the row without a number: the one that is there belongs to an older boot.
    let numbered = row.column::<Option<String>>("boot_numbered")?.as_ref() == Some(&boot_id);
    let boot_number = row.column::<Option<i64>>("boot_number")?.filter(|_| numbered).unwrap_or(0).cast_unsigned();
    Ok(RunnerRow {
        id: row.column("id")?,
        known: Known {
            install_id: row.column("install_id")?,
            boot_id,
            boot_number,
            conn: row.column::<i64>("conn")?.cast_unsigned(),
            has_session: session_id.is_some(),
            last_seen_at: Timestamp(row.column("last_seen_at")?),
            hold_until: row.time("hold_until")?,
        },
        session_id,
        drained: row.column("drained")?,
    })
}
