//! What the watchdog knows of what runs, and when it must act: pure.

use std::{collections::HashMap, time::Duration};

use crate::clock::Instant;

/// Part of the grace that the watchdog leaves the runner to stop a task by itself.
const TERM_AFTER: u32 = 4;

/// A process that carries a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) started: u64,
    pub(super) key: String,
    self_stop_after: Option<Duration>,
    grace: Duration,
    stopping: bool,
    killed: bool,
}

/// What runs.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lifeline: Option<Instant>,
    slots: HashMap<u32, Entry>,
}

/// What is to be done to a process whose time is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Ask it to end.
    Terminate(Entry),
    /// End it and everything of its task.
    Kill(Entry),
}

impl Ledger {
    /// Takes in a line of the runner's. One that makes no sense comes from another version and is passed over.
    pub(super) fn read(&mut self, line: &str) {
        let _ = self.take(line);
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            "runs" => {
                let slot = words.next()?.parse().ok()?;
                let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let key = words.next()?.to_owned();
                let self_stop_after = match words.next()? {
                    "-" => None,
                    millis => Some(Duration::from_millis(millis.parse().ok()?)),
                };
                let grace = Duration::from_millis(words.next()?.parse().ok()?);
                let entry = Entry { pid, started, key, self_stop_after, grace, stopping: false, killed: false };
                self.slots.insert(slot, entry);
            }
            "stops" => self.slots.get_mut(&words.next()?.parse().ok()?)?.stopping = true,
            "gone" => drop(self.slots.remove(&words.next()?.parse().ok()?)),
            "lifeline" => {
                let at = Instant::from_boot(Duration::from_millis(words.next()?.parse().ok()?));
                self.lifeline = Some(at);
            }
            _ => return None,
        }
        Some(())
    }

    /// When something is to be done next, if nothing is heard before.
    pub(super) fn next(&self) -> Option<Instant> {
        self.slots.values().filter_map(|entry| self.due(entry)).min()
    }

    fn due(&self, entry: &Entry) -> Option<Instant> {
        let over = self.lifeline? + entry.self_stop_after?;
        match (entry.killed, entry.stopping) {
            (true, _) => None,
            // The runner had to be done with it by now.
            (false, true) => Some(over + entry.grace),
            (false, false) => Some(over + entry.grace / TERM_AFTER),
        }
    }

    /// What is to be done by now.
    pub(super) fn act(&mut self, now: Instant) -> Vec<Act> {
        let due: Vec<u32> = self
            .slots
            .iter()
            .filter(|(_, entry)| self.due(entry).is_some_and(|due| due <= now))
            .map(|(slot, _)| *slot)
            .collect();
        let mut acts = Vec::new();
        for slot in due {
            let Some(entry) = self.slots.get_mut(&slot) else { continue };
            if entry.stopping {
                entry.killed = true;
                acts.push(Act::Kill(entry.clone()));
            } else {
                entry.stopping = true;
                acts.push(Act::Terminate(entry.clone()));
            }
        }
        acts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_frozen_runners_task_is_asked_to_end_and_then_killed_when_the_runner_would_have_had_to() {
        let mut ledger = Ledger::default();
        ledger.read("runs 0 100 5 key 45000 8000");
        assert_eq!(ledger.next(), None, "without a lifeline nothing is due");
        ledger.read("lifeline 1000000");
        assert_eq!(ledger.next(), Some(at(1047)));
        assert!(ledger.act(at(1046)).is_empty());
        assert!(matches!(ledger.act(at(1047))[..], [Act::Terminate(_)]));
        assert_eq!(ledger.next(), Some(at(1053)));
        assert!(matches!(&ledger.act(at(1053))[..], [Act::Kill(entry)] if entry.pid == 100));
        assert_eq!(ledger.next(), None);
    }

    #[test]
    fn a_sign_of_life_puts_it_off_and_an_end_calls_it_off() {
        let mut ledger = Ledger::default();
        ledger.read("runs 0 100 5 key 45000 8000");
        ledger.read("lifeline 1000000");
        ledger.read("lifeline 1010000");
        assert!(ledger.act(at(1050)).is_empty());
        ledger.read("gone 0");
        assert_eq!(ledger.next(), None);
    }

    #[test]
    fn a_task_without_self_stop_is_left_alone_and_nonsense_is_passed_over() {
        let mut ledger = Ledger::default();
        ledger.read("lifeline 1");
        ledger.read("runs 0 100 5 key - 8000");
        ledger.read("runs x");
        ledger.read("a later version says this");
        assert_eq!(ledger.next(), None);
    }
}
