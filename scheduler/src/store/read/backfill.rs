//! Questions about backfills.

use sea_orm::{ConnectionTrait as _, QueryResult};
use uuid::Uuid;

use super::{Found, Page};
use crate::{
    domain::time::Timestamp,
    store::{
        Error, Store,
        backfill::{self, BackfillRow},
        row::Row as _,
        sql::{self, Input},
    },
};

/// A backfill, and how its jobs stand.
#[derive(Debug, Clone, PartialEq)]
pub struct Backfill {
    /// The backfill.
    pub row: BackfillRow,
    /// How many of its jobs live.
    pub live: u64,
    /// How many FINISHED.
    pub finished: u64,
    /// How many ended otherwise.
    pub failed: u64,
}

fn columns() -> String {
    let jobs = |states: &str| {
        format!("(SELECT count(*) FROM job WHERE job.backfill_id = backfill.id AND job.state IN ({states}))")
    };
    format!(
        "{}, {} AS live, {} AS finished, {} AS failed",
        backfill::COLUMNS,
        jobs("'CREATED', 'RUNNING', 'TERMINATING'"),
        jobs("'FINISHED'"),
        jobs("'FAILED', 'SKIPPED', 'TERMINATED'")
    )
}

impl Store {
    /// One backfill.
    pub async fn backfill(&self, id: Uuid) -> Result<Option<Backfill>, Error> {
        let text = format!("SELECT {} FROM backfill WHERE id = :id", columns());
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &[("id", id.into())])).await?;
        rows.first().map(read).transpose()
    }

    /// Backfills, newest first, below the one given; an empty namespace or name means all.
    pub async fn backfills(
        &self,
        namespace: &str,
        name: &str,
        below: Option<Uuid>,
        limit: u64,
    ) -> Result<Page<Backfill>, Error> {
        let text = format!(
            "SELECT {} FROM backfill WHERE (:namespace = '' OR backfill.namespace = :namespace)
                 AND (:name = '' OR backfill.name = :name) AND backfill.id < :below
             ORDER BY backfill.id DESC LIMIT :limit",
            columns()
        );
        let params = [
            ("namespace", namespace.into()),
            ("name", name.into()),
            ("below", below.unwrap_or(Uuid::max()).into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        Ok(Page::cut(rows.iter().map(read).collect::<Result<_, Error>>()?, limit))
    }

    /// Finds a backfill by its id, or by a unique beginning or end of it among the newest.
    pub async fn find_backfill(&self, part: &str) -> Result<Found, Error> {
        let text = "SELECT id FROM backfill ORDER BY id DESC LIMIT :limit";
        let limit = i64::try_from(super::NAMES_MAX).unwrap_or(i64::MAX);
        let rows =
            self.reader().query_all_raw(sql::statement(self.backend(), text, &[("limit", limit.into())])).await?;
        let known: Vec<Uuid> = rows.iter().map(|row| row.column("id")).collect::<Result<_, _>>()?;
        Ok(Found::among(part, &known))
    }

    /// Which fires of a schedule have a job already.
    pub async fn fires_with_jobs(
        &self,
        config: Uuid,
        schedule: &str,
        fires: &[Timestamp],
    ) -> Result<Vec<Timestamp>, Error> {
        let mut input = Input::new([sql::bigint("at")]);
        for fire in fires {
            input.push([fire.0.into()]);
        }
        if input.is_empty() {
            return Ok(Vec::new());
        }
        let text = "WITH {input} SELECT DISTINCT job.fire_time FROM input JOIN job ON job.fire_time = input.at
                    WHERE job.job_config_id = :config AND job.schedule = :schedule AND job.fire_time IS NOT NULL";
        let params = [("config", config.into()), ("schedule", schedule.into())];
        let rows = self.reader().query_all_raw(input.statement(self.backend(), text, &params)).await?;
        rows.iter().map(|row| Ok(Timestamp(row.column("fire_time")?))).collect()
    }
}

fn read(row: &QueryResult) -> Result<Backfill, Error> {
    let count = |name: &str| Ok::<_, Error>(row.column::<i64>(name)?.unsigned_abs());
    Ok(Backfill {
        row: backfill::read(row)?,
        live: count("live")?,
        finished: count("finished")?,
        failed: count("failed")?,
    })
}
