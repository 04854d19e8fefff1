//! The places of job configs: how many of their jobs may run at once, and which wait for one. Decided under the lock of the
//! config.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
    sql::{self, Input, uuid},
};
use crate::domain::job::Places;

/// A job that waits for nothing but its turn in the engine, or runs. One that waits has no place yet.
const HAS_A_PLACE: &str = "NOT job.waiting AND job.state IN ('CREATED', 'RUNNING', 'TERMINATING')";

/// Jobs of a config that are over but for an attempt that may go on somewhere: its runner is lost, and its end not proven.
/// Such a job keeps its place until that runner is heard. That there is a runner leads both databases to the index of these
/// attempts, which holds no others.
const OUTLIVED: &str = "(SELECT count(DISTINCT CASE WHEN job_config.id = (
        SELECT job.job_config_id FROM job WHERE job.id = task.job_id
        AND job.state NOT IN ('CREATED', 'RUNNING', 'TERMINATING')) THEN task.job_id END)
    FROM task WHERE NOT task.gone AND task.runner_id >= '')";

/// Locks configs that have a place for a job which waits for one; those that others have locked are left out.
pub async fn claim(tx: &Tx, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = format!(
        "SELECT id FROM job_config WHERE id IN (SELECT job_config_id FROM job WHERE state = 'CREATED' AND held)
         AND (max_active_jobs IS NULL OR max_active_jobs >
              (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND {HAS_A_PLACE}) + {OUTLIVED})
         ORDER BY id LIMIT :limit {{skip_locked}}"
    );
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// How the places of locked configs stand, asked in a statement after the one that locked them.
pub async fn of_configs(tx: &Tx, configs: &[Uuid]) -> Result<BTreeMap<Uuid, Places>, Error> {
    if configs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut input = Input::new([uuid("config")]);
    for config in configs {
        input.push([(*config).into()]);
    }
    let text = format!(
        "WITH {{input}} SELECT id, max_active_jobs,
             (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND {HAS_A_PLACE}) + {OUTLIVED}
                 AS active,
             (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND job.state = 'CREATED'
              AND job.held) AS held
         FROM job_config WHERE id IN (SELECT config FROM input)"
    );
    let rows = tx.query(input.statement(tx.backend(), &text, &[])).await?;
    rows.iter()
        .map(|row| {
            let count = |name| row.column::<i64>(name).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let places =
                Places { max: row.maybe_number("max_active_jobs")?, active: count("active")?, held: count("held")? };
            Ok((row.column("id")?, places))
        })
        .collect()
}

/// The jobs of a locked config that wait for a place, the oldest first.
pub async fn held(tx: &Tx, config: Uuid, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text =
        "SELECT id FROM job WHERE job_config_id = :config AND state = 'CREATED' AND held ORDER BY id LIMIT :limit";
    let params = [("config", config.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}
