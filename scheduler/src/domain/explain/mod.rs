//! Why a task is as it is: the checks that it passes on its way, in order, the one that holds it, and what would free
//! it.
//!
//! No check decides anything by itself. It asks the function that decides it in earnest, [`Parents::gate`],
//! [`Class::mismatch`], [`When::holds`](super::when::When::holds) and their like, about the same facts, and says what it
//! heard. So an explanation cannot drift away from what happens.

mod checks;
mod job;
mod placing;
mod runners;
mod sub_job;
mod summary;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

pub use self::{
    job::{Before, JobFacts, Waits, explain_job},
    runners::{RunnerFacts, SchedulerFacts},
};
use super::{
    definition::{OnFailure, SubJob, Target, TaskConfig, TriggerRule},
    gate::{End, Gate, Parents, SkipCause, counts_as},
    job::JobState,
    placement::{Class, Holders},
    task::{Kind, TaskState},
    time::Timestamp,
    timing::Timing,
};

/// How many things of one kind are named in a sentence; the rest is counted.
const NAMED_MAX: usize = 3;

/// How one check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds nothing up.
    Passed,
    /// This is what holds the task, or what ended it.
    Holds,
    /// Not reached, or not asked for.
    NotReached,
}

/// One of the checks that a task passes on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// The facts in a sentence.
    pub detail: String,
}

/// Why something is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The answer in a sentence.
    pub summary: String,
    /// The checks in order; at most one of them holds.
    pub checks: Vec<Check>,
    /// What would free it or what to look at, a command or a change each.
    pub fixes: Vec<String>,
}

/// What is known of a task when it is explained.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The time of the answer, by the clock of the database.
    pub now: Timestamp,
    /// The times of the protocol.
    pub timing: Timing,
    /// Its job.
    pub job: JobOf<'a>,
    /// The task itself.
    pub task: Subject<'a>,
    /// Its definition with every default filled in.
    pub config: &'a TaskConfig,
    /// The position of that definition.
    pub node: u32,
    /// Its parents, in the order in which it names them.
    pub parents: Vec<Parent<'a>>,
    /// The callbacks that hold it, in CALLBACK.
    pub owed: Vec<Owed>,
    /// What its own condition comes to, when that is of interest.
    pub condition: Option<Condition>,
    /// The job that it stands for, if it stands for one and that was made.
    pub child: Option<Child<'a>>,
    /// Its shards, if it is a group; those of its group, if it is a shard.
    pub shards: Option<ShardsOf>,
    /// Where it stands in the queue, when it is in it.
    pub queue: Option<Queue>,
    /// Who could run it, when that is of interest.
    pub runners: Vec<RunnerFacts>,
}

/// What is known of a task's job.
#[derive(Debug, Clone, Copy)]
pub struct JobOf<'a> {
    /// Its short id.
    pub id: &'a str,
    /// The name of its job config.
    pub name: &'a str,
    /// Its state.
    pub state: JobState,
    /// A task with `on_failure: stop` failed.
    pub stopping: bool,
}

/// What is known of the task itself.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// What it stands for.
    pub kind: Kind,
    /// Its number among the shards.
    pub shard_index: Option<u32>,
    /// Its state.
    pub state: TaskState,
    /// Why, as it was recorded.
    pub reason: &'a str,
    /// Why it was skipped, as its children see it.
    pub skip_cause: Option<SkipCause>,
    /// The present or last attempt; 0 before the first.
    pub attempt: u32,
    /// How many it may have; 0 when that depends on how many runners there are.
    pub max_attempts: u32,
    /// A retry is not started before this.
    pub not_before: Option<Timestamp>,
    /// Those before the present one, oldest first.
    pub earlier: &'a [Earlier],
    /// The runner it was last given to.
    pub runner: Option<&'a str>,
    /// Since when it is in its state, if that is known.
    pub since: Option<Timestamp>,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
}

/// The job that a task stands for.
#[derive(Debug, Clone, Copy)]
pub struct Child<'a> {
    /// Its short id.
    pub id: &'a str,
    /// The name of its job config.
    pub name: &'a str,
    /// Its state.
    pub state: JobState,
    /// How many of its tasks ended.
    pub tasks_ended: u32,
    /// How many it has.
    pub tasks_total: u32,
}

/// A parent of a task.
#[derive(Debug, Clone, Copy)]
pub struct Parent<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state.
    pub state: TaskState,
    /// Why it was skipped.
    pub skip_cause: Option<SkipCause>,
    /// What its failure does.
    pub on_failure: OnFailure,
}

/// What a task's own condition comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its truth, or why it has none.
    pub outcome: Result<bool, String>,
    /// What it reads, as `name = value`.
    pub values: Vec<String>,
}

/// A callback that holds a task until it is delivered or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// Its short id.
    pub id: String,
    /// What it does, and to whom.
    pub what: String,
    /// How often it was tried.
    pub tries: u32,
    /// When it is tried next; none while it is being tried.
    pub next_try_at: Option<Timestamp>,
    /// Why the last try failed.
    pub last_error: String,
}

/// The shards of a group, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardsOf {
    /// How many there are.
    pub count: u32,
    /// How many ended.
    pub ended: u32,
    /// How many of those finished.
    pub finished: u32,
    /// How many are queued or run.
    pub live: u32,
    /// How many wait for their turn.
    pub waiting: u32,
    /// How many of the waiting go before this one.
    pub before: u32,
    /// How many may be queued or running at once; 0 means all.
    pub max_parallel: u32,
    /// The share that must finish.
    pub min_success_percent: u32,
}

/// Where a task stands in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// What a runner must have to take it.
    pub class: Class,
    /// How many tasks that ask for the same go before it.
    pub ahead: u32,
    /// Whether there are more than were counted.
    pub more_ahead: bool,
    /// Who holds the key that it needs, if it needs one.
    pub holders: KeyFacts,
}

/// What is known of a key that only so many tasks may hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyFacts {
    /// Those that hold it, counted.
    pub holders: Holders,
    /// The first few of them, as `JOB/TASK`.
    pub held_by: Vec<String>,
    /// The first task in the queue that needs it, if that is another one: as `JOB/TASK`, with its limit.
    pub first: Option<(String, u32)>,
}

impl Parent<'_> {
    /// How it ended, if it has.
    fn end(&self) -> Option<End> {
        End::of(self.state, self.skip_cause)
    }
}

impl Facts<'_> {
    /// How its gate stands.
    pub fn gate(&self) -> Gate {
        self.parents_counted().gate(self.rule())
    }

    fn rule(&self) -> TriggerRule {
        self.config.trigger_rule.unwrap_or(TriggerRule::AllSuccess)
    }

    /// The parents as the gate counts them.
    fn parents_counted(&self) -> Parents {
        let mut parents = Parents::waiting(u32::try_from(self.parents.len()).unwrap_or(u32::MAX));
        for parent in &self.parents {
            if let Some(end) = parent.end() {
                parents.count(counts_as(end, parent.on_failure));
            }
        }
        parents
    }

    /// The job that it stands for, as it is defined; the shards of a group stand for jobs, the group does not.
    fn sub_job(&self) -> Option<&SubJob> {
        match &self.config.target {
            Target::Job(job) if self.task.kind != Kind::Group => Some(job),
            _ => None,
        }
    }

    /// What people call it, such as `resize#3`.
    fn label(&self) -> String {
        match self.task.shard_index {
            Some(index) => format!("{}#{index}", self.config.name),
            None => self.config.name.clone(),
        }
    }

    /// How a command names it, such as `7be0d21c/resize#3`.
    fn address(&self) -> String {
        format!("{}/{}", self.job.id, self.label())
    }

    /// Where the definition says something, such as `tasks[4].when`.
    fn path(&self, key: &str) -> String {
        format!("tasks[{}].{key}", self.node)
    }
}

/// Explains a task: runs it through every check in order, up to the one that holds it.
pub fn explain(facts: &Facts<'_>) -> Explanation {
    let mut explained = Vec::new();
    let mut held = None;
    for (name, check) in checks::WAY {
        let (standing, detail) = match check(facts) {
            Verdict::Foreign => continue,
            _ if held.is_some() => (Standing::NotReached, "not reached".to_owned()),
            Verdict::Passed(detail) => (Standing::Passed, detail),
            Verdict::NotAsked(detail) => (Standing::NotReached, detail),
            Verdict::Holds(hold) => {
                let detail = hold.detail.clone();
                held = Some(hold);
                (Standing::Holds, detail)
            }
        };
        explained.push(Check { name, standing, detail });
    }
    let summary = summary::of(facts, held.as_ref());
    let fixes = held.map_or_else(|| summary::next(facts), |hold| hold.fixes);
    Explanation { summary, checks: explained, fixes }
}

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// It holds nothing up.
    Passed(String),
    /// The definition asks for no such thing, or it was not reached.
    NotAsked(String),
    /// Nothing of this kind ever passes this check, or what did has it behind it: it is not listed.
    Foreign,
    /// It holds the task.
    Holds(Hold),
}

/// What holds a task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hold {
    /// The facts.
    detail: String,
    /// The same as the end of the sentence "it is QUEUED for 3 m: …".
    because: String,
    /// What would free it.
    fixes: Vec<String>,
}

impl Verdict {
    fn passed(detail: impl Into<String>) -> Self {
        Self::Passed(detail.into())
    }

    fn not_asked(detail: impl Into<String>) -> Self {
        Self::NotAsked(detail.into())
    }

    fn holds(detail: impl Into<String>, because: impl Into<String>, fixes: Vec<String>) -> Self {
        Self::Holds(Hold { detail: detail.into(), because: because.into(), fixes })
    }
}

/// An attempt that another followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Its number.
    pub number: u32,
    /// The runner that had it; what stands for a job needs none.
    pub runner: Option<String>,
    /// What became of it.
    pub reason: String,
}

impl fmt::Display for Earlier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.runner {
            Some(runner) => write!(to, "{} on {runner}: {}", self.number, self.reason),
            None => write!(to, "{}: {}", self.number, self.reason),
        }
    }
}

impl Subject<'_> {
    /// "attempt 2 of 3", or "attempt 2" when nobody can say how many there may be.
    fn numbered(&self) -> String {
        match self.max_attempts {
            0 => format!("attempt {}", self.attempt),
            most => format!("attempt {} of {most}", self.attempt),
        }
    }
}

/// The first few names, and how many more there are.
fn some<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// "is" or "are".
fn are(count: u32) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// "1 runner", "3 runners".
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A span as people say it: `12s`, `3m12s`, `2h05m`, `3d04h`.
fn spell(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
