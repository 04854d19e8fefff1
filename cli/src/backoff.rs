//! How long to wait before dialling again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
/// Watching goes on within this time of a scheduler's return.
const MAX: Duration = Duration::from_secs(2);

/// Waits that double up to a cap. One person's terminal needs no jitter.
#[derive(Debug, Clone)]
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The next wait.
    pub fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(MAX);
        wait
    }

    /// All is well again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_start_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..8).map(|_| backoff.next()).collect();
        assert!(waits.is_sorted());
        assert_eq!((waits[0], waits[7]), (FIRST, MAX));
        backoff.reset();
        assert_eq!(backoff.next(), FIRST);
    }
}
