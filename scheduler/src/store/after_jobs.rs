//! Job configs that come after others: which of those have finished, and the jobs that are made of it.
//!
//! The turn that ends a job writes down for each config that comes after its own that it finished; the turn that makes
//! the job of such a config takes those rows away again, under the lock of the config. So nothing is counted twice or
//! lost, whoever ends what and wherever.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
    schedule::{self, Config},
    sql::{self, Input, bigint, text, uuid},
};
use crate::domain::time::Timestamp;

/// A job that finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub job: Uuid,
    /// The namespace of its config.
    pub namespace: String,
    /// The name of its config.
    pub name: String,
    /// When it ended.
    pub ended_at: Timestamp,
}

/// The first job of a config that finished since the config after it was started last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name of its config.
    pub name: String,
    /// The job.
    pub job: Uuid,
    /// How many jobs one after the other led to it.
    pub depth: u32,
}

/// Whether any job config comes after another, as 1 or 0.
pub(super) const ANY: &str = "CASE WHEN EXISTS (SELECT 1 FROM job_config_use WHERE kind = 'AFTER') THEN 1 ELSE 0 END";

/// Whether any job config comes after another.
pub async fn any(tx: &Tx) -> Result<bool, Error> {
    let rows = tx.query(sql::statement(tx.backend(), &format!("SELECT {ANY} AS found"), &[])).await?;
    Ok(rows.first().map(|row| row.number("found")).transpose()?.unwrap_or_default() == 1)
}

/// Writes down that jobs finished, for each config that comes after theirs. Of several jobs of one config the first
/// counts; a job that such a config has counted already counts no more, although it was run again. Returns how many rows
/// that made.
pub async fn note(tx: &Tx, finished: &[Finished]) -> Result<u64, Error> {
    if finished.is_empty() {
        return Ok(0);
    }
    let mut input = Input::new([uuid("job"), text("space"), text("label"), bigint("at")]);
    for one in finished {
        input.push([one.job.into(), one.namespace.as_str().into(), one.name.as_str().into(), one.ended_at.0.into()]);
    }
    let text = "WITH {input} INSERT INTO after_end (job_config_id, name, job_id, ended_at)
                SELECT job_config_use.job_config_id, input.label, input.job, input.at FROM input
                JOIN job_config_use ON job_config_use.kind = 'AFTER' AND job_config_use.namespace = input.space
                    AND job_config_use.name = input.label
                WHERE NOT EXISTS (SELECT 1 FROM job_source
                    WHERE job_source.job_config_id = job_config_use.job_config_id
                    AND job_source.source_job_id = input.job)
                AND NOT EXISTS (SELECT 1 FROM after_counted
                    WHERE after_counted.source_job_id = input.job
                    AND after_counted.job_config_id = job_config_use.job_config_id)
                ORDER BY job_config_use.job_config_id, input.label, input.job
                ON CONFLICT (job_config_id, name) DO NOTHING";
    tx.execute(input.statement(tx.backend(), text, &[])).await
}

/// Locks configs of which all that they come after have finished. Never waits: what another scheduler has in hand is left
/// to it.
pub async fn claim_ready(tx: &Tx, limit: u32) -> Result<Vec<Config>, Error> {
    let text = "SELECT id, namespace, name, version FROM job_config
                WHERE deleted_at IS NULL AND id IN (SELECT job_config_id FROM after_end)
                AND NOT EXISTS (SELECT 1 FROM job_config_use WHERE job_config_use.job_config_id = job_config.id
                    AND job_config_use.kind = 'AFTER' AND NOT EXISTS (
                        SELECT 1 FROM after_end WHERE after_end.job_config_id = job_config_use.job_config_id
                        AND after_end.name = job_config_use.name))
                ORDER BY id LIMIT :limit {skip_locked}";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| schedule::config(row, row.column("id")?)).collect()
}

/// What has finished for these locked configs.
pub async fn sources(tx: &Tx, configs: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<Source>>, Error> {
    let mut found: BTreeMap<Uuid, Vec<Source>> = BTreeMap::new();
    if configs.is_empty() {
        return Ok(found);
    }
    let text = "WITH {input} SELECT after_end.job_config_id, after_end.name, after_end.job_id,
                    coalesce(job.depth, 0) AS depth
                FROM after_end LEFT JOIN job ON job.id = after_end.job_id
                WHERE after_end.job_config_id IN (SELECT config FROM input)
                ORDER BY after_end.job_config_id, after_end.name";
    for row in tx.query(of(configs).statement(tx.backend(), text, &[])).await? {
        let source = Source { name: row.column("name")?, job: row.column("job_id")?, depth: row.number("depth")? };
        found.entry(row.column("job_config_id")?).or_default().push(source);
    }
    Ok(found)
}

/// Takes away what was counted for these locked configs: from now on the next round is counted.
pub async fn clear(tx: &Tx, configs: &[Uuid]) -> Result<(), Error> {
    if configs.is_empty() {
        return Ok(());
    }
    let text = "WITH {input} DELETE FROM after_end WHERE job_config_id IN (SELECT config FROM input)";
    tx.execute(of(configs).statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Writes down after which jobs a job was made.
pub async fn record(tx: &Tx, job: Uuid, config: Uuid, sources: &[Source]) -> Result<(), Error> {
    let mut input = Input::new([uuid("source"), text("label")]);
    for source in sources {
        input.push([source.job.into(), source.name.as_str().into()]);
    }
    let text = "WITH {input} INSERT INTO job_source (job_id, job_config_id, source_job_id, name)
                SELECT :job, :config, source, label FROM input";
    let params = [("job", job.into()), ("config", config.into())];
    tx.execute(input.statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Takes away what these locked configs have counted already: jobs that were run again.
pub async fn forget_counted(tx: &Tx, configs: &[Uuid]) -> Result<(), Error> {
    if configs.is_empty() {
        return Ok(());
    }
    let text = "WITH {input} DELETE FROM after_end WHERE job_config_id IN (SELECT config FROM input)
                AND (EXISTS (SELECT 1 FROM job_source WHERE job_source.job_config_id = after_end.job_config_id
                        AND job_source.source_job_id = after_end.job_id)
                    OR EXISTS (SELECT 1 FROM after_counted WHERE after_counted.source_job_id = after_end.job_id
                        AND after_counted.job_config_id = after_end.job_config_id))";
    tx.execute(of(configs).statement(tx.backend(), text, &[])).await?;
    Ok(())
}

fn of(configs: &[Uuid]) -> Input<1> {
    let mut input = Input::new([uuid("config")]);
    for config in configs {
        input.push([(*config).into()]);
    }
    input
}
