//! The guard against a schedule that fires without end: whatever the reason, it must not fill the cluster with jobs.

use std::time::Duration;

use crate::domain::time::Timestamp;

/// How many jobs one schedule may make within a minute, those aside that make up for missed fires. Twice what the fastest
/// schedule there is makes.
pub const FIRES_PER_MINUTE_MAX: u32 = 120;
/// How long jobs are counted together.
const MINUTE: Duration = Duration::from_mins(1);

/// The newest jobs of a schedule, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Since when.
    pub since: Timestamp,
    /// How many.
    pub fires: u32,
}

/// It made more jobs than any schedule can be meant to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it made {FIRES_PER_MINUTE_MAX} jobs within a minute, more than any schedule asks for; look at them, then apply it again"
)]
pub struct TooFast;

impl Burst {
    /// The count with one more job at this time. A minute that is over, or that lies ahead of a clock that was set back,
    /// counts no more.
    pub fn and_one(before: Option<Self>, now: Timestamp) -> Result<Self, TooFast> {
        match before {
            Some(Self { since, fires }) if since <= now && now.since(since) < MINUTE => {
                if fires >= FIRES_PER_MINUTE_MAX {
                    return Err(TooFast);
                }
                Ok(Self { since, fires: fires + 1 })
            }
            _ => Ok(Self { since: now, fires: 1 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_schedule_passes_and_one_without_end_is_stopped() {
        let mut burst = None;
        for second in 0..600 {
            burst = Some(Burst::and_one(burst, Timestamp(second * 1_000_000)).unwrap());
        }
        let mut burst = None;
        for fire in 0..i64::from(FIRES_PER_MINUTE_MAX) {
            burst = Some(Burst::and_one(burst, Timestamp(fire)).unwrap());
        }
        assert_eq!(Burst::and_one(burst, Timestamp(59_999_999)), Err(TooFast));
        assert_eq!(Burst::and_one(burst, Timestamp(60_000_000)).unwrap().fires, 1);
        assert_eq!(Burst::and_one(burst, Timestamp(-1)).unwrap().fires, 1);
    }
}
