//! Whether ledger, scheduler and marks agree, now that everything has healed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    time::Duration,
};

use baton_tests::{
    Cluster, Marks, View, is_over, processes, programs,
    service::Service,
    v1::{Job, JobState, ListJobsRequest, Task, TaskKind, TaskState, TriggerKind},
};
use tokio::time::{Instant, sleep_until};

use crate::{
    client::Entry,
    shapes::{CROWDED, OVERLAP, TICK, TICKING},
};

/// How long the last jobs may take once nothing is broken any more.
const REST: Duration = Duration::from_mins(3);
/// How often it is looked whether somebody was told.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A page of jobs.
const PAGE: u32 = 1000;
/// How many broken promises are told one by one.
const TOLD: usize = 20;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    accepted: usize,
    others: usize,
    states: BTreeMap<&'static str, usize>,
    begun: usize,
    attempts: u64,
    /// Each broken promise in a sentence.
    pub(crate) broken: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<_> = self.states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        writeln!(f, "{} jobs accepted: {}", self.accepted, states.join(", "))?;
        writeln!(f, "{} jobs made by tasks and by a schedule", self.others)?;
        writeln!(f, "{} attempts were given out, {} processes began", self.attempts, self.begun)?;
        for broken in self.broken.iter().take(TOLD) {
            writeln!(f, "BROKEN: {broken}")?;
        }
        write!(f, "{} broken promises", self.broken.len())
    }
}

/// Waits for every job to end, then looks for broken promises.
pub(crate) async fn judge(cluster: &Cluster, marks: &Marks, service: &Service, ledger: &[Entry]) -> Report {
    let mut report = Report { accepted: ledger.len(), ..Report::default() };
    let mut views = Vec::new();
    for entry in ledger {
        let view = ended(cluster, &entry.job_id).await;
        *report.states.entry(view.job.state().as_str_name().trim_start_matches("JOB_STATE_")).or_default() += 1;
        views.push((entry.clone(), view));
    }
    // Those that nobody was told of: made by tasks and by the schedule.
    let jobs = every_job(cluster).await;
    judge_jobs(&jobs, ledger, &mut report.broken);
    for job in jobs.into_iter().filter(|job| job.trigger() != TriggerKind::Manual) {
        let shape = if job.trigger() == TriggerKind::Schedule { TICKING } else { "child" };
        let view = ended(cluster, &job.id).await;
        views.push((Entry { job_id: job.id, shape, terminated: false, ended: None }, view));
        report.others += 1;
    }
    let traces = Traces { log: Log::read(marks), asked: asked(service), children: children(&views) };
    report.begun = traces.log.begun.values().map(HashSet::len).sum();
    let shown = [("two copies of task", &traces.log.overlaps), ("more than two beside", &traces.log.crowds)];
    for (what, tasks) in shown {
        report.broken.extend(tasks.iter().map(|task| format!("{what} {task} ran at once")));
    }
    for (entry, view) in &views {
        report.attempts += view.tasks.iter().map(|task| u64::from(task.attempt)).sum::<u64>();
        judge_job(entry, view, &traces, &mut report.broken);
    }
    judge_told(service, &views, &mut report.broken).await;
    judge_again(cluster, &views, &mut report.broken).await;
    judge_rows(cluster, &mut report.broken);
    let ours = programs::path("baton-runner");
    for pid in processes::with_environment(&cluster.home()) {
        if processes::program(pid).is_some_and(|program| program != ours) {
            report.broken.push(format!("process {pid} is left although no task runs"));
        }
    }
    report
}

/// A job that has ended.
async fn ended(cluster: &Cluster, job_id: &str) -> View {
    match cluster.ask().get(job_id).await {
        Ok(view) if is_over(view.job.state()) => view,
        _ => cluster.until_within(REST, job_id, "it ends", |view| is_over(view.job.state())).await,
    }
}

/// What tasks left behind, of whatever kind they are.
struct Traces {
    log: Log,
    /// The HTTP tasks that asked the service, with the attempt.
    asked: HashSet<(String, u32)>,
    /// The jobs that tasks stand for, by task and attempt.
    children: HashMap<(String, u32), View>,
}

fn asked(service: &Service) -> HashSet<(String, u32)> {
    let attempts = service.asked().into_iter().filter(|asked| asked.path == "/told").map(|asked| {
        let attempt = asked.header("baton-attempt").parse().unwrap_or_default();
        (asked.header("baton-task-id").to_owned(), attempt)
    });
    attempts.collect()
}

fn children(views: &[(Entry, View)]) -> HashMap<(String, u32), View> {
    let children = views.iter().filter(|(_, view)| !view.job.parent_task_id.is_empty());
    children.map(|(_, view)| ((view.job.parent_task_id.clone(), view.job.parent_attempt), view.clone())).collect()
}

impl Traces {
    /// Whether an attempt that is said to have finished did what it was to do.
    fn finished(&self, task: &Task) -> bool {
        let attempt = (task.id.clone(), task.attempt);
        match task.name.as_str() {
            "asking" => self.asked.contains(&attempt),
            "inner" => self.children.get(&attempt).is_some_and(|child| child.job.state() == JobState::Finished),
            _ => self.log.ended.get(&task.id).is_some_and(|ended| ended.contains(&task.attempt)),
        }
    }

    /// Which line of the log a task had ended by; `None` when nothing says that it had.
    fn last_end(&self, task: &Task) -> Option<usize> {
        match self.children.get(&(task.id.clone(), task.attempt)) {
            Some(child) => child.tasks.iter().filter_map(|task| self.log.last_end.get(&task.id)).max().copied(),
            None => self.log.last_end.get(&task.id).copied(),
        }
    }
}

/// One job by itself: its tasks have ended, what finished has left its traces, children began after their parents.
fn judge_job(entry: &Entry, view: &View, traces: &Traces, broken: &mut Vec<String>) {
    let mut complain = |text: String| broken.push(format!("job {} ({}): {text}", entry.job_id, entry.shape));
    if entry.terminated && view.job.state() == JobState::Skipped {
        complain("it was terminated and says that it never was to run".to_owned());
    }
    for task in view.tasks.iter().filter(|task| task.kind() != TaskKind::Group) {
        let begun = traces.log.begun.get(&task.id).cloned().unwrap_or_default();
        match task.state() {
            TaskState::Finished if !traces.finished(task) => {
                complain(format!("{} is FINISHED but attempt {} left no trace", task.name, task.attempt));
            }
            TaskState::Skipped if !begun.is_empty() => complain(format!("{} is SKIPPED but it began", task.name)),
            TaskState::Failed | TaskState::Skipped if task.reason.is_empty() => {
                complain(format!("{} is {} and does not say why", task.name, task.state().as_str_name()));
            }
            TaskState::Finished | TaskState::Failed | TaskState::Terminated | TaskState::Skipped => {}
            other => complain(format!("{} is {} in a job that has ended", task.name, other.as_str_name())),
        }
        if begun.iter().any(|attempt| *attempt > task.attempt) {
            complain(format!("an attempt of {} began that the scheduler does not know", task.name));
        }
        for parent in &task.needs {
            let parents = view.tasks.iter().filter(|other| other.name == *parent && other.kind() != TaskKind::Group);
            let Some(first) = traces.log.first_begin.get(&task.id) else { continue };
            for parent in parents {
                if traces.last_end(parent).is_none_or(|end| end > *first) {
                    complain(format!("{} began before {} had ended", task.name, parent.name));
                }
            }
        }
    }
}

async fn every_job(cluster: &Cluster) -> Vec<Job> {
    let mut jobs = cluster.api().jobs;
    let (mut page_token, mut all) = (String::new(), Vec::new());
    loop {
        let request = ListJobsRequest { page_size: PAGE, page_token, ..Default::default() };
        let page = jobs.list_jobs(request).await.expect("jobs can be listed").into_inner();
        all.extend(page.jobs);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

/// All jobs together: those that were accepted, once each; one for each fire; one for each attempt at a task that stands
/// for a job; and no others.
fn judge_jobs(jobs: &[Job], ledger: &[Entry], broken: &mut Vec<String>) {
    let accepted: HashSet<_> = ledger.iter().map(|entry| entry.job_id.as_str()).collect();
    if accepted.len() != ledger.len() {
        broken.push("two requests were answered with one job".to_owned());
    }
    let known: HashSet<_> = jobs.iter().map(|job| job.id.as_str()).collect();
    for id in accepted.iter().filter(|id| !known.contains(*id)) {
        broken.push(format!("job {id} was accepted and is gone"));
    }
    let (mut fires, mut parents) = (Vec::new(), HashSet::new());
    for job in jobs {
        match job.trigger() {
            TriggerKind::Manual if accepted.contains(job.id.as_str()) => {}
            TriggerKind::Schedule => fires.extend(job.fire_time.as_ref().map(|time| time.seconds)),
            TriggerKind::SubJob => {
                if !accepted.contains(job.parent_job_id.as_str()) {
                    broken.push(format!("job {} stands for a task of no job", job.id));
                }
                if !parents.insert((job.parent_task_id.as_str(), job.parent_attempt)) {
                    broken.push(format!("job {} is the second for one attempt", job.id));
                }
            }
            _ => broken.push(format!("job {} exists although nobody was told: one request made two jobs", job.id)),
        }
    }
    fires.sort_unstable();
    for pair in fires.windows(2).filter(|pair| pair[1] - pair[0] != TICK) {
        broken.push(match pair[1] - pair[0] {
            0 => format!("the fire of {} made two jobs", pair[0]),
            apart => format!("{apart} s lie between the fires of {} and the next, not {TICK}", pair[0]),
        });
    }
}

/// Whoever asked to be told of the end of a job was.
async fn judge_told(service: &Service, views: &[(Entry, View)], broken: &mut Vec<String>) {
    let ended = |view: &View| view.job.state() != JobState::Skipped;
    let asked = views.iter().filter(|(entry, view)| entry.shape == "asking" && ended(view));
    let mut untold: HashSet<&str> = asked.map(|(entry, _)| entry.job_id.as_str()).collect();
    let until = Instant::now() + REST;
    loop {
        let told = service.asked();
        let told: Vec<_> = told.iter().filter(|asked| asked.path == "/called-back").collect();
        untold.retain(|id| !told.iter().any(|message| message.body.contains(id)));
        if untold.is_empty() || Instant::now() > until {
            break;
        }
        sleep_until(Instant::now() + LOOK_EVERY).await;
    }
    broken.extend(untold.into_iter().map(|id| format!("nobody was told that job {id} had ended")));
}

/// What no answer shows: rows that belong to nobody. On PostgreSQL, where the database can be asked.
fn judge_rows(cluster: &Cluster, broken: &mut Vec<String>) {
    const OVER: &str = "('FINISHED', 'FAILED', 'SKIPPED', 'TERMINATED')";
    let questions = [
        (
            "live tasks of jobs that are over",
            format!("task JOIN job ON job.id = task.job_id WHERE job.state IN {OVER} AND task.state NOT IN {OVER}"),
        ),
        (
            "tasks that are over and still have a session",
            format!("task WHERE state IN {OVER} AND session_id IS NOT NULL"),
        ),
        (
            "jobs whose count of ended tasks is wrong",
            format!(
                "job WHERE state IN {OVER} AND tasks_ended <> (SELECT count(*) FROM task WHERE task.job_id = job.id
             AND task.kind <> 'SHARD' AND task.state IN {OVER})"
            ),
        ),
        (
            "live jobs of tasks that are over",
            format!(
                "job JOIN task ON task.id = job.parent_task_id WHERE task.state IN {OVER} AND job.state NOT IN {OVER}"
            ),
        ),
        ("attempts of runners that are here, whose end is not proven", "task_attempt WHERE NOT gone".to_owned()),
        ("callbacks that nobody has delivered", "callback WHERE state <> 'DELIVERED'".to_owned()),
        (
            "attempts numbered twice under one lease",
            "(SELECT task_id, lease FROM task_attempt GROUP BY task_id, lease HAVING count(*) > 1) AS twice".to_owned(),
        ),
    ];
    for (what, question) in questions {
        let count = cluster.sql(&format!("SELECT count(*) FROM {question}"));
        if let Some(count) = count.and_then(|rows| rows.first()?.parse::<u64>().ok()).filter(|count| *count > 0) {
            broken.push(format!("{count} {what}"));
        }
    }
}

/// Whatever had ended is as it was when that was first seen: in the midst of it all, or a moment ago.
async fn judge_again(cluster: &Cluster, views: &[(Entry, View)], broken: &mut Vec<String>) {
    for (entry, latest) in views {
        let after = cluster.ask().get(&entry.job_id).await.expect("a job that ended can be read");
        for before in entry.ended.iter().chain([latest]) {
            if (after.job.state(), after.job.end_time) != (before.job.state(), before.job.end_time) {
                let (was, is) = (before.summary(), after.summary());
                broken.push(format!("job {} changed after its end: {was}, then {is}", entry.job_id));
            }
            for task in &before.tasks {
                let outcome = |task: &Task| (task.state(), task.attempt, task.lease, task.end_time);
                let now = after.tasks.iter().find(|now| now.id == task.id).map(outcome);
                if now != Some(outcome(task)) {
                    broken.push(format!("task {} of job {} changed after its end", task.name, entry.job_id));
                }
            }
        }
    }
}

/// What the marks say.
#[derive(Debug, Default)]
struct Log {
    begun: HashMap<String, HashSet<u32>>,
    ended: HashMap<String, HashSet<u32>>,
    first_begin: HashMap<String, usize>,
    last_end: HashMap<String, usize>,
    overlaps: Vec<String>,
    crowds: Vec<String>,
}

impl Log {
    fn read(marks: &Marks) -> Self {
        let mut log = Self::default();
        for (number, line) in marks.lines().iter().enumerate() {
            let mut words = line.split(' ');
            let (Some(word), Some(task), Some(attempt)) = (words.next(), words.next(), words.next()) else { continue };
            let attempt = attempt.parse().unwrap_or_default();
            match word {
                "begin" => {
                    log.begun.entry(task.to_owned()).or_default().insert(attempt);
                    log.first_begin.entry(task.to_owned()).or_insert(number);
                }
                "end" => {
                    log.ended.entry(task.to_owned()).or_default().insert(attempt);
                    log.last_end.insert(task.to_owned(), number);
                }
                OVERLAP => log.overlaps.push(task.to_owned()),
                CROWDED => log.crowds.push(task.to_owned()),
                _ => {}
            }
        }
        log
    }
}
