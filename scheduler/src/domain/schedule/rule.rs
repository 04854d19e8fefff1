//! A rule that has been understood: its fires one by one, without window and calendars.

use super::{
    civil::Civil,
    cron::Expression,
    text,
    wall::{Shift, Wall},
};
/// Microseconds of a second.
pub(super) const SECOND: i64 = 1_000_000;

/// What fires.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rule {
    /// Readings of a wall clock.
    Wall { wall: Wall, source: Source },
    /// Every so many microseconds from an instant.
    Rate { period: i64, anchor: i64 },
    /// So many microseconds after the job before has ended.
    Delay { period: i64 },
    /// At one instant.
    Once(i64),
}

/// What readings were made from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    Cron(Expression),
    Text(text::Rule),
}

/// The first instant at which nothing fires any more, in microseconds: the end of 2100 has passed in every zone.
pub(super) const HORIZON: i64 = (Civil::END.0 + super::civil::DAY) * SECOND;
/// No fire is earlier, in any zone.
pub(super) const DAWN: i64 = -super::civil::DAY * SECOND;

impl Rule {
    /// The first fire after an instant, in microseconds. A delay counts from that instant.
    pub(super) fn next(&self, after: i64) -> Option<(i64, Option<Shift>)> {
        let (at, shift) = match self {
            Self::Wall { wall, .. } => {
                let (at, shift) = wall.next(after.div_euclid(SECOND))?;
                (at * SECOND, shift)
            }
            Self::Rate { period, anchor } => {
                let at = if after < *anchor { *anchor } else { after + period - (after - anchor) % period };
                (at, None)
            }
            Self::Delay { period } => (after.saturating_add(*period), None),
            Self::Once(at) => (Some(*at).filter(|at| *at > after)?, None),
        };
        (at < HORIZON).then_some((at, shift))
    }

    /// The last fire at or before an instant. A delay has none: it depends on jobs.
    pub(super) fn last(&self, until: i64) -> Option<i64> {
        match self {
            Self::Wall { wall, .. } => wall.last(until.div_euclid(SECOND)).map(|at| at * SECOND),
            Self::Rate { period, anchor } => (until >= *anchor).then(|| until - (until - anchor) % period),
            Self::Delay { .. } => None,
            Self::Once(at) => Some(*at).filter(|at| *at <= until),
        }
    }

    /// How many fires there are after one instant, up to and including another; computed, never walked.
    pub(super) fn count(&self, after: i64, until: i64) -> u64 {
        if after >= until {
            return 0;
        }
        match self {
            Self::Wall { wall, .. } => wall.count(after.div_euclid(SECOND), until.div_euclid(SECOND)),
            Self::Rate { period, anchor } => {
                let up_to = |instant: i64| if instant < *anchor { 0 } else { (instant - anchor) / period + 1 };
                (up_to(until) - up_to(after)) as u64
            }
            Self::Delay { .. } => 0,
            Self::Once(at) => u64::from((after + 1..=until).contains(at)),
        }
    }

    /// Whether it ends by itself, before the horizon.
    pub(super) fn ends(&self) -> bool {
        match self {
            Self::Wall { source: Source::Cron(expression), .. } => expression.has_years(),
            Self::Once(_) => true,
            _ => false,
        }
    }
}
