//! What the watchdog is told, and what of that need not be said: pure.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    time::Duration,
};

use crate::clock::Instant;

/// Something that the watchdog is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// A slot runs a process.
    Runs(u32, Entry),
    /// It is being stopped.
    Stops(u32),
    /// It is gone.
    Gone(u32),
    /// Self-stop counts from here.
    Lifeline(Instant),
}

impl Word {
    /// Whether nothing goes wrong where it comes a little later: of what is gone the watchdog only knows too much.
    pub(super) fn can_wait(&self) -> bool {
        matches!(self, Self::Gone(_))
    }
}

/// A process that carries a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: i32,
    pub(super) started: u64,
    pub(super) key: String,
    pub(super) self_stop_after: Option<Duration>,
    pub(super) grace: Duration,
}

/// What it was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The slots that run something, as it knows.
    running: HashSet<u32>,
}

impl Told {
    /// The lines that bring it up to date, in place of so many words.
    pub(super) fn put(&mut self, words: impl Iterator<Item = Word>) -> String {
        let mut lifeline = None;
        let mut slots: BTreeMap<u32, (Option<Entry>, bool, bool)> = BTreeMap::new();
        for word in words {
            match word {
                Word::Lifeline(at) => lifeline = Some(at),
                Word::Runs(slot, entry) => drop(slots.insert(slot, (Some(entry), false, false))),
                Word::Stops(slot) => slots.entry(slot).or_default().1 = true,
                Word::Gone(slot) => drop(slots.insert(slot, (None, false, true))),
            }
        }
        let mut text = String::new();
        if let Some(at) = lifeline {
            let _ = writeln!(text, "lifeline {}", at.since_boot().as_millis());
        }
        for (slot, (entry, stops, gone)) in slots {
            if let Some(Entry { pid, started, key, self_stop_after, grace }) = entry {
                let after = self_stop_after.map_or("-".to_owned(), |after| after.as_millis().to_string());
                let _ = writeln!(text, "runs {slot} {pid} {started} {key} {after} {}", grace.as_millis());
                self.running.insert(slot);
            }
            if stops {
                let _ = writeln!(text, "stops {slot}");
            }
            if gone && self.running.remove(&slot) {
                let _ = writeln!(text, "gone {slot}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(slot: u32, pid: i32) -> Word {
        let key = "key".to_owned();
        let self_stop_after = Some(Duration::from_secs(45));
        Word::Runs(slot, Entry { pid, started: 5, key, self_stop_after, grace: Duration::from_secs(8) })
    }

    #[test]
    fn what_is_over_already_needs_no_word() {
        let mut told = Told::default();
        assert_eq!(told.put([runs(0, 100), Word::Gone(0)].into_iter()), "");
        assert_eq!(told.put([runs(0, 101)].into_iter()), "runs 0 101 5 key 45000 8000\n");
        assert_eq!(told.put([Word::Gone(0), runs(0, 102), Word::Gone(0)].into_iter()), "gone 0\n");
        assert_eq!(told.put([Word::Gone(0)].into_iter()), "");
    }

    #[test]
    fn the_last_word_of_each_slot_counts() {
        let mut told = Told::default();
        let at = |seconds| Word::Lifeline(Instant::from_boot(Duration::from_secs(seconds)));
        let words = [at(1), runs(1, 100), at(2), Word::Gone(1), runs(1, 101), runs(0, 99), Word::Stops(1)];
        let said = told.put(words.into_iter());
        assert_eq!(said, "lifeline 2000\nruns 0 99 5 key 45000 8000\nruns 1 101 5 key 45000 8000\nstops 1\n");
        assert_eq!(told.put([Word::Stops(1)].into_iter()), "stops 1\n");
    }
}
