//! Whether ledger, scheduler and marks agree, now that everything has healed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    time::Duration,
};

use baton_tests::{
    Cluster, Marks, View, is_over, processes, programs,
    v1::{JobState, ListJobsRequest, TaskKind, TaskState},
};

use crate::client::Entry;

/// How long the last jobs may take once nothing is broken any more.
const REST: Duration = Duration::from_mins(3);
/// A page of jobs.
const PAGE: u32 = 1000;
/// How many broken promises are told one by one.
const TOLD: usize = 20;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    accepted: usize,
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
        writeln!(f, "{} attempts were given out, {} processes began", self.attempts, self.begun)?;
        for broken in self.broken.iter().take(TOLD) {
            writeln!(f, "BROKEN: {broken}")?;
        }
        write!(f, "{} broken promises", self.broken.len())
    }
}

/// Waits for every accepted job to end, then looks for broken promises.
pub(crate) async fn judge(cluster: &Cluster, marks: &Marks, ledger: &[Entry]) -> Report {
    let mut report = Report { accepted: ledger.len(), ..Report::default() };
    let mut views = Vec::new();
    for entry in ledger {
        let view = match cluster.ask().get(&entry.job_id).await {
            Ok(view) if is_over(view.job.state()) => view,
            _ => cluster.until_within(REST, &entry.job_id, "it ends", |view| is_over(view.job.state())).await,
        };
        *report.states.entry(view.job.state().as_str_name().trim_start_matches("JOB_STATE_")).or_default() += 1;
        views.push((entry, view));
    }
    let log = Log::read(marks);
    report.begun = log.begun.values().map(HashSet::len).sum();
    report.broken.extend(log.overlaps.iter().map(|task| format!("two copies of task {task} ran at once")));
    for (entry, view) in &views {
        report.attempts += view.tasks.iter().map(|task| u64::from(task.attempt)).sum::<u64>();
        judge_job(entry, view, &log, &mut report.broken);
    }
    judge_jobs(cluster, ledger, &mut report.broken).await;
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

/// One job by itself: its tasks have ended, what finished has left its marks, children began after their parents.
fn judge_job(entry: &Entry, view: &View, log: &Log, broken: &mut Vec<String>) {
    let mut complain = |text: String| broken.push(format!("job {} ({}): {text}", entry.job_id, entry.shape));
    if entry.terminated && view.job.state() == JobState::Skipped {
        complain("it was terminated and says that it never was to run".to_owned());
    }
    for task in view.tasks.iter().filter(|task| task.kind() != TaskKind::Group) {
        let begun = log.begun.get(&task.id).cloned().unwrap_or_default();
        let ended = log.ended.get(&task.id).cloned().unwrap_or_default();
        match task.state() {
            TaskState::Finished if !ended.contains(&task.attempt) => {
                complain(format!("{} is FINISHED but attempt {} left no end mark", task.name, task.attempt));
            }
            TaskState::Skipped if !begun.is_empty() => complain(format!("{} is SKIPPED but it began", task.name)),
            TaskState::Finished | TaskState::Failed | TaskState::Terminated | TaskState::Skipped => {}
            other => complain(format!("{} is {} in a job that has ended", task.name, other.as_str_name())),
        }
        if begun.iter().any(|attempt| *attempt > task.attempt) {
            complain(format!("an attempt of {} began that the scheduler does not know", task.name));
        }
        for parent in &task.needs {
            let parents = view.tasks.iter().filter(|other| other.name == *parent && other.kind() != TaskKind::Group);
            let Some(first) = log.first_begin.get(&task.id) else { continue };
            for parent in parents {
                if log.last_end.get(&parent.id).is_none_or(|end| end > first) {
                    complain(format!("{} began before {} had ended", task.name, parent.name));
                }
            }
        }
    }
}

/// All jobs together: those that were accepted, once each, and no others.
async fn judge_jobs(cluster: &Cluster, ledger: &[Entry], broken: &mut Vec<String>) {
    let accepted: HashSet<_> = ledger.iter().map(|entry| entry.job_id.as_str()).collect();
    if accepted.len() != ledger.len() {
        broken.push("two requests were answered with one job".to_owned());
    }
    let mut jobs = cluster.api().jobs;
    let mut page_token = String::new();
    let mut known = HashSet::new();
    loop {
        let request = ListJobsRequest { page_size: PAGE, page_token, ..Default::default() };
        let page = jobs.list_jobs(request).await.expect("jobs can be listed").into_inner();
        known.extend(page.jobs.into_iter().map(|job| job.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    for id in &accepted {
        if !known.contains(*id) {
            broken.push(format!("job {id} was accepted and is gone"));
        }
    }
    for id in &known {
        if !accepted.contains(id.as_str()) {
            broken.push(format!("job {id} exists although nobody was told: one request made two jobs"));
        }
    }
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

/// Terminal states are as they were when they were first read.
async fn judge_again(cluster: &Cluster, views: &[(&Entry, View)], broken: &mut Vec<String>) {
    for (entry, before) in views {
        let after = cluster.ask().get(&entry.job_id).await.expect("a job that ended can be read");
        if after.job.state() != before.job.state() {
            broken.push(format!("job {} changed after its end: {}", entry.job_id, after.summary()));
        }
        for task in &before.tasks {
            let now = after.tasks.iter().find(|now| now.id == task.id).map(baton_tests::v1::Task::state);
            if now != Some(task.state()) {
                broken.push(format!("task {} of job {} changed after its end", task.name, entry.job_id));
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
                _ => log.overlaps.push(task.to_owned()),
            }
        }
        log
    }
}
