//! How long what has ended is kept.
//!
//! A job goes with everything it left: tasks, attempts, output, callbacks. It goes when it ended too long ago, or when its
//! config has enough newer ones; the newest one of a config always stays. What is live, or may be, is never removed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::time::Timestamp;

/// How long an ended job is kept unless somebody says otherwise.
pub const AGE: Duration = Duration::from_hours(30 * 24);
/// How long it is kept who changed what.
pub const AUDIT: Duration = Duration::from_hours(365 * 24);
/// How many ended jobs a config may ask to keep at most.
pub const COUNT_MAX: u32 = 10_000;

/// What a job config wants; what it leaves open its scheduler says. A span of zero means for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// How long a job is kept after its end.
    pub age: Option<Duration>,
    /// How many ended jobs are kept.
    pub count: Option<u32>,
    /// How long the output of a job is kept after its end.
    pub logs: Option<Duration>,
}

/// What a scheduler keeps. A span of zero means for ever, and for the output: as long as its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long a job is kept after its end, if its config does not say.
    pub age: Duration,
    /// How long the output of a job is kept after its end, if its config does not say.
    pub logs: Duration,
    /// How long it is kept who changed what.
    pub audit: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { age: AGE, logs: Duration::ZERO, audit: AUDIT }
    }
}

/// When a job ended, and which one it is: many end at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// When.
    pub at: Timestamp,
    /// Which job.
    pub id: Uuid,
}

/// What ended before this is too old; `None` when nothing ever is.
pub fn too_old(now: Timestamp, kept_for: Duration) -> Option<Timestamp> {
    (kept_for > Duration::ZERO).then(|| now - kept_for)
}

impl Policy {
    /// How long the jobs of a config are kept.
    pub fn age_of(&self, own: Retention) -> Duration {
        own.age.unwrap_or(self.age)
    }

    /// How long their output is kept.
    pub fn logs_of(&self, own: Retention) -> Duration {
        own.logs.unwrap_or(self.logs)
    }

    /// Up to which end the jobs of a config go, by age and by count: `beyond` is the newest of those that are too many.
    pub fn goes_up_to(&self, own: Retention, now: Timestamp, beyond: Option<End>) -> Option<End> {
        let old = too_old(now, self.age_of(own)).map(|at| End { at, id: Uuid::max() });
        old.max(beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: Timestamp = Timestamp(1_000_000_000_000_000);

    fn end(days_ago: u32, id: u128) -> End {
        End { at: NOW - DAY * days_ago, id: Uuid::from_u128(id) }
    }

    #[test]
    fn a_job_goes_by_age_or_by_count_whichever_is_first() {
        let policy = Policy::default();
        let own = |age: Option<u32>| Retention { age: age.map(|days| DAY * days), ..Retention::default() };
        let by_age = |days: u32| Some(End { at: NOW - DAY * days, id: Uuid::max() });
        for (age, beyond, expected) in [
            (None, None, by_age(30)),
            (Some(7), None, by_age(7)),
            (Some(7), Some(end(3, 1)), Some(end(3, 1))),
            (Some(7), Some(end(9, 1)), by_age(7)),
            // Zero means for ever.
            (Some(0), None, None),
            (Some(0), Some(end(3, 1)), Some(end(3, 1))),
        ] {
            assert_eq!(policy.goes_up_to(own(age), NOW, beyond), expected, "{age:?} {beyond:?}");
        }
    }

    #[test]
    fn output_is_kept_as_long_as_its_job_unless_somebody_says_otherwise() {
        assert_eq!(too_old(NOW, Policy::default().logs_of(Retention::default())), None);
        let own = Retention { logs: Some(DAY), ..Retention::default() };
        assert_eq!(too_old(NOW, Policy::default().logs_of(own)), Some(NOW - DAY));
    }
}
