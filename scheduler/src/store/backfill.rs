//! Backfills as rows: what is still to be made, and what was.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, bigint, text, uuid},
};
use crate::domain::{schedule::backfill::State, time::Timestamp};

/// A backfill.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillRow {
    /// Its id.
    pub id: Uuid,
    /// Its job config.
    pub job_config_id: Uuid,
    /// The namespace of that.
    pub namespace: String,
    /// The name of that.
    pub name: String,
    /// The schedule whose fires they are.
    pub schedule: String,
    /// What the schedule said when it was asked for.
    pub spec: String,
    /// Where its intervals count from.
    pub anchor_at: Timestamp,
    /// The first instant of the range.
    pub from_at: Timestamp,
    /// The first instant after the range.
    pub to_at: Timestamp,
    /// How many of its jobs live at once at most.
    pub max_parallel: u32,
    /// Fires that have a job already get another.
    pub again: bool,
    /// How far it is.
    pub state: State,
    /// Why it ended early, if it did.
    pub reason: String,
    /// The next fire to look at; `None` when all have been.
    pub next_at: Option<Timestamp>,
    /// How many fires there are in the range.
    pub total: u64,
    /// How many jobs it made.
    pub made: u64,
    /// How many fires had a job already.
    pub passed_over: u64,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// A backfill that may go on, with its job config locked.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimed {
    /// The backfill.
    pub row: BackfillRow,
    /// The newest version of the job config; `None` when it was deleted.
    pub version: Option<u32>,
}

pub(super) const COLUMNS: &str = "backfill.id, backfill.job_config_id, backfill.namespace, backfill.name,
    backfill.schedule, backfill.spec, backfill.anchor_at, backfill.from_at, backfill.to_at, backfill.max_parallel,
    backfill.again, backfill.state, backfill.reason, backfill.next_at, backfill.total, backfill.made,
    backfill.passed_over, backfill.created_at, backfill.ended_at";

/// Writes a new one.
pub async fn insert(tx: &Tx, row: &BackfillRow) -> Result<(), Error> {
    let text = "INSERT INTO backfill (id, job_config_id, namespace, name, schedule, spec, anchor_at, from_at, to_at,
                    max_parallel, again, state, next_at, total, created_at)
                VALUES (:id, :config, :namespace, :name, :schedule, :spec, :anchor, :from, :to, :parallel, :again,
                    :state, :next, :total, :created)";
    let params = [
        ("id", row.id.into()),
        ("config", row.job_config_id.into()),
        ("namespace", row.namespace.as_str().into()),
        ("name", row.name.as_str().into()),
        ("schedule", row.schedule.as_str().into()),
        ("spec", row.spec.as_str().into()),
        ("anchor", row.anchor_at.0.into()),
        ("from", row.from_at.0.into()),
        ("to", row.to_at.0.into()),
        ("parallel", row.max_parallel.cast_signed().into()),
        ("again", row.again.into()),
        ("state", row.state.word().into()),
        ("next", row.next_at.map(|at| at.0).into()),
        ("total", row.total.cast_signed().into()),
        ("created", row.created_at.0.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Claims backfills that may make another job, or that have made all and wait for none, oldest first.
pub async fn claim(tx: &Tx, limit: u32) -> Result<Vec<Claimed>, Error> {
    let text = format!(
        "SELECT {COLUMNS}, job_config.version, job_config.deleted_at
         FROM backfill JOIN job_config ON job_config.id = backfill.job_config_id
         WHERE backfill.id IN (SELECT id FROM backfill WHERE state = 'RUNNING') AND backfill.state = 'RUNNING' AND (
             SELECT count(*) FROM job WHERE job.backfill_id = backfill.id
                 AND job.state IN ('CREATED', 'RUNNING', 'TERMINATING'))
             < CASE WHEN backfill.next_at IS NULL THEN 1 ELSE backfill.max_parallel END
         ORDER BY backfill.id LIMIT :limit {{skip_locked}}"
    );
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter()
        .map(|row| {
            let deleted = row.time("deleted_at")?.is_some();
            let version = row.number("version")?;
            Ok(Claimed { row: read(row)?, version: (!deleted).then_some(version) })
        })
        .collect()
}

/// How many jobs of backfills have not ended. Complete for as long as their job configs are locked.
pub async fn live(tx: &Tx, backfills: &[Uuid]) -> Result<BTreeMap<Uuid, u32>, Error> {
    let mut input = Input::new([uuid("wanted")]);
    for backfill in backfills {
        input.push([(*backfill).into()]);
    }
    if input.is_empty() {
        return Ok(BTreeMap::new());
    }
    let text = "WITH {input} SELECT backfill_id, count(*) AS live FROM job
                WHERE backfill_id IN (SELECT wanted FROM input) AND state IN ('CREATED', 'RUNNING', 'TERMINATING')
                GROUP BY backfill_id";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| Ok((row.column("backfill_id")?, row.count("live")?))).collect()
}

/// Which of these fires (config, schedule, time) made jobs already, and the number of the newest of them.
pub async fn runs(
    tx: &Tx,
    fires: &[(Uuid, &str, Timestamp)],
) -> Result<BTreeMap<(Uuid, String, Timestamp), u32>, Error> {
    let mut input = Input::new([uuid("config"), text("key"), bigint("at")]);
    for (config, key, at) in fires {
        input.push([(*config).into(), (*key).into(), at.0.into()]);
    }
    if input.is_empty() {
        return Ok(BTreeMap::new());
    }
    let text = "WITH {input} SELECT job.job_config_id, job.schedule, job.fire_time, max(job.rerun_no) AS newest
                FROM input JOIN job ON job.job_config_id = input.config AND job.schedule = input.key
                    AND job.fire_time = input.at
                WHERE job.fire_time IS NOT NULL GROUP BY job.job_config_id, job.schedule, job.fire_time";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            let fire = Timestamp(row.column("fire_time")?);
            Ok(((row.column("job_config_id")?, row.column("schedule")?, fire), row.number("newest")?))
        })
        .collect()
}

/// Writes how far a backfill is, whose job config is locked.
pub async fn update(tx: &Tx, row: &BackfillRow) -> Result<(), Error> {
    let text = "UPDATE backfill SET state = :state, reason = :reason, next_at = :next, made = :made,
                    passed_over = :passed, ended_at = :ended WHERE id = :id";
    let params = [
        ("id", row.id.into()),
        ("state", row.state.word().into()),
        ("reason", row.reason.as_str().into()),
        ("next", row.next_at.map(|at| at.0).into()),
        ("made", row.made.cast_signed().into()),
        ("passed", row.passed_over.cast_signed().into()),
        ("ended", row.ended_at.map(|at| at.0).into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// One backfill.
pub async fn find(tx: &Tx, id: Uuid) -> Result<Option<BackfillRow>, Error> {
    let text = format!("SELECT {COLUMNS} FROM backfill WHERE id = :id");
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("id", id.into())])).await?;
    rows.first().map(read).transpose()
}

pub(super) fn read(row: &impl Row) -> Result<BackfillRow, Error> {
    let id: Uuid = row.column("id")?;
    let state: String = row.column("state")?;
    let count = |name: &str| Ok::<_, Error>(row.column::<i64>(name)?.unsigned_abs());
    let time = |name: &str| Ok::<_, Error>(Timestamp(row.column(name)?));
    Ok(BackfillRow {
        id,
        job_config_id: row.column("job_config_id")?,
        namespace: row.column("namespace")?,
        name: row.column("name")?,
        schedule: row.column("schedule")?,
        spec: row.column("spec")?,
        anchor_at: time("anchor_at")?,
        from_at: time("from_at")?,
        to_at: time("to_at")?,
        max_parallel: row.number("max_parallel")?,
        again: row.column("again")?,
        state: State::from_word(&state).ok_or_else(|| unreadable("backfill", id, "the state is not one of ours"))?,
        reason: row.column("reason")?,
        next_at: row.time("next_at")?,
        total: count("total")?,
        made: count("made")?,
        passed_over: count("passed_over")?,
        created_at: time("created_at")?,
        ended_at: row.time("ended_at")?,
    })
}
