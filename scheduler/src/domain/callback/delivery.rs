//! How hard a callback is tried: which answers are an arrival, which are tried again, and when.

use std::time::Duration;

/// Tries of a callback before it is given up.
pub const TRIES_MAX: u32 = 10;
/// The wait after the first try that failed.
pub const BACKOFF_BASE: Duration = Duration::from_secs(2);
/// What the wait grows by from try to try.
pub const BACKOFF_FACTOR: u32 = 3;
/// The longest wait. With ten tries a receiver may be away for two and a half hours.
pub const BACKOFF_MAX: Duration = Duration::from_hours(1);
/// How far a wait is spread to either side, in percent: receivers that were away are not met by everybody at once.
pub const JITTER_PERCENT: u32 = 20;

/// When to try again, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first try that failed.
    pub base: Duration,
    /// Tries in all.
    pub tries: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: BACKOFF_BASE, tries: TRIES_MAX }
    }
}

impl Backoff {
    /// The wait after so many tries, or `None` when that were enough. `chance` is from 0 to 1; a receiver that asked for
    /// a longer wait gets it, up to [`BACKOFF_MAX`].
    pub fn wait(&self, tries: u32, chance: f64, asked: Option<Duration>) -> Option<Duration> {
        if tries >= self.tries {
            return None;
        }
        let growth = BACKOFF_FACTOR.checked_pow(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        let wait = self.base.saturating_mul(growth).min(BACKOFF_MAX);
        let spread = f64::from(JITTER_PERCENT) / 100.0;
        let wait = wait.mul_f64(1.0 + spread * (2.0 * chance.clamp(0.0, 1.0) - 1.0));
        Some(wait.max(asked.unwrap_or_default().min(BACKOFF_MAX)))
    }
}

/// What a try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It arrived.
    Delivered,
    /// It may arrive another time.
    Retry,
    /// It will not arrive however often it is tried.
    GiveUp,
}

/// What a web server's status says.
pub fn of_status(status: u16) -> Verdict {
    match status {
        200..=299 => Verdict::Delivered,
        // It was too slow, too early, or too much at once; or the fault is the server's.
        408 | 425 | 429 | 500..=599 => Verdict::Retry,
        // Redirects are not followed, and what is refused for what it is will be refused again.
        _ => Verdict::GiveUp,
    }
}

/// What a mail server's reply says.
pub fn of_reply(code: u16) -> Verdict {
    match code {
        200..=399 => Verdict::Delivered,
        500..=599 => Verdict::GiveUp,
        _ => Verdict::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_cap_and_end_with_the_last_try() {
        let backoff = Backoff::default();
        let waits: Vec<u64> =
            (1..).map_while(|tries| backoff.wait(tries, 0.5, None)).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [2, 6, 18, 54, 162, 486, 1458, 3600, 3600]);
    }

    #[test]
    fn chance_spreads_a_wait_by_a_fifth_to_either_side() {
        let backoff = Backoff { base: Duration::from_secs(10), tries: 2 };
        let wait = |chance| backoff.wait(1, chance, None).unwrap();
        assert_eq!((wait(0.0), wait(1.0)), (Duration::from_secs(8), Duration::from_secs(12)));
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_wait_within_the_cap() {
        let backoff = Backoff::default();
        let wait = |asked| backoff.wait(1, 0.5, Some(Duration::from_secs(asked))).unwrap().as_secs();
        assert_eq!((wait(1), wait(60), wait(1_000_000)), (2, 60, 3600));
        assert_eq!(backoff.wait(TRIES_MAX, 0.5, Some(Duration::from_secs(1))), None);
    }

    #[test]
    fn what_a_status_says() {
        use Verdict::{Delivered, GiveUp, Retry};
        let table = [
            (200, Delivered),
            (202, Delivered),
            (204, Delivered),
            (301, GiveUp),
            (307, GiveUp),
            (400, GiveUp),
            (401, GiveUp),
            (404, GiveUp),
            (408, Retry),
            (409, GiveUp),
            (410, GiveUp),
            (425, Retry),
            (429, Retry),
            (500, Retry),
            (502, Retry),
            (503, Retry),
            (504, Retry),
        ];
        for (status, verdict) in table {
            assert_eq!(of_status(status), verdict, "{status}");
        }
    }

    #[test]
    fn what_a_reply_says() {
        for (code, verdict) in
            [(250, Verdict::Delivered), (421, Verdict::Retry), (450, Verdict::Retry), (550, Verdict::GiveUp)]
        {
            assert_eq!(of_reply(code), verdict, "{code}");
        }
    }
}
