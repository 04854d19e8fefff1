//! Questions that only an explanation asks: how parents stand, what goes before a task in the queue.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, PaginatorTrait as _, QueryFilter as _, QueryOrder as _,
    QueryResult, QuerySelect as _,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::word;
use crate::{
    domain::{
        gate::SkipCause,
        job::Places,
        placement::{Class, Holders, rank},
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::{
        Error, Store, concurrency,
        entity::task,
        place::{self, HAS_A_PLACE, HELD},
        row::{Row as _, unreadable},
        sql,
        task::{self as tasks, RANK},
    },
};

/// How many nodes one statement asks about.
const NODES_MAX: usize = 500;
/// How many classes of queued tasks are looked through for a key.
const CLASSES_MAX: u32 = 1_000;
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
                        AND ({RANK} < :rank OR {RANK} = :rank AND id < :id)
                        LIMIT :most) AS first"
            .replace("{RANK}", RANK);
        let rank = rank(row.priority, Timestamp(row.queued_at.unwrap_or_default()));
        let params = [
            ("class", row.class.into()),
            ("now", now.0.into()),
            ("rank", rank.into()),
            ("id", id.into()),
            ("most", i64::from(AHEAD_MAX + 1).into()),
        ];
        let row = self.reader().query_one_raw(sql::statement(self.backend(), &text, &params)).await?;
        let ahead: i64 = row.map(|row| row.column("ahead")).transpose()?.unwrap_or_default();
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        Ok(Some(Place { class, ahead: Ord::min(ahead, AHEAD_MAX), more_ahead: ahead > AHEAD_MAX }))
    }

    /// Who holds a key, counted, and the first few of them: job, node and shard.
    pub async fn key_holders(&self, key: &str, named: u32) -> Result<(Holders, Vec<(Uuid, String)>), Error> {
        let keys = BTreeSet::from([key.to_owned()]);
        let row = self.reader().query_one_raw(concurrency::counted(self.backend(), &keys)).await?;
        let Some(row) = row else { return Ok((Holders::default(), Vec::new())) };
        let (_, holders) = concurrency::read_counted(&row)?;
        let rows = self.reader().query_all_raw(concurrency::named(self.backend(), key, named)).await?;
        Ok((holders, rows.iter().map(labelled).collect::<Result<_, _>>()?))
    }

    /// The first queued task of each class that needs a key, but for this one, by rank: rank, limit, job and name.
    pub async fn first_for_key(
        &self,
        key: &str,
        but: Uuid,
        now: Timestamp,
    ) -> Result<Option<(i64, u32, Uuid, String)>, Error> {
        let classes = tasks::classes(self.backend(), "", CLASSES_MAX);
        let rows = self.reader().query_all_raw(classes).await?;
        let mut first: Option<(i64, u32, Uuid, String)> = None;
        for row in rows {
            let class: String = row.column("class")?;
            let Some(limit) = Class::parse(&class).and_then(|class| class.limit).filter(|limit| limit.key == key)
            else {
                continue;
            };
            let text = format!(
                "SELECT task.job_id, task.shard_index, task.priority, task.queued_at, task_config.name FROM task
                 JOIN task_config ON task_config.id = task.task_config_id
                 WHERE state = 'QUEUED' AND class = :class AND not_before <= :now AND task.id <> :but
                 ORDER BY {RANK}, task.id LIMIT 1"
            );
            let params = [("class", class.into()), ("now", now.0.into()), ("but", but.into())];
            let row = self.reader().query_one_raw(sql::statement(self.backend(), &text, &params)).await?;
            let Some(row) = row else { continue };
            let rank = rank(row.column("priority")?, row.time("queued_at")?.unwrap_or_default());
            let (job, name) = labelled(&row)?;
            if first.as_ref().is_none_or(|(known, ..)| rank < *known) {
                first = Some((rank, limit.at_once, job, name));
            }
        }
        Ok(first)
    }

    /// How the places of a job's config stand, and how many jobs wait for one before it.
    pub async fn places(&self, config: Uuid, job: Uuid) -> Result<(Places, u32), Error> {
        let text = format!(
            "SELECT {}, (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id AND {HELD}
                         AND job.id < :job) AS before
             FROM job_config WHERE id = :config",
            place::standing()
        );
        let params = [("config", config.into()), ("job", job.into())];
        let row = self.reader().query_one_raw(sql::statement(self.backend(), &text, &params)).await?;
        let Some(row) = row else { return Ok((Places::default(), 0)) };
        Ok((place::read_standing(&row)?, row.count("before")?))
    }

    /// The first few jobs of a config that have a place: those that live, and, told apart, those that are over but for an
    /// attempt that may go on.
    pub async fn with_a_place(&self, config: Uuid, limit: u64) -> Result<Vec<(Uuid, bool)>, Error> {
        let text = format!(
            "SELECT job.id, 0 AS outlived FROM job WHERE job.job_config_id = :config AND {HAS_A_PLACE}
             UNION SELECT task.job_id AS id, 1 AS outlived {}
             ORDER BY id LIMIT :limit",
            place::outliving(":config")
        );
        let params = [("config", config.into()), ("limit", limit.cast_signed().into())];
        let rows = self.reader().query_all_raw(sql::statement(self.backend(), &text, &params)).await?;
        rows.iter().map(|row| Ok((row.column("id")?, row.number("outlived")? == 1))).collect()
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

/// A task's job, and what people call the task within it.
fn labelled(row: &QueryResult) -> Result<(Uuid, String), Error> {
    let (name, shard): (String, i32) = (row.column("name")?, row.column("shard_index")?);
    let label = if shard < 0 { name } else { format!("{name}#{shard}") };
    Ok((row.column("job_id")?, label))
}

/// The tasks and groups, never shards, of some nodes.
fn of_nodes(job: Uuid, nodes: &[u32]) -> sea_orm::Select<task::Entity> {
    task::Entity::find()
        .filter(task::Column::JobId.eq(job))
        .filter(task::Column::Node.is_in(nodes.iter().map(|node| node.cast_signed())))
        .filter(task::Column::ShardIndex.eq(-1))
}
