//! Schedules as rows: which are due, what becomes of them, and the fires that made no job.
//!
//! A schedule is claimed together with the lock of its job config, so that two schedules of one config, on two
//! schedulers, are decided one after the other. Claims never wait: what another scheduler has in hand is left to it.

mod claim;
mod missed;

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

pub use self::{
    claim::{claim_due, claim_held, claim_planned_ahead, claim_released, claim_these},
    missed::{MissedRow, record},
};
use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, bigint, int, text, uuid},
};
use crate::domain::{schedule::overlap::Live, time::Timestamp};

/// What a schedule waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// For its next fire.
    Due,
    /// For the end of the jobs of its config, to make up for a fire.
    Turn,
    /// For the end of the job it made last, from which its next fire is counted.
    End,
    /// For nothing: its last fire has passed.
    Over,
    /// For an edit: it cannot be understood.
    Parked,
    /// To be switched on again, at its `due_at` if it has one.
    Paused,
}

impl State {
    const ALL: [Self; 6] = [Self::Due, Self::Turn, Self::End, Self::Over, Self::Parked, Self::Paused];

    /// The word of the database.
    pub fn word(self) -> &'static str {
        match self {
            Self::Due => "DUE",
            Self::Turn => "TURN",
            Self::End => "END",
            Self::Over => "OVER",
            Self::Parked => "PARKED",
            Self::Paused => "PAUSED",
        }
    }

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// A schedule, as a turn sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleRow {
    /// Its id.
    pub id: Uuid,
    /// Its job config.
    pub job_config_id: Uuid,
    /// What it is known by within its config.
    pub key: String,
    /// What it says, as it was stored: it may be unreadable.
    pub spec: String,
    /// What it waits for.
    pub state: State,
    /// Why it waits for nothing, if it does.
    pub reason: String,
    /// The fire it waits for.
    pub next_fire_at: Option<Timestamp>,
    /// When to decide that.
    pub due_at: Option<Timestamp>,
    /// The newest fire that was decided.
    pub last_fire_at: Option<Timestamp>,
    /// When it made its newest job.
    pub last_made_at: Option<Timestamp>,
    /// How long it may wait at most, in microseconds, if it is a fixed rate.
    pub period: Option<i64>,
    /// When it was made: intervals are counted from then.
    pub created_at: Timestamp,
    /// When its next fire was worked out.
    pub planned_at: Option<Timestamp>,
    /// Since when its newest jobs are counted.
    pub burst_at: Option<Timestamp>,
    /// How many there were since then.
    pub burst: u32,
}

/// A job config that a station has locked for its schedules or its jobs that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Its id.
    pub id: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its newest version.
    pub version: u32,
}

/// A schedule that may be decided, with its config locked.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The schedule.
    pub row: ScheduleRow,
    /// Its config.
    pub config: Config,
    /// When the job it made last ended, if it waited for that.
    pub job_ended_at: Option<Timestamp>,
}

const COLUMNS: &str =
    "schedule.id, schedule.job_config_id, schedule.key, schedule.spec, schedule.state, schedule.reason,
    schedule.next_fire_at, schedule.due_at, schedule.last_fire_at, schedule.last_made_at, schedule.period,
    schedule.created_at, schedule.planned_at, schedule.burst_at, schedule.burst";
const CONFIG: &str = "job_config.namespace, job_config.name, job_config.version";
const LIVE: &str = "('CREATED', 'RUNNING', 'TERMINATING')";

/// The jobs of configs that have not ended. Complete for as long as the configs are locked.
pub async fn live_jobs(tx: &Tx, configs: &[Uuid]) -> Result<Vec<Uuid>, Error> {
    let text = format!(
        "WITH {{input}} SELECT id FROM job WHERE job_config_id IN (SELECT config FROM input) AND state IN {LIVE}
         AND backfill_id IS NULL"
    );
    let Some(statement) = about(tx, configs, &text) else { return Ok(Vec::new()) };
    tx.query(statement).await?.iter().map(|row| row.column("id")).collect()
}

/// How many jobs of configs are live, unproven or waiting, those of backfills aside; configs that have none are left out.
pub async fn live(tx: &Tx, configs: &[Uuid]) -> Result<BTreeMap<Uuid, Live>, Error> {
    let text = format!(
        "WITH {{input}} SELECT job_config_id, count(*) AS live, sum(CASE WHEN waiting AND NOT held THEN 1 ELSE 0 END)
             AS waiting
         FROM job WHERE job_config_id IN (SELECT config FROM input) AND state IN {LIVE} AND backfill_id IS NULL
         GROUP BY job_config_id"
    );
    let mut found: BTreeMap<Uuid, Live> = BTreeMap::new();
    let Some(statement) = about(tx, configs, &text) else { return Ok(found) };
    for row in tx.query(statement).await? {
        let (live, waiting) = (row.count("live")?, row.count("waiting")?);
        found.insert(row.column("job_config_id")?, Live { active: live - waiting, unproven: 0, waiting });
    }
    let text = "WITH {input} SELECT job.job_config_id, count(*) AS unproven FROM task JOIN job ON job.id = task.job_id
                WHERE NOT task.gone AND job.job_config_id IN (SELECT config FROM input)
                AND job.state NOT IN ('CREATED', 'RUNNING', 'TERMINATING')
                AND job.backfill_id IS NULL GROUP BY job.job_config_id";
    let Some(statement) = about(tx, configs, text) else { return Ok(found) };
    for row in tx.query(statement).await? {
        found.entry(row.column("job_config_id")?).or_default().unproven = row.count("unproven")?;
    }
    Ok(found)
}

/// Which of these fires (config, schedule, time) made their job already.
pub async fn fired(tx: &Tx, fires: &[(Uuid, &str, Timestamp)]) -> Result<BTreeSet<(Uuid, String, Timestamp)>, Error> {
    if fires.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut input = Input::new([uuid("config"), text("key"), bigint("at")]);
    for (config, key, at) in fires {
        input.push([(*config).into(), (*key).into(), at.0.into()]);
    }
    let text = "WITH {input} SELECT job.job_config_id, job.schedule, job.fire_time FROM input JOIN job
                ON job.job_config_id = input.config AND job.schedule = input.key AND job.fire_time = input.at
                WHERE job.fire_time IS NOT NULL AND job.rerun_no = 0";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| Ok((row.column("job_config_id")?, row.column("schedule")?, Timestamp(row.column("fire_time")?))))
        .collect()
}

/// The schedules of configs.
pub async fn of_configs(tx: &Tx, configs: &[Uuid]) -> Result<Vec<ScheduleRow>, Error> {
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS} FROM schedule WHERE job_config_id IN (SELECT config FROM input)
         ORDER BY job_config_id, key"
    );
    let Some(statement) = about(tx, configs, &text) else { return Ok(Vec::new()) };
    tx.query(statement).await?.iter().map(read).collect()
}

/// Writes schedules, new ones and others, whose configs are locked.
pub async fn put(tx: &Tx, rows: &[ScheduleRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        uuid("job_config_id"),
        text("key"),
        text("spec"),
        text("state"),
        text("reason"),
        bigint("next_fire_at").nullable(),
        bigint("due_at").nullable(),
        bigint("last_fire_at").nullable(),
        bigint("last_made_at").nullable(),
        bigint("period").nullable(),
        bigint("created_at"),
        bigint("planned_at").nullable(),
        bigint("burst_at").nullable(),
        int("burst"),
    ]);
    for row in rows {
        input.push([
            row.id.into(),
            row.job_config_id.into(),
            row.key.as_str().into(),
            row.spec.as_str().into(),
            row.state.word().into(),
            row.reason.as_str().into(),
            row.next_fire_at.map(|at| at.0).into(),
            row.due_at.map(|at| at.0).into(),
            row.last_fire_at.map(|at| at.0).into(),
            row.last_made_at.map(|at| at.0).into(),
            row.period.into(),
            row.created_at.0.into(),
            row.planned_at.map(|at| at.0).into(),
            row.burst_at.map(|at| at.0).into(),
            row.burst.cast_signed().into(),
        ]);
    }
    let text = "WITH {input} INSERT INTO schedule (id, job_config_id, key, spec, state, reason, next_fire_at, due_at,
                    last_fire_at, last_made_at, period, created_at, planned_at, burst_at, burst)
                SELECT id, job_config_id, key, spec, state, reason, next_fire_at, due_at, last_fire_at, last_made_at,
                    period, created_at, planned_at, burst_at, burst
                FROM input WHERE true
                ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, state = excluded.state,
                    reason = excluded.reason, next_fire_at = excluded.next_fire_at, due_at = excluded.due_at,
                    last_fire_at = excluded.last_fire_at, last_made_at = excluded.last_made_at,
                    period = excluded.period, planned_at = excluded.planned_at, burst_at = excluded.burst_at,
                    burst = excluded.burst";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Takes schedules away.
pub async fn remove(tx: &Tx, ids: &[Uuid]) -> Result<(), Error> {
    let text = "WITH {input} DELETE FROM schedule WHERE id IN (SELECT config FROM input)";
    if let Some(statement) = about(tx, ids, text) {
        tx.execute(statement).await?;
    }
    Ok(())
}

/// Takes every schedule of a config away.
pub async fn remove_of(tx: &Tx, config: Uuid) -> Result<(), Error> {
    let text = "DELETE FROM schedule WHERE job_config_id = :config";
    tx.execute(sql::statement(tx.backend(), text, &[("config", config.into())])).await?;
    Ok(())
}

/// When the next schedule is due, or is to be switched on again.
pub async fn next_due(tx: &Tx) -> Result<Option<Timestamp>, Error> {
    let text = "SELECT min(due_at) AS due_at FROM schedule WHERE state IN ('DUE', 'PAUSED')";
    let rows = tx.query(sql::statement(tx.backend(), text, &[])).await?;
    rows.first().map(|row| row.time("due_at")).transpose().map(Option::flatten)
}

/// Whether a schedule, a job or a backfill waits for the end of another job.
pub async fn waiters(tx: &Tx) -> Result<bool, Error> {
    let text = "SELECT CASE WHEN EXISTS (SELECT 1 FROM schedule WHERE state IN ('TURN', 'END'))
                    OR EXISTS (SELECT 1 FROM job WHERE state = 'CREATED' AND waiting)
                    OR EXISTS (SELECT 1 FROM backfill WHERE state = 'RUNNING') THEN 1 ELSE 0 END AS waiters";
    let rows = tx.query(sql::statement(tx.backend(), text, &[])).await?;
    Ok(rows.first().map(|row| row.number("waiters")).transpose()?.unwrap_or_default() == 1)
}

/// A statement about the rows with these ids, which it reads as `config`; `None` when there are none.
fn about(tx: &Tx, ids: &[Uuid], text: &str) -> Option<sea_orm::Statement> {
    if ids.is_empty() {
        return None;
    }
    let mut input = Input::new([uuid("config")]);
    for id in ids {
        input.push([(*id).into()]);
    }
    Some(input.statement(tx.backend(), text, &[]))
}

fn claimed(row: &impl Row) -> Result<Claimed, Error> {
    let schedule = read(row)?;
    let config = config(row, schedule.job_config_id)?;
    Ok(Claimed { row: schedule, config, job_ended_at: row.time("job_ended_at")? })
}

/// Reads a config; what is called `id` in the row may be another thing.
pub(super) fn config(row: &impl Row, id: Uuid) -> Result<Config, Error> {
    Ok(Config { id, namespace: row.column("namespace")?, name: row.column("name")?, version: row.number("version")? })
}

fn read(row: &impl Row) -> Result<ScheduleRow, Error> {
    let id: Uuid = row.column("id")?;
    let state: String = row.column("state")?;
    Ok(ScheduleRow {
        id,
        job_config_id: row.column("job_config_id")?,
        key: row.column("key")?,
        spec: row.column("spec")?,
        state: State::from_word(&state).ok_or_else(|| unreadable("schedule", id, "the state is not one of ours"))?,
        reason: row.column("reason")?,
        next_fire_at: row.time("next_fire_at")?,
        due_at: row.time("due_at")?,
        last_fire_at: row.time("last_fire_at")?,
        last_made_at: row.time("last_made_at")?,
        period: row.column("period")?,
        created_at: Timestamp(row.column("created_at")?),
        planned_at: row.time("planned_at")?,
        burst_at: row.time("burst_at")?,
        burst: row.number("burst")?,
    })
}
