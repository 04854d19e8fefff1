//! Which schedules, and configs with jobs that wait, a turn takes in hand.

use uuid::Uuid;

use super::{COLUMNS, CONFIG, Claimed, Config, LIVE, about, claimed, config};
use crate::{
    domain::time::Timestamp,
    store::{Error, Tx, row::Row as _, sql},
};

/// Claims schedules whose fire is due, or that are to be switched on again, the longest overdue first.
pub async fn claim_due(tx: &Tx, now: Timestamp, limit: u32) -> Result<Vec<Claimed>, Error> {
    let text = format!(
        "SELECT {COLUMNS}, {CONFIG}, CAST(NULL AS bigint) AS job_ended_at
         FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
         WHERE schedule.state IN ('DUE', 'PAUSED') AND schedule.due_at <= :now
         ORDER BY schedule.due_at, schedule.id LIMIT :limit {{skip_locked}}"
    );
    let params = [("now", now.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), &text, &params)).await?;
    rows.iter().map(claimed).collect()
}

/// Claims schedules that waited for jobs to end, where those have ended.
pub async fn claim_released(tx: &Tx, limit: u32) -> Result<Vec<Claimed>, Error> {
    let text = format!(
        "SELECT {COLUMNS}, {CONFIG},
             (SELECT job.ended_at FROM job WHERE job.job_config_id = schedule.job_config_id
              AND job.schedule = schedule.key AND job.fire_time = schedule.last_fire_at
              AND job.rerun_no = 0) AS job_ended_at
         FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
         WHERE schedule.id IN (SELECT id FROM schedule WHERE state IN ('TURN', 'END'))
         AND schedule.state IN ('TURN', 'END') AND (
             SELECT job.id FROM job WHERE job.job_config_id = schedule.job_config_id AND job.state IN {LIVE}
             AND job.backfill_id IS NULL
             AND (schedule.state = 'TURN'
                  OR (job.schedule = schedule.key AND job.fire_time = schedule.last_fire_at)) LIMIT 1) IS NULL
         ORDER BY schedule.id LIMIT :limit {{skip_locked}}"
    );
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(claimed).collect()
}

/// Locks configs with a job that waits while nothing of theirs runs. One that waits for a place alone counts as
/// if it ran: it will, whatever else does.
pub async fn claim_held(tx: &Tx, limit: u32) -> Result<Vec<Config>, Error> {
    let text = format!(
        "SELECT id, namespace, name, version FROM job_config WHERE id IN (
             SELECT job.job_config_id FROM job WHERE job.state = 'CREATED' AND job.waiting AND NOT job.held
             AND NOT EXISTS (
                 SELECT 1 FROM job AS other WHERE other.job_config_id = job.job_config_id AND other.state IN {LIVE}
                 AND other.backfill_id IS NULL AND (other.held OR NOT other.waiting)))
         ORDER BY id LIMIT :limit {{skip_locked}}"
    );
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| config(row, row.column("id")?)).collect()
}

/// Claims schedules whose next fire was worked out by a clock that was ahead of this instant, whatever they wait for.
pub async fn claim_planned_ahead(tx: &Tx, of: Timestamp, limit: u32) -> Result<Vec<Claimed>, Error> {
    let text = format!(
        "SELECT {COLUMNS}, {CONFIG}, CAST(NULL AS bigint) AS job_ended_at
         FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
         WHERE schedule.planned_at > :of ORDER BY schedule.planned_at LIMIT :limit {{skip_locked}}"
    );
    let params = [("of", of.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), &text, &params)).await?;
    rows.iter().map(claimed).collect()
}

/// Claims schedules by their ids.
pub async fn claim_these(tx: &Tx, ids: &[Uuid]) -> Result<Vec<Claimed>, Error> {
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS}, {CONFIG}, CAST(NULL AS bigint) AS job_ended_at
         FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
         WHERE schedule.id IN (SELECT config FROM input) {{skip_locked}}"
    );
    let Some(statement) = about(tx, ids, &text) else { return Ok(Vec::new()) };
    tx.query(statement).await?.iter().map(claimed).collect()
}
