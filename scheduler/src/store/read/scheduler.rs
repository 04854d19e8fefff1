//! Questions about schedulers.

use std::collections::HashMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::{Page, word};
use crate::{
    domain::{scheduler::SchedulerState, time::Timestamp},
    store::{
        Error, Store,
        entity::{runner, scheduler},
        sql,
    },
};

/// A scheduler, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// Its id.
    pub id: Uuid,
    /// Where it is reached.
    pub address: String,
    /// Its software version.
    pub version: String,
    /// What it does, as it said last.
    pub state: SchedulerState,
    /// When it started.
    pub started_at: Timestamp,
    /// When it last wrote.
    pub last_seen_at: Timestamp,
    /// How many runners it holds a stream to.
    pub runners: u32,
}

impl Store {
    /// One scheduler.
    pub async fn scheduler(&self, id: Uuid) -> Result<Option<Scheduler>, Error> {
        let row = scheduler::Entity::find_by_id(id).one(self.reader()).await?;
        Ok(self.with_runners(row.into_iter().collect()).await?.pop())
    }

    /// Schedulers, newest first, below the one given.
    pub async fn schedulers(&self, below: Option<Uuid>, limit: u64) -> Result<Page<Scheduler>, Error> {
        let mut question = scheduler::Entity::find();
        if let Some(below) = below {
            question = question.filter(scheduler::Column::Id.lt(below));
        }
        let rows = question.order_by_desc(scheduler::Column::Id).limit(limit + 1).all(self.reader()).await?;
        let page = Page::cut(rows, limit);
        Ok(Page { rows: self.with_runners(page.rows).await?, more: page.more })
    }

    /// The time by the clock of the database, which is the one that runners and schedulers were last seen by.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        let statement = sql::statement(self.backend(), "SELECT {now} AS now", &[]);
        let row = self.reader().query_one_raw(statement).await?;
        let now = row.map(|row| row.try_get("", "now")).transpose()?;
        Ok(Timestamp(now.unwrap_or_default()))
    }

    async fn with_runners(&self, rows: Vec<scheduler::Model>) -> Result<Vec<Scheduler>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let held: Vec<(Uuid, i64)> = runner::Entity::find()
            .filter(runner::Column::SchedulerId.is_in(rows.iter().map(|row| row.id)))
            .filter(runner::Column::SessionId.is_not_null())
            .select_only()
            .column(runner::Column::SchedulerId)
            .expr(Expr::col(runner::Column::Id).count())
            .group_by(runner::Column::SchedulerId)
            .into_tuple()
            .all(self.reader())
            .await?;
        let held: HashMap<Uuid, i64> = held.into_iter().collect();
        rows.into_iter()
            .map(|row| {
                Ok(Scheduler {
                    runners: held.get(&row.id).map_or(0, |count| u32::try_from(*count).unwrap_or(u32::MAX)),
                    state: word("scheduler", row.id, &row.state, SchedulerState::from_word)?,
                    id: row.id,
                    address: row.address,
                    version: row.version,
                    started_at: Timestamp(row.started_at),
                    last_seen_at: Timestamp(row.last_seen_at),
                })
            })
            .collect()
    }
}
