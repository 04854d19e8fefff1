//! Questions that only an explanation asks: how parents stand, what goes before a task in the queue.

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::word;
use crate::{
    domain::{
        gate::SkipCause,
        pick::Class,
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::{
        Error, Store,
        entity::task,
        row::{Row as _, unreadable},
        sql,
    },
};

/// How many nodes one statement asks about.
const NODES_MAX: usize = 500;
/// How many tasks before one in the queue are counted.
const AHEAD_MAX: u32 = 10_000;

/// Where a task stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// What a runner must have to take it.
    pub class: Class,
    /// How many tasks of its class go before it, as far as they were counted.
    pub ahead: u32,
    /// Whether there are more.
    pub more_ahead: bool,
}

impl Store {
    /// How the tasks and groups of some nodes of a job stand.
    pub async fn standings(
        &self,
        job: Uuid,
        nodes: &[u32],
    ) -> Result<BTreeMap<u32, (TaskState, Option<SkipCause>)>, Error> {
        use task::Column as C;
        let mut standings = BTreeMap::new();
        for nodes in nodes.chunks(NODES_MAX) {
            let rows: Vec<(i32, String, Option<String>)> = of_nodes(job, nodes)
                .select_only()
                .columns([C::Node, C::State, C::SkipCause])
                .into_tuple()
                .all(self.reader())
                .await?;
            for (node, state, cause) in rows {
                let state = word("task", job, &state, TaskState::from_word)?;
                let cause = cause.map(|cause| word("task", job, &cause, SkipCause::from_word)).transpose()?;
                standings.insert(node.cast_unsigned(), (state, cause));
            }
        }
        Ok(standings)
    }

    /// State and output of some nodes of a job.
    pub async fn outputs(&self, job: Uuid, nodes: &[u32]) -> Result<Vec<(u32, TaskState, String)>, Error> {
        use task::Column as C;
        let mut outputs = Vec::with_capacity(nodes.len());
        for nodes in nodes.chunks(NODES_MAX) {
            let rows: Vec<(i32, String, String)> = of_nodes(job, nodes)
                .select_only()
                .columns([C::Node, C::State, C::Output])
                .into_tuple()
                .all(self.reader())
                .await?;
            for (node, state, output) in rows {
                outputs.push((node.cast_unsigned(), word("task", job, &state, TaskState::from_word)?, output));
            }
        }
        Ok(outputs)
    }

    /// Where a task stands in the queue, in the picker's order; nothing when it is not queued.
    pub async fn place_in_queue(&self, id: Uuid, now: Timestamp) -> Result<Option<Place>, Error> {
        let row = task::Entity::find_by_id(id).one(self.reader()).await?;
        let Some(row) = row.filter(|row| row.state == TaskState::Queued.word()) else { return Ok(None) };
        let class = Class::parse(&row.class).ok_or_else(|| unreadable("task", id, "its class is none"))?;
        let text = "SELECT count(*) AS ahead FROM (
                        SELECT 1 FROM task WHERE state = 'QUEUED' AND class = :class AND not_before <= :now
                        AND (priority > :priority OR priority = :priority
                             AND (queued_at < :queued_at OR queued_at = :queued_at AND id < :id))
                        LIMIT :most) AS first";
        let params = [
            ("class", row.class.into()),
            ("now", now.0.into()),
            ("priority", row.priority.into()),
            ("queued_at", row.queued_at.unwrap_or_default().into()),
            ("id", id.into()),
            ("most", i64::from(AHEAD_MAX + 1).into()),
        ];
        let row = self.reader().query_one_raw(sql::statement(self.backend(), text, &params)).await?;
        let ahead: i64 = row.map(|row| row.column("ahead")).transpose()?.unwrap_or_default();
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        Ok(Some(Place { class, ahead: Ord::min(ahead, AHEAD_MAX), more_ahead: ahead > AHEAD_MAX }))
    }

    /// How many shards of a group wait for their turn before this one.
    pub async fn shards_waiting_before(&self, group: Uuid, index: u32) -> Result<u32, Error> {
        let waiting = task::Entity::find()
            .filter(task::Column::GroupId.eq(group))
            .filter(task::Column::State.eq(TaskState::Created.word()))
            .filter(task::Column::ShardIndex.lt(index.cast_signed()))
            .count(self.reader())
            .await?;
        Ok(u32::try_from(waiting).unwrap_or(u32::MAX))
    }

    /// The tasks of a job by state, without shards.
    pub async fn task_states(&self, job: Uuid) -> Result<BTreeMap<TaskState, u32>, Error> {
        let counts: Vec<(String, i64)> = task::Entity::find()
            .filter(task::Column::JobId.eq(job))
            .filter(task::Column::Kind.ne(Kind::Shard.word()))
            .select_only()
            .column(task::Column::State)
            .expr(Expr::col(task::Column::Id).count())
            .group_by(task::Column::State)
            .into_tuple()
            .all(self.reader())
            .await?;
        counts
            .into_iter()
            .map(|(state, count)| {
                let state = word("task", job, &state, TaskState::from_word)?;
                Ok((state, u32::try_from(count).unwrap_or(u32::MAX)))
            })
            .collect()
    }

    /// The first nodes of a job, in the order of the definition, whose tasks are in one of these states.
    pub async fn nodes_in(&self, job: Uuid, states: &[TaskState], limit: u64) -> Result<Vec<u32>, Error> {
        let nodes: Vec<i32> = task::Entity::find()
            .filter(task::Column::JobId.eq(job))
            .filter(task::Column::Kind.ne(Kind::Shard.word()))
            .filter(task::Column::State.is_in(states.iter().map(|state| state.word())))
            .order_by_asc(task::Column::Node)
            .limit(limit)
            .select_only()
            .column(task::Column::Node)
            .into_tuple()
            .all(self.reader())
            .await?;
        Ok(nodes.into_iter().map(i32::cast_unsigned).collect())
    }
}

/// The tasks and groups, never shards, of some nodes.
fn of_nodes(job: Uuid, nodes: &[u32]) -> sea_orm::Select<task::Entity> {
    task::Entity::find()
        .filter(task::Column::JobId.eq(job))
        .filter(task::Column::Node.is_in(nodes.iter().map(|node| node.cast_signed())))
        .filter(task::Column::ShardIndex.eq(-1))
}
