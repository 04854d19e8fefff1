//! Jobs as rows. The row of a job is the lock of its graph.

use std::collections::BTreeMap;

use sea_orm::DbBackend;
use uuid::Uuid;

use super::{
    Error, Tx, after_jobs,
    row::{Row, unreadable},
    scheduler,
    sql::{self, Input, bigint, boolean, int, text, uuid},
};
use crate::domain::{
    job::JobState,
    origin::{Logical, Parent, Trigger},
    time::Timestamp,
};

/// A job, as a turn sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Its id.
    pub id: Uuid,
    /// Its job config.
    pub job_config_id: Uuid,
    /// The version it was made from.
    pub version: u32,
    /// The namespace of its config.
    pub namespace: String,
    /// The name of its config.
    pub name: String,
    /// The labels of its config at that version.
    pub labels: BTreeMap<String, String>,
    /// Its state.
    pub state: JobState,
    /// Why.
    pub reason: String,
    /// Its parameters, defaults included.
    pub params: BTreeMap<String, String>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it began to run.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When its time is over.
    pub deadline_at: Option<Timestamp>,
    /// When to report that it takes long.
    pub warn_at: Option<Timestamp>,
    /// When that was reported.
    pub warned_at: Option<Timestamp>,
    /// What made it.
    pub trigger: Trigger,
    /// The schedule that made it.
    pub schedule: Option<String>,
    /// The instant a schedule made it for.
    pub fire_time: Option<Timestamp>,
    /// Which of the jobs of that fire it is: 0 for the one that the schedule made.
    pub rerun_no: u32,
    /// The backfill that made it.
    pub backfill_id: Option<Uuid>,
    /// The job it is a consequence of.
    pub parent: Option<Parent>,
    /// How many jobs one after the other led to it.
    pub depth: u32,
    /// The time it is about, if another job handed that down.
    pub logical: Option<Logical>,
    /// It waits until the jobs of its config before it are over, or for a place.
    pub waiting: bool,
    /// It waits for one of the places of its config alone.
    pub held: bool,
    /// The one runner that may take its tasks.
    pub pin: Option<String>,
    /// What has not started will not start.
    pub stopping: bool,
    /// Running out of time is what ends it.
    pub timed_out: bool,
    /// How many nodes have their rows.
    pub expanded: u32,
    /// How many nodes there are.
    pub tasks_total: u32,
    /// How many of them ended.
    pub tasks_ended: u32,
    /// How many of them failed in a way that counts.
    pub tasks_failed: u32,
    /// Grows with every change of the job or its tasks.
    pub seq: i64,
}

/// What a job is from its birth on.
#[derive(Debug, Clone)]
pub struct Birth {
    /// Its id.
    pub id: Uuid,
    /// Its job config.
    pub job_config_id: Uuid,
    /// The version it is made from.
    pub version: u32,
    /// The namespace of its config.
    pub namespace: String,
    /// The name of its config.
    pub name: String,
    /// How many nodes it has.
    pub tasks_total: u32,
    /// When it is accepted.
    pub at: Timestamp,
}

impl JobRow {
    /// A job that somebody asked for and that is born, CREATED: without labels and parameters, and none of its tasks is
    /// written.
    pub fn born(birth: Birth) -> Self {
        let Birth { id, job_config_id, version, namespace, name, tasks_total, at } = birth;
        Self {
            id,
            job_config_id,
            version,
            namespace,
            name,
            labels: BTreeMap::new(),
            state: JobState::Created,
            reason: String::new(),
            params: BTreeMap::new(),
            created_at: at,
            started_at: None,
            ended_at: None,
            deadline_at: None,
            warn_at: None,
            warned_at: None,
            trigger: Trigger::Manual,
            schedule: None,
            fire_time: None,
            rerun_no: 0,
            backfill_id: None,
            parent: None,
            depth: 0,
            logical: None,
            waiting: false,
            held: false,
            pin: None,
            stopping: false,
            timed_out: false,
            expanded: 0,
            tasks_total,
            tasks_ended: 0,
            tasks_failed: 0,
            seq: 0,
        }
    }
}

const COLUMNS: &str = "id, job_config_id, version, namespace, name, labels, state, reason, params, created_at,
    started_at, ended_at, deadline_at, warn_at, warned_at, trigger_kind, cause, schedule, fire_time, rerun_no,
    backfill_id, parent_job_id, parent_task_id, parent_attempt, depth, logical_at, logical_zone, waiting, held, runner,
    stopping, timed_out, expanded, tasks_total, tasks_ended, tasks_failed, seq";

/// Jobs whose tasks are to be written, oldest first.
pub async fn to_expand(tx: &Tx, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = "SELECT id FROM job WHERE state = 'CREATED' AND NOT waiting ORDER BY id LIMIT :limit";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("limit", i64::from(limit).into())])).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Jobs whose time is over.
pub async fn past_deadline(tx: &Tx, now: Timestamp, limit: u32) -> Result<Vec<Uuid>, Error> {
    // One that has not begun has a deadline only where a task set it.
    let text = "SELECT id FROM (
                    SELECT id FROM job WHERE deadline_at IS NOT NULL AND state = 'RUNNING' AND deadline_at <= :now
                    UNION ALL
                    SELECT id FROM job WHERE state = 'CREATED' AND NOT waiting AND deadline_at <= :now
                ) AS late LIMIT :limit";
    let params = [("now", now.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Jobs that take long and of which that was not reported.
pub async fn to_warn_of(tx: &Tx, now: Timestamp, limit: u32) -> Result<Vec<Uuid>, Error> {
    let text = "SELECT id FROM job WHERE warn_at IS NOT NULL AND warned_at IS NULL AND state = 'RUNNING'
                AND warn_at <= :now ORDER BY warn_at LIMIT :limit";
    let params = [("now", now.0.into()), ("limit", i64::from(limit).into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    rows.iter().map(|row| row.column("id")).collect()
}

/// Locks jobs in id order, and reads the time once the last of them is locked.
pub async fn lock(tx: &Tx, jobs: &[Uuid]) -> Result<(Vec<JobRow>, Timestamp), Error> {
    if jobs.is_empty() {
        return Ok((Vec::new(), scheduler::now(tx).await?));
    }
    // A row comes out of the inner question once it is locked, and only then the clock is looked at for it.
    let text = format!(
        "WITH {{input}}, locked AS MATERIALIZED (
             SELECT {COLUMNS} FROM job WHERE id IN (SELECT wanted FROM input) ORDER BY id {{for_update}}
         )
         SELECT {COLUMNS}, {{now}} AS locked_at FROM locked"
    );
    let rows = tx.query(wanted(jobs).statement(tx.backend(), &text, &[])).await?;
    let times = rows.iter().map(|row| row.column::<i64>("locked_at")).collect::<Result<Vec<_>, _>>()?;
    let now = match times.into_iter().max() {
        // The clock of SQLite is that of this machine, which counts finer.
        Some(at) if tx.backend() == DbBackend::Postgres => Timestamp(at + tx.clock_set()),
        _ => scheduler::now(tx).await?,
    };
    Ok((rows.iter().map(read).collect::<Result<_, _>>()?, now))
}

/// Reads jobs without a lock: for what never changes about them.
pub async fn facts(tx: &Tx, jobs: &[Uuid]) -> Result<Vec<JobRow>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!("WITH {{input}} SELECT {COLUMNS} FROM job WHERE id IN (SELECT wanted FROM input)");
    let rows = tx.query(wanted(jobs).statement(tx.backend(), &text, &[])).await?;
    rows.iter().map(read).collect()
}

fn wanted(jobs: &[Uuid]) -> Input<1> {
    let mut input = Input::new([uuid("wanted")]);
    for job in jobs {
        input.push([(*job).into()]);
    }
    input
}

/// Writes new jobs.
pub async fn insert(tx: &Tx, jobs: &[&JobRow]) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([
        uuid("id"),
        uuid("job_config_id"),
        int("version"),
        text("namespace"),
        text("name"),
        text("labels"),
        text("state"),
        text("reason"),
        text("params"),
        bigint("created_at"),
        bigint("started_at").nullable(),
        bigint("ended_at").nullable(),
        bigint("deadline_at").nullable(),
        bigint("warn_at").nullable(),
        text("trigger_kind"),
        text("cause").nullable(),
        text("schedule").nullable(),
        bigint("fire_time").nullable(),
        int("rerun_no"),
        uuid("backfill_id").nullable(),
        uuid("parent_job_id").nullable(),
        uuid("parent_task_id").nullable(),
        int("parent_attempt").nullable(),
        int("depth"),
        bigint("logical_at").nullable(),
        text("logical_zone").nullable(),
        boolean("waiting"),
        boolean("held"),
        text("runner").nullable(),
        boolean("stopping"),
        int("expanded"),
        int("tasks_total"),
        int("tasks_ended"),
        int("tasks_failed"),
        bigint("seq"),
    ]);
    for job in jobs {
        input.push([
            job.id.into(),
            job.job_config_id.into(),
            job.version.cast_signed().into(),
            job.namespace.as_str().into(),
            job.name.as_str().into(),
            json(&job.labels).into(),
            job.state.word().into(),
            job.reason.as_str().into(),
            json(&job.params).into(),
            job.created_at.0.into(),
            job.started_at.map(|at| at.0).into(),
            job.ended_at.map(|at| at.0).into(),
            job.deadline_at.map(|at| at.0).into(),
            job.warn_at.map(|at| at.0).into(),
            if job.trigger == Trigger::Schedule { "SCHEDULE" } else { "MANUAL" }.into(),
            cause(job.trigger).into(),
            job.schedule.clone().into(),
            job.fire_time.map(|at| at.0).into(),
            job.rerun_no.cast_signed().into(),
            job.backfill_id.into(),
            job.parent.map(|parent| parent.job).into(),
            job.parent.and_then(|parent| parent.task).map(|(task, _)| task).into(),
            job.parent.and_then(|parent| parent.task).map(|(_, attempt)| attempt.cast_signed()).into(),
            job.depth.cast_signed().into(),
            job.logical.as_ref().map(|logical| logical.at.0).into(),
            job.logical.as_ref().map(|logical| logical.zone.as_str()).into(),
            job.waiting.into(),
            job.held.into(),
            job.pin.as_deref().into(),
            job.stopping.into(),
            job.expanded.cast_signed().into(),
            job.tasks_total.cast_signed().into(),
            job.tasks_ended.cast_signed().into(),
            job.tasks_failed.cast_signed().into(),
            job.seq.into(),
        ]);
    }
    let text = "WITH {input} INSERT INTO job (id, job_config_id, version, namespace, name, labels, state, reason,
                    params, created_at, started_at, ended_at, deadline_at, warn_at, trigger_kind, cause, schedule,
                    fire_time, rerun_no, backfill_id, parent_job_id, parent_task_id, parent_attempt, depth, logical_at,
                    logical_zone, waiting, held, runner, stopping, expanded, tasks_total, tasks_ended, tasks_failed,
                    seq)
                SELECT id, job_config_id, version, namespace, name, labels, state, reason, params, created_at,
                    started_at, ended_at, deadline_at, warn_at, trigger_kind, cause, schedule, fire_time, rerun_no,
                    backfill_id, parent_job_id, parent_task_id, parent_attempt, depth, logical_at, logical_zone,
                    waiting, held, runner, stopping, expanded, tasks_total, tasks_ended, tasks_failed, seq
                FROM input";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

/// Writes what changed of jobs that this transaction has locked; says in the same breath whether any job config comes after
/// another, so that where none does the end of a job costs no question. `None` where a question costs next to nothing and
/// is left to who asks it.
pub async fn update(tx: &Tx, jobs: &[&JobRow]) -> Result<Option<bool>, Error> {
    if jobs.is_empty() {
        return Ok(None);
    }
    let mut input = Input::new([
        uuid("id"),
        text("state"),
        text("reason"),
        bigint("started_at").nullable(),
        bigint("ended_at").nullable(),
        bigint("deadline_at").nullable(),
        bigint("warn_at").nullable(),
        bigint("warned_at").nullable(),
        boolean("waiting"),
        boolean("held"),
        boolean("stopping"),
        boolean("timed_out"),
        int("expanded"),
        int("tasks_ended"),
        int("tasks_failed"),
        bigint("seq"),
    ]);
    for job in jobs {
        input.push([
            job.id.into(),
            job.state.word().into(),
            job.reason.as_str().into(),
            job.started_at.map(|at| at.0).into(),
            job.ended_at.map(|at| at.0).into(),
            job.deadline_at.map(|at| at.0).into(),
            job.warn_at.map(|at| at.0).into(),
            job.warned_at.map(|at| at.0).into(),
            job.waiting.into(),
            job.held.into(),
            job.stopping.into(),
            job.timed_out.into(),
            job.expanded.cast_signed().into(),
            job.tasks_ended.cast_signed().into(),
            job.tasks_failed.cast_signed().into(),
            job.seq.into(),
        ]);
    }
    let text = "WITH {input} UPDATE job SET state = input.state, reason = input.reason,
                    started_at = input.started_at, ended_at = input.ended_at, deadline_at = input.deadline_at,
                    warn_at = input.warn_at, warned_at = input.warned_at, waiting = input.waiting, held = input.held,
                    stopping = input.stopping, timed_out = input.timed_out, expanded = input.expanded,
                    tasks_ended = input.tasks_ended, tasks_failed = input.tasks_failed, seq = input.seq
                FROM input WHERE job.id = input.id";
    if tx.backend() == DbBackend::Sqlite {
        tx.execute(input.statement(tx.backend(), text, &[])).await?;
        return Ok(None);
    }
    let text = format!("{text} RETURNING {} AS followed", after_jobs::ANY);
    let rows = tx.query(input.statement(tx.backend(), &text, &[])).await?;
    rows.first().map(|row| Ok(row.number("followed")? == 1)).transpose()
}

/// What made a job, where the older column has no word for it.
fn cause(trigger: Trigger) -> Option<&'static str> {
    Some(trigger.word()).filter(|_| !matches!(trigger, Trigger::Manual | Trigger::Schedule))
}

fn json(map: &BTreeMap<String, String>) -> String {
    serde_json::to_string(map).expect("a map of texts has a JSON form")
}

fn map(row: &impl Row, name: &str, id: Uuid) -> Result<BTreeMap<String, String>, Error> {
    let text: String = row.column(name)?;
    serde_json::from_str(&text).map_err(|_| unreadable("job", id, "its labels or params are not a map of texts"))
}

fn read(row: &impl Row) -> Result<JobRow, Error> {
    let id: Uuid = row.column("id")?;
    let state: String = row.column("state")?;
    let trigger: String = match row.column("cause")? {
        Some(cause) => cause,
        None => row.column("trigger_kind")?,
    };
    let parent: Option<Uuid> = row.column("parent_job_id")?;
    let task: Option<Uuid> = row.column("parent_task_id")?;
    let attempt: Option<i32> = row.column("parent_attempt")?;
    let zone: Option<String> = row.column("logical_zone")?;
    Ok(JobRow {
        id,
        job_config_id: row.column("job_config_id")?,
        version: row.number("version")?,
        namespace: row.column("namespace")?,
        name: row.column("name")?,
        labels: map(row, "labels", id)?,
        state: JobState::from_word(&state).ok_or_else(|| unreadable("job", id, "the state is not one of ours"))?,
        reason: row.column("reason")?,
        params: map(row, "params", id)?,
        created_at: Timestamp(row.column("created_at")?),
        started_at: row.time("started_at")?,
        ended_at: row.time("ended_at")?,
        deadline_at: row.time("deadline_at")?,
        warn_at: row.time("warn_at")?,
        warned_at: row.time("warned_at")?,
        trigger: Trigger::from_word(&trigger)
            .ok_or_else(|| unreadable("job", id, "what made it is not a word of ours"))?,
        schedule: row.column("schedule")?,
        fire_time: row.time("fire_time")?,
        rerun_no: row.number("rerun_no")?,
        backfill_id: row.column("backfill_id")?,
        parent: parent.map(|job| Parent { job, task: task.zip(attempt.map(i32::cast_unsigned)) }),
        depth: row.number("depth")?,
        logical: row.time("logical_at")?.zip(zone).map(|(at, zone)| Logical { at, zone }),
        waiting: row.column("waiting")?,
        held: row.column("held")?,
        pin: row.column("runner")?,
        stopping: row.column("stopping")?,
        timed_out: row.column("timed_out")?,
        expanded: row.number("expanded")?,
        tasks_total: row.number("tasks_total")?,
        tasks_ended: row.number("tasks_ended")?,
        tasks_failed: row.number("tasks_failed")?,
        seq: row.column("seq")?,
    })
}
