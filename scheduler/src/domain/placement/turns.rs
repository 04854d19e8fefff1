//! What the earlier attempts of a task say of runners: which one its next attempt stays on, and which ones it has given
//! up. It is part of what the task asks of a runner, and so lives in its row and survives a restart.

use std::collections::BTreeSet;

use super::class::{CLASS_BYTES_MAX, Class, Traits};

/// Bytes that are left free for the runner whose turn it is.
const STAY_BYTES_MAX: usize = 120;

/// A runner that is there, or was heard so lately that it may come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// What it has.
    pub traits: Traits,
    /// Whether it takes no new work until somebody lets it.
    pub drained: bool,
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

impl Class {
    /// Makes the runner that had the last attempt one that gets the task no more. `None` when the task cannot remember
    /// another: its text would pass [`CLASS_BYTES_MAX`].
    #[must_use]
    pub fn give_up(self, runner: &str) -> Option<Self> {
        let given_up = Self { stay: None, ..self }.without(runner);
        (given_up.to_string().len() + STAY_BYTES_MAX <= CLASS_BYTES_MAX).then_some(given_up)
    }

    /// Forgets what earlier attempts said of runners: each may have its turn again.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { stay: None, spent: BTreeSet::new(), ..self }
    }

    /// Whether an attempt before said something of runners.
    pub fn was_tried(&self) -> bool {
        self.stay.is_some() || !self.spent.is_empty()
    }
}

/// What a task may hope for that asks for this, while these runners are there.
pub fn outlook(class: &Class, present: &[Present]) -> Outlook {
    if let Some(stay) = &class.stay {
        let there = present.iter().any(|runner| runner.traits.id == *stay && !runner.drained);
        return if there { Outlook::Waits } else { Outlook::Free };
    }
    if class.spent.is_empty() || anyone_left(class, present) { Outlook::Waits } else { Outlook::NoneLeft }
}

/// Whether a runner is there that may take a task of the class; one that is drained may be let go on.
pub fn anyone_left(class: &Class, present: &[Present]) -> bool {
    present.iter().any(|runner| class.suits(&runner.traits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_up(runners: &[&str]) -> Class {
        runners.iter().fold(Class::of("shell"), |class, runner| class.without(runner))
    }

    fn traits(id: &str) -> Traits {
        Traits { id: id.into(), capabilities: vec!["shell".into()], ..Traits::default() }
    }

    type Row<'a> = (&'a [&'a str], Option<&'a str>, &'a [&'a str], Outlook);

    /// Who is there (`-` drained), whose turn it is, who was given up, and what the task may hope for.
    #[test]
    fn a_task_waits_while_there_is_hope_and_no_longer() {
        let table: [Row<'_>; 10] = [
            (&[], None, &[], Outlook::Waits),
            (&["a"], None, &[], Outlook::Waits),
            (&["a"], None, &["a"], Outlook::NoneLeft),
            (&[], None, &["a"], Outlook::NoneLeft),
            (&["a", "b"], None, &["a"], Outlook::Waits),
            (&["a", "-b"], None, &["a"], Outlook::Waits),
            (&["a"], Some("a"), &[], Outlook::Waits),
            (&["b", "-a"], Some("a"), &[], Outlook::Free),
            (&["b"], Some("a"), &[], Outlook::Free),
            (&["b"], Some("a"), &["b"], Outlook::Free),
        ];
        for (there, stay, spent, hope) in table {
            let present = there.iter().map(|id| {
                let (id, drained) = id.strip_prefix('-').map_or((*id, false), |id| (id, true));
                Present { traits: traits(id), drained }
            });
            let class = Class { stay: stay.map(str::to_owned), ..given_up(spent) };
            assert_eq!(outlook(&class, &present.collect::<Vec<_>>()), hope, "{there:?} {stay:?} {spent:?}");
        }
    }

    #[test]
    fn while_it_is_a_runners_turn_no_other_gets_the_task() {
        let class = Class { stay: Some("b".to_owned()), ..given_up(&["a"]) };
        assert!(class.suits(&traits("b")));
        assert_eq!(class.mismatch(&traits("c")).unwrap().why, "its retries stay on b");
        let moved = class.give_up("b").unwrap();
        assert!(moved.suits(&traits("c")) && !moved.suits(&traits("b")) && !moved.suits(&traits("a")));
        assert_eq!(moved.anew(), Class::of("shell"));
    }

    #[test]
    fn a_task_remembers_only_as_many_runners_as_its_row_can_hold() {
        let mut class = Class::of("shell");
        let mut given_up = 0;
        while let Some(more) = class.clone().give_up(&format!("runner-{given_up:03}")) {
            (class, given_up) = (more, given_up + 1);
        }
        assert!(class.to_string().len() <= CLASS_BYTES_MAX);
        assert!((150..250).contains(&given_up), "{given_up}");
    }
}
