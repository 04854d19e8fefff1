//! What a turn has in hand: the jobs and tasks it locked, as they were and as they shall be. Stations change it; at the
//! end it is written in a few set-based statements.

mod new_task;
mod outbox;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use uuid::Uuid;

pub(super) use self::new_task::NewTask;
use self::outbox::Outbox;
use super::{changes::Change, parked, plan::Plan, sub_jobs::Handover};
use crate::{
    domain::{
        gate::SkipCause,
        heartbeat::TaskRef,
        job::{self, JobState},
        origin::Trigger,
        placement::{self, Present},
        repair::Hand,
        task::{Event, Kind, TaskState},
        time::Timestamp,
    },
    store::{
        self, Tx,
        after_jobs::{Finished, Source},
        attempt::AttemptRow,
        job::JobRow,
        sub_job::Place,
        task::{Changed, TaskRow},
    },
};

/// How many rows one statement writes.
const ROWS_MAX: usize = 5_000;

/// A job in hand.
#[derive(Debug)]
pub(super) struct JobWork {
    pub row: JobRow,
    pub plan: Arc<Plan>,
    is_new: bool,
    /// The state that was read; `None` for a new row.
    seen: Option<JobState>,
    touched: bool,
}

/// A task in hand.
#[derive(Debug)]
struct TaskWork {
    row: TaskRow,
    /// The state and lease that were read; `None` for a new row.
    seen: Option<(TaskState, u64)>,
    /// How its work ended, if it became CALLBACK in this turn.
    ended: Option<TaskState>,
    touched: bool,
    /// Something changed that only few tasks have.
    noted: bool,
}

impl TaskWork {
    /// Whether the database has it as waiting for a runner.
    fn was_queued(&self) -> bool {
        self.seen.is_some_and(|(state, _)| state == TaskState::Queued)
    }

    /// Whether it waits for a runner since this turn.
    fn is_newly_queued(&self) -> bool {
        self.row.state == TaskState::Queued && !self.was_queued()
    }
}

/// What came of a write.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The jobs that changed.
    pub changed: Vec<Change>,
    /// Whether any job config comes after another, if writing jobs told.
    pub followed: Option<bool>,
}

/// What a turn has in hand.
#[derive(Debug)]
pub(super) struct Work {
    /// The time of the turn, read after all locks were taken.
    pub now: Timestamp,
    /// The runners that are there, if a job in hand has tasks that go from one to another.
    pub present: Vec<Present>,
    jobs: BTreeMap<Uuid, JobWork>,
    tasks: HashMap<Uuid, TaskWork>,
    nodes: HashMap<(Uuid, u32), Uuid>,
    ended: Vec<Uuid>,
    childless: Vec<Uuid>,
    finished: Vec<Finished>,
    sources: Vec<(Uuid, Uuid, Vec<Source>)>,
    opening: Vec<Uuid>,
    /// Groups that a person reopened in this turn.
    reopened: BTreeSet<Uuid>,
    attempts: Vec<AttemptRow>,
    /// Dispatches before the present one of their task, or of tasks not in hand, whose end is proven.
    proven: Vec<TaskRef>,
    proved: bool,
    outbox: Outbox,
}

impl Work {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            now,
            present: Vec::new(),
            jobs: BTreeMap::new(),
            tasks: HashMap::new(),
            nodes: HashMap::new(),
            ended: Vec::new(),
            childless: Vec::new(),
            finished: Vec::new(),
            sources: Vec::new(),
            opening: Vec::new(),
            reopened: BTreeSet::new(),
            attempts: Vec::new(),
            proven: Vec::new(),
            proved: false,
            outbox: Outbox::default(),
        }
    }

    /// Takes a job in hand that this transaction has locked.
    pub(super) fn take_job(&mut self, row: JobRow, plan: Arc<Plan>) {
        let seen = Some(row.state);
        let mut job = JobWork { row, plan, is_new: false, seen, touched: false };
        if let Some(reason) = parked::new_reason(&job) {
            (job.row.reason, job.touched) = (reason, true);
        }
        self.jobs.insert(job.row.id, job);
    }

    /// Whether nothing of a job in hand may be decided, because its definition cannot be read.
    pub(super) fn is_parked(&self, job: Uuid) -> bool {
        self.jobs.get(&job).is_some_and(parked::is_parked)
    }

    /// Takes a job in hand that is born in this turn. Where only so many jobs of its config may run, whether there is a
    /// place for it is decided under the lock of the config, whoever lets it be born.
    pub(super) fn new_job(&mut self, mut row: JobRow, plan: Arc<Plan>) {
        row.held = !row.waiting && plan.config.max_active_jobs.is_some();
        row.waiting |= row.held;
        self.jobs.insert(row.id, JobWork { row, plan, is_new: true, seen: None, touched: true });
    }

    /// The jobs born in this turn.
    pub(super) fn newborn(&self) -> impl Iterator<Item = &JobWork> {
        self.jobs.values().filter(|job| job.is_new)
    }

    /// The jobs in hand that wait for a place, the oldest first: those born in this turn, or the others.
    pub(super) fn held_jobs(&self, is_new: bool) -> impl Iterator<Item = &JobRow> {
        self.jobs.values().filter(move |job| job.is_new == is_new && job.row.held).map(|job| &job.row)
    }

    /// The jobs of a config in hand that have not ended.
    pub(super) fn live_of(&self, config: Uuid) -> Vec<Uuid> {
        let live = self.jobs.values().filter(|job| job.row.job_config_id == config && !job.row.state.is_terminal());
        live.map(|job| job.row.id).collect()
    }

    /// Whether a job ended in this turn.
    pub(super) fn ended_a_job(&self) -> bool {
        self.jobs.values().any(|job| job.touched && job.row.state.is_terminal())
    }

    /// Whether the end of a dispatch was proven that had been doubted: others may have waited for that.
    pub(super) fn proved_gone(&self) -> bool {
        self.proved
    }

    /// The job, if it is in hand.
    pub(super) fn job(&self, id: Uuid) -> Option<&JobWork> {
        self.jobs.get(&id)
    }

    /// The jobs in hand.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &JobWork> {
        self.jobs.values()
    }

    /// The job, to be changed.
    pub(super) fn job_mut(&mut self, id: Uuid) -> Option<&mut JobRow> {
        self.jobs.get_mut(&id).map(|job| {
            job.touched = true;
            &mut job.row
        })
    }

    /// The seq of what this turn changes of a job in hand and of its tasks.
    pub(super) fn next_seq(&self, job: Uuid) -> i64 {
        next_seq(&self.jobs.get(&job).expect("the job is in hand").row)
    }

    /// The plan of a job in hand.
    pub(super) fn plan(&self, job: Uuid) -> Arc<Plan> {
        self.jobs.get(&job).expect("a task in hand has its job in hand").plan.clone()
    }

    /// Takes tasks in hand that this transaction has locked; one in hand already stays as it is.
    pub(super) fn take_tasks(&mut self, rows: Vec<TaskRow>) {
        for row in rows {
            if row.kind != Kind::Shard {
                self.nodes.insert((row.job_id, row.node), row.id);
            }
            let seen = Some((row.state, row.counters.lease));
            self.tasks.entry(row.id).or_insert(TaskWork { row, seen, ended: None, touched: false, noted: false });
        }
    }

    /// Takes a task in hand that is born in this turn.
    pub(super) fn new_task(&mut self, row: TaskRow) {
        if row.kind != Kind::Shard {
            self.nodes.insert((row.job_id, row.node), row.id);
        }
        self.tasks.insert(row.id, TaskWork { row, seen: None, ended: None, touched: true, noted: false });
    }

    /// The task, if it is in hand.
    pub(super) fn task(&self, id: Uuid) -> Option<&TaskRow> {
        self.tasks.get(&id).map(|task| &task.row)
    }

    /// The tasks in hand.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks.values().map(|task| &task.row)
    }

    /// The task that stands for a node, if it is in hand.
    pub(super) fn node(&self, job: Uuid, node: u32) -> Option<Uuid> {
        self.nodes.get(&(job, node)).copied()
    }

    /// The task, to be changed in anything but its state.
    pub(super) fn edit(&mut self, id: Uuid) -> &mut TaskRow {
        let task = self.tasks.get_mut(&id).expect("a task is edited that is in hand");
        task.touched = true;
        &mut task.row
    }

    /// The task, to be changed in what it asks of a runner, its tries and its warning: what only few tasks change.
    pub(super) fn note(&mut self, id: Uuid) -> &mut TaskRow {
        let task = self.tasks.get_mut(&id).expect("a task is edited that is in hand");
        (task.touched, task.noted) = (true, true);
        &mut task.row
    }

    /// The end of a dispatch is proven, whatever became of its task since.
    pub(super) fn prove_gone(&mut self, dispatch: TaskRef) {
        self.proved = true;
        match self.tasks.get_mut(&dispatch.task) {
            Some(task) if task.row.counters.lease == dispatch.lease => {
                if !task.row.gone {
                    (task.row.gone, task.touched) = (true, true);
                }
            }
            _ => self.proven.push(dispatch),
        }
    }

    /// Lets an event happen to a task. `false` when it means nothing in the state the task is in.
    pub(super) fn happen(&mut self, id: Uuid, event: Event, reason: impl Into<String>) -> bool {
        let Some(task) = self.tasks.get(&id) else { return false };
        let Some(next) = task.row.state.after(task.row.kind, event) else { return false };
        if next == TaskState::Callback {
            // What is to be ended has ended; only what holds it is left to end.
            self.give_up(id, reason.into());
            return true;
        }
        self.enter(id, next, reason.into());
        true
    }

    /// Lets a person act on a task. `false` when that is refused in the state the task is in.
    pub(super) fn by_hand(&mut self, id: Uuid, hand: Hand, reason: impl Into<String>) -> bool {
        let Some(task) = self.tasks.get(&id) else { return false };
        let Some(next) = task.row.state.by_hand(task.row.kind, hand) else { return false };
        self.enter(id, next, reason.into());
        true
    }

    /// Notes that shards of a group may wait again, of which the database does not know yet.
    pub(super) fn reopened(&mut self, group: Uuid) {
        self.reopened.insert(group);
    }

    /// The shards of a group that wait again since this turn, lowest id first.
    pub(super) fn waiting_again(&self, group: Uuid) -> Vec<Uuid> {
        if !self.reopened.contains(&group) {
            return Vec::new();
        }
        let waits = |task: &&TaskRow| task.group_id == Some(group) && task.state == TaskState::Created;
        let mut waiting: Vec<Uuid> = self.tasks().filter(waits).map(|task| task.id).collect();
        waiting.sort_unstable();
        waiting
    }

    /// Has a gate opened at the end of the turn: it is open already.
    pub(super) fn open_later(&mut self, id: Uuid) {
        self.opening.push(id);
    }

    /// What is to be opened since this was asked last.
    pub(super) fn take_opening(&mut self) -> Vec<Uuid> {
        std::mem::take(&mut self.opening)
    }

    /// Skips a task that waits.
    pub(super) fn skip(&mut self, id: Uuid, event: Event, cause: SkipCause, reason: String) -> bool {
        self.edit(id).skip_cause = Some(cause);
        let skipped = self.happen(id, event, reason);
        if !skipped {
            self.edit(id).skip_cause = None;
        }
        skipped
    }

    /// Puts a task into a state that the tables lead to, with the times that belong to it.
    pub(super) fn enter(&mut self, id: Uuid, state: TaskState, reason: String) {
        let now = self.now;
        let state = self.held(id, state);
        let row = self.edit(id);
        row.state = state;
        row.reason = reason;
        match state {
            // Only a person leads here from a later state.
            TaskState::Created => {
                (row.queued_at, row.dispatched_at, row.started_at, row.ended_at) = (None, None, None, None);
                (row.runner_id, row.slot, row.session_id, row.skip_cause) = (None, None, None, None);
            }
            TaskState::Queued => {
                row.queued_at = Some(now.max(row.counters.not_before));
                (row.slot, row.session_id, row.started_at) = (None, None, None);
            }
            TaskState::Running => row.started_at = Some(now),
            TaskState::Callback => row.session_id = None,
            _ => {}
        }
        if state.is_terminal() {
            row.ended_at = Some(now);
            row.session_id = None;
            self.ended.push(id);
        } else if state == TaskState::Queued && row.class == placement::SUB_JOB {
            self.childless.push(id);
        }
    }

    /// Keeps the present attempt of a task in the history: another one follows it.
    pub(super) fn archive(&mut self, id: Uuid, reason: &str) {
        let now = self.now;
        let row = self.edit(id);
        let warned = row.warned_at.take().is_some();
        let attempt = AttemptRow {
            task_id: id,
            lease: row.counters.lease,
            number: row.counters.attempt,
            runner_id: row.runner_id.clone(),
            reason: reason.to_owned(),
            exit_code: row.exit_code.take(),
            exit_signal: row.exit_signal.take(),
            started_at: row.started_at,
            ended_at: row.ended_at.unwrap_or(now),
            gone: std::mem::replace(&mut row.gone, true),
        };
        self.attempts.push(attempt);
        if warned {
            self.note(id);
        }
    }

    /// The jobs that FINISHED in this turn.
    pub(super) fn finished(&self) -> &[Finished] {
        &self.finished
    }

    /// Keeps after which jobs a job of a config was made.
    pub(super) fn made_after(&mut self, job: Uuid, config: Uuid, sources: Vec<Source>) {
        self.sources.push((job, config, sources));
    }

    /// Has a task be given a child in this turn.
    pub(super) fn ask_for_child(&mut self, id: Uuid) {
        self.childless.push(id);
    }

    /// The tasks that stand for a job and were QUEUED since this was asked last.
    pub(super) fn take_childless(&mut self) -> Vec<Uuid> {
        let mut childless = std::mem::take(&mut self.childless);
        childless.sort_unstable();
        childless.dedup();
        childless
    }

    /// How many jobs that tasks stand for were born in this turn.
    pub(super) fn born_of_tasks(&self) -> usize {
        self.newborn().filter(|job| job.row.trigger == Trigger::SubJob).count()
    }

    /// What this turn leaves for the next: jobs that were born for tasks, tasks whose child ended, and tasks whose child is
    /// to be ended.
    pub(super) fn handover(&self) -> Handover {
        let of_tasks = self.newborn().filter(|job| job.row.trigger == Trigger::SubJob);
        let newborn = of_tasks.map(|job| job.row.id).collect();
        let ended = self.jobs.values().filter(|job| job.touched && job.row.state.is_terminal());
        let ended = ended.filter_map(|job| {
            let parent = job.row.parent?;
            parent.task.map(|(task, _)| Place { job: parent.job, task })
        });
        let ending = self.tasks.values().filter(|task| {
            task.touched && task.row.state == TaskState::Terminating && task.row.class == placement::SUB_JOB
        });
        let ending = ending.map(|task| Place { job: task.row.job_id, task: task.row.id });
        Handover { newborn, places: ended.chain(ending).collect() }
    }

    /// What ended since this was asked last.
    pub(super) fn take_ended(&mut self) -> Vec<Uuid> {
        std::mem::take(&mut self.ended)
    }

    /// Ends jobs whose last task ended.
    pub(super) fn end_jobs(&mut self) {
        let now = self.now;
        for job in self.jobs.values_mut() {
            let row = &mut job.row;
            if row.tasks_ended < row.tasks_total {
                continue;
            }
            let event = job::Event::TasksEnded { failed: row.tasks_failed > 0, timed_out: row.timed_out };
            let Some(next) = row.state.after(event) else { continue };
            if row.reason.is_empty() && next == JobState::Failed {
                row.reason = match row.tasks_failed {
                    1 => "1 task failed".to_owned(),
                    many => format!("{many} tasks failed"),
                };
            }
            row.state = next;
            row.ended_at = Some(now);
            if next == JobState::Finished {
                let (job, namespace, name) = (row.id, row.namespace.clone(), row.name.clone());
                self.finished.push(Finished { job, namespace, name, ended_at: now });
            }
            job.touched = true;
        }
    }

    /// Whether a task that the database has as QUEUED was changed: until that is written, its queue is not what it shall be.
    pub(super) fn changed_queue(&self) -> bool {
        self.tasks.values().any(|task| task.touched && task.was_queued())
    }

    /// The tasks in hand that wait for a runner and of which the database does not know that yet.
    pub(super) fn newly_queued(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks.values().filter(|task| task.is_newly_queued()).map(|task| &task.row)
    }

    /// Whether a task is one of those.
    pub(super) fn is_newly_queued(&self, id: Uuid) -> bool {
        self.tasks.get(&id).is_some_and(TaskWork::is_newly_queued)
    }

    /// Gives out a task in hand that waits: it is written once, as it then is.
    pub(super) fn give_out(&mut self, row: TaskRow) {
        let id = row.id;
        *self.edit(id) = row;
    }

    /// Writes what changed, and stamps it with the job's next seq.
    ///
    /// A guard that misses is an error: every row was locked when it was read, so it cannot miss unless a station
    /// changed a row it had not locked.
    pub(super) async fn write(&mut self, tx: &Tx) -> Result<Written, store::Error> {
        let mut written = Written::default();
        for task in self.tasks.values().filter(|task| task.touched) {
            if let Some(job) = self.jobs.get_mut(&task.row.job_id) {
                job.touched = true;
            }
        }
        for job in self.jobs.values_mut().filter(|job| job.touched) {
            job.row.seq = next_seq(&job.row);
        }
        for task in self.tasks.values_mut().filter(|task| task.touched) {
            task.row.seq = self.jobs[&task.row.job_id].row.seq;
        }

        let new_jobs: Vec<&JobRow> = self.jobs.values().filter(|job| job.is_new).map(|job| &job.row).collect();
        for slice in new_jobs.chunks(ROWS_MAX) {
            store::job::insert(tx, slice).await?;
        }
        for (job, config, sources) in &self.sources {
            store::after_jobs::record(tx, *job, *config, sources).await?;
        }
        let mut new_tasks: Vec<&TaskRow> =
            self.tasks.values().filter(|task| task.seen.is_none()).map(|task| &task.row).collect();
        new_tasks.sort_unstable_by_key(|task| task.id);
        for slice in new_tasks.chunks(ROWS_MAX) {
            store::task::insert(tx, slice).await?;
        }
        let changed: Vec<Changed<'_>> = self
            .tasks
            .values()
            .filter(|task| task.touched)
            .filter_map(|task| {
                let (seen_state, seen_lease) = task.seen?;
                Some(Changed { row: &task.row, seen_state, seen_lease })
            })
            .collect();
        for slice in changed.chunks(ROWS_MAX) {
            let (asked, written) = (slice.len() as u64, store::task::update(tx, slice).await?);
            if written != asked {
                return Err(store::Error::Missed { asked, written });
            }
        }
        let noted: Vec<&TaskRow> = self.tasks.values().filter(|task| task.noted).map(|task| &task.row).collect();
        for slice in noted.chunks(ROWS_MAX) {
            store::attempt::note(tx, slice).await?;
        }
        let alarms = self.alarms();
        for slice in alarms.chunks(ROWS_MAX) {
            store::alarm::set(tx, slice).await?;
        }
        for slice in self.attempts.chunks(ROWS_MAX) {
            store::attempt::archive(tx, slice).await?;
        }
        for slice in self.proven.chunks(ROWS_MAX) {
            store::attempt::prove_gone(tx, slice).await?;
        }
        let old_jobs: Vec<&JobRow> =
            self.jobs.values().filter(|job| job.touched && !job.is_new).map(|job| &job.row).collect();
        for slice in old_jobs.chunks(ROWS_MAX) {
            written.followed = store::job::update(tx, slice).await?;
        }
        self.tell(tx).await?;
        let touched = self.jobs.values().filter(|job| job.touched);
        let changed = touched.map(|job| Change { job: job.row.id, ended: job.row.state.is_terminal() });
        written.changed = changed.collect();
        Ok(written)
    }

    /// When the tasks that begin to wait for a runner will have waited for too long. Most may wait for ever.
    fn alarms(&self) -> Vec<(Uuid, Timestamp)> {
        let queued = self.tasks.values().filter(|task| task.touched && task.row.state == TaskState::Queued);
        queued
            .filter_map(|TaskWork { row, .. }| {
                let timeout = self.jobs[&row.job_id].plan.task(row.node).queue_timeout?;
                Some((row.id, row.queued_at? + timeout))
            })
            .collect()
    }
}

/// Grows by one with each turn that changes a job.
fn next_seq(job: &JobRow) -> i64 {
    job.seq + 1
}
