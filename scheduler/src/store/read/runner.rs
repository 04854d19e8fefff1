//! Questions about runners.

use std::collections::{BTreeMap, HashMap};

use sea_orm::{
    ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _, Select,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::{NAMES_MAX, Page, has_labels, map, parse};
use crate::{
    domain::time::Timestamp,
    store::{
        Error, Store,
        entity::{runner, task},
        task::HOLDS_SLOT,
    },
};

/// A runner, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Its id.
    pub id: String,
    /// Whether a session of it counts.
    pub has_session: bool,
    /// The scheduler that holds it.
    pub scheduler_id: Option<Uuid>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its software version.
    pub version: String,
    /// What it can run.
    pub capabilities: Vec<String>,
    /// How many tasks it can run at once.
    pub slots: u32,
    /// How many of them hold a task.
    pub slots_busy: u32,
    /// Drained by an operator.
    pub drained: bool,
    /// Draining by itself.
    pub draining: bool,
    /// Why it drains.
    pub drain_reason: String,
    /// When it was last heard.
    pub last_seen_at: Timestamp,
    /// Until when its scheduler said it would be away.
    pub hold_until: Option<Timestamp>,
    /// When it first said hello.
    pub created_at: Timestamp,
}

impl Store {
    /// One runner.
    pub async fn runner(&self, id: &str) -> Result<Option<Runner>, Error> {
        let row = runner::Entity::find_by_id(id).one(self.reader()).await?;
        Ok(self.with_busy_slots(row.into_iter().collect()).await?.pop())
    }

    /// Runners by id, after the one given.
    pub async fn runners(
        &self,
        labels: &BTreeMap<String, String>,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Page<Runner>, Error> {
        let mut question = runner::Entity::find().filter(has_labels(self.backend(), runner::Column::Labels, labels));
        if let Some(after) = after {
            question = question.filter(runner::Column::Id.gt(after));
        }
        let rows = question.order_by_asc(runner::Column::Id).limit(limit + 1).all(self.reader()).await?;
        let page = Page::cut(rows, limit);
        Ok(Page { rows: self.with_busy_slots(page.rows).await?, more: page.more })
    }

    /// Ids of runners, to find the one that was meant.
    pub async fn runner_ids(&self) -> Result<Vec<String>, Error> {
        Ok(runner::Entity::find()
            .select_only()
            .column(runner::Column::Id)
            .order_by_asc(runner::Column::Id)
            .limit(NAMES_MAX)
            .into_tuple()
            .all(self.reader())
            .await?)
    }

    async fn with_busy_slots(&self, rows: Vec<runner::Model>) -> Result<Vec<Runner>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let busy: Vec<(String, i64)> =
            busy_slots(rows.iter().map(|row| row.id.as_str())).into_tuple().all(self.reader()).await?;
        let busy: HashMap<String, i64> = busy.into_iter().collect();
        rows.into_iter()
            .map(|row| {
                Ok(Runner {
                    labels: map("runner", &row.id, &row.labels)?,
                    capabilities: parse("runner", &row.id, &row.capabilities)?,
                    slots_busy: busy.get(&row.id).map_or(0, |count| u32::try_from(*count).unwrap_or(u32::MAX)),
                    id: row.id,
                    has_session: row.session_id.is_some(),
                    scheduler_id: row.scheduler_id,
                    version: row.version,
                    slots: row.slots.cast_unsigned(),
                    drained: row.drained,
                    draining: row.draining,
                    drain_reason: row.drain_reason,
                    last_seen_at: Timestamp(row.last_seen_at),
                    hold_until: row.hold_until.map(Timestamp),
                    created_at: Timestamp(row.created_at),
                })
            })
            .collect()
    }
}

/// How many slots of each of these runners hold a task.
fn busy_slots<'a>(runners: impl Iterator<Item = &'a str>) -> Select<task::Entity> {
    task::Entity::find()
        .filter(task::Column::RunnerId.is_in(runners))
        .filter(Expr::cust(HOLDS_SLOT))
        .select_only()
        .column(task::Column::RunnerId)
        .expr(Expr::col(task::Column::Id).count())
        .group_by(task::Column::RunnerId)
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectionTrait as _, DbBackend, QueryTrait as _, Statement};

    use super::*;
    use crate::{domain::task::TaskState, store::testing};

    #[test]
    fn the_index_over_held_slots_is_about_the_states_that_hold_one() {
        let words: Vec<String> = TaskState::ALL
            .iter()
            .filter(|state| state.holds_slot())
            .map(|state| format!("'{}'", state.word()))
            .collect();
        assert_eq!(HOLDS_SLOT, format!("state IN ({})", words.join(", ")));
    }

    #[tokio::test]
    async fn counting_busy_slots_does_not_read_what_has_ended() {
        let world = testing::sqlite().await;
        let question = busy_slots(["a", "b"].into_iter()).build(DbBackend::Sqlite);
        let explain = Statement::from_sql_and_values(
            DbBackend::Sqlite,
            format!("EXPLAIN QUERY PLAN {}", question.sql),
            question.values.map(|values| values.0).unwrap_or_default(),
        );
        let rows = world.store.reader().query_all_raw(explain).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.try_get("", "detail").unwrap()).collect();
        assert!(plan.iter().any(|step| step.contains("USING INDEX task_held")), "{plan:?}");
    }
}
