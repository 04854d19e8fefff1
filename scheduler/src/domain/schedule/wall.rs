//! From readings of a wall clock to instants: the rule for clock changes, in the one place that knows it.
//!
//! *Elapsed* schedules (their minute or hour covers its whole range) fire at each existing reading, in both passes of a
//! repeated hour, never for a reading that does not exist. *Fixed* ones fire once for each reading: those that fall
//! into one gap become one fire at the first instant after it, merged with a fire due then, and of an overlap the
//! first pass counts.

use super::{
    civil::Civil,
    pattern::Pattern,
    zone::{Placed, Spell, Zone},
};

/// How a schedule takes a change of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It follows elapsed time.
    Elapsed,
    /// It follows the clock on the wall.
    Fixed,
}

/// What is odd about a fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// Its reading does not exist that day; it fires when the clock has gone forward.
    Moved {
        /// The first reading that does not exist.
        from: Civil,
        /// Whether other fires became one with it.
        merged: bool,
    },
    /// Its reading shows twice; it fires in the first pass only.
    FirstPass,
    /// Its reading shows for the second time, and it fires again.
    SecondPass,
    /// Readings before it do not exist that day and did not fire.
    AfterGap {
        /// The first of them.
        from: Civil,
    },
}

/// Readings in a zone.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wall {
    pub(super) pattern: Pattern,
    pub(super) zone: Zone,
    pub(super) manner: Manner,
}

impl Wall {
    /// The first fire after an instant, and what is odd about it. Seconds since 1970.
    pub(super) fn next(&self, after: i64) -> Option<(i64, Option<Shift>)> {
        match self.manner {
            Manner::Elapsed => self.next_elapsed(after),
            Manner::Fixed => self.next_fixed(after),
        }
    }

    /// The last fire at or before an instant.
    pub(super) fn last(&self, until: i64) -> Option<i64> {
        match self.manner {
            Manner::Elapsed => self.last_elapsed(until),
            Manner::Fixed => {
                let reading = self.pattern.at_or_before(Civil(self.settled(until)))?;
                Some(earliest(self.zone.place(reading)))
            }
        }
    }

    /// How many fires there are after one instant, up to and including another.
    pub(super) fn count(&self, after: i64, until: i64) -> u64 {
        if after >= until {
            return 0;
        }
        let spells = self.zone.spells();
        let (first, last) = (self.zone.index_at(after), self.zone.index_at(until));
        match self.manner {
            Manner::Elapsed => spells[first..=last]
                .iter()
                .map(|spell| {
                    let (from, to) = (spell.start.max(after + 1), spell.end.min(until + 1));
                    self.pattern.count(Civil(from + spell.offset), Civil(to + spell.offset))
                })
                .sum(),
            Manner::Fixed => {
                let readings = self.pattern.count(Civil(self.settled(after) + 1), Civil(self.settled(until) + 1));
                // Those of a gap, and one due at its end, are one fire.
                let merged = |pair: &[Spell]| {
                    let (from, to) = gap(pair);
                    if from < to { self.pattern.count(Civil(from), Civil(to + 1)).saturating_sub(1) } else { 0 }
                };
                readings - spells[first..=last].windows(2).map(merged).sum::<u64>()
            }
        }
    }

    fn next_elapsed(&self, after: i64) -> Option<(i64, Option<Shift>)> {
        let spells = self.zone.spells();
        let mut index = self.zone.index_at(after);
        let mut from = after + 1;
        let mut shift = None;
        loop {
            let spell = spells[index];
            if let Some(reading) = self.pattern.at_or_after(Civil(from + spell.offset)) {
                let at = reading.0 - spell.offset;
                if at < spell.end {
                    return Some((at, shift.or_else(|| self.second_pass(reading, index))));
                }
            }
            let later = spells.get(index + 1)?;
            let (from_reading, to_reading) = gap(&[spell, *later]);
            // What the gap swallowed is told once, on the fire that follows it.
            shift = self
                .pattern
                .at_or_after(Civil(from_reading))
                .filter(|reading| reading.0 < to_reading)
                .map(|from| Shift::AfterGap { from });
            (index, from) = (index + 1, later.start);
        }
    }

    fn last_elapsed(&self, until: i64) -> Option<i64> {
        let spells = self.zone.spells();
        let mut index = self.zone.index_at(until);
        let mut until = until;
        loop {
            let spell = spells[index];
            if let Some(reading) = self.pattern.at_or_before(Civil(until.saturating_add(spell.offset))) {
                let at = reading.0 - spell.offset;
                if at >= spell.start {
                    return Some(at);
                }
            }
            index = index.checked_sub(1)?;
            until = spell.start - 1;
        }
    }

    fn next_fixed(&self, after: i64) -> Option<(i64, Option<Shift>)> {
        let reading = self.pattern.at_or_after(Civil(self.settled(after) + 1))?;
        Some(match self.zone.place(reading) {
            Placed::Once(at) => (at, None),
            Placed::Twice { first, .. } => (first, Some(Shift::FirstPass)),
            Placed::Gap(at) => {
                let end = self.zone.civil(at);
                let merged = self.pattern.at_or_after(Civil(reading.0 + 1)).is_some_and(|next| next <= end);
                (at, Some(Shift::Moved { from: reading, merged }))
            }
        })
    }

    /// The last reading whose fire, for a fixed schedule, lies at or before an instant: what the clock shows, or in the
    /// second pass of an overlap the end of the first.
    fn settled(&self, instant: i64) -> i64 {
        let spells = self.zone.spells();
        let index = self.zone.index_at(instant);
        let shown = instant + spells[index].offset;
        match index.checked_sub(1) {
            Some(before) => shown.max(spells[index].start + spells[before].offset - 1),
            None => shown,
        }
    }

    fn second_pass(&self, reading: Civil, index: usize) -> Option<Shift> {
        let spells = self.zone.spells();
        let before = spells[index.checked_sub(1)?];
        (reading.0 < before.end + before.offset).then_some(Shift::SecondPass)
    }
}

/// The readings between two spells, from one (included) to another (not included); none when the clock goes back.
fn gap(pair: &[Spell]) -> (i64, i64) {
    (pair[0].end + pair[0].offset, pair[1].start + pair[1].offset)
}

fn earliest(placed: Placed) -> i64 {
    match placed {
        Placed::Once(at) | Placed::Gap(at) | Placed::Twice { first: at, .. } => at,
    }
}
