//! Which readings of a wall clock fire, whatever made them: cron, words or an interval of the calendar.

use super::{civil::Civil, cron::Grid, cycle::Cycle};

/// A set of readings. The parts have no reading in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Grid(Grid),
    Cycle(Cycle),
}

impl Pattern {
    /// The readings of any of these, which must not overlap.
    pub(super) fn grids(grids: impl IntoIterator<Item = Grid>) -> Self {
        Self { parts: grids.into_iter().map(Part::Grid).collect() }
    }

    /// The readings of an interval of the calendar.
    pub(super) fn cycle(cycle: Cycle) -> Self {
        Self { parts: vec![Part::Cycle(cycle)] }
    }

    /// The first reading from this one on.
    pub(super) fn at_or_after(&self, from: Civil) -> Option<Civil> {
        let from = from.max(Civil::MIN);
        let step = |part: &Part| match part {
            Part::Grid(grid) => grid.at_or_after(from),
            Part::Cycle(cycle) => cycle.at_or_after(from),
        };
        self.parts.iter().filter_map(step).min()
    }

    /// The last reading up to this one.
    pub(super) fn at_or_before(&self, until: Civil) -> Option<Civil> {
        let until = until.min(Civil(Civil::END.0 - 1));
        let step = |part: &Part| match part {
            Part::Grid(grid) => grid.at_or_before(until),
            Part::Cycle(cycle) => cycle.at_or_before(until),
        };
        self.parts.iter().filter_map(step).max()
    }

    /// How many readings there are from one (included) to another (not included), without walking them.
    pub(super) fn count(&self, from: Civil, to: Civil) -> u64 {
        let (from, to) = (from.max(Civil::MIN), to.min(Civil::END));
        let count = |part: &Part| match part {
            Part::Grid(grid) => grid.count(from, to),
            Part::Cycle(cycle) => cycle.count(from, to),
        };
        self.parts.iter().map(count).sum()
    }
}
