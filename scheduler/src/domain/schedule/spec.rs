//! A schedule as it is written: what a job config says, before anything of it is understood.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One schedule of a job config. The names are those of the job file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// When it fires.
    pub rule: RuleSpec,
    /// The IANA name of its zone; empty means UTC.
    pub time_zone: String,
    /// Nothing fires before it; intervals are counted from it.
    pub start_time: Option<DateTime<Utc>>,
    /// Nothing fires at or after it; `None` means permanent.
    pub end_time: Option<DateTime<Utc>>,
    /// Each fire is due up to this much later, always by the same for one fire.
    pub jitter: Duration,
    /// What to do with fires that were missed; `None` means `run_once`.
    pub misfire: Option<Misfire>,
    /// How late a fire may be before it counts as missed.
    pub misfire_after: Duration,
    /// Missed fires older than this are not run.
    pub catchup_window: Duration,
    /// How many missed fires `run_all` runs at most.
    pub catchup_limit: u32,
    /// The names of calendars on whose dates nothing fires.
    pub calendars: Vec<String>,
}

/// When a schedule fires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleSpec {
    /// A cron expression of five (Unix), six or seven (Quartz) fields.
    Cron(String),
    /// Words, in English or Chinese.
    Text(String),
    /// An interval of elapsed time.
    Every {
        /// How long.
        period: Duration,
        /// Counted from what.
        #[serde(default)]
        after: After,
    },
    /// Once.
    At(DateTime<Utc>),
}

/// What an interval is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum After {
    /// From `start_time`, else the creation of the schedule: a fixed rate.
    #[default]
    Start,
    /// From the end of the job before: a fixed delay.
    Completion,
}

/// What to do with fires that were missed while nothing could fire them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// Run none of them.
    Skip,
    /// Run the newest.
    #[default]
    RunOnce,
    /// Run the newest `catchup_limit`, oldest first.
    RunAll,
}

/// What a schedule is known by among all: with the time of a fire it decides the jitter of that.
pub fn identity(namespace: &str, name: &str, key: &str) -> String {
    format!("{namespace}/{name}/{key}")
}

impl Misfire {
    /// Every policy, in the order of the protocol.
    pub const ALL: [Self; 3] = [Self::Skip, Self::RunOnce, Self::RunAll];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::RunOnce => "run_once",
            Self::RunAll => "run_all",
        }
    }
}

/// The shortest interval of `every`.
pub const PERIOD_MIN: Duration = Duration::from_secs(1);
/// The longest interval of `every`: ten years.
pub const PERIOD_MAX: Duration = Duration::from_hours(24 * 3_653);
/// The longest jitter.
pub const JITTER_MAX: Duration = Duration::from_hours(24);
/// The most missed fires that a schedule may ask to run.
pub const CATCHUP_LIMIT_MAX: u32 = 10_000;
/// The most calendars of one schedule.
pub const CALENDARS_MAX: usize = 16;

/// How late a fire may be before it counts as missed, unless the schedule says otherwise.
pub const MISFIRE_AFTER: Duration = Duration::from_mins(5);
/// How old a missed fire may be to be run, unless the schedule says otherwise.
pub const CATCHUP_WINDOW: Duration = Duration::from_hours(24);
/// How many missed fires `run_all` runs, unless the schedule says otherwise.
pub const CATCHUP_LIMIT: u32 = 100;

impl RuleSpec {
    /// The key of a job file that holds it.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Cron(_) => "cron",
            Self::Text(_) => "text",
            Self::Every { .. } => "every",
            Self::At(_) => "at",
        }
    }
}

impl Default for RuleSpec {
    fn default() -> Self {
        Self::Cron(String::new())
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            rule: RuleSpec::default(),
            time_zone: String::new(),
            start_time: None,
            end_time: None,
            jitter: Duration::ZERO,
            misfire: None,
            misfire_after: MISFIRE_AFTER,
            catchup_window: CATCHUP_WINDOW,
            catchup_limit: CATCHUP_LIMIT,
            calendars: Vec::new(),
        }
    }
}

impl From<RuleSpec> for Spec {
    fn from(rule: RuleSpec) -> Self {
        Self { rule, ..Self::default() }
    }
}

impl Spec {
    /// A cron schedule in a zone.
    pub fn cron(expression: &str, time_zone: &str) -> Self {
        Self { time_zone: time_zone.to_owned(), ..RuleSpec::Cron(expression.to_owned()).into() }
    }

    /// A schedule in words in a zone.
    pub fn text(text: &str, time_zone: &str) -> Self {
        Self { time_zone: time_zone.to_owned(), ..RuleSpec::Text(text.to_owned()).into() }
    }

    /// A fixed rate.
    pub fn every(period: Duration) -> Self {
        RuleSpec::Every { period, after: After::Start }.into()
    }
}
