//! What a scheduler of the cluster does, as people see it.

use std::time::Duration;

use super::time::Timestamp;

/// What a scheduler does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerState {
    /// Everything.
    Working,
    /// Keeps its streams and answers, gives out nothing new.
    Drained,
    /// Stopped, or not heard of for a while.
    Offline,
}

impl SchedulerState {
    const ALL: [Self; 3] = [Self::Working, Self::Drained, Self::Offline];

    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "WORKING",
            Self::Drained => "DRAINED",
            Self::Offline => "OFFLINE",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// What a scheduler does that said so last at this time: one that is not heard for `lost_after` does nothing.
    #[must_use]
    pub fn seen(self, last_seen_at: Timestamp, now: Timestamp, lost_after: Duration) -> Self {
        if now.since(last_seen_at) > lost_after { Self::Offline } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_that_is_silent_is_offline_whatever_it_said() {
        let lost_after = Duration::from_mins(1);
        let seen = |state: SchedulerState, now: i64| state.seen(Timestamp(0), Timestamp(now * 1_000_000), lost_after);
        assert_eq!(seen(SchedulerState::Drained, 60), SchedulerState::Drained);
        assert_eq!(seen(SchedulerState::Working, 61), SchedulerState::Offline);
        for state in SchedulerState::ALL {
            assert_eq!(SchedulerState::from_word(state.word()), Some(state));
        }
    }
}
