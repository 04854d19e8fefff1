//! What is written down of an order that changed something: who, what, before and after, and why.
//!
//! A run leaves no event of its own: the job it made says everything. A refused order changed nothing.

use uuid::Uuid;

use super::{
    order::{Order, OrderAnswer},
    orders::Configs,
    request::{Again, Change, Position, Said},
    work::Work,
};
use crate::{
    domain::{job::JobState, time::Timestamp},
    store::audit::AuditRow,
};

/// Who acts while there are no users.
const ACTOR_DEFAULT: &str = "local";

/// How things stood before an order was carried out.
pub(super) struct Before {
    version: Option<u32>,
    job: Option<JobState>,
}

impl Before {
    /// Looks at what an order is about.
    pub(super) fn of(order: &Order, work: &Work, configs: &Configs) -> Self {
        let config = match order {
            Order::Delete(delete) => configs.get(&(delete.namespace.clone(), delete.name.clone())),
            _ => None,
        };
        Self {
            version: config.map(|config| config.version),
            job: order.job().and_then(|id| work.job(id)).map(|job| job.row.state),
        }
    }

    /// The events of an order that was carried out; none of one that was refused.
    pub(super) fn events(&self, order: &Order, answer: &OrderAnswer, work: &Work) -> Vec<AuditRow> {
        let event = |action: &'static str, kind: &'static str| blank(order, action, kind, work.now);
        match (order, answer) {
            (Order::Apply(apply), OrderAnswer::Applied(Ok(applied))) => {
                let changed = apply.configs.iter().zip(applied).filter(|(_, now)| now.change != Change::Unchanged);
                let events = changed.map(|((config, _), now)| AuditRow {
                    namespace: config.namespace.clone(),
                    object: config.name.clone(),
                    before: if now.version > 1 { format!("version {}", now.version - 1) } else { String::new() },
                    after: format!("version {}", now.version),
                    ..event("Apply", "job config")
                });
                events.collect()
            }
            (Order::Delete(delete), OrderAnswer::Count(Ok(_))) => vec![AuditRow {
                namespace: delete.namespace.clone(),
                object: delete.name.clone(),
                before: self.version.map(|version| format!("version {version}")).unwrap_or_default(),
                after: "deleted".to_owned(),
                ..event("Delete", "job config")
            }],
            (Order::Switch(switch), OrderAnswer::Count(Ok(_))) => {
                let (action, after, reason) = match &switch.to {
                    Position::On => ("Enable", "on", ""),
                    Position::Off { reason, .. } => ("Disable", "off", reason.as_str()),
                };
                let schedule = switch.schedule.as_ref().map(|key| format!(" schedules[{key}]"));
                vec![AuditRow {
                    namespace: switch.namespace.clone(),
                    object: format!("{}{}", switch.name, schedule.unwrap_or_default()),
                    after: after.to_owned(),
                    reason: reason.to_owned(),
                    ..event(action, "job config")
                }]
            }
            (Order::PutCalendars(put), OrderAnswer::Calendars(Ok(done))) => {
                let changed = put.calendars.iter().zip(done).filter(|(_, now)| now.change != Change::Unchanged);
                let events = changed.map(|(calendar, now)| AuditRow {
                    namespace: calendar.namespace.clone(),
                    object: calendar.calendar.name.clone(),
                    after: if now.change == Change::Created { "created" } else { "changed" }.to_owned(),
                    ..event("ApplyCalendars", "calendar")
                });
                events.collect()
            }
            (Order::DeleteCalendar(delete), OrderAnswer::Count(Ok(_))) => vec![AuditRow {
                namespace: delete.namespace.clone(),
                object: delete.name.clone(),
                after: "deleted".to_owned(),
                ..event("DeleteCalendar", "calendar")
            }],
            (Order::Backfill(backfill), OrderAnswer::Job(Ok(id))) => vec![AuditRow {
                namespace: backfill.namespace.clone(),
                object: backfill.name.clone(),
                after: format!("backfill {id}{}", if backfill.again { ", again" } else { "" }),
                ..event("Backfill", "job config")
            }],
            (Order::CancelBackfill(cancel), OrderAnswer::Count(Ok(_))) => vec![AuditRow {
                namespace: cancel.namespace.clone(),
                object: cancel.name.clone(),
                before: format!("backfill {}", cancel.id),
                after: "cancelled".to_owned(),
                reason: cancel.reason.clone(),
                ..event("CancelBackfill", "job config")
            }],
            (Order::Terminate(terminate), OrderAnswer::Count(Ok(_))) => {
                let task = terminate.task.as_deref();
                let mut row = about(event("Terminate", ""), work, terminate.job_id, task, terminate.shard_index);
                self.job.map_or("", JobState::word).clone_into(&mut row.before);
                work.job(terminate.job_id).map_or("", |job| job.row.state.word()).clone_into(&mut row.after);
                row.reason.clone_from(&terminate.reason);
                vec![row]
            }
            (Order::Rerun(rerun), OrderAnswer::Repaired(Ok(done))) => {
                let (task, shard) = match &rerun.again {
                    Again::Failed => (None, None),
                    Again::Task { name, shard, .. } => (Some(name.as_str()), *shard),
                };
                let mut row = about(event("Rerun", ""), work, rerun.job_id, task, shard);
                let which = match &rerun.again {
                    Again::Failed => "from the failures",
                    Again::Task { following: true, .. } => "with what follows",
                    Again::Task { .. } => "by itself",
                };
                let force = if rerun.force { ", forced" } else { "" };
                row.before.clone_from(&done.before);
                row.after = format!(
                    "{} ({which}{force}: {} run again, {} decided again)",
                    done.after, done.tasks, done.reconsidered
                );
                row.reason.clone_from(&rerun.reason);
                vec![row]
            }
            (Order::Mark(mark), OrderAnswer::Repaired(Ok(done))) => {
                let mut row = about(event("Mark", ""), work, mark.job_id, Some(&mark.task), mark.shard);
                row.before.clone_from(&done.before);
                row.after = match mark.said {
                    Said::Gone => format!("{}, gone", done.after),
                    Said::Ended(_) => done.after.clone(),
                };
                row.reason.clone_from(&mark.reason);
                vec![row]
            }
            (Order::DrainRunner { runner, drained, reason }, OrderAnswer::Done(Ok(()))) => vec![AuditRow {
                object: runner.clone(),
                after: if *drained { "drained" } else { "working" }.to_owned(),
                reason: reason.clone(),
                ..event(if *drained { "DrainRunner" } else { "ResumeRunner" }, "runner")
            }],
            (Order::DrainScheduler { scheduler, drained }, OrderAnswer::Done(Ok(()))) => vec![AuditRow {
                object: scheduler.to_string(),
                after: if *drained { "drained" } else { "working" }.to_owned(),
                ..event(if *drained { "DrainScheduler" } else { "ResumeScheduler" }, "scheduler")
            }],
            _ => Vec::new(),
        }
    }
}

fn blank(order: &Order, action: &'static str, kind: &'static str, at: Timestamp) -> AuditRow {
    let caller = order.caller().map(|(_, caller)| caller);
    let actor = caller.map(|caller| caller.principal.clone()).filter(|principal| !principal.is_empty());
    AuditRow {
        id: Uuid::now_v7(),
        at,
        actor: actor.unwrap_or_else(|| ACTOR_DEFAULT.to_owned()),
        action: action.to_owned(),
        kind: kind.to_owned(),
        namespace: String::new(),
        object: String::new(),
        job_id: None,
        before: String::new(),
        after: String::new(),
        reason: String::new(),
        request_id: caller.map(|caller| caller.request_id.clone()).unwrap_or_default(),
    }
}

/// An event about a job, or a task of it, named as on the command line.
fn about(mut row: AuditRow, work: &Work, job: Uuid, task: Option<&str>, shard: Option<u32>) -> AuditRow {
    row.job_id = Some(job);
    row.namespace = work.job(job).map(|job| job.row.namespace.clone()).unwrap_or_default();
    if task.is_some() { "task" } else { "job" }.clone_into(&mut row.kind);
    row.object = job.to_string();
    if let Some(task) = task {
        row.object = format!("{job}/{task}");
    }
    if let Some(shard) = shard {
        row.object = format!("{}#{shard}", row.object);
    }
    row
}
