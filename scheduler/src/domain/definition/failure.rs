//! What a definition says of failures: how often an attempt is made again, how soon and where, and what goes on without
//! its runner's scheduler.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{reader::Fields, span};

/// How a failed or lost attempt is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// How long to wait before the second one.
    #[serde(default)]
    pub delay: Duration,
    /// By how much each wait is longer than the one before it.
    #[serde(default = "one")]
    pub factor: f64,
    /// The longest wait, before chance is added; `None` means no bound.
    #[serde(default)]
    pub max_delay: Option<Duration>,
    /// How far chance makes a wait shorter or longer, as a share of it: 0 to 1.
    #[serde(default)]
    pub jitter_ratio: f64,
    /// Exit codes after which trying again is of no use.
    #[serde(default)]
    pub no_retry_exit_codes: Vec<i32>,
}

fn one() -> f64 {
    1.0
}

impl Retry {
    /// So many attempts, so far apart, and nothing else.
    pub const fn times(max_attempts: u32, delay: Duration) -> Self {
        Self { max_attempts, delay, factor: 1.0, max_delay: None, jitter_ratio: 0.0, no_retry_exit_codes: Vec::new() }
    }

    /// Reads it from a job file.
    pub(super) fn read(mut fields: Fields) -> Self {
        Self {
            max_attempts: fields.integer("max_attempts").map_or(0, |number| u32::try_from(number).unwrap_or(u32::MAX)),
            delay: fields.span("delay").unwrap_or_default(),
            factor: fields.number("factor").unwrap_or(1.0),
            max_delay: fields.span("max_delay"),
            jitter_ratio: fields.number("jitter_ratio").unwrap_or_default(),
            no_retry_exit_codes: fields.integers("no_retry_exit_codes").unwrap_or_default(),
        }
    }

    /// Its keys with their values in words, those that are not set left out.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let Self { max_attempts, delay, factor, max_delay, jitter_ratio, no_retry_exit_codes: codes } = self;
        let mut fields = vec![("max_attempts", max_attempts.to_string()), ("delay", span::format(*delay))];
        if *factor > 1.0 {
            fields.push(("factor", factor.to_string()));
        }
        fields.extend(max_delay.map(|most| ("max_delay", span::format(most))));
        if *jitter_ratio > 0.0 {
            fields.push(("jitter_ratio", jitter_ratio.to_string()));
        }
        if !codes.is_empty() {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            fields.push(("no_retry_exit_codes", codes.join(", ")));
        }
        fields
    }
}

/// What a failure of a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The job will be failed; other branches go on.
    Fail,
    /// The job stops: what has not started will not.
    Stop,
    /// It counts as a success.
    Ignore,
    /// The runner is given up and each other one that suits gets the task once; then as `fail`.
    Transfer,
    /// Each runner that suits gets the whole of `retry` in its turn; then as `fail`.
    RetryThenTransfer,
}

impl OnFailure {
    /// Every policy, in the order of the protocol.
    pub const ALL: [Self; 5] = [Self::Fail, Self::Stop, Self::Ignore, Self::Transfer, Self::RetryThenTransfer];

    /// The policy of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Stop => "stop",
            Self::Ignore => "ignore",
            Self::Transfer => "transfer",
            Self::RetryThenTransfer => "retry_then_transfer",
        }
    }

    /// Whether another runner is tried when one failed.
    pub fn transfers(self) -> bool {
        matches!(self, Self::Transfer | Self::RetryThenTransfer)
    }
}

/// What a task does while its runner is cut off from every scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenCutOff {
    /// It is ended before its runner counts as lost, so that another copy may start.
    Stop,
    /// It goes on; no other copy starts by itself until its end is proven.
    Continue,
}

impl WhenCutOff {
    /// Every choice, in the order of the protocol.
    pub const ALL: [Self; 2] = [Self::Stop, Self::Continue];

    /// The choice of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Continue => "continue",
        }
    }
}
