//! What the earlier attempts of a task say of runners: which one its next attempt stays on, and which ones it has given
//! up. It is part of what the task asks of a runner, and so lives in its row and survives a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::pick::Class;

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

    /// Makes the runner that had the last attempt one that gets the task no more.
    pub fn give_up(&mut self, runner: &str) {
        self.stay = None;
        self.given_up.insert(runner.to_owned());
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

/// A runner that is there, or was heard so lately that it may come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// Its id.
    pub id: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it can run.
    pub capabilities: Vec<String>,
}

/// What a task that was tried before may hope for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outlook {
    /// A runner that may take it is there, or it waits like any other.
    Waits,
    /// The runner whose turn it is went away: another may have the task.
    Free,
    /// Runners were given up, and none that may take it is left.
    NoneLeft,
}

/// What a task may hope for that asks for this, while these runners are there.
pub fn outlook(class: &Class, present: &[Present]) -> Outlook {
    if let Some(stay) = &class.turns.stay {
        let there = present.iter().any(|runner| runner.id == *stay);
        return if there { Outlook::Waits } else { Outlook::Free };
    }
    if class.turns.given_up.is_empty() || anyone_left(class, present) { Outlook::Waits } else { Outlook::NoneLeft }
}

/// Whether a runner is there that may take a task of the class.
pub fn anyone_left(class: &Class, present: &[Present]) -> bool {
    present.iter().any(|runner| class.suits(&runner.id, &runner.labels, &runner.capabilities))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::selector::Selector;

    /// Who is there, whose turn it is, who was given up, and what the task may hope for.
    #[test]
    fn a_task_waits_while_there_is_hope_and_no_longer() {
        let table: [(&[&str], Option<&str>, &[&str], Outlook); 8] = [
            (&[], None, &[], Outlook::Waits),
            (&["a"], None, &[], Outlook::Waits),
            (&["a"], None, &["a"], Outlook::NoneLeft),
            (&[], None, &["a"], Outlook::NoneLeft),
            (&["a", "b"], None, &["a"], Outlook::Waits),
            (&["a"], Some("a"), &[], Outlook::Waits),
            (&["b"], Some("a"), &[], Outlook::Free),
            (&["b"], Some("a"), &["b"], Outlook::Free),
        ];
        for (there, stay, given_up, hope) in table {
            let present: Vec<Present> = there
                .iter()
                .map(|id| Present {
                    id: (*id).to_owned(),
                    labels: BTreeMap::new(),
                    capabilities: vec!["shell".to_owned()],
                })
                .collect();
            let turns =
                Turns { stay: stay.map(str::to_owned), given_up: given_up.iter().map(|id| (*id).to_owned()).collect() };
            let class = Class { capability: "shell".into(), pin: None, turns, selector: Selector::default() };
            assert_eq!(outlook(&class, &present), hope, "{there:?} {stay:?} {given_up:?}");
        }
    }

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
