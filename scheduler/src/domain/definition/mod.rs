//! The definition of a job: a graph of tasks with what each runs, where and after which.
//!
//! These are the values that the rest of the scheduler works with. `JobConfig::resolved` gives every task its
//! defaults; nothing else has to know that defaults exist.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    retention::Retention,
    schedule::{Spec, overlap},
};

mod calendars;
pub mod callback;
mod diff;
mod failure;
#[cfg(test)]
mod fuzz;
pub mod http;
mod keys;
pub mod limits;
mod placement;
mod problem;
mod reader;
mod schema;
pub mod span;
mod tree;
mod validate;
mod yaml;

pub use self::{
    calendars::{calendar, read_calendars},
    callback::Callback,
    diff::{Difference, diff},
    failure::{OnFailure, Retry, WhenCutOff},
    http::{Http, Redirects},
    placement::{Concurrency, LabelExpression, Placement},
    problem::{Part, Path, Problem, Span, Step, closest, did_you_mean, render},
    schema::schema,
    validate::validate,
    yaml::{Document, read},
};

/// The definition of a DAG of tasks. The field names are those of the job file and of the protocol.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobConfig {
    /// The unit of tenancy.
    pub namespace: String,
    /// Unique within the namespace.
    pub name: String,
    /// Free pairs to find configs and jobs by.
    pub labels: BTreeMap<String, String>,
    /// Parameters with their default values, which may be templates.
    pub params: BTreeMap<String, String>,
    /// How long a job may take; `None` means for ever.
    pub timeout: Option<Duration>,
    /// After how long a job is reported as taking long; `None` means never.
    pub warn_after: Option<Duration>,
    /// Values for every task that does not set them itself.
    pub task_defaults: TaskDefaults,
    /// The nodes, in the order of the file.
    pub tasks: Vec<TaskConfig>,
    /// When an `on_failure: stop` task fails, also terminate what runs.
    pub fail_fast: bool,
    /// When jobs are made by themselves.
    pub schedules: Vec<Schedule>,
    /// What becomes of a fire while a job of this config is not over; `None` means `skip`.
    pub overlap: Option<Overlap>,
    /// How many fires may wait with `queue`; `None` means [`overlap::QUEUE_LIMIT`].
    pub queue_limit: Option<u32>,
    /// How long after its fire a job that waited may still start; `None` means for ever.
    pub start_deadline: Option<Duration>,
    /// The job configs after which a job of this one is made, once each of them has finished.
    pub after_jobs: Vec<String>,
    /// How many of its jobs may run at once; `None` means any number.
    pub max_active_jobs: Option<u32>,
    /// What is told to others about its jobs.
    pub callbacks: Vec<Callback>,
    /// How long its ended jobs are kept; `None` leaves it to the scheduler.
    pub retention: Option<Retention>,
}

/// One schedule of a job config.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// Names it within the job config; empty means that its position does.
    pub name: String,
    /// When it fires.
    pub spec: Spec,
}

/// Values for every task that does not set them itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskDefaults {
    /// See [`TaskConfig::timeout`].
    pub timeout: Option<Duration>,
    /// See [`TaskConfig::retry`].
    pub retry: Option<Retry>,
    /// See [`TaskConfig::match_labels`].
    pub match_labels: BTreeMap<String, String>,
    /// See [`TaskConfig::env`]; a task's own value for a key wins.
    pub env: BTreeMap<String, String>,
    /// See [`TaskConfig::working_dir`].
    pub working_dir: String,
    /// See [`TaskConfig::trigger_rule`].
    pub trigger_rule: Option<TriggerRule>,
    /// See [`TaskConfig::on_failure`].
    pub on_failure: Option<OnFailure>,
    /// See [`TaskConfig::placement`].
    pub placement: Placement,
    /// See [`TaskConfig::queue_timeout`].
    pub queue_timeout: Option<Duration>,
    /// See [`TaskConfig::concurrency`].
    pub concurrency: Option<Concurrency>,
    /// See [`TaskConfig::priority`].
    pub priority: Option<i32>,
    /// See [`TaskConfig::when_cut_off`].
    pub when_cut_off: Option<WhenCutOff>,
    /// See [`TaskConfig::warn_after`].
    pub warn_after: Option<Duration>,
}

/// One node of the graph.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskConfig {
    /// Unique within the job config.
    pub name: String,
    /// What it runs.
    pub target: Target,
    /// Environment; values are templates.
    pub env: BTreeMap<String, String>,
    /// Where it runs, relative to the runner's work directory.
    pub working_dir: String,
    /// The names of its parents.
    pub needs: Vec<String>,
    /// How it is split, if it is.
    pub shards: Option<Shards>,
    /// How long one attempt may run; `None` means for ever.
    pub timeout: Option<Duration>,
    /// The labels a runner must have.
    pub match_labels: BTreeMap<String, String>,
    /// What to do when an attempt fails; `None` means one attempt only.
    pub retry: Option<Retry>,
    /// When it may start; `None` means `all_success`.
    pub trigger_rule: Option<TriggerRule>,
    /// A condition for when the gate opens; empty means true.
    pub when: String,
    /// What its failure does; `None` means `fail`.
    pub on_failure: Option<OnFailure>,
    /// What it does while its runner is cut off; `None` means `stop`.
    pub when_cut_off: Option<WhenCutOff>,
    /// After how long an attempt is reported as taking long; `None` means never.
    pub warn_after: Option<Duration>,
    /// `Some(false)` skips it in every job.
    pub enabled: Option<bool>,
    /// Higher goes first, -100 to 100; `None` means 0.
    pub priority: Option<i32>,
    /// What else a runner must have, and which of those that have it is chosen.
    pub placement: Placement,
    /// How long it may wait for a runner; `None` means for ever.
    pub queue_timeout: Option<Duration>,
    /// The key that it needs, if it needs one.
    pub concurrency: Option<Concurrency>,
    /// What is told to others about it.
    pub callbacks: Vec<Callback>,
}

/// What a task runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A program and its arguments, each a template; no shell in between.
    Command(Vec<String>),
    /// A script for `/bin/sh -e`, never a template.
    Shell(String),
    /// An HTTP request.
    Http(Box<Http>),
    /// Another job, which needs no runner.
    Job(SubJob),
}

/// A job that a task stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubJob {
    /// The name of its job config, in the same namespace.
    pub name: String,
    /// Values for its parameters, each a template.
    pub params: BTreeMap<String, String>,
}

impl Default for Target {
    fn default() -> Self {
        Self::Command(Vec::new())
    }
}

impl Target {
    /// The request, if it is one that begins a wait for its callback.
    pub fn waits_for_callback(&self) -> bool {
        matches!(self, Self::Http(http) if http.wait_for_callback)
    }

    /// The capability that a runner must have to run it.
    pub fn capability(&self) -> &'static str {
        match self {
            Self::Command(_) => "command",
            Self::Shell(_) => "shell",
            Self::Job(_) => "job",
            Self::Http(_) => "http",
        }
    }
}

/// How a task is split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shards {
    /// Into what.
    pub split: Split,
    /// How many may be queued or running at once; 0 means all.
    #[serde(default)]
    pub max_parallel: u32,
    /// The share that must finish, 1 to 100.
    pub min_success_percent: u32,
}

/// Into what a task is split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// So many shards.
    Count(u32),
    /// One for each item of a list that this template gives.
    Items(String),
    /// One for each runner that may take it when the gate opens.
    OnePerRunner,
}

impl Split {
    /// Chooses by what is set; exactly one must be, where 0, "" and false are not.
    pub fn choose(count: u32, items: String, one_per_runner: bool) -> Result<Self, &'static str> {
        match (count, items.is_empty(), one_per_runner) {
            (1.., true, false) => Ok(Self::Count(count)),
            (0, false, false) => Ok(Self::Items(items)),
            (0, true, true) => Ok(Self::OnePerRunner),
            (0, true, false) => Err("one of count, items, one_per_runner must be set"),
            _ => Err("only one of count, items, one_per_runner can be set"),
        }
    }
}

/// When a task may start, given how its parents ended. The rules are those of the protocol's `TriggerRule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TriggerRule {
    AllSuccess,
    AllDone,
    AllFailed,
    AllSkipped,
    OneSuccess,
    OneFailed,
    OneDone,
    NoneFailed,
    NoneFailedMinOneSuccess,
    NoneSkipped,
    Always,
}

impl TriggerRule {
    /// Every rule, in the order of the protocol.
    pub const ALL: [Self; 11] = [
        Self::AllSuccess,
        Self::AllDone,
        Self::AllFailed,
        Self::AllSkipped,
        Self::OneSuccess,
        Self::OneFailed,
        Self::OneDone,
        Self::NoneFailed,
        Self::NoneFailedMinOneSuccess,
        Self::NoneSkipped,
        Self::Always,
    ];

    /// The rule of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllSuccess => "all_success",
            Self::AllDone => "all_done",
            Self::AllFailed => "all_failed",
            Self::AllSkipped => "all_skipped",
            Self::OneSuccess => "one_success",
            Self::OneFailed => "one_failed",
            Self::OneDone => "one_done",
            Self::NoneFailed => "none_failed",
            Self::NoneFailedMinOneSuccess => "none_failed_min_one_success",
            Self::NoneSkipped => "none_skipped",
            Self::Always => "always",
        }
    }

    /// Whether a task with this rule goes on when its job stops: it is there to clean up.
    pub fn outlives_stop(self) -> bool {
        matches!(self, Self::AllDone | Self::Always)
    }
}

/// What becomes of a fire while a job of the same config is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Its job starts beside the others.
    Allow,
    /// It makes no job.
    Skip,
    /// Its job waits its turn.
    Queue,
    /// Its job takes the place of what lives.
    Replace,
}

impl Overlap {
    /// Every policy, in the order of the protocol.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Skip, Self::Queue, Self::Replace];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
            Self::Replace => "replace",
        }
    }
}

impl Schedule {
    /// What it is known by within its job config.
    pub fn key(&self, position: usize) -> String {
        if self.name.is_empty() { position.to_string() } else { self.name.clone() }
    }
}

impl JobConfig {
    /// The schedules by what they are known by: their name, else their position.
    pub fn keyed_schedules(&self) -> impl Iterator<Item = (String, &Schedule)> {
        self.schedules.iter().enumerate().map(|(position, schedule)| (schedule.key(position), schedule))
    }

    /// What becomes of a fire while a job is not over, with its numbers.
    pub fn overlap(&self) -> overlap::Overlap {
        match self.overlap.unwrap_or(Overlap::Skip) {
            Overlap::Allow => overlap::Overlap::Allow,
            Overlap::Skip => overlap::Overlap::Skip,
            Overlap::Queue => overlap::Overlap::Queue {
                limit: self.queue_limit.unwrap_or(overlap::QUEUE_LIMIT),
                start_deadline: self.start_deadline,
            },
            Overlap::Replace => overlap::Overlap::Replace,
        }
    }

    /// The tasks with every default filled in.
    pub fn resolved(&self) -> Vec<TaskConfig> {
        self.tasks.iter().map(|task| task.resolved(&self.task_defaults)).collect()
    }
}

impl TaskConfig {
    /// The task with these defaults filled in where it says nothing itself. One that stands for a job runs on no runner
    /// and waits in no queue: what only means something there passes it by, as it is refused where it stands on the task.
    fn resolved(&self, defaults: &TaskDefaults) -> Self {
        let mut task = self.clone();
        task.timeout = task.timeout.or(defaults.timeout);
        task.retry = task.retry.or_else(|| defaults.retry.clone());
        task.trigger_rule = task.trigger_rule.or(defaults.trigger_rule);
        if matches!(task.target, Target::Job(_)) {
            task.on_failure = task.on_failure.or(defaults.on_failure.filter(|policy| !policy.transfers()));
            return task;
        }
        task.on_failure = task.on_failure.or(defaults.on_failure);
        if task.match_labels.is_empty() {
            task.match_labels.clone_from(&defaults.match_labels);
        }
        for (key, value) in &defaults.env {
            task.env.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if task.working_dir.is_empty() {
            task.working_dir.clone_from(&defaults.working_dir);
        }
        task.placement.fill(&defaults.placement);
        task.queue_timeout = task.queue_timeout.or(defaults.queue_timeout);
        task.concurrency = task.concurrency.or_else(|| defaults.concurrency.clone());
        task.priority = task.priority.or(defaults.priority);
        task.when_cut_off = task.when_cut_off.or(defaults.when_cut_off);
        task.warn_after = task.warn_after.or(defaults.warn_after);
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::placement::Routing;

    const SECOND: Duration = Duration::from_secs(1);

    /// Defaults of every kind.
    fn defaults(on_failure: OnFailure) -> TaskDefaults {
        TaskDefaults {
            timeout: Some(SECOND),
            retry: Some(Retry::times(3, SECOND)),
            match_labels: BTreeMap::from([("pool".to_owned(), "etl".to_owned())]),
            env: BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]),
            working_dir: "there".to_owned(),
            trigger_rule: Some(TriggerRule::AllDone),
            on_failure: Some(on_failure),
            placement: Placement { routing: Some(Routing::RoundRobin), ..Placement::default() },
            queue_timeout: Some(SECOND),
            concurrency: Some(Concurrency { key: "db".to_owned(), limit: 1 }),
            priority: Some(7),
            when_cut_off: Some(WhenCutOff::Continue),
            warn_after: Some(SECOND),
        }
    }

    #[test]
    fn what_only_means_something_on_a_runner_passes_a_task_by_that_stands_for_a_job() {
        let task = TaskConfig { target: Target::Job(SubJob::default()), ..TaskConfig::default() };
        let stated = TaskConfig {
            timeout: Some(SECOND),
            retry: Some(Retry::times(3, SECOND)),
            trigger_rule: Some(TriggerRule::AllDone),
            on_failure: Some(OnFailure::Ignore),
            ..task.clone()
        };
        assert_eq!(task.resolved(&defaults(OnFailure::Ignore)), stated);
        for transfers in [OnFailure::Transfer, OnFailure::RetryThenTransfer] {
            let stated = TaskConfig { on_failure: None, ..stated.clone() };
            assert_eq!(task.resolved(&defaults(transfers)), stated);
        }
        let on_a_runner = TaskConfig::default().resolved(&defaults(OnFailure::Transfer));
        assert_eq!((on_a_runner.queue_timeout, on_a_runner.on_failure), (Some(SECOND), Some(OnFailure::Transfer)));
    }
}
