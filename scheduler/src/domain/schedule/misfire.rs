//! Which of the fires found due are run, and which are written down as missed.
//!
//! Fires are due together when nothing could fire them in time. How many there are is computed, never walked: after two
//! weeks without a scheduler a fire every five seconds is decided as fast as a daily one.

use std::time::Duration;

use super::{
    firing::{Fire, Next, NotForward, Schedule},
    spec::Misfire,
};
use crate::domain::time::{Timestamp, micros};

/// The fire that a schedule waits for, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Its nominal instant.
    pub time: Timestamp,
    /// When to decide it, by the clock of the database.
    pub due_at: Timestamp,
}

/// Whether the jobs of missed fires may run beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// They may: overlap is `allow`.
    Together,
    /// They may not: each is decided when the job of the one before has ended.
    OneByOne {
        /// When the newest job of this schedule was made. A fire that was due by then belongs to the same catch-up.
        last_made: Option<Timestamp>,
    },
}

/// What becomes of the fires of one schedule that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Those that run, oldest first.
    pub run: Vec<Due>,
    /// Those that do not, oldest first: one entry a contiguous run with one reason.
    pub missed: Vec<Missed>,
    /// What the schedule waits for after this. It may be due already, when there is more to decide than one turn takes
    /// or when missed fires run one after another.
    pub next: Next,
    /// When to wake for it, if there is one.
    pub due_at: Option<Timestamp>,
}

/// A fire that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its nominal instant.
    pub time: Timestamp,
    /// How long after it was due it is decided.
    pub late: Duration,
    /// It is one of several that `run_all` makes up for: it waits for the job before it instead of being skipped.
    pub catch_up: bool,
}

/// A contiguous run of fires that made no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
}

/// Why a fire made no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The policy is `skip`.
    PolicySkip,
    /// The policy is `run_once`, and a newer one was due.
    Superseded,
    /// It is older than `catchup_window`.
    OutsideWindow,
    /// More than `catchup_limit` newer ones were due.
    OverLimit,
}

impl Reason {
    /// In words that stay the same, for rows and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PolicySkip => "missed: misfire is skip",
            Self::Superseded => "missed: a newer fire was due",
            Self::OutsideWindow => "missed: older than catchup_window",
            Self::OverLimit => "missed: more than catchup_limit were due",
        }
    }
}

/// How many fires within the jitter of now are looked at one by one; the rest is left for the next turn.
const JITTERED_MAX: usize = 64;

impl Schedule {
    /// Decides the fires that are due at `now`. Nothing is when the stored `due_at` has not come.
    ///
    /// At [`Pace::OneByOne`] `run_all` lets the oldest go and leaves the schedule waiting for the one after it.
    pub fn decide(&self, waiting: Waiting, now: Timestamp, pace: Pace) -> Result<Decision, NotForward> {
        let first = waiting.time;
        if waiting.due_at > now {
            let next = Next::At(Fire { time: first, notes: Vec::new() });
            return Ok(Decision { run: Vec::new(), missed: Vec::new(), next, due_at: Some(waiting.due_at) });
        }
        let newest = self.newest_due(first, now)?;
        let late = now.since(self.due(newest));
        let in_time = late <= self.misfire_after;
        let reachable = |fire: Timestamp| now.since(self.due(fire)) <= self.catchup_window;
        let mut due = Batch { schedule: self, first, missed: Vec::new() };
        let run = match self.misfire() {
            Misfire::Skip if !in_time => {
                due.miss_through(newest, Reason::PolicySkip);
                Vec::new()
            }
            Misfire::Skip => {
                due.miss_before(newest, Reason::PolicySkip);
                vec![newest]
            }
            Misfire::RunOnce if in_time || reachable(newest) => {
                due.miss_before(newest, Reason::Superseded);
                vec![newest]
            }
            Misfire::RunAll if in_time || reachable(newest) => self.newest_reachable(&mut due, newest, &reachable),
            Misfire::RunOnce | Misfire::RunAll => {
                due.miss_through(newest, Reason::OutsideWindow);
                Vec::new()
            }
        };
        let same_batch = |time: Timestamp| match pace {
            Pace::OneByOne { last_made: Some(made) } => self.due(time) <= made,
            _ => false,
        };
        let made_up_for = |time: Timestamp| time != newest || !in_time || same_batch(time);
        let due_fire = |time: Timestamp| Due {
            time,
            late: now.since(self.due(time)),
            catch_up: self.misfire() == Misfire::RunAll && made_up_for(time),
        };
        let missed = due.missed;
        if pace != Pace::Together && run.len() > 1 {
            let next = Next::At(Fire { time: run[1], notes: Vec::new() });
            return Ok(Decision { run: vec![due_fire(run[0])], missed, next, due_at: Some(self.due(run[1])) });
        }
        let next = self.next(newest)?;
        let due_at = match &next {
            Next::At(fire) => Some(self.due_at(fire.time, now)),
            _ => None,
        };
        Ok(Decision { run: run.into_iter().map(due_fire).collect(), missed, next, due_at })
    }

    /// The newest fire that is due, `first` being so already.
    fn newest_due(&self, first: Timestamp, now: Timestamp) -> Result<Timestamp, NotForward> {
        // Whatever its jitter, a fire so long ago is due, and so are all before it.
        let surely = self.last(Timestamp(now.0.saturating_sub(micros(self.jitter))));
        let mut newest = surely.map_or(first, |fire| fire.max(first));
        if !self.jitter.is_zero() {
            for _ in 0..JITTERED_MAX {
                match self.next(newest)? {
                    Next::At(fire) if !self.follows_completion() && self.due(fire.time) <= now => newest = fire.time,
                    _ => break,
                }
            }
        }
        Ok(newest)
    }

    /// The newest fires that the window and the limit allow, oldest first; the others are missed.
    fn newest_reachable(
        &self,
        due: &mut Batch<'_>,
        newest: Timestamp,
        reachable: &dyn Fn(Timestamp) -> bool,
    ) -> Vec<Timestamp> {
        let mut run = vec![newest];
        let mut oldest = newest;
        let mut beyond = Reason::OverLimit;
        while run.len() < self.catchup_limit as usize {
            let Some(before) = self.last(Timestamp(oldest.0 - 1)).filter(|fire| *fire >= due.first) else { break };
            if !reachable(before) {
                beyond = Reason::OutsideWindow;
                break;
            }
            run.push(before);
            oldest = before;
        }
        due.miss_before(oldest, beyond);
        run.reverse();
        run
    }
}

/// The due fires from the first on, as they are written down.
struct Batch<'a> {
    schedule: &'a Schedule,
    first: Timestamp,
    missed: Vec<Missed>,
}

impl Batch<'_> {
    fn miss_before(&mut self, fire: Timestamp, reason: Reason) {
        if let Some(last) = self.schedule.last(Timestamp(fire.0 - 1)).filter(|last| *last >= self.first) {
            self.miss_through(last, reason);
        }
    }

    fn miss_through(&mut self, last: Timestamp, reason: Reason) {
        // The first counts even if an edit since has taken its place away.
        let later = self.schedule.count(self.first, last);
        self.missed.push(Missed { first: self.first, last, count: later + 1, reason });
    }
}
