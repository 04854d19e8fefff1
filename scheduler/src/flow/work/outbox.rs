//! What the changes of a turn tell to others: an event is derived from what a row was and what it became, and written
//! down for each receiver in the transaction of the change. A definition without callbacks costs nothing here.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{JobWork, Plan, TaskWork, Work};
use crate::{
    domain::{
        callback::{
            Event,
            payload::{Config, Job, Missed, Occurrence, Task},
        },
        definition::{
            Callback,
            callback::{Action, Email, StartJob},
        },
        reference::Scope,
        schedule::Zone,
        task::{self, Kind, TaskState},
        template::Renderer,
        time::Timestamp,
    },
    flow::data::logical,
    store::{
        self, Tx,
        callback::{CallbackRow, Hold},
        schedule::{Config as ConfigRow, MissedRow},
    },
};

/// What a turn has to tell beside what its rows say by themselves.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// What is ready to be written.
    rows: Vec<CallbackRow>,
    /// Jobs, and tasks of theirs, that run for longer than they should.
    slow: Vec<(Uuid, Option<Uuid>)>,
    /// Tasks whose callbacks hold them no longer, and why.
    given_up: BTreeMap<Uuid, String>,
    /// Those of them that are still to be let go.
    letting_go: Vec<Uuid>,
    /// Something was written down.
    written: bool,
}

impl Work {
    /// Tells that a job in hand, or a task of it, runs for longer than its `warn_after`. To be called once for each.
    pub(in crate::flow) fn slow(&mut self, job: Uuid, task: Option<Uuid>) {
        self.outbox.slow.push((job, task));
    }

    /// Tells of fires of one job config that made no job: once for those that follow each other for one reason.
    pub(in crate::flow) fn missed(&mut self, config: &ConfigRow, plan: &Plan, fires: &[MissedRow]) {
        if !plan.config.callbacks.iter().any(|callback| callback.events.contains(&Event::Missed)) {
            return;
        }
        for row in fires {
            let occurrence = Occurrence {
                id: Uuid::now_v7(),
                event: Event::Missed,
                time: self.now,
                config: Config { namespace: &config.namespace, name: &config.name, version: config.version },
                job: None,
                task: None,
                missed: Some(Missed {
                    schedule: &row.key,
                    first: row.first,
                    last: row.last,
                    count: row.count,
                    reason: &row.reason,
                }),
            };
            let logical = (row.last, plan.zone(Some(&row.key)));
            let about = About { config: config.id, job: None, task: None, logical, depth: 0 };
            tell(&mut self.outbox.rows, &occurrence, &about, &plan.config.callbacks);
        }
    }

    /// Something that was written down earlier is to be told now.
    pub(in crate::flow) fn told(&mut self) {
        self.outbox.written = true;
    }

    /// Whether something was written down that is to be told.
    pub(in crate::flow) fn has_told(&self) -> bool {
        self.outbox.written
    }

    /// Whether the work of a task ended well, whatever still holds the task.
    pub(in crate::flow) fn ended_well(&self, id: Uuid) -> bool {
        self.tasks.get(&id).is_some_and(|task| task.ended.unwrap_or(task.row.state) == TaskState::Finished)
    }

    /// What a task enters whose work ended: CALLBACK while callbacks that block are to be delivered.
    pub(super) fn held(&mut self, id: Uuid, next: TaskState) -> TaskState {
        let Some(task) = self.tasks.get_mut(&id) else { return next };
        let held = task.row.state.held(task.row.kind, next);
        let event = if next == TaskState::Finished { Event::Finished } else { Event::Failed };
        let plan = &self.jobs.get(&task.row.job_id).expect("a task in hand has its job in hand").plan;
        if held == next || !plan.holds(task.row.node, event) {
            return next;
        }
        task.ended = Some(next);
        held
    }

    /// Gives up what holds a task. It ends in this turn, as its work ended.
    pub(super) fn give_up(&mut self, id: Uuid, reason: String) {
        if self.outbox.given_up.insert(id, reason).is_none() {
            self.outbox.letting_go.push(id);
        }
    }

    /// Lets tasks go whose callbacks were given up.
    pub(in crate::flow) async fn let_go(&mut self, tx: &Tx) -> Result<(), store::Error> {
        let mut tasks = std::mem::take(&mut self.outbox.letting_go);
        if tasks.is_empty() {
            return Ok(());
        }
        tasks.sort_unstable();
        let holds = store::callback::lock_holds(tx, &tasks).await?;
        for id in tasks {
            let reason = self.outbox.given_up.get(&id).cloned().unwrap_or_default();
            let of_task: Vec<&Hold> = holds.iter().filter(|hold| hold.task_id == id).collect();
            let pending: Vec<Uuid> = of_task.iter().filter(|hold| hold.is_pending()).map(|hold| hold.id).collect();
            store::callback::give_up(tx, self.now, &pending, &format!("given up: {reason}")).await?;
            // It may have come here in this very turn: then nothing is written yet.
            let ended = self.tasks.get(&id).and_then(|task| task.ended);
            let well = ended.map_or_else(|| Hold::ended_well(&of_task), |ended| ended == TaskState::Finished);
            self.called_back(id, well, &format!("its callbacks were given up: {reason}"));
        }
        Ok(())
    }

    /// Ends a task in CALLBACK as its work ended, with a remark on what held it.
    pub(in crate::flow) fn called_back(&mut self, id: Uuid, well: bool, remark: &str) {
        let Some(row) = self.task(id) else { return };
        let reason = match (row.reason.is_empty(), remark.is_empty()) {
            (_, true) => row.reason.clone(),
            (true, false) => remark.to_owned(),
            (false, false) => format!("{}; {remark}", row.reason),
        };
        self.happen(id, task::Event::CalledBack { well }, reason);
    }

    /// Writes down what the turn has to tell. To be called once its rows are written.
    pub(super) async fn tell(&mut self, tx: &Tx) -> Result<(), store::Error> {
        let mut rows = std::mem::take(&mut self.outbox.rows);
        let mut jobs: BTreeMap<Uuid, Vec<&TaskWork>> = BTreeMap::new();
        for task in self.tasks.values().filter(|task| task.touched && task.row.kind != Kind::Shard) {
            let job = &self.jobs[&task.row.job_id];
            if job.plan.tells && !job.plan.task(task.row.node).callbacks.is_empty() {
                jobs.entry(task.row.job_id).or_default().push(task);
            }
        }
        for tasks in jobs.values_mut() {
            tasks.sort_unstable_by_key(|task| task.row.node);
            for task in tasks {
                self.tell_of_task(&mut rows, task);
            }
        }
        for job in self.jobs.values().filter(|job| job.touched && !job.plan.config.callbacks.is_empty()) {
            for event in crate::domain::callback::of_job(job.seen, job.row.state) {
                self.tell_of(&mut rows, event, job, None);
            }
        }
        for (job, task) in &self.outbox.slow {
            let Some(job) = self.jobs.get(job) else { continue };
            self.tell_of(&mut rows, Event::Slow, job, task.and_then(|task| self.tasks.get(&task)));
        }
        if rows.is_empty() {
            return Ok(());
        }
        for row in &mut rows {
            let given_up = row.task_id.filter(|_| row.blocking).and_then(|task| self.outbox.given_up.get(&task));
            if let Some(reason) = given_up.filter(|_| row.given_up.is_none()) {
                row.given_up = Some(format!("given up: {reason}"));
            }
        }
        for slice in rows.chunks(super::ROWS_MAX) {
            store::callback::insert(tx, slice).await?;
        }
        self.outbox.written = true;
        Ok(())
    }

    fn tell_of_task(&self, rows: &mut Vec<CallbackRow>, task: &TaskWork) {
        let before = task.seen.map(|(state, _)| state);
        if let Some(event) = crate::domain::callback::of_task(before, task.row.state, task.ended) {
            self.tell_of(rows, event, &self.jobs[&task.row.job_id], Some(task));
        }
    }

    fn tell_of(&self, rows: &mut Vec<CallbackRow>, event: Event, job: &JobWork, task: Option<&TaskWork>) {
        let JobWork { row, plan, .. } = job;
        let callbacks = task.map_or(&plan.config.callbacks, |task| &plan.task(task.row.node).callbacks);
        if !callbacks.iter().any(|callback| callback.events.contains(&event)) {
            return;
        }
        let occurrence = Occurrence {
            id: Uuid::now_v7(),
            event,
            time: self.now,
            config: Config { namespace: &row.namespace, name: &row.name, version: row.version },
            job: Some(Job {
                id: row.id,
                state: row.state.word(),
                reason: &row.reason,
                labels: &row.labels,
                params: &row.params,
                schedule: row.schedule.as_deref(),
                fire_time: row.fire_time,
                created_at: row.created_at,
                started_at: row.started_at,
                ended_at: row.ended_at,
                tasks: row.tasks_total,
                tasks_failed: row.tasks_failed,
            }),
            task: task.map(|TaskWork { row, ended, .. }| Task {
                id: row.id,
                name: &plan.task(row.node).name,
                // What holds it is not what a receiver asks about.
                state: ended.unwrap_or(row.state).word(),
                reason: &row.reason,
                attempt: row.counters.attempt,
                runner: row.runner_id.as_deref(),
                exit_code: row.exit_code,
                exit_signal: row.exit_signal,
                started_at: row.started_at,
                ended_at: row.ended_at.or(ended.map(|_| self.now)),
                output: &row.output,
            }),
            missed: None,
        };
        let about = About {
            config: row.job_config_id,
            job: Some((row.id, &row.params)),
            task: task.map(|task| (task.row.id, plan.task(task.row.node).name.as_str())),
            logical: logical(row, plan),
            depth: row.depth,
        };
        tell(rows, &occurrence, &about, callbacks);
    }
}

/// What an occurrence is about, beside what is told of it.
struct About<'a> {
    config: Uuid,
    job: Option<(Uuid, &'a BTreeMap<String, String>)>,
    task: Option<(Uuid, &'a str)>,
    /// The time it is about, and whose clocks tell it.
    logical: (Timestamp, Zone),
    depth: u32,
}

/// One row for each callback that tells of the event.
fn tell(rows: &mut Vec<CallbackRow>, of: &Occurrence<'_>, about: &About<'_>, callbacks: &[Callback]) {
    let payload = of.payload().to_string();
    for (callback, position) in callbacks.iter().zip(0..).filter(|(callback, _)| callback.events.contains(&of.event)) {
        let (action, problem) = match filled(&callback.action, of, about) {
            Ok(action) => (action, None),
            Err(problem) => (callback.action.clone(), Some(problem)),
        };
        rows.push(CallbackRow {
            id: Uuid::now_v7(),
            event_id: of.id,
            event: of.event,
            job_config_id: about.config,
            namespace: of.config.namespace.to_owned(),
            name: of.config.name.to_owned(),
            job_id: about.job.map(|(id, _)| id),
            task_id: about.task.map(|(id, _)| id),
            task_name: about.task.map(|(_, name)| name.to_owned()).unwrap_or_default(),
            position,
            action,
            payload: payload.clone(),
            blocking: callback.blocking,
            depth: about.depth,
            given_up: problem,
            created_at: of.time,
        });
    }
}

/// An action with every template filled in.
fn filled(action: &Action, of: &Occurrence<'_>, about: &About<'_>) -> Result<Action, String> {
    let renderer = || {
        let (id, params) = about.job.map(|(id, params)| (id.to_string(), params.clone())).unwrap_or_default();
        let (at, zone) = about.logical;
        Renderer::new(&Scope {
            params,
            job_id: id,
            job_name: of.config.name.to_owned(),
            logical_time: zone.time(at),
            event: of.scope(),
            ..Scope::default()
        })
    };
    Ok(match action {
        Action::Http(webhook) => Action::Http(webhook.clone()),
        Action::Email(Email { to, subject }) => {
            let line = if subject.is_empty() {
                format!("[baton] {}", of.headline())
            } else {
                renderer().render("email.subject", subject)?
            };
            // One line, whatever came out.
            let subject = line.split(char::is_control).collect::<Vec<_>>().join(" ");
            Action::Email(Email { to: to.clone(), subject })
        }
        Action::Job(StartJob { name, params }) => {
            let renderer = renderer();
            let params = params
                .iter()
                .map(|(key, text)| Ok((key.clone(), renderer.render(&format!("job.params.{key}"), text)?)))
                .collect::<Result<_, String>>()?;
            Action::Job(StartJob { name: name.clone(), params })
        }
    })
}
