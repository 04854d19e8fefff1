//! When reports that tasks ended are enough for a turn. A turn costs much the same whatever it takes in, so while ends
//! come one upon the other a moment's wait has several of them share its statements and its commit.

use std::time::{Duration, Instant};

/// As many ends as this share a turn well enough; more would make each of them little cheaper.
const ENOUGH: usize = 16;
/// How long after the last end another is waited for.
const GAP_MAX: Duration = Duration::from_millis(2);
/// How long the first end waits at most, however fast others come.
const WAIT_MAX: Duration = Duration::from_millis(8);

/// Ends that no turn has taken in yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gathered {
    /// How many there are.
    pub ends: usize,
    /// When the first came.
    pub first: Instant,
    /// When the last came.
    pub last: Instant,
}

impl Gathered {
    /// These ends and more of them that came now.
    #[must_use]
    pub fn and(before: Option<Self>, ends: usize, now: Instant) -> Self {
        match before {
            Some(before) => Self { ends: before.ends + ends, last: now, ..before },
            None => Self { ends, first: now, last: now },
        }
    }

    /// Until when these ends wait for others; `None` when they are to be taken in at once.
    ///
    /// They wait only where others are likely to come: the last turn took in several, and more of what is given out runs
    /// than has ended. So a task that ends alone, as in a chain, waits for nobody.
    pub fn wait_until(self, ends_before: usize, given_out: usize) -> Option<Instant> {
        let Self { ends, first, last } = self;
        let others_may_come = ends_before > 1 && ends < ENOUGH && ends * 2 < given_out;
        others_may_come.then(|| (last + GAP_MAX).min(first + WAIT_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ends: usize, last: Duration) -> (Instant, Gathered) {
        let first = Instant::now();
        (first, Gathered { ends, first, last: first + last })
    }

    #[test]
    fn ends_that_come_one_upon_the_other_wait_for_the_next_but_not_for_long() {
        let (first, one) = after(1, Duration::ZERO);
        assert_eq!(one.wait_until(4, 16), Some(first + GAP_MAX));
        let (first, some) = after(7, Duration::from_millis(5));
        assert_eq!(some.wait_until(4, 16), Some(first + Duration::from_millis(7)));
        let (first, late) = after(7, Duration::from_millis(7));
        assert_eq!(late.wait_until(4, 16), Some(first + WAIT_MAX));
    }

    #[test]
    fn an_end_waits_for_nobody_where_ends_come_alone_or_most_of_them_are_there() {
        let (_, one) = after(1, Duration::ZERO);
        assert_eq!(one.wait_until(1, 16), None, "as in a chain beside other tasks");
        assert_eq!(one.wait_until(4, 2), None, "the other half can run meanwhile");
        let (_, half) = after(8, Duration::ZERO);
        assert_eq!(half.wait_until(4, 16), None);
        let (_, many) = after(ENOUGH, Duration::ZERO);
        assert_eq!(many.wait_until(4, 10_000), None);
    }

    #[test]
    fn what_comes_is_counted_from_the_first() {
        let start = Instant::now();
        let first = Gathered::and(None, 2, start);
        let now = start + Duration::from_millis(1);
        assert_eq!(Gathered::and(Some(first), 3, now), Gathered { ends: 5, first: start, last: now });
    }
}
