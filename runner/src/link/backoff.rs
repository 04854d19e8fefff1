//! When to dial which endpoint (rule 11): another one at once, then after a time that nobody shares.

use std::time::Duration;

/// Doublings of the base before it stays (rule 11).
const DOUBLINGS_MAX: u32 = 3;

/// Which endpoint is next, and after what pause.
#[derive(Debug)]
pub(crate) struct Backoff {
    base: Duration,
    max: Duration,
    /// Endpoints tried since the last session, or since the last pause.
    tried: usize,
    rounds: u32,
    current: usize,
}

impl Backoff {
    pub(crate) fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, tried: 0, rounds: 0, current: 0 }
    }

    /// The scheduler knows better.
    pub(crate) fn set(&mut self, base: Duration, max: Duration) {
        (self.base, self.max) = (base, max);
    }

    /// Which of the endpoints to dial now.
    pub(crate) fn current(&self, endpoints: usize) -> usize {
        self.current % endpoints
    }

    /// A session stood: whatever follows begins anew.
    pub(crate) fn succeeded(&mut self) {
        (self.tried, self.rounds) = (0, 0);
    }

    /// This endpoint is not to be had, or not any more: goes on to the next and says how long to wait before. `chance`
    /// is uniform in 0 to 1.
    pub(crate) fn next(&mut self, endpoints: usize, chance: f64) -> Duration {
        self.current = (self.current + 1) % endpoints;
        self.tried += 1;
        if self.tried < endpoints {
            return Duration::ZERO;
        }
        self.tried = 0;
        let window = (self.base * 2_u32.pow(self.rounds)).min(self.max);
        self.rounds = (self.rounds + 1).min(DOUBLINGS_MAX);
        window.mul_f64(chance.clamp(0.0, 1.0))
    }
}

/// A number uniform in 0 to 1.
pub(crate) fn chance() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(1);

    #[test]
    fn every_endpoint_is_tried_before_any_pause() {
        let mut backoff = Backoff::new(BASE, BASE * 8);
        let first = backoff.current(3);
        assert_eq!(backoff.next(3, 1.0), Duration::ZERO);
        assert_ne!(backoff.current(3), first);
        assert_eq!(backoff.next(3, 1.0), Duration::ZERO);
        assert_eq!(backoff.next(3, 1.0), BASE);
        assert_eq!(backoff.current(3), first);
    }

    #[test]
    fn the_window_doubles_three_times_and_then_stays_for_ever() {
        let mut backoff = Backoff::new(BASE, Duration::from_secs(100));
        let windows: Vec<_> = (0..6).map(|_| backoff.next(1, 1.0).as_secs()).collect();
        assert_eq!(windows, [1, 2, 4, 8, 8, 8]);
        backoff.succeeded();
        assert_eq!(backoff.next(1, 0.5), BASE / 2);
    }

    #[test]
    fn the_cap_holds_whatever_the_base() {
        let mut backoff = Backoff::new(BASE, Duration::from_secs(3));
        assert!((0..9).all(|_| backoff.next(1, 1.0) <= Duration::from_secs(3)));
    }
}
