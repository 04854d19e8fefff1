//! What becomes of a fire while a job of the same config is not yet over.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::firing::Schedule;
use crate::domain::time::Timestamp;

/// What to do when a job of this config is not yet terminal. A key of the job config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Start another beside it.
    Allow,
    /// Leave the fire out.
    #[default]
    Skip,
    /// Let it wait its turn.
    Queue {
        /// How many wait at most.
        limit: u32,
        /// How long after its fire a waiting job may still start; `None` means for ever.
        start_deadline: Option<Duration>,
    },
    /// End the live one and take its place.
    Replace,
}

/// How many fires wait, unless the config says otherwise.
pub const QUEUE_LIMIT: u32 = 1;

/// The jobs of the config that count, read under its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Not terminal and not waiting for their turn; manual jobs count.
    pub active: u32,
    /// Over, but with an attempt whose processes are not proven gone.
    pub unproven: u32,
    /// Waiting for their turn.
    pub waiting: u32,
}

/// What becomes of a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Make its job and start it.
    Start,
    /// Make its job; it waits for its turn.
    Wait,
    /// Make its job, which waits until the live ones are terminated; any that waits already gives way to it.
    Replace,
    /// Make no job now and leave the schedule where it is: a missed fire that is made up for takes its turn later.
    Later,
    /// Make no job, and write down why.
    Skip(Reason),
}

/// Why a fire or a waiting job came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A job is live and the policy is `skip`.
    Live,
    /// A job is over, but an attempt of it is lost and not proven gone.
    Unproven,
    /// As many wait as may.
    QueueFull,
    /// It waited past its `start_deadline`.
    DeadlineOver,
    /// It waited past the end of its schedule.
    WindowOver,
    /// A newer fire took its place.
    Replaced,
}

impl Reason {
    /// In words that stay the same, for rows and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "skipped: a job of this config is live",
            Self::Unproven => "skipped: an attempt of a job before is not proven gone",
            Self::QueueFull => "skipped: queue_limit is reached",
            Self::DeadlineOver => "missed: start_deadline is over",
            Self::WindowOver => "missed: the schedule has ended",
            Self::Replaced => "skipped: a newer fire took its place",
        }
    }
}

impl Overlap {
    /// Decides a fire. The work does not grow with the number of live jobs.
    pub fn decide(self, live: Live, catch_up: bool) -> Verdict {
        let free = live.active == 0 && live.unproven == 0 && live.waiting == 0;
        match self {
            Self::Allow => Verdict::Start,
            _ if free => Verdict::Start,
            _ if catch_up => Verdict::Later,
            Self::Skip if live.active == 0 && live.waiting == 0 => Verdict::Skip(Reason::Unproven),
            Self::Skip => Verdict::Skip(Reason::Live),
            Self::Queue { limit, .. } if live.waiting >= limit => Verdict::Skip(Reason::QueueFull),
            Self::Queue { .. } => Verdict::Wait,
            Self::Replace => Verdict::Replace,
        }
    }

    /// Decides, when its turn has come, whether a job that waited may still start.
    pub fn may_still_start(self, schedule: &Schedule, fire: Timestamp, now: Timestamp) -> Result<(), Reason> {
        if let Self::Queue { start_deadline: Some(deadline), .. } = self
            && now.since(schedule.due(fire)) > deadline
        {
            return Err(Reason::DeadlineOver);
        }
        if schedule.end.is_some_and(|end| now.0 >= end) { Err(Reason::WindowOver) } else { Ok(()) }
    }
}
