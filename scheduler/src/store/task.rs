//! Tasks as rows: the questions and the transitions of a turn. Every change is guarded by the state and the lease that
//! were seen.

mod queue;
mod row;

use uuid::Uuid;

pub(super) use self::queue::{CLASSES, RANK, classes};
pub use self::{
    queue::{lock_queued, next_not_before, queue_nodes, queued_before, queued_classes, queued_of_class},
    row::{Birth, TaskRow},
};
use super::{
    Error, Tx,
    row::{Row, unreadable},
    sql::{self, Input, bigint, boolean, int, text, uuid},
};
use crate::domain::{
    gate::{Parents, SkipCause},
    placement,
    task::{Counters, Kind, TaskState},
    time::Timestamp,
};

/// A change to a task, with what was seen of it.
#[derive(Debug, Clone)]
pub struct Changed<'a> {
    /// As it shall be.
    pub row: &'a TaskRow,
    /// The state it was seen in.
    pub seen_state: TaskState,
    /// The lease it was seen with.
    pub seen_lease: u64,
}

/// The condition of the index over tasks that hold a slot. SQLite takes an index with a condition only where that very
/// text stands in the question, and with values instead of parameters.
pub(super) const HOLDS_SLOT: &str = "state IN ('DISPATCHED', 'RUNNING', 'TERMINATING')";

pub(super) const COLUMNS: &str = "task.id, task.job_id, task.task_config_id, task.node, task.kind, task.group_id,
    task.shard_index, task.shard_count, task.shard_item, task.state, task.reason, task.skip_cause, task.attempt,
    task.lease, task.priority, task.class, task.not_before, task.runner_id, task.slot, task.session_id, task.deaths,
    task.refusals, task.tried, task.warned_at, task.attempts_before, task.gone, task.end_grace, task.exit_code, task.exit_signal, task.output, task.stdout_bytes,
    task.stderr_bytes, task.parents_total, task.parents_succeeded, task.parents_failed, task.parents_skipped,
    task.shards_succeeded, task.shards_ended, task.created_at, task.queued_at, task.dispatched_at, task.started_at,
    task.ended_at, task.seq";

/// The jobs of some tasks, without a lock.
pub async fn jobs_of(tx: &Tx, tasks: &[Uuid]) -> Result<Vec<Uuid>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let text = "WITH {input} SELECT DISTINCT task.job_id FROM input JOIN task ON task.id = input.id";
    let rows = tx.query(ids(tasks).statement(tx.backend(), text, &[])).await?;
    rows.iter().map(|row| row.column("job_id")).collect()
}

/// The jobs of the tasks that a runner holds by our books, without a lock.
pub async fn jobs_held_by(tx: &Tx, runner_id: &str) -> Result<Vec<Uuid>, Error> {
    let text = format!("SELECT DISTINCT job_id FROM task WHERE runner_id = :runner AND {HOLDS_SLOT}");
    let rows = tx.query(sql::statement(tx.backend(), &text, &[("runner", runner_id.into())])).await?;
    rows.iter().map(|row| row.column("job_id")).collect()
}

/// Tasks that were given out, under the lock of their jobs: without that nobody changes them, so that they need no lock of
/// their own. One that is queued meanwhile, and picked by another scheduler, is written by none who saw it as it was.
pub async fn given_out(tx: &Tx, tasks: &[Uuid]) -> Result<Vec<TaskRow>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let text =
        format!("WITH {{input}} SELECT {COLUMNS} FROM task WHERE task.id IN (SELECT id FROM input) ORDER BY task.id");
    read_all(&tx.query(ids(tasks).statement(tx.backend(), &text, &[])).await?)
}

/// Locks tasks in id order.
pub async fn lock(tx: &Tx, tasks: &[Uuid]) -> Result<Vec<TaskRow>, Error> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS} FROM task WHERE task.id IN (SELECT id FROM input)
         ORDER BY task.id {{for_update}}"
    );
    read_all(&tx.query(ids(tasks).statement(tx.backend(), &text, &[])).await?)
}

/// Locks the tasks (not shards) that stand for these nodes of these jobs.
pub async fn lock_nodes(tx: &Tx, nodes: &[(Uuid, u32)]) -> Result<Vec<TaskRow>, Error> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!("WITH {{input}} SELECT {COLUMNS} FROM task WHERE {OF_NODES} ORDER BY task.id {{for_update}}");
    read_all(&tx.query(of_nodes(nodes).statement(tx.backend(), &text, &[])).await?)
}

/// The whole key of the tasks that stand for nodes. All of it comes from the input: a part that is always the same would lead
/// PostgreSQL to every task that has it.
const OF_NODES: &str = "(task.job_id, task.node, task.shard_index) IN (SELECT job_id, node, shard_index FROM input)";

fn of_nodes(nodes: &[(Uuid, u32)]) -> Input<3> {
    let mut input = Input::new([uuid("job_id"), int("node"), int("shard_index")]);
    for (job, node) in nodes {
        input.push([(*job).into(), node.cast_signed().into(), (-1).into()]);
    }
    input
}

/// Locks every task of a job that has not ended.
pub async fn lock_live(tx: &Tx, job: Uuid) -> Result<Vec<TaskRow>, Error> {
    let text = format!(
        "SELECT {COLUMNS} FROM task WHERE job_id = :job
         AND state NOT IN ('FINISHED', 'FAILED', 'SKIPPED', 'TERMINATED') ORDER BY id {{for_update}}"
    );
    read_all(&tx.query(sql::statement(tx.backend(), &text, &[("job", job.into())])).await?)
}

/// Locks every shard of a group that has not ended.
pub async fn lock_live_shards(tx: &Tx, group: Uuid) -> Result<Vec<TaskRow>, Error> {
    let text = format!(
        "SELECT {COLUMNS} FROM task WHERE group_id = :group
         AND state NOT IN ('FINISHED', 'FAILED', 'SKIPPED', 'TERMINATED') ORDER BY id {{for_update}}"
    );
    read_all(&tx.query(sql::statement(tx.backend(), &text, &[("group", group.into())])).await?)
}

/// Locks one shard of a job's task.
pub async fn lock_shard(tx: &Tx, job: Uuid, node: u32, shard: u32) -> Result<Option<TaskRow>, Error> {
    let text = format!(
        "SELECT {COLUMNS} FROM task WHERE job_id = :job AND node = :node AND shard_index = :shard {{for_update}}"
    );
    let params = [("job", job.into()), ("node", node.cast_signed().into()), ("shard", shard.cast_signed().into())];
    Ok(read_all(&tx.query(sql::statement(tx.backend(), &text, &params)).await?)?.pop())
}

/// Locks the next shards of a group that wait for their turn, lowest number first.
pub async fn lock_waiting_shards(tx: &Tx, group: Uuid, limit: u32) -> Result<Vec<TaskRow>, Error> {
    let text = format!(
        "SELECT {COLUMNS} FROM task WHERE group_id = :group AND state = 'CREATED'
         ORDER BY shard_index LIMIT :limit {{for_update}}"
    );
    let params = [("group", group.into()), ("limit", i64::from(limit).into())];
    read_all(&tx.query(sql::statement(tx.backend(), &text, &params)).await?)
}

/// Locks the tasks that a runner holds by our books.
pub async fn lock_held_by(tx: &Tx, runner_id: &str) -> Result<Vec<TaskRow>, Error> {
    let text =
        format!("SELECT {COLUMNS} FROM task WHERE runner_id = :runner AND {HOLDS_SLOT} ORDER BY id {{for_update}}");
    read_all(&tx.query(sql::statement(tx.backend(), &text, &[("runner", runner_id.into())])).await?)
}

/// The tasks that are to be ended and were given out in these sessions.
pub async fn terminating_in(tx: &Tx, sessions: &[Uuid]) -> Result<Vec<TaskRow>, Error> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS} FROM task WHERE task.state = 'TERMINATING' AND task.{HOLDS_SLOT}
         AND task.runner_id IS NOT NULL AND task.session_id IN (SELECT id FROM input)"
    );
    read_all(&tx.query(ids(sessions).statement(tx.backend(), &text, &[])).await?)
}

/// The tasks that were given out in these sessions and have not been heard of since.
pub async fn dispatched_in(tx: &Tx, sessions: &[Uuid]) -> Result<Vec<TaskRow>, Error> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "WITH {{input}} SELECT {COLUMNS} FROM task WHERE task.state = 'DISPATCHED' AND task.runner_id IS NOT NULL
         AND task.session_id IN (SELECT id FROM input)"
    );
    read_all(&tx.query(ids(sessions).statement(tx.backend(), &text, &[])).await?)
}

/// The outputs of the shards of a group that finished, in their order.
pub async fn shard_outputs(tx: &Tx, group: Uuid) -> Result<Vec<(u32, String)>, Error> {
    let text = "SELECT shard_index, output FROM task
                WHERE group_id = :group AND state = 'FINISHED' AND output <> '' ORDER BY shard_index";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("group", group.into())])).await?;
    rows.iter().map(|row| Ok((row.number("shard_index")?, row.column("output")?))).collect()
}

/// State and output of some nodes of jobs, for templates and conditions.
pub async fn outputs(tx: &Tx, nodes: &[(Uuid, u32)]) -> Result<Vec<(Uuid, u32, TaskState, String)>, Error> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let text =
        format!("WITH {{input}} SELECT task.job_id, task.node, task.state, task.output FROM task WHERE {OF_NODES}");
    let rows = tx.query(of_nodes(nodes).statement(tx.backend(), &text, &[])).await?;
    rows.iter()
        .map(|row| Ok((row.column("job_id")?, row.number("node")?, state_of(row)?, row.column("output")?)))
        .collect()
}

/// Writes new tasks.
pub async fn insert(tx: &Tx, tasks: &[&TaskRow]) -> Result<(), Error> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        uuid("job_id"),
        uuid("task_config_id"),
        int("node"),
        text("kind"),
        uuid("group_id").nullable(),
        int("shard_index"),
        int("shard_count").nullable(),
        text("shard_item"),
        text("state"),
        text("reason"),
        text("skip_cause").nullable(),
        int("attempt"),
        bigint("lease"),
        int("priority"),
        text("class"),
        text("output"),
        int("parents_total"),
        int("parents_succeeded"),
        int("parents_failed"),
        int("parents_skipped"),
        int("shards_succeeded"),
        int("shards_ended"),
        text("runner_id").nullable(),
        int("slot").nullable(),
        uuid("session_id").nullable(),
        bigint("created_at"),
        bigint("queued_at").nullable(),
        bigint("dispatched_at").nullable(),
        bigint("started_at").nullable(),
        bigint("ended_at").nullable(),
        bigint("seq"),
    ]);
    for task in tasks {
        input.push([
            task.id.into(),
            task.job_id.into(),
            task.task_config_id.into(),
            task.node.cast_signed().into(),
            task.kind.word().into(),
            task.group_id.into(),
            task.shard_index.map_or(-1, u32::cast_signed).into(),
            task.shard_count.map(u32::cast_signed).into(),
            task.shard_item.as_str().into(),
            task.state.word().into(),
            task.reason.as_str().into(),
            task.skip_cause.map(SkipCause::word).into(),
            task.counters.attempt.cast_signed().into(),
            task.counters.lease.cast_signed().into(),
            task.priority.into(),
            task.class.as_str().into(),
            task.output.as_str().into(),
            task.parents.total.cast_signed().into(),
            task.parents.succeeded.cast_signed().into(),
            task.parents.failed.cast_signed().into(),
            task.parents.skipped.cast_signed().into(),
            task.shards_succeeded.cast_signed().into(),
            task.shards_ended.cast_signed().into(),
            runner_id(task).into(),
            task.slot.map(u32::cast_signed).into(),
            task.session_id.into(),
            task.created_at.0.into(),
            task.queued_at.map(|at| at.0).into(),
            task.dispatched_at.map(|at| at.0).into(),
            task.started_at.map(|at| at.0).into(),
            task.ended_at.map(|at| at.0).into(),
            task.seq.into(),
        ]);
    }
    let text = "WITH {input} INSERT INTO task (id, job_id, task_config_id, node, kind, group_id, shard_index,
                    shard_count, shard_item, state, reason, skip_cause, attempt, lease, priority, class, output,
                    parents_total, parents_succeeded, parents_failed, parents_skipped, shards_succeeded, shards_ended,
                    runner_id, slot, session_id, created_at, queued_at, dispatched_at, started_at, ended_at, seq)
                SELECT id, job_id, task_config_id, node, kind, group_id, shard_index, shard_count, shard_item, state,
                    reason, skip_cause, attempt, lease, priority, class, output, parents_total, parents_succeeded,
                    parents_failed, parents_skipped, shards_succeeded, shards_ended, runner_id, slot, session_id,
                    created_at, queued_at, dispatched_at, started_at, ended_at, seq
                FROM input";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Writes what changed of tasks, each on the condition that its state and lease are still those seen. Returns how many
/// were written: fewer than asked means that somebody was first.
pub async fn update(tx: &Tx, tasks: &[Changed<'_>]) -> Result<u64, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let mut input = Input::new([
        uuid("id"),
        text("seen_state"),
        bigint("seen_lease"),
        text("state"),
        text("reason"),
        text("skip_cause").nullable(),
        int("attempt"),
        bigint("lease"),
        bigint("not_before"),
        text("runner_id").nullable(),
        int("slot").nullable(),
        uuid("session_id").nullable(),
        int("deaths"),
        int("refusals"),
        int("attempts_before"),
        boolean("gone"),
        bigint("end_grace").nullable(),
        int("exit_code").nullable(),
        int("exit_signal").nullable(),
        text("output"),
        bigint("stdout_bytes"),
        bigint("stderr_bytes"),
        int("parents_succeeded"),
        int("parents_failed"),
        int("parents_skipped"),
        int("shard_count").nullable(),
        int("shards_succeeded"),
        int("shards_ended"),
        bigint("queued_at").nullable(),
        bigint("dispatched_at").nullable(),
        bigint("started_at").nullable(),
        bigint("ended_at").nullable(),
        bigint("seq"),
    ]);
    for Changed { row, seen_state, seen_lease } in tasks {
        input.push([
            row.id.into(),
            seen_state.word().into(),
            seen_lease.cast_signed().into(),
            row.state.word().into(),
            row.reason.as_str().into(),
            row.skip_cause.map(SkipCause::word).into(),
            row.counters.attempt.cast_signed().into(),
            row.counters.lease.cast_signed().into(),
            row.counters.not_before.0.into(),
            runner_id(row).into(),
            row.slot.map(u32::cast_signed).into(),
            row.session_id.into(),
            row.counters.deaths.cast_signed().into(),
            row.counters.refusals.cast_signed().into(),
            row.attempts_before.cast_signed().into(),
            row.gone.into(),
            row.end_grace.into(),
            row.exit_code.into(),
            row.exit_signal.into(),
            row.output.as_str().into(),
            row.stdout_bytes.into(),
            row.stderr_bytes.into(),
            row.parents.succeeded.cast_signed().into(),
            row.parents.failed.cast_signed().into(),
            row.parents.skipped.cast_signed().into(),
            row.shard_count.map(u32::cast_signed).into(),
            row.shards_succeeded.cast_signed().into(),
            row.shards_ended.cast_signed().into(),
            row.queued_at.map(|at| at.0).into(),
            row.dispatched_at.map(|at| at.0).into(),
            row.started_at.map(|at| at.0).into(),
            row.ended_at.map(|at| at.0).into(),
            row.seq.into(),
        ]);
    }
    let text = "WITH {input} UPDATE task SET state = input.state, reason = input.reason,
                    skip_cause = input.skip_cause, attempt = input.attempt, lease = input.lease,
                    not_before = input.not_before, runner_id = input.runner_id, slot = input.slot,
                    session_id = input.session_id, deaths = input.deaths, refusals = input.refusals,
                    attempts_before = input.attempts_before, gone = input.gone, end_grace = input.end_grace, exit_code = input.exit_code,
                    exit_signal = input.exit_signal, output = input.output, stdout_bytes = input.stdout_bytes, stderr_bytes = input.stderr_bytes,
                    parents_succeeded = input.parents_succeeded, parents_failed = input.parents_failed,
                    parents_skipped = input.parents_skipped, shard_count = input.shard_count,
                    shards_succeeded = input.shards_succeeded, shards_ended = input.shards_ended,
                    queued_at = input.queued_at, dispatched_at = input.dispatched_at, started_at = input.started_at,
                    ended_at = input.ended_at, seq = input.seq
                FROM input
                WHERE task.id = input.id AND task.state = input.seen_state AND task.lease = input.seen_lease";
    tx.execute(input.statement(tx.backend(), text, &[])).await
}

/// The runner of a task, as it is written: what stands for a job has none, and is written with an empty name while it is
/// being ended, where the schema wants one.
fn runner_id(row: &TaskRow) -> Option<&str> {
    let none = (row.state == TaskState::Terminating && row.class == placement::SUB_JOB).then_some("");
    row.runner_id.as_deref().or(none)
}

/// Records that queued tasks, locked by this transaction, were given out.
pub async fn dispatch(tx: &Tx, tasks: &[&TaskRow]) -> Result<u64, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let mut input = Input::new([
        uuid("id"),
        int("attempt"),
        bigint("lease"),
        text("runner_id"),
        int("slot"),
        uuid("session_id"),
        bigint("dispatched_at"),
        // Named here rather than below, where it would lead PostgreSQL to everything that is queued.
        text("seen_state"),
    ]);
    for task in tasks {
        input.push([
            task.id.into(),
            task.counters.attempt.cast_signed().into(),
            task.counters.lease.cast_signed().into(),
            task.runner_id.clone().unwrap_or_default().into(),
            task.slot.unwrap_or_default().cast_signed().into(),
            task.session_id.unwrap_or_default().into(),
            task.dispatched_at.unwrap_or_default().0.into(),
            TaskState::Queued.word().into(),
        ]);
    }
    let text = "WITH {input} UPDATE task SET state = 'DISPATCHED', attempt = input.attempt, lease = input.lease,
                    runner_id = input.runner_id, slot = input.slot, session_id = input.session_id,
                    dispatched_at = input.dispatched_at, started_at = NULL, end_grace = NULL
                FROM input
                WHERE task.id = input.id AND task.state = input.seen_state AND task.lease < input.lease";
    tx.execute(input.statement(tx.backend(), text, &[])).await
}

pub(super) fn ids(ids: &[Uuid]) -> Input<1> {
    let mut input = Input::new([uuid("id")]);
    for id in ids {
        input.push([(*id).into()]);
    }
    input
}

fn state_of(row: &impl Row) -> Result<TaskState, Error> {
    let word: String = row.column("state")?;
    TaskState::from_word(&word).ok_or_else(|| unreadable("task", &word, "the state is not one of ours"))
}

pub(super) fn read_all(rows: &[impl Row]) -> Result<Vec<TaskRow>, Error> {
    rows.iter().map(read).collect()
}

fn read(row: &impl Row) -> Result<TaskRow, Error> {
    let id: Uuid = row.column("id")?;
    let kind: String = row.column("kind")?;
    let skip_cause: Option<String> = row.column("skip_cause")?;
    let shard_index: i32 = row.column("shard_index")?;
    Ok(TaskRow {
        id,
        job_id: row.column("job_id")?,
        task_config_id: row.column("task_config_id")?,
        node: row.number("node")?,
        kind: Kind::from_word(&kind).ok_or_else(|| unreadable("task", id, "the kind is not one of ours"))?,
        group_id: row.column("group_id")?,
        shard_index: u32::try_from(shard_index).ok(),
        shard_count: row.maybe_number("shard_count")?,
        shard_item: row.column("shard_item")?,
        state: state_of(row)?,
        reason: row.column("reason")?,
        skip_cause: skip_cause.as_deref().and_then(SkipCause::from_word),
        counters: Counters {
            attempt: row.number("attempt")?,
            lease: row.column::<i64>("lease")?.cast_unsigned(),
            deaths: row.number("deaths")?,
            refusals: row.number("refusals")?,
            tried: row.number("tried")?,
            not_before: Timestamp(row.column("not_before")?),
        },
        priority: row.column("priority")?,
        class: row.column("class")?,
        runner_id: row.column::<Option<String>>("runner_id")?.filter(|id| !id.is_empty()),
        slot: row.maybe_number("slot")?,
        session_id: row.column("session_id")?,
        warned_at: row.time("warned_at")?,
        attempts_before: row.number("attempts_before")?,
        gone: row.column("gone")?,
        end_grace: row.column("end_grace")?,
        exit_code: row.column("exit_code")?,
        exit_signal: row.column("exit_signal")?,
        output: row.column("output")?,
        stdout_bytes: row.column("stdout_bytes")?,
        stderr_bytes: row.column("stderr_bytes")?,
        parents: Parents {
            total: row.number("parents_total")?,
            succeeded: row.number("parents_succeeded")?,
            failed: row.number("parents_failed")?,
            skipped: row.number("parents_skipped")?,
        },
        shards_succeeded: row.number("shards_succeeded")?,
        shards_ended: row.number("shards_ended")?,
        created_at: Timestamp(row.column("created_at")?),
        queued_at: row.time("queued_at")?,
        dispatched_at: row.time("dispatched_at")?,
        started_at: row.time("started_at")?,
        ended_at: row.time("ended_at")?,
        seq: row.column("seq")?,
    })
}
