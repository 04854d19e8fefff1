//! Questions about tasks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use sea_orm::{
    ColumnTrait as _, Condition, ConnectionTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, Select,
    sea_query::{Expr, ExprTrait as _, Query},
};
use uuid::Uuid;

use super::{Child, Definition, Job, Page, word};
use crate::{
    domain::{
        definition::TaskConfig,
        gate::{Parents, SkipCause},
        placement::Class,
        policy,
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::{
        Error, Store,
        entity::{job, task, task_attempt},
        row::Row as _,
        sql,
    },
};

/// A page ends after about so many bytes, so that tasks with much output do not make a message that nobody can take.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// How many rows are read at once; what is read beyond the end of a page is thrown away.
const SLICE: u64 = 250;
/// How many nodes one question names.
const NODES_MAX: usize = 1000;
/// How many earlier attempts of one task are shown, the newest ones.
const ATTEMPTS_MAX: u64 = 1000;

/// A task, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// The position of its config in the definition.
    pub node: u32,
    /// The name of its config.
    pub name: String,
    /// What it stands for.
    pub kind: Kind,
    /// The group it is a shard of.
    pub group_id: Option<Uuid>,
    /// Its number among the shards.
    pub shard_index: Option<u32>,
    /// How many shards there are.
    pub shard_count: Option<u32>,
    /// The item it works on.
    pub shard_item: String,
    /// Its state.
    pub state: TaskState,
    /// Why.
    pub reason: String,
    /// Why it was skipped.
    pub skip_cause: Option<SkipCause>,
    /// The present or last attempt.
    pub attempt: u32,
    /// How many it may have; 0 when that depends on how many runners there are.
    pub max_attempts: u32,
    /// The fencing token.
    pub lease: u64,
    /// The runner it was last given to.
    pub runner_id: Option<String>,
    /// The slot of that runner.
    pub slot: Option<u32>,
    /// Whether the end of the last attempt's processes is proven.
    pub gone: bool,
    /// The exit code of the last attempt.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub exit_signal: Option<i32>,
    /// Its output, as JSON.
    pub output: String,
    /// Bytes of standard output.
    pub stdout_bytes: u64,
    /// Bytes of standard error.
    pub stderr_bytes: u64,
    /// When the row was made.
    pub created_at: Timestamp,
    /// When it was last queued.
    pub queued_at: Option<Timestamp>,
    /// When it was last given out.
    pub dispatched_at: Option<Timestamp>,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Not before this.
    pub not_before: Option<Timestamp>,
    /// The names of its parents.
    pub needs: Vec<String>,
    /// How they ended.
    pub parents: Parents,
    /// What a runner must have to take it.
    pub class: Option<Class>,
    /// Higher goes first.
    pub priority: i32,
    /// The job's seq at its last change.
    pub seq: u64,
    /// Its shards by state, if it is a group.
    pub shard_states: BTreeMap<TaskState, u32>,
    /// The newest job that it stood for.
    pub child: Option<Child>,
}

/// One earlier try at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number.
    pub number: u32,
    /// The lease it held when it ended.
    pub lease: u64,
    /// The runner that had it.
    pub runner_id: Option<String>,
    /// How it ended.
    pub reason: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub exit_signal: Option<i32>,
    /// When it started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Whether the end of its processes is proven.
    pub gone: bool,
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only tasks in one of these states; empty means any.
    pub states: Vec<TaskState>,
    /// Only this task of the definition, and its shards. Takes a job.
    pub node: Option<u32>,
    /// Leave shards out.
    pub fold_shards: bool,
}

/// Where a listing of tasks goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TaskCursor {
    /// The job of the last one seen.
    pub job_id: Uuid,
    /// Its node.
    pub node: u32,
    /// Its shard, or -1.
    pub shard_index: i32,
}

impl Task {
    /// The place of this task in a listing.
    pub fn cursor(&self) -> TaskCursor {
        let shard_index = self.shard_index.map_or(-1, u32::cast_signed);
        TaskCursor { job_id: self.job_id, node: self.node, shard_index }
    }

    /// About how many bytes it takes in a message.
    fn weight(&self) -> usize {
        let needs: usize = self.needs.iter().map(String::len).sum();
        self.output.len() + self.shard_item.len() + self.reason.len() + needs
    }
}

impl Store {
    /// The tasks of one job in the order of the definition, shards after their group.
    pub async fn tasks_of(
        &self,
        job: &Job,
        filter: &TaskFilter,
        after: Option<TaskCursor>,
        limit: u64,
    ) -> Result<Page<Task>, Error> {
        let question = filtered(filter).filter(task::Column::JobId.eq(job.id));
        self.page(question, after, limit, in_order).await
    }

    /// The tasks of all jobs: those of the newest job first, and of each job in the order of its definition.
    pub async fn tasks(&self, filter: &TaskFilter, after: Option<TaskCursor>, limit: u64) -> Result<Page<Task>, Error> {
        self.page(filtered(filter), after, limit, |question, after| {
            let question = match after {
                Some(TaskCursor { job_id, .. }) => question.filter(task::Column::JobId.lte(job_id)),
                None => question,
            };
            in_order_of_jobs(question, after)
        })
        .await
    }

    /// The tasks of a job that changed after `after.0` (and, within that seq, after the id `after.1`), in the order of
    /// their changes.
    pub async fn changed_tasks(
        &self,
        job: &Job,
        after: (u64, Option<Uuid>),
        fold_shards: bool,
        limit: u64,
    ) -> Result<Page<Task>, Error> {
        use task::Column as C;
        let seq = after.0.cast_signed();
        let mut place = Condition::any().add(C::Seq.gt(seq));
        if let Some(id) = after.1 {
            place = place.add(C::Seq.eq(seq).and(C::Id.gt(id)));
        }
        let question = filtered(&TaskFilter { fold_shards, ..TaskFilter::default() })
            .filter(C::JobId.eq(job.id))
            .filter(place)
            .order_by_asc(C::Seq)
            .order_by_asc(C::Id);
        let rows = question.limit(Ord::min(limit, SLICE) + 1).all(self.reader()).await?;
        let page = Page::cut(rows, Ord::min(limit, SLICE));
        let mut tasks = self.shown(page.rows).await?;
        let mut bytes = 0;
        let fitting = tasks.iter().take_while(|task| {
            let fits = bytes < PAGE_BYTES_MAX;
            bytes += task.weight();
            fits
        });
        let fitting = fitting.count();
        let more = page.more || fitting < tasks.len();
        tasks.truncate(fitting);
        Ok(Page { rows: tasks, more })
    }

    /// One task of a job: the task or group of a node, or one shard of it.
    pub async fn task(&self, job: &Job, node: u32, shard: Option<u32>) -> Result<Option<Task>, Error> {
        let row = task::Entity::find()
            .filter(task::Column::JobId.eq(job.id))
            .filter(task::Column::Node.eq(node.cast_signed()))
            .filter(task::Column::ShardIndex.eq(shard.map_or(-1, u32::cast_signed)))
            .one(self.reader())
            .await?;
        Ok(self.shown(row.into_iter().collect()).await?.pop())
    }

    /// Tasks by id; those that do not exist are left out.
    pub async fn tasks_by_id(&self, ids: &[Uuid]) -> Result<Vec<Task>, Error> {
        let mut tasks = Vec::with_capacity(ids.len());
        for ids in ids.chunks(SLICE as usize) {
            let ids = ids.iter().copied();
            let rows = task::Entity::find().filter(task::Column::Id.is_in(ids)).all(self.reader()).await?;
            tasks.extend(self.shown(rows).await?);
        }
        Ok(tasks)
    }

    /// Some of the tasks of these nodes that have not ended; of groups, the groups.
    pub async fn unfinished(&self, job: &Job, nodes: &[u32], limit: u64) -> Result<Vec<Task>, Error> {
        let live: Vec<TaskState> = TaskState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
        let filter = TaskFilter { states: live, fold_shards: true, ..TaskFilter::default() };
        let mut tasks = Vec::new();
        for nodes in nodes.chunks(NODES_MAX) {
            let nodes = nodes.iter().map(|node| node.cast_signed());
            let question = filtered(&filter)
                .filter(task::Column::JobId.eq(job.id))
                .filter(task::Column::Node.is_in(nodes))
                .order_by_asc(task::Column::Node);
            let rows = question.limit(limit - tasks.len() as u64).all(self.reader()).await?;
            tasks.extend(self.shown(rows).await?);
            if tasks.len() as u64 >= limit {
                break;
            }
        }
        Ok(tasks)
    }

    /// The job of a task, if it is kept.
    pub async fn job_of_task(&self, task: Uuid) -> Result<Option<Uuid>, Error> {
        let text =
            "SELECT job.id FROM task JOIN job ON job.id = task.job_id WHERE task.id = :task AND NOT job.removing";
        let statement = sql::statement(self.backend(), text, &[("task", task.into())]);
        let rows = self.reader().query_all_raw(statement).await?;
        rows.first().map(|row| row.column("id")).transpose()
    }

    /// The earlier attempts of a task, oldest first.
    pub async fn attempts(&self, task: Uuid) -> Result<Vec<Attempt>, Error> {
        let mut rows = task_attempt::Entity::find()
            .filter(task_attempt::Column::TaskId.eq(task))
            .order_by_desc(task_attempt::Column::Lease)
            .limit(ATTEMPTS_MAX)
            .all(self.reader())
            .await?;
        rows.reverse();
        Ok(rows.into_iter().map(Attempt::from).collect())
    }

    /// Reads a page slice by slice, until it is full in rows or in bytes.
    async fn page(
        &self,
        question: Select<task::Entity>,
        mut after: Option<TaskCursor>,
        limit: u64,
        place: impl Fn(Select<task::Entity>, Option<TaskCursor>) -> Select<task::Entity>,
    ) -> Result<Page<Task>, Error> {
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        loop {
            let wanted = Ord::min(SLICE, limit - tasks.len() as u64);
            let rows = place(question.clone(), after).limit(wanted + 1).all(self.reader()).await?;
            let slice = Page::cut(rows, wanted);
            let size = slice.rows.len();
            for (position, task) in self.shown(slice.rows).await?.into_iter().enumerate() {
                bytes += task.weight();
                after = Some(task.cursor());
                tasks.push(task);
                if bytes >= PAGE_BYTES_MAX {
                    return Ok(Page { rows: tasks, more: slice.more || position + 1 < size });
                }
            }
            if !slice.more || tasks.len() as u64 >= limit {
                return Ok(Page { rows: tasks, more: slice.more });
            }
        }
    }

    /// Rows with what their definition says of them, and the counts of groups.
    async fn shown(&self, rows: Vec<task::Model>) -> Result<Vec<Task>, Error> {
        let definitions = self.definitions_of(rows.iter().map(|row| row.job_id)).await?;
        let groups = rows.iter().filter(|row| row.kind == Kind::Group.word()).map(|row| row.id).collect();
        let mut states = self.shard_states(groups).await?;
        let mut children = self.children_of(&rows).await?;
        rows.into_iter()
            .map(|row| {
                let config =
                    definitions.get(&row.job_id).and_then(|definition| definition.tasks.get(row.node as usize));
                let states = states.remove(&row.id).unwrap_or_default();
                let child = children.remove(&row.id);
                shown(row, config, states).map(|task| Task { child, ..task })
            })
            .collect()
    }

    async fn definitions_of(&self, jobs: impl Iterator<Item = Uuid>) -> Result<HashMap<Uuid, Arc<Definition>>, Error> {
        let jobs: std::collections::BTreeSet<Uuid> = jobs.collect();
        let versions: Vec<(Uuid, Uuid, i32)> = if jobs.is_empty() {
            Vec::new()
        } else {
            let columns = [job::Column::Id, job::Column::JobConfigId, job::Column::Version];
            let question = job::Entity::find().select_only().columns(columns).filter(job::Column::Id.is_in(jobs));
            question.into_tuple().all(self.reader()).await?
        };
        let mut definitions = HashMap::new();
        for (job, config, version) in versions {
            if let Some(definition) = self.definition_or_names(config, version.cast_unsigned()).await? {
                definitions.insert(job, definition);
            }
        }
        Ok(definitions)
    }

    async fn shard_states(&self, groups: Vec<Uuid>) -> Result<HashMap<Uuid, BTreeMap<TaskState, u32>>, Error> {
        let mut states: HashMap<Uuid, BTreeMap<TaskState, u32>> = HashMap::new();
        if groups.is_empty() {
            return Ok(states);
        }
        let counts: Vec<(Uuid, String, i64)> = task::Entity::find()
            .filter(task::Column::GroupId.is_in(groups))
            .select_only()
            .columns([task::Column::GroupId, task::Column::State])
            .expr(Expr::col(task::Column::Id).count())
            .group_by(task::Column::GroupId)
            .group_by(task::Column::State)
            .into_tuple()
            .all(self.reader())
            .await?;
        for (group, state, count) in counts {
            let state = word("task", group, &state, TaskState::from_word)?;
            states.entry(group).or_default().insert(state, u32::try_from(count).unwrap_or(u32::MAX));
        }
        Ok(states)
    }
}

fn filtered(filter: &TaskFilter) -> Select<task::Entity> {
    use task::Column as C;
    let mut question = task::Entity::find();
    if let Some(namespace) = &filter.namespace {
        let jobs = Query::select()
            .column(job::Column::Id)
            .from(job::Entity)
            .and_where(job::Column::Namespace.eq(namespace))
            .and_where(Expr::col((job::Entity, job::Column::Id)).equals((task::Entity, C::JobId)))
            .to_owned();
        question = question.filter(Expr::exists(jobs));
    }
    if !filter.states.is_empty() {
        question = question.filter(C::State.is_in(filter.states.iter().map(|state| state.word())));
    }
    if let Some(node) = filter.node {
        question = question.filter(C::Node.eq(node.cast_signed()));
    }
    if filter.fold_shards {
        question = question.filter(C::Kind.ne(Kind::Shard.word()));
    }
    question
}

/// Tasks of one job in the order of the definition.
fn in_order(question: Select<task::Entity>, after: Option<TaskCursor>) -> Select<task::Entity> {
    use task::Column as C;
    let question = match after {
        Some(after) => question.filter(behind(after)),
        None => question,
    };
    question.order_by_asc(C::Node).order_by_asc(C::ShardIndex)
}

/// Tasks of all jobs, newest job first.
fn in_order_of_jobs(question: Select<task::Entity>, after: Option<TaskCursor>) -> Select<task::Entity> {
    use task::Column as C;
    let question = match after {
        Some(after) => question.filter(
            Condition::any()
                .add(C::JobId.lt(after.job_id))
                .add(Condition::all().add(C::JobId.eq(after.job_id)).add(behind(after))),
        ),
        None => question,
    };
    question.order_by_desc(C::JobId).order_by_asc(C::Node).order_by_asc(C::ShardIndex)
}

fn behind(after: TaskCursor) -> Condition {
    use task::Column as C;
    let node = after.node.cast_signed();
    Condition::any().add(C::Node.gt(node)).add(C::Node.eq(node).and(C::ShardIndex.gt(after.shard_index)))
}

fn shown(row: task::Model, config: Option<&TaskConfig>, shard_states: BTreeMap<TaskState, u32>) -> Result<Task, Error> {
    let skip_cause = row.skip_cause.as_deref().map(|cause| word("task", row.id, cause, SkipCause::from_word));
    Ok(Task {
        kind: word("task", row.id, &row.kind, Kind::from_word)?,
        state: word("task", row.id, &row.state, TaskState::from_word)?,
        skip_cause: skip_cause.transpose()?,
        id: row.id,
        job_id: row.job_id,
        node: row.node.cast_unsigned(),
        name: config.map(|config| config.name.clone()).unwrap_or_default(),
        group_id: row.group_id,
        shard_index: u32::try_from(row.shard_index).ok(),
        shard_count: row.shard_count.map(i32::cast_unsigned),
        shard_item: row.shard_item,
        reason: row.reason,
        attempt: row.attempt.cast_unsigned(),
        max_attempts: config.map_or(1, |config| policy::of(config).attempts().unwrap_or_default())
            + row.attempts_before.cast_unsigned(),
        lease: row.lease.cast_unsigned(),
        runner_id: row.runner_id.filter(|id| !id.is_empty()),
        slot: row.slot.map(i32::cast_unsigned),
        gone: row.gone,
        exit_code: row.exit_code,
        exit_signal: row.exit_signal,
        output: row.output,
        stdout_bytes: row.stdout_bytes.cast_unsigned(),
        stderr_bytes: row.stderr_bytes.cast_unsigned(),
        created_at: Timestamp(row.created_at),
        queued_at: row.queued_at.map(Timestamp),
        dispatched_at: row.dispatched_at.map(Timestamp),
        started_at: row.started_at.map(Timestamp),
        ended_at: row.ended_at.map(Timestamp),
        not_before: (row.not_before > 0).then_some(Timestamp(row.not_before)),
        parents: Parents {
            total: row.parents_total.cast_unsigned(),
            succeeded: row.parents_succeeded.cast_unsigned(),
            failed: row.parents_failed.cast_unsigned(),
            skipped: row.parents_skipped.cast_unsigned(),
        },
        class: Class::parse(&row.class),
        priority: row.priority,
        needs: config.map(|config| config.needs.clone()).unwrap_or_default(),
        seq: row.seq.cast_unsigned(),
        shard_states,
        child: None,
    })
}

impl From<task_attempt::Model> for Attempt {
    fn from(row: task_attempt::Model) -> Self {
        Self {
            number: row.number.cast_unsigned(),
            lease: row.lease.cast_unsigned(),
            runner_id: row.runner_id,
            reason: row.reason,
            exit_code: row.exit_code,
            exit_signal: row.exit_signal,
            started_at: row.started_at.map(Timestamp),
            ended_at: Timestamp(row.ended_at),
            gone: row.gone,
        }
    }
}
