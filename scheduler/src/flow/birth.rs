//! A job is born. Whoever makes one, a request, a schedule, a task, the end of other jobs or a callback, makes it here,
//! inside a turn: with its parameters worked out, and with what made it written down.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use super::{batch::Context, plan::Plan, work::Work};
use crate::{
    domain::{
        origin::{Logical, Parent, Trigger},
        params,
        schedule::Zone,
        time::Timestamp,
    },
    store::{
        self, Tx,
        job::{Birth, JobRow},
        schedule::Config,
    },
};

/// Of which version of which job config a job is to be born.
#[derive(Debug, Clone)]
pub(super) struct Kin {
    pub config: Uuid,
    pub version: u32,
    pub namespace: String,
    pub name: String,
    pub plan: Arc<Plan>,
}

impl Kin {
    /// A job config that a station has locked, at its newest version.
    pub(super) fn of(config: &Config, plan: Arc<Plan>) -> Self {
        let Config { id, version, namespace, name } = config.clone();
        Self { config: id, version, namespace, name, plan }
    }

    /// The newest version of a job config, as it is now. Without a lock: for jobs that no other job of the config holds
    /// back. `None` when there is no such config.
    pub(super) async fn newest(
        tx: &Tx,
        context: &mut Context,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, store::Error> {
        let Some(row) = store::config::newest(tx, namespace, name).await? else { return Ok(None) };
        let plan = context.plans.get(tx, row.id, row.version).await?;
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Ok(Some(Self { config: row.id, version: row.version, namespace, name, plan }))
    }
}

/// What makes a job.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// Somebody asked for it, perhaps for one runner alone.
    Request { pin: Option<String> },
    /// A schedule fired.
    Schedule {
        key: String,
        fire_time: Timestamp,
        zone: Zone,
        /// It has to wait its turn.
        waiting: bool,
    },
    /// A fire that lies in the past is made up for.
    Backfill {
        backfill: Uuid,
        key: String,
        fire_time: Timestamp,
        zone: Zone,
        /// 0, or one more than the number of the newest job of this fire.
        rerun_no: u32,
    },
    /// A `job` task.
    SubJob {
        /// The job of that task, the task and its attempt.
        parent: (Uuid, Uuid, u32),
        depth: u32,
        /// What time the parent is about.
        logical: Logical,
        /// When the time of the task is over.
        deadline_at: Option<Timestamp>,
    },
    /// The jobs that its config comes after finished.
    AfterJobs {
        depth: u32,
        /// It has to wait its turn.
        waiting: bool,
    },
    /// A callback.
    Callback {
        /// The job it tells of; none for a fire that made no job.
        parent: Option<Uuid>,
        depth: u32,
    },
}

/// Lets a job be born, CREATED, with every parameter it has: those given as they are, the others by their defaults. Tells
/// what is wrong with the parameters otherwise.
pub(super) fn bear(
    work: &mut Work,
    kin: Kin,
    given: &BTreeMap<String, String>,
    cause: Cause,
) -> Result<Uuid, Vec<params::Invalid>> {
    let now = work.now;
    let logical_time = match &cause {
        Cause::Request { .. } | Cause::AfterJobs { .. } | Cause::Callback { .. } => Zone::utc().time(now),
        Cause::Schedule { fire_time, zone, .. } | Cause::Backfill { fire_time, zone, .. } => zone.time(*fire_time),
        Cause::SubJob { logical, .. } => Zone::parse(&logical.zone).unwrap_or_else(|_| Zone::utc()).time(logical.at),
    };
    let Kin { config, version, namespace, name, plan } = kin;
    let params = params::evaluate(&plan.config.params, given, logical_time)?;
    let tasks_total = u32::try_from(plan.tasks.len()).unwrap_or(u32::MAX);
    let birth = Birth { id: Uuid::now_v7(), job_config_id: config, version, namespace, name, tasks_total, at: now };
    let mut row = JobRow { labels: plan.config.labels.clone(), params, ..JobRow::born(birth) };
    match cause {
        Cause::Request { pin } => row.pin = pin,
        Cause::Schedule { key, fire_time, waiting, .. } => {
            row.trigger = Trigger::Schedule;
            (row.schedule, row.fire_time, row.waiting) = (Some(key), Some(fire_time), waiting);
        }
        Cause::AfterJobs { depth, waiting } => {
            row.trigger = Trigger::AfterJobs;
            (row.depth, row.waiting) = (depth, waiting);
        }
        Cause::Backfill { backfill, key, fire_time, rerun_no, .. } => {
            row.trigger = Trigger::Backfill;
            (row.schedule, row.fire_time) = (Some(key), Some(fire_time));
            (row.rerun_no, row.backfill_id) = (rerun_no, Some(backfill));
        }
        Cause::SubJob { parent: (job, task, attempt), depth, logical, deadline_at } => {
            row.trigger = Trigger::SubJob;
            row.parent = Some(Parent { job, task: Some((task, attempt)) });
            (row.depth, row.logical, row.deadline_at) = (depth, Some(logical), deadline_at);
        }
        Cause::Callback { parent, depth } => {
            row.trigger = Trigger::Callback;
            row.parent = parent.map(|job| Parent { job, task: None });
            row.depth = depth;
        }
    }
    let id = row.id;
    work.new_job(row, plan);
    Ok(id)
}

/// What is wrong with parameters, in words. `place` is where they stand in the definition.
pub(super) fn in_words(place: &str, wrong: Vec<params::Invalid>) -> String {
    let wrong: Vec<String> =
        wrong.into_iter().map(|param| format!("{place}.{} {}", param.name, param.message)).collect();
    wrong.join("; ")
}
