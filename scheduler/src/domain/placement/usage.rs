//! What a scheduler remembers of the runners it gave work to, for the strategies that look back.
//!
//! It is kept in memory alone: a scheduler that starts knows of no past, and each knows of its own.

use std::{collections::HashMap, time::Duration};

use crate::domain::time::Timestamp;

/// After how long a task that was given out counts half.
const HALF_LIFE: Duration = Duration::from_mins(10);
/// How many runners are remembered, and how many classes.
const REMEMBERED_MAX: usize = 20_000;

/// How much a runner was given.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Used {
    /// The number of the dispatch that it got last; 0 for none.
    pub last: u64,
    /// How many it got, each halved every ten minutes.
    pub often: f64,
}

/// The past, as far as it is remembered.
#[derive(Debug, Default)]
pub struct Usage {
    dispatches: u64,
    runners: HashMap<String, (Used, Timestamp)>,
    /// Whom the last task of a class went to.
    previous: HashMap<String, String>,
}

impl Usage {
    /// How much a runner was given, as it counts at this time.
    pub fn of(&self, runner: &str, now: Timestamp) -> Used {
        self.runners.get(runner).map_or_else(Used::default, |(used, at)| faded(*used, *at, now))
    }

    /// Whom the last task of a class went to.
    pub fn previous(&self, class: &str) -> Option<&str> {
        self.previous.get(class).map(String::as_str)
    }

    /// A runner was given a task.
    pub fn record(&mut self, runner: &str, now: Timestamp) {
        self.dispatches += 1;
        let used = self.of(runner, now);
        let used = Used { last: self.dispatches, often: used.often + 1.0 };
        if let Some(known) = self.runners.get_mut(runner) {
            *known = (used, now);
            return;
        }
        if self.runners.len() >= REMEMBERED_MAX {
            let oldest = self.runners.iter().min_by_key(|(_, (used, _))| used.last);
            let oldest = oldest.map(|(runner, _)| runner.clone());
            oldest.and_then(|runner| self.runners.remove(&runner));
        }
        self.runners.insert(runner.to_owned(), (used, now));
    }

    /// The last task of a class that goes round went to this runner.
    pub fn went(&mut self, class: &str, runner: &str) {
        if let Some(previous) = self.previous.get_mut(class) {
            runner.clone_into(previous);
            return;
        }
        if self.previous.len() >= REMEMBERED_MAX {
            // All begin a new round, which is fair to every one of them.
            self.previous.clear();
        }
        self.previous.insert(class.to_owned(), runner.to_owned());
    }
}

fn faded(used: Used, at: Timestamp, now: Timestamp) -> Used {
    let lives = now.since(at).as_secs_f64() / HALF_LIFE.as_secs_f64();
    Used { often: used.often * 0.5_f64.powf(lives), ..used }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_ago_counts_less() {
        let mut usage = Usage::default();
        let later = |minutes: u64| Timestamp(0) + Duration::from_mins(minutes);
        for _ in 0..4 {
            usage.record("a", later(0));
        }
        usage.record("b", later(20));
        assert!((usage.of("a", later(20)).often - 1.0).abs() < 1e-9);
        assert!((usage.of("b", later(20)).often - 1.0).abs() < 1e-9);
        assert_eq!((usage.of("a", later(20)).last, usage.of("b", later(20)).last), (4, 5));
        assert_eq!(usage.of("c", later(20)), Used::default());
    }
}
