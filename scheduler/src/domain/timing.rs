//! The times of the heartbeat protocol. Each is a setting, its default follows the beat, and they must fit together.

use std::{fmt, time::Duration};

use super::time::{Timestamp, micros};

/// The shortest beat that makes sense: below it, answers take longer than beats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);

/// The times of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a runner beats when nothing happens.
    pub heartbeat_interval: Duration,
    /// A runner that is not heard for this long is lost.
    pub lost_after: Duration,
    /// How long a command may stay without an answer.
    pub accept_timeout: Duration,
    /// How long a beat may stay without an answer before the runner dials again.
    pub answer_timeout: Duration,
    /// How often signs of life are committed.
    pub seen_interval: Duration,
    /// How often silent runners are looked for.
    pub sweep_interval: Duration,
    /// A longer gap between two touches of the database starts the wait before deciding losses anew.
    pub touch_gap: Duration,
    /// What is left between a task's self-stop and the loss of its runner.
    pub margin: Duration,
    /// The base of a runner's back-off.
    pub backoff_base: Duration,
    /// Its cap.
    pub backoff_max: Duration,
    /// How long the processes of a task may take to end.
    pub grace: Duration,
    /// How long a planned stop holds the tasks of its runners.
    pub hold_for: Duration,
}

impl Timing {
    /// Every default for a beat, with the grace beside it.
    pub fn from_beat(beat: Duration, grace: Duration) -> Self {
        Self {
            heartbeat_interval: beat,
            lost_after: beat * 6,
            accept_timeout: beat,
            answer_timeout: beat / 2,
            seen_interval: beat / 10,
            sweep_interval: beat / 2,
            touch_gap: beat,
            margin: beat / 2,
            backoff_base: beat / 10,
            backoff_max: beat * 8 / 10,
            grace,
            hold_for: Duration::from_mins(10),
        }
    }

    /// Since when a runner must have been heard to be there still, or to be waited for: it may only have been started anew.
    pub fn heard_since(&self, now: Timestamp) -> Timestamp {
        Timestamp(now.0 - micros(self.lost_after))
    }

    /// How long a task whose runner is cut off may go on.
    pub fn self_stop_after(&self) -> Duration {
        self.lost_after.saturating_sub(self.grace + self.margin)
    }

    /// A runner not heard for this long is shown as silent: two beats, and the time until one is recorded.
    pub fn silent_after(&self) -> Duration {
        self.heartbeat_interval * 2 + self.seen_interval * 2
    }

    /// Whether a runner that loses its scheduler can come back before it has to end its tasks: 2 beats, two full
    /// back-offs, the grace and the margin have to fit into `lost_after`.
    pub fn check(&self) -> Result<(), Unfit> {
        if self.heartbeat_interval < HEARTBEAT_MIN {
            return Err(Unfit::Beat);
        }
        let sum = self.heartbeat_interval * 2 + self.backoff_max * 2 + self.grace + self.margin;
        if sum > self.lost_after { Err(Unfit::Sum { timing: Box::new(*self), sum }) } else { Ok(()) }
    }
}

/// Why times do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// The beat is too short.
    Beat,
    /// They add up to more than `lost_after`.
    Sum {
        /// The times.
        timing: Box<Timing>,
        /// What they add up to.
        sum: Duration,
    },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beat => write!(f, "the heartbeat interval must be at least {HEARTBEAT_MIN:?}"),
            Self::Sum { timing, sum } => write!(
                f,
                "2 × heartbeat interval {:?} + 2 × longest back-off {:?} + grace {:?} + safety margin {:?} = {sum:?} does \
                 not fit into lost-after {:?}: raise lost-after or the heartbeat interval, or lower the grace",
                timing.heartbeat_interval, timing.backoff_max, timing.grace, timing.margin, timing.lost_after
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(beat: u64, grace: u64) -> Timing {
        Timing::from_beat(Duration::from_millis(beat), Duration::from_millis(grace))
    }

    #[test]
    fn the_defaults_fit_together() {
        let timing = timing(10_000, 10_000);
        assert_eq!(timing.check(), Ok(()));
        assert_eq!(timing.self_stop_after(), Duration::from_secs(45));
        assert_eq!(timing.backoff_max, Duration::from_secs(8));
        assert_eq!(timing.lost_after, Duration::from_mins(1));
    }

    #[test]
    fn times_that_do_not_fit_are_refused_with_their_sum() {
        let short = Timing { lost_after: Duration::from_secs(50), ..timing(10_000, 10_000) };
        let refusal = short.check().unwrap_err().to_string();
        assert!(refusal.contains("= 51s does not fit into lost-after 50s"), "{refusal}");
        let refusal = timing(500, 1000).check().unwrap_err().to_string();
        assert!(refusal.contains("= 3.05s"), "{refusal}");
        assert_eq!(timing(500, 100).check(), Ok(()));
        assert_eq!(timing(10, 1).check(), Err(Unfit::Beat));
    }
}
