//! What the earlier attempts of a task say of runners: which one its next attempt stays on, and which ones it has given
//! up. It is part of what the task asks of a runner, and so lives in its row and survives a restart.

use std::{collections::BTreeSet, fmt};

/// The runners that a task's policy has had its turn with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Turns {
    /// The runner whose turn it is: the next attempt goes to it while it is there.
    pub stay: Option<String>,
    /// Runners that had their turn and get the task no more.
    pub given_up: BTreeSet<String>,
}

impl Turns {
    /// What keeps this runner from getting the next attempt, in words; `None` when nothing does.
    pub fn mismatch(&self, runner: &str) -> Option<String> {
        if self.given_up.contains(runner) {
            return Some("the task was given up on it".to_owned());
        }
        let stay = self.stay.as_deref().filter(|stay| *stay != runner)?;
        Some(format!("its retries stay on {stay}"))
    }

    /// Whether nothing is said of any runner, as before the first failure.
    pub fn is_empty(&self) -> bool {
        self.stay.is_none() && self.given_up.is_empty()
    }

    /// Reads the canonical text back.
    pub fn parse(text: &str) -> Self {
        let (stay, given_up) = text.split_once('!').unwrap_or((text, ""));
        Self {
            stay: stay.strip_prefix('~').map(str::to_owned),
            given_up: given_up.split(',').filter(|runner| !runner.is_empty()).map(str::to_owned).collect(),
        }
    }
}

/// The canonical text `~stay!given,up`, each part only when there is something in it: no runner's id holds one of those
/// characters.
impl fmt::Display for Turns {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stay) = &self.stay {
            write!(to, "~{stay}")?;
        }
        for (place, runner) in self.given_up.iter().enumerate() {
            write!(to, "{}{runner}", if place == 0 { '!' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_runner_that_was_given_up_gets_the_task_no_more() {
        let turns = Turns { stay: None, given_up: BTreeSet::from(["a".to_owned()]) };
        assert_eq!(turns.mismatch("a").unwrap(), "the task was given up on it");
        assert_eq!(turns.mismatch("b"), None);
    }

    #[test]
    fn while_it_is_a_runners_turn_no_other_gets_the_task() {
        let turns = Turns { stay: Some("b".to_owned()), given_up: BTreeSet::from(["a".to_owned()]) };
        assert_eq!(turns.mismatch("b"), None);
        assert_eq!(turns.mismatch("c").unwrap(), "its retries stay on b");
    }

    proptest! {
        #[test]
        fn turns_read_back_as_they_were_written(
            stay in proptest::option::of("[a-zA-Z0-9._-]{1,8}"),
            given_up in proptest::collection::btree_set("[a-zA-Z0-9._-]{1,8}", 0..4),
        ) {
            let turns = Turns { stay, given_up };
            prop_assert_eq!(Turns::parse(&turns.to_string()), turns);
        }
    }
}
