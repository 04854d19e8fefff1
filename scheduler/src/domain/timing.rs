//! The times of the heartbeat protocol. All of them follow the beat, and they must fit together.

use std::{fmt, time::Duration};

/// How long things may take between runners and schedulers. `docs/protocol.md` holds the rules that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a runner beats when nothing happens.
    pub heartbeat_interval: Duration,
    /// How often signs of life are committed.
    pub last_seen_interval: Duration,
    /// How long a beat may stay without an answer before the runner dials again.
    pub answer_timeout: Duration,
    /// How long a command may stay without an answer.
    pub accept_timeout: Duration,
    /// The base of the back-off between dials.
    pub backoff_base: Duration,
    /// Its cap.
    pub backoff_max: Duration,
    /// How often silent runners are looked for.
    pub sweep_interval: Duration,
    /// A scheduler that was out of touch with its database for longer judges nobody for a while.
    pub touch_gap: Duration,
    /// What self-stop leaves for clocks that differ in rate.
    pub safety_margin: Duration,
    /// A runner not heard for this long is lost.
    pub lost_after: Duration,
    /// How long processes may take to end after SIGTERM.
    pub grace: Duration,
}

/// The stop grace when nothing is said.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// The shortest beat that makes sense: below it, answers take longer than beats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);

impl Timing {
    /// The default times for a beat.
    pub fn from_beat(beat: Duration) -> Self {
        Self {
            heartbeat_interval: beat,
            last_seen_interval: beat / 10,
            answer_timeout: beat / 2,
            accept_timeout: beat,
            backoff_base: beat / 10,
            backoff_max: beat * 4 / 5,
            sweep_interval: beat / 2,
            touch_gap: beat,
            safety_margin: beat / 2,
            lost_after: beat * 6,
            grace: GRACE_DEFAULT,
        }
    }

    /// How long after the newest acknowledged frame a runner that is cut off ends what another copy could be started of.
    pub fn self_stop_after(&self) -> Duration {
        self.lost_after.saturating_sub(self.grace).saturating_sub(self.safety_margin)
    }

    /// A runner not heard for this long is shown as silent: two beats, and the time until one is recorded.
    pub fn silent_after(&self) -> Duration {
        self.heartbeat_interval * 2 + self.last_seen_interval * 2
    }

    /// Whether a runner that loses its scheduler can come back before it has to end its tasks: 2 beats, two full
    /// back-offs, the grace and the margin have to fit into `lost_after`.
    pub fn check(&self) -> Result<(), Unfit> {
        let sum = self.heartbeat_interval * 2 + self.backoff_max * 2 + self.grace + self.safety_margin;
        if self.heartbeat_interval < HEARTBEAT_MIN {
            return Err(Unfit::Beat);
        }
        if sum > self.lost_after { Err(Unfit::Sum { timing: *self, sum }) } else { Ok(()) }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::from_beat(Duration::from_secs(10))
    }
}

/// Why times do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// The beat is too short.
    Beat,
    /// They add up to more than `lost_after`.
    Sum {
        /// The times.
        timing: Timing,
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
                timing.heartbeat_interval, timing.backoff_max, timing.grace, timing.safety_margin, timing.lost_after
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_together() {
        let timing = Timing::default();
        assert_eq!(timing.check(), Ok(()));
        assert_eq!(timing.self_stop_after(), Duration::from_secs(45));
        assert_eq!(timing.backoff_max, Duration::from_secs(8));
        assert_eq!(timing.lost_after, Duration::from_secs(60));
    }

    #[test]
    fn times_that_do_not_fit_are_refused_with_their_sum() {
        let timing = Timing { lost_after: Duration::from_secs(50), ..Timing::default() };
        let refusal = timing.check().unwrap_err().to_string();
        assert!(refusal.contains("= 51s does not fit into lost-after 50s"), "{refusal}");
        let timing = Timing { grace: Duration::from_secs(1), ..Timing::from_beat(Duration::from_millis(500)) };
        assert_eq!(timing.check().unwrap_err().to_string().matches("= 3.05s").count(), 1);
        let timing = Timing { grace: Duration::from_millis(100), ..Timing::from_beat(Duration::from_millis(500)) };
        assert_eq!(timing.check(), Ok(()));
        assert_eq!(Timing::from_beat(Duration::from_millis(10)).check(), Err(Unfit::Beat));
    }
}
