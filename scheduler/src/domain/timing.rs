//! The times of the heartbeat protocol. Each is a setting, and its default follows the beat.

use std::time::Duration;

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
            hold_for: Duration::from_secs(600),
        }
    }

    /// How long a task whose runner is cut off may go on.
    pub fn self_stop_after(&self) -> Duration {
        self.lost_after.saturating_sub(self.grace + self.margin)
    }
}
