//! Whether a runner can be given work, as people see it.

use std::time::Duration;

use super::time::Timestamp;

/// How many bytes the id of a runner may have.
pub const ID_MAX: usize = 100;

/// Whether this can be the id of a runner: 1 to [`ID_MAX`] of a-z, A-Z, 0-9, "-", "_" and ".".
pub fn is_id(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=ID_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Whether a runner can be given work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerState {
    /// Connected and working.
    Online,
    /// Connected; finishes what it has and takes nothing new.
    Draining,
    /// Not heard of for a while, but its tasks are not given up yet.
    Silent,
    /// Gone: it left, or it was silent for too long.
    Offline,
}

/// What is known of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signs {
    /// A session of it counts: it neither left nor was given up.
    pub has_session: bool,
    /// It is drained, by an operator or by itself.
    pub draining: bool,
    /// When it was last heard, as committed.
    pub last_seen_at: Timestamp,
    /// Until when its scheduler said it would be away, if it did.
    pub hold_until: Option<Timestamp>,
}

impl RunnerState {
    /// What the signs mean at this time, when a runner beats and is recorded at least each `silent_after`.
    pub fn of(signs: Signs, now: Timestamp, silent_after: Duration) -> Self {
        if !signs.has_session {
            return Self::Offline;
        }
        let held = signs.hold_until.is_some_and(|until| until > now);
        match (held || now.since(signs.last_seen_at) > silent_after, signs.draining) {
            (true, _) => Self::Silent,
            (false, true) => Self::Draining,
            (false, false) => Self::Online,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_silent_before_it_is_gone() {
        let at = |second: i64| Timestamp(second * 1_000_000);
        let state = |signs, now| RunnerState::of(signs, at(now), Duration::from_secs(25));
        let signs = Signs { has_session: true, draining: false, last_seen_at: at(100), hold_until: None };
        assert_eq!(state(signs, 110), RunnerState::Online);
        assert_eq!(state(Signs { draining: true, ..signs }, 110), RunnerState::Draining);
        assert_eq!(state(signs, 126), RunnerState::Silent);
        assert_eq!(state(Signs { hold_until: Some(at(700)), ..signs }, 101), RunnerState::Silent);
        assert_eq!(state(Signs { has_session: false, ..signs }, 101), RunnerState::Offline);
        // A clock that went back makes nobody silent.
        assert_eq!(state(signs, 90), RunnerState::Online);
    }
}
