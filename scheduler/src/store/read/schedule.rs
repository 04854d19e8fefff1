//! Questions about schedules and the fires that made no job.

use sea_orm::{ConnectionTrait as _, QueryResult};
use uuid::Uuid;

use super::Page;
use crate::{
    domain::{schedule::Spec, time::Timestamp},
    store::{
        Error, Store,
        row::{Row as _, unreadable},
        schedule::State,
        sql::{self, Input},
    },
};

/// A schedule as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its id.
    pub id: Uuid,
    /// The namespace of its job config.
    pub namespace: String,
    /// The name of its job config.
    pub config: String,
    /// What it is known by within that.
    pub key: String,
    /// What it says; `None` when that cannot be read.
    pub spec: Option<Spec>,
    /// What it waits for.
    pub state: State,
    /// Why it waits for nothing, if it does.
    pub reason: String,
    /// The fire it waits for.
    pub next_fire_at: Option<Timestamp>,
    /// When that is to be decided; of one that is switched off, when it goes on.
    pub due_at: Option<Timestamp>,
    /// The newest fire that was decided.
    pub last_fire_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Where a listing of schedules goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScheduleKey {
    /// The next fire of the last one seen; what never fires comes last.
    pub at: i64,
    /// Its id.
    pub id: Uuid,
}

/// Fires that made no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedFires {
    /// The schedule.
    pub key: String,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: String,
}

/// Where a listing of fires goes on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FireKey {
    /// The last fire of the last row seen.
    pub last: i64,
    /// Its schedule.
    pub key: String,
}

const COLUMNS: &str = "schedule.id, job_config.namespace, job_config.name, schedule.key, schedule.spec, schedule.state,
    schedule.reason, schedule.next_fire_at, schedule.due_at, schedule.last_fire_at, schedule.created_at";
/// Stands for the fire of what fires no more.
const NEVER: i64 = i64::MAX;

impl Schedule {
    /// Where a listing goes on after it.
    pub fn cursor(&self) -> ScheduleKey {
        ScheduleKey { at: self.next_fire_at.map_or(NEVER, |at| at.0), id: self.id }
    }
}

impl MissedFires {
    /// Where a listing goes on after it.
    pub fn cursor(&self) -> FireKey {
        FireKey { last: self.last.0, key: self.key.clone() }
    }
}

impl Store {
    /// Schedules by their next fire, after the one given; an empty namespace or name means all. With `overdue_at` only
    /// those whose fire was due then.
    pub async fn schedules(
        &self,
        namespace: &str,
        name: &str,
        overdue_at: Option<Timestamp>,
        after: Option<ScheduleKey>,
        limit: u64,
    ) -> Result<Page<Schedule>, Error> {
        // Each condition only where it is wanted, so that the index of the order, or of what is due, serves it.
        let mut wanted = String::new();
        for (given, condition) in [
            (!namespace.is_empty(), " AND job_config.namespace = :namespace"),
            (!name.is_empty(), " AND job_config.name = :name"),
            (overdue_at.is_some(), " AND schedule.state IN ('DUE', 'PAUSED') AND schedule.due_at <= :overdue_at"),
        ] {
            wanted.push_str(if given { condition } else { "" });
        }
        let text = format!(
            "SELECT {COLUMNS} FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
             WHERE (coalesce(schedule.next_fire_at, {NEVER}), schedule.id) > (:at, :id){wanted}
             ORDER BY coalesce(schedule.next_fire_at, {NEVER}), schedule.id LIMIT :limit"
        );
        let after = after.unwrap_or(ScheduleKey { at: i64::MIN, id: Uuid::nil() });
        let params = [
            ("namespace", namespace.into()),
            ("name", name.into()),
            ("overdue_at", overdue_at.map(|at| at.0).into()),
            ("at", after.at.into()),
            ("id", after.id.into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        Ok(Page::cut(rows.iter().map(read).collect::<Result<_, Error>>()?, limit))
    }

    /// The schedules of job configs (namespace, name), by config and key.
    pub async fn schedules_of(&self, configs: &[(String, String)]) -> Result<Vec<Schedule>, Error> {
        if configs.is_empty() {
            return Ok(Vec::new());
        }
        let mut input = Input::new([sql::text("namespace"), sql::text("name")]);
        for (namespace, name) in configs {
            input.push([namespace.as_str().into(), name.as_str().into()]);
        }
        let text = format!(
            "WITH {{input}} SELECT {COLUMNS} FROM schedule JOIN job_config ON job_config.id = schedule.job_config_id
             WHERE (job_config.namespace, job_config.name) IN (SELECT namespace, name FROM input)
             ORDER BY job_config.namespace, job_config.name, schedule.key"
        );
        let rows = self.reader().query_all_raw(input.statement(self.backend(), &text, &[])).await?;
        rows.iter().map(read).collect()
    }

    /// The fires of a job config that made no job, newest first, below the row given.
    pub async fn fires(&self, config: Uuid, below: Option<&FireKey>, limit: u64) -> Result<Page<MissedFires>, Error> {
        let text = "SELECT schedule, first_at, last_at, count, reason FROM fire WHERE job_config_id = :config
                        AND (last_at < :last OR (last_at = :last AND schedule > :key))
                    ORDER BY last_at DESC, schedule LIMIT :limit";
        let params = [
            ("config", config.into()),
            ("last", below.map_or(i64::MAX, |below| below.last).into()),
            ("key", below.map_or("", |below| below.key.as_str()).into()),
            ("limit", i64::try_from(limit + 1).unwrap_or(i64::MAX).into()),
        ];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), text, &params)).await?;
        let rows = rows.iter().map(|row| {
            Ok(MissedFires {
                key: row.column("schedule")?,
                first: Timestamp(row.column("first_at")?),
                last: Timestamp(row.column("last_at")?),
                count: row.column::<i64>("count")?.unsigned_abs(),
                reason: row.column("reason")?,
            })
        });
        Ok(Page::cut(rows.collect::<Result<_, Error>>()?, limit))
    }
}

fn read(row: &QueryResult) -> Result<Schedule, Error> {
    let id: Uuid = row.column("id")?;
    let state: String = row.column("state")?;
    let spec: String = row.column("spec")?;
    Ok(Schedule {
        id,
        namespace: row.column("namespace")?,
        config: row.column("name")?,
        key: row.column("key")?,
        spec: serde_json::from_str(&spec).ok(),
        state: State::from_word(&state).ok_or_else(|| unreadable("schedule", id, "the state is not one of ours"))?,
        reason: row.column("reason")?,
        next_fire_at: row.time("next_fire_at")?,
        due_at: row.time("due_at")?,
        last_fire_at: row.time("last_fire_at")?,
        created_at: Timestamp(row.column("created_at")?),
    })
}
