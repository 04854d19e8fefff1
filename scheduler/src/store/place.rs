//! The places of job configs: how many of their jobs may run at once, and which wait for one. Decided under the lock of the
//! config.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row,
    sql::{self, Input, uuid},
};
use crate::domain::job::Places;

/// A job that waits for nothing but its turn in the engine, or runs. One that waits has no place yet.
pub(super) const HAS_A_PLACE: &str = "NOT job.waiting AND job.state IN ('CREATED', 'RUNNING', 'TERMINATING')";

/// A job that waits for a place.
pub(super) const HELD: &str = "job.state = 'CREATED' AND job.held";

/// Attempts that may go on somewhere though their jobs, which are of this config, are over: their runner is lost, and their end
/// not proven. Such a job keeps its place until that runner is heard.
///
/// That there is a runner leads both databases to the index of attempts that may go on, which holds no others.
pub(super) fn outliving(config: &str) -> String {
    format!(
        "FROM task WHERE NOT task.gone AND task.runner_id >= '' AND {config} = (SELECT job.job_config_id FROM job
         WHERE job.id = task.job_id AND job.state NOT IN ('CREATED', 'RUNNING', 'TERMINATING'))"
    )
}

/// How many jobs of a config have a place. The jobs of attempts are counted in a way that SQLite has no index for, and does
/// not take the one over all tasks.
fn active() -> String {
    format!(
        "((SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND {HAS_A_PLACE})
           + (SELECT count(DISTINCT CASE WHEN NOT task.gone THEN task.job_id END) {}))",
        outliving("job_config.id")
    )
}

/// How the places of a config stand, as columns of a question over configs.
pub(super) fn standing() -> String {
    format!(
        "max_active_jobs, {} AS active,
         (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND {HELD}) AS held",
        active()
    )
}

/// Reads the columns of [`standing`].
pub(super) fn read_standing(row: &impl Row) -> Result<Places, Error> {
    Ok(Places { max: row.maybe_number("max_active_jobs")?, active: row.count("active")?, held: row.count("held")? })
}

/// Locks configs that have a place for a job which waits for one; those that others have locked are left out.
pub async fn claim(tx: &Tx, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = format!(
        "SELECT id FROM job_config WHERE id IN (SELECT job_config_id FROM job WHERE {HELD})
         AND (max_active_jobs IS NULL OR max_active_jobs > {})
         ORDER BY id LIMIT :limit {{skip_locked}}",
        active()
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
    let text =
        format!("WITH {{input}} SELECT id, {} FROM job_config WHERE id IN (SELECT config FROM input)", standing());
    let rows = tx.query(input.statement(tx.backend(), &text, &[])).await?;
    rows.iter().map(|row| Ok((row.column("id")?, read_standing(row)?))).collect()
}

/// The jobs of a locked config that wait for a place, the oldest first.
pub async fn held(tx: &Tx, config: Uuid, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = format!("SELECT id FROM job WHERE job_config_id = :config AND {HELD} ORDER BY id LIMIT :limit");
    let params = [("config", config.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), &text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{job::JobState, task::TaskState, time::Timestamp},
        store::{
            config,
            job::{self, JobRow},
            task::{self, TaskRow},
            testing::{
                self,
                rows::{a_job, a_task},
            },
        },
    };

    #[tokio::test]
    async fn a_job_whose_attempt_may_go_on_somewhere_keeps_its_place_and_is_named() {
        for world in testing::worlds().await {
            let tx = world.store.begin().await.unwrap();
            let name = ("default".to_owned(), "job".to_owned());
            config::ensure(&tx, &[name.clone()].into(), Timestamp(1)).await.unwrap();
            let config = config::lock(&tx, std::slice::from_ref(&name)).await.unwrap()[&name].id;
            let of_config = || JobRow { job_config_id: config, ..a_job() };
            let over = JobRow { state: JobState::Failed, ended_at: Some(Timestamp(2)), ..of_config() };
            let gone = JobRow { id: Uuid::now_v7(), ..over.clone() };
            let waits = JobRow { state: JobState::Created, waiting: true, held: true, expanded: 0, ..of_config() };
            let lost = |job, gone| TaskRow { gone, ended_at: Some(Timestamp(2)), ..a_task(job, 0, TaskState::Failed) };
            let (unproven, proven) = (lost(&over, false), lost(&gone, true));
            job::insert(&tx, &[&over, &gone, &waits]).await.unwrap();
            task::insert(&tx, &[&unproven, &proven]).await.unwrap();
            for text in [
                "UPDATE job_config SET max_active_jobs = 1",
                "UPDATE task SET runner_id = 'r', gone = (id <> :unproven)",
            ] {
                let params = [("unproven", unproven.id.into())];
                tx.execute(sql::statement(tx.backend(), text, &params)).await.unwrap();
            }
            let places = Places { max: Some(1), active: 1, held: 1 };
            assert_eq!(of_configs(&tx, &[config]).await.unwrap()[&config], places);
            assert!(claim(&tx, 9).await.unwrap().is_empty(), "there is no place");
            tx.commit().await.unwrap();
            assert_eq!(world.store.places(config, waits.id).await.unwrap(), (places, 0));
            assert_eq!(world.store.with_a_place(config, 9).await.unwrap(), [(over.id, true)]);
        }
    }
}
