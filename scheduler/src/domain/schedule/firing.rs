//! A schedule that has been understood, and the one function that says when it fires next.
//!
//! Firing, preview, backfill and catch-up all ask [`Schedule::next`], [`Schedule::last`] and [`Schedule::count`]; there
//! is no second opinion on when a schedule is due.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{
    calendar::Exclusions,
    civil::Civil,
    rule::{DAWN, HORIZON, Rule, SECOND},
    spec::Misfire,
    wall::Shift,
    zone::Zone,
};
use crate::domain::time::{Timestamp, micros};

/// A rule within a window, less the dates of some calendars, and what to do with fires that were missed.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub(super) rule: Rule,
    pub(super) zone: Zone,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) exclusions: Exclusions,
    pub(super) key: String,
    pub(super) jitter: Duration,
    pub(super) misfire: Option<Misfire>,
    pub(super) misfire_after: Duration,
    pub(super) catchup_window: Duration,
    pub(super) catchup_limit: u32,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A fire.
    At(Fire),
    /// Nothing: its window is over, or its last time has passed.
    Over,
    /// Nothing before 2101, where schedules end.
    Beyond2100,
    /// Nothing, ever: no instant fits its rule, window and calendars.
    Never,
}

/// An instant at which a schedule is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fire {
    /// The nominal instant: the one the job is known by.
    pub time: Timestamp,
    /// What is odd about it.
    pub notes: Vec<Note>,
}

/// What is odd about a fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A change of the clock moved, merged or repeated it.
    Clock(Shift),
    /// Fires before it were left out.
    Excluded {
        /// The calendar that says so.
        calendar: String,
        /// The reading of the first fire left out.
        first: Civil,
        /// How many were left out.
        count: u64,
    },
}

/// A step that did not lead forward. It is a fault of ours: the schedule is to be parked with it, never run in a loop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schedule fires at {found} µs, which is not after {after} µs; report this with the schedule's text")]
pub struct NotForward {
    /// What was asked.
    pub after: i64,
    /// What was answered.
    pub found: i64,
}

impl Schedule {
    /// The first fire strictly after an instant. For a delay the instant is the end of the job before.
    ///
    /// The work is bounded by the changes of the zone's clock and the ranges of the calendars, for every rule.
    pub fn next(&self, after: Timestamp) -> Result<Next, NotForward> {
        let asked = after.0;
        // Nothing fires before the window, and a fire at its very start is inside.
        let opened = asked.max(self.start.map_or(i64::MIN, |start| start.saturating_sub(1))).clamp(DAWN, HORIZON);
        let mut notes = Vec::new();
        let mut from = opened;
        let mut step = match (&self.rule, self.start) {
            (Rule::Delay { .. }, Some(start)) if asked < start => Some((start, None)),
            _ => self.rule.next(from),
        };
        loop {
            let Some((at, shift)) = step else { return Ok(self.nothing_after(asked)) };
            if at <= from {
                return Err(NotForward { after: from, found: at });
            }
            if self.end.is_some_and(|end| at >= end) {
                return Ok(self.nothing_after(asked));
            }
            let Some(stretch) = self.exclusions.at(at.div_euclid(SECOND)) else {
                notes.extend(shift.map(Note::Clock));
                return Ok(Next::At(Fire { time: Timestamp(at), notes }));
            };
            let end = stretch.end.saturating_mul(SECOND);
            if notes.len() < EXCLUDED_NOTES_MAX {
                notes.push(Note::Excluded {
                    calendar: self.exclusions.name(stretch).to_owned(),
                    first: self.zone.civil(at.div_euclid(SECOND)),
                    count: self.rule.count(from, end.saturating_sub(1)).max(1),
                });
            }
            from = end.saturating_sub(1);
            step = match self.rule {
                // A delay that ran out on an excluded date fires when that is over.
                Rule::Delay { .. } => Some((end, None)).filter(|(at, _)| *at < HORIZON),
                _ => self.rule.next(from),
            };
        }
    }

    /// The last fire at or before an instant; `None` for a delay, which only its jobs know.
    pub fn last(&self, until: Timestamp) -> Option<Timestamp> {
        let mut until = until.0.min(self.end.map_or(HORIZON, |end| end.min(HORIZON)).saturating_sub(1));
        loop {
            let at = self.rule.last(until)?;
            if self.start.is_some_and(|start| at < start) || at < DAWN {
                return None;
            }
            match self.exclusions.at(at.div_euclid(SECOND)) {
                Some(stretch) => until = stretch.start.saturating_mul(SECOND) - 1,
                None => return Some(Timestamp(at)),
            }
        }
    }

    /// How many fires there are after one instant, up to and including another. Computed: two weeks of a fire every five
    /// seconds cost no more than two weeks of a daily one.
    pub fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        let mut after = after.0.max(self.start.map_or(i64::MIN, |start| start.saturating_sub(1))).clamp(DAWN, HORIZON);
        let until = until.0.min(self.end.map_or(HORIZON, |end| end.min(HORIZON)).saturating_sub(1));
        let mut count = 0;
        for stretch in self.exclusions.between(after.div_euclid(SECOND), until.div_euclid(SECOND)) {
            count += self.rule.count(after, stretch.start.saturating_mul(SECOND) - 1);
            after = stretch.end.saturating_mul(SECOND).saturating_sub(1);
        }
        count + self.rule.count(after, until)
    }

    /// The fire to wait for after an edit, after being enabled again, or when the clock of a wall schedule has jumped:
    /// nothing fires twice because of it, and the time in between is not made up for.
    ///
    /// A last fire that lies more than [`AHEAD_MAX`] ahead was made by a clock that was wrong: waiting for what comes after
    /// it would mean to stand still for as long. That no fire makes two jobs holds without it.
    pub fn resume(&self, now: Timestamp, last_fire: Option<Timestamp>) -> Result<Next, NotForward> {
        let credible = last_fire.filter(|fire| fire.since(now) <= AHEAD_MAX);
        self.next(credible.map_or(now, |fire| fire.max(now)))
    }

    /// The fire to wait for after the dates of a calendar changed: what it waits for already is kept unless it is
    /// excluded now, and a date that is no longer excluded counts from the change on.
    pub fn revise(
        &self,
        waiting: Option<Timestamp>,
        changed: Timestamp,
        last_fire: Option<Timestamp>,
    ) -> Result<Next, NotForward> {
        if let (Rule::Delay { period }, Some(fire)) = (&self.rule, waiting) {
            return self.next(Timestamp(fire.0.saturating_sub(*period)));
        }
        let from = waiting.map_or(changed, |fire| changed.min(Timestamp(fire.0 - 1)));
        self.next(last_fire.map_or(from, |fire| fire.max(from)))
    }

    /// The fires after one instant up to and including another: the first, the last, and how many.
    pub fn between(&self, after: Timestamp, until: Timestamp) -> Option<(Timestamp, Timestamp, u64)> {
        let count = self.count(after, until);
        let Ok(Next::At(first)) = self.next(after) else { return None };
        let last = self.last(until)?;
        (count > 0 && first.time <= last).then_some((first.time, last, count))
    }

    /// When to wake for a fire. An interval never waits longer than the fire lies after the one before it, whatever its
    /// nominal time is: when the clock is set back an hour, a fire every five seconds does not stop for that hour.
    pub fn due_at(&self, fire: Timestamp, now: Timestamp) -> Timestamp {
        let due = self.due(fire);
        let wait = match self.rule {
            Rule::Rate { .. } => self.last(Timestamp(fire.0 - 1)).map(|before| fire.since(before)),
            // The end of an excluded stretch may lie further away than the delay.
            Rule::Delay { period } if self.exclusions.is_empty() => Some(Duration::from_micros(period.unsigned_abs())),
            _ => None,
        };
        wait.map_or(due, |wait| due.min(now + wait + self.jitter_of(fire)))
    }

    /// When a fire is due: its time and the jitter that belongs to it, always the same.
    pub fn due(&self, fire: Timestamp) -> Timestamp {
        fire + self.jitter_of(fire)
    }

    /// Its zone.
    pub fn zone(&self) -> Zone {
        self.zone
    }

    /// What to do with fires that were missed.
    pub fn misfire(&self) -> Misfire {
        self.misfire.unwrap_or_default()
    }

    /// Whether its fires depend on when its jobs end.
    pub fn follows_completion(&self) -> bool {
        matches!(self.rule, Rule::Delay { .. })
    }

    fn jitter_of(&self, fire: Timestamp) -> Duration {
        if self.jitter.is_zero() {
            return Duration::ZERO;
        }
        let mut hash = Sha256::new();
        hash.update(self.key.as_bytes());
        hash.update([0]);
        hash.update(fire.0.to_be_bytes());
        let digest = hash.finalize();
        let chance = digest.iter().take(8).fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        // Scaled rather than taken modulo, so that every delay is as likely as any other.
        let spread = u128::from(micros(self.jitter) as u64);
        Duration::from_micros(((u128::from(chance) * spread) >> 64) as u64)
    }

    /// Which kind of nothing.
    fn nothing_after(&self, asked: i64) -> Next {
        let before_everything = self.start.unwrap_or(DAWN).max(DAWN).saturating_sub(1);
        if asked > before_everything {
            return match self.next(Timestamp(before_everything)) {
                Ok(Next::At(_)) if self.ends() => Next::Over,
                Ok(Next::At(_)) => Next::Beyond2100,
                Ok(nothing) => nothing,
                // The fault is there for every later question as well, and will be told then.
                Err(_) => Next::Never,
            };
        }
        let begins = match self.rule {
            Rule::Once(at) => at,
            _ => before_everything,
        };
        if begins >= HORIZON - 1 { Next::Beyond2100 } else { Next::Never }
    }

    fn ends(&self) -> bool {
        self.end.is_some() || self.rule.ends()
    }
}

/// How far ahead of the clock the last fire may lie and still count as made: more than any zone or any correction of a
/// clock explains.
pub const AHEAD_MAX: Duration = Duration::from_hours(24);
/// How many exclusions one fire tells of.
const EXCLUDED_NOTES_MAX: usize = 3;
