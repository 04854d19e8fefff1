//! How far the keeper has come with the jobs of each config.
//!
//! Old jobs that have to stay for a while, such as sub-jobs of a job that is kept, lie before those that can go. They are
//! passed once and not asked about in every round; only now and then everything is looked at from the start.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::domain::retention::End;

/// How long what was passed is left alone.
pub(in crate::flow) const ANEW: Duration = Duration::from_hours(1);
/// Of how many job configs it is remembered; when there are more, everything is looked at from the start sooner.
const CONFIGS_MAX: usize = 10_000;

/// Up to where the jobs of a config were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::flow) struct Reached {
    /// Whether they can go.
    pub jobs: Option<End>,
    /// Whether their output can.
    pub logs: Option<End>,
}

/// Up to where all of them were.
#[derive(Debug, Clone)]
pub(in crate::flow) struct Progress {
    of: HashMap<Uuid, Reached>,
    begun: Instant,
}

impl Progress {
    pub(in crate::flow) fn begun(at: Instant) -> Self {
        Self { of: HashMap::new(), begun: at }
    }

    /// Where to go on with the jobs of a config.
    pub(in crate::flow) fn of(&self, config: Uuid) -> Reached {
        self.of.get(&config).copied().unwrap_or_default()
    }

    /// Takes note of how far one came.
    pub(in crate::flow) fn note(&mut self, config: Uuid, reached: Reached) {
        if self.of.len() >= CONFIGS_MAX && !self.of.contains_key(&config) {
            self.of.clear();
        }
        self.of.insert(config, reached);
    }

    /// A round is over: what was passed long ago is looked at again.
    pub(in crate::flow) fn round(&mut self, at: Instant) {
        if at.duration_since(self.begun) >= ANEW {
            *self = Self::begun(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    #[test]
    fn what_was_passed_is_left_alone_for_an_hour() {
        let (config, begun) = (Uuid::from_u128(1), Instant::now());
        let reached = Reached { jobs: Some(End { at: Timestamp(7), id: Uuid::nil() }), logs: None };
        let mut progress = Progress::begun(begun);
        progress.note(config, reached);
        progress.round(begun + ANEW / 2);
        assert_eq!(progress.of(config), reached);
        progress.round(begun + ANEW);
        assert_eq!(progress.of(config), Reached::default());
    }

    #[test]
    fn only_so_many_configs_are_remembered_but_the_one_at_hand_always_is() {
        let mut progress = Progress::begun(Instant::now());
        let reached = Reached { jobs: None, logs: Some(End { at: Timestamp(7), id: Uuid::nil() }) };
        for config in 0..=CONFIGS_MAX as u128 {
            progress.note(Uuid::from_u128(config), reached);
        }
        assert_eq!(progress.of.len(), 1);
        assert_eq!(progress.of(Uuid::from_u128(CONFIGS_MAX as u128)), reached);
    }
}
