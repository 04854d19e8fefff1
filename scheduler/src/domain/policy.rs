//! What follows a failed attempt: another one, how soon and where, or none.
//!
//! The policy is the task's own; what it has used up so far is in the task's row, so that it holds across restarts and
//! whichever scheduler decides. Chance is an argument.

use std::time::Duration;

use super::definition::{OnFailure, Retry, limits::SPAN_MAX};

/// How many attempts a task may have in all, when each runner gets its own: a fleet whose runners come and go must not
/// keep a task for ever.
pub const ATTEMPTS_TOTAL_MAX: u32 = 1_000;

/// What follows failed attempts of a task.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    /// How often it may be tried; `None` means once.
    pub retry: Option<&'a Retry>,
    /// What a failure does.
    pub on_failure: OnFailure,
}

/// What has been used up of a policy, the attempt that failed included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Attempts in all.
    pub attempts: u32,
    /// Attempts on the runner that had the last one, since it got the task.
    pub here: u32,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another, on any runner that suits, after this time.
    Again(Duration),
    /// Another on the same runner after this time: its turn is not over.
    Stay(Duration),
    /// Another at once on a runner that did not have it yet; this one is given up.
    Elsewhere,
    /// None.
    Nothing(Why),
}

/// Why no attempt follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// All are used up.
    UsedUp,
    /// It ended with an exit code of `no_retry_exit_codes`.
    ExitCode,
}

impl Policy<'_> {
    /// One attempt, and nothing after it.
    pub const NOTHING: Self = Self { retry: None, on_failure: OnFailure::Fail };

    /// What follows an attempt that failed with this exit code, if it had one, or was lost. `chance` is from 0 to 1.
    pub fn next(&self, used: Used, exit_code: Option<i32>, chance: f64) -> Next {
        let once = Retry::times(1, Duration::ZERO);
        let retry = self.retry.unwrap_or(&once);
        let refused = exit_code.is_some_and(|code| retry.no_retry_exit_codes.contains(&code));
        match self.on_failure {
            // `retry` stands aside, what it says of exit codes included.
            OnFailure::Transfer if used.attempts < ATTEMPTS_TOTAL_MAX => Next::Elsewhere,
            _ if refused => Next::Nothing(Why::ExitCode),
            OnFailure::RetryThenTransfer if used.attempts < ATTEMPTS_TOTAL_MAX => {
                if used.here < retry.max_attempts {
                    Next::Stay(delay(retry, used.here, chance))
                } else {
                    Next::Elsewhere
                }
            }
            OnFailure::Fail | OnFailure::Stop | OnFailure::Ignore if used.attempts < retry.max_attempts => {
                Next::Again(delay(retry, used.attempts, chance))
            }
            _ => Next::Nothing(Why::UsedUp),
        }
    }

    /// Whether an attempt can follow another without anybody asking for it.
    pub fn tries_again(&self) -> bool {
        self.on_failure.transfers() || self.retry.is_some_and(|retry| retry.max_attempts > 1)
    }

    /// How many attempts it allows in all; `None` when that depends on how many runners there are.
    pub fn attempts(&self) -> Option<u32> {
        (!self.on_failure.transfers()).then(|| self.retry.map_or(1, |retry| retry.max_attempts))
    }
}

/// How long to wait after so many failed attempts: `delay × factor^(failed - 1)`, at most `max_delay`, and by chance up to
/// `jitter_ratio` of that shorter or longer. A task that many jobs share does not come back in one wave.
pub fn delay(retry: &Retry, failed: u32, chance: f64) -> Duration {
    let most = retry.max_delay.unwrap_or(SPAN_MAX).as_secs_f64();
    let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
    let plain = (retry.delay.as_secs_f64() * retry.factor.powi(exponent)).min(most);
    let spread = 1.0 + retry.jitter_ratio * (2.0 * chance - 1.0);
    // What is no number, as infinity times nothing is none, is a wait of nothing.
    Duration::try_from_secs_f64((plain * spread).max(0.0)).unwrap_or_default().min(SPAN_MAX * 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn retry(max_attempts: u32) -> Retry {
        Retry { no_retry_exit_codes: vec![2], ..Retry::times(max_attempts, SECOND * 30) }
    }

    fn used(attempts: u32, here: u32) -> Used {
        Used { attempts, here }
    }

    #[test]
    fn each_wait_is_longer_than_the_one_before_up_to_its_bound() {
        let retry = Retry { factor: 2.0, max_delay: Some(SECOND * 100), ..Retry::times(9, SECOND * 30) };
        let waits: Vec<u64> = (1..=4).map(|failed| delay(&retry, failed, 0.5).as_secs()).collect();
        assert_eq!(waits, [30, 60, 100, 100]);
        assert_eq!(delay(&retry, u32::MAX, 0.5), SECOND * 100);
    }

    #[test]
    fn chance_makes_a_wait_shorter_or_longer_by_the_share_it_was_given() {
        let retry = Retry { jitter_ratio: 0.2, ..Retry::times(2, SECOND * 30) };
        assert_eq!(delay(&retry, 1, 0.0), SECOND * 24);
        assert_eq!(delay(&retry, 1, 0.5), SECOND * 30);
        assert_eq!(delay(&retry, 1, 1.0), SECOND * 36);
    }

    #[test]
    fn a_wait_of_nothing_stays_one_whatever_its_factor() {
        let retry = Retry { factor: 100.0, jitter_ratio: 1.0, ..Retry::times(100, Duration::ZERO) };
        assert_eq!(delay(&retry, 1_000_000, 1.0), Duration::ZERO);
    }

    #[test]
    fn a_code_that_says_it_is_of_no_use_ends_the_tries() {
        let three = retry(3);
        let policy = Policy { retry: Some(&three), on_failure: OnFailure::Fail };
        assert_eq!(policy.next(used(1, 1), Some(2), 0.5), Next::Nothing(Why::ExitCode));
        assert_eq!(policy.next(used(1, 1), Some(3), 0.5), Next::Again(SECOND * 30));
        assert_eq!(policy.next(used(1, 1), None, 0.5), Next::Again(SECOND * 30));
    }

    #[test]
    fn the_turn_of_a_runner_is_the_whole_of_retry() {
        let two = retry(2);
        let policy = Policy { retry: Some(&two), on_failure: OnFailure::RetryThenTransfer };
        assert_eq!(policy.next(used(1, 1), Some(1), 0.5), Next::Stay(SECOND * 30));
        assert_eq!(policy.next(used(2, 2), Some(1), 0.5), Next::Elsewhere);
        // The next runner begins anew.
        assert_eq!(policy.next(used(3, 1), Some(1), 0.5), Next::Stay(SECOND * 30));
    }

    proptest! {
        #[test]
        fn whatever_fails_how_often_an_end_comes(
            max_attempts in 1..=100_u32, policy in 0..OnFailure::ALL.len(), codes in proptest::collection::vec(0..4, 0..3)
        ) {
            let retry = Retry { no_retry_exit_codes: codes, ..Retry::times(max_attempts, SECOND) };
            let policy = Policy { retry: Some(&retry), on_failure: OnFailure::ALL[policy] };
            let (mut attempts, mut here) = (0, 0);
            loop {
                (attempts, here) = (attempts + 1, here + 1);
                match policy.next(used(attempts, here), Some(1), 0.5) {
                    Next::Nothing(_) => break,
                    Next::Elsewhere => here = 0,
                    Next::Again(_) | Next::Stay(_) => {}
                }
            }
            prop_assert!(attempts <= ATTEMPTS_TOTAL_MAX);
            prop_assert!(policy.attempts().is_none_or(|most| attempts <= most));
        }

        #[test]
        fn a_wait_stays_within_its_bounds(
            delay_ms in 0..1_000_000_u64, factor in 1.0..100.0_f64, most_s in 0..100_000_u64, jitter in 0.0..=1.0_f64,
            failed in 1..=100_u32, chance in 0.0..=1.0_f64,
        ) {
            let most = SECOND * u32::try_from(most_s).expect("small");
            let retry = Retry {
                factor, max_delay: Some(most), jitter_ratio: jitter, ..Retry::times(100, Duration::from_millis(delay_ms))
            };
            let wait = delay(&retry, failed, chance);
            prop_assert!(wait <= most.mul_f64(1.0 + jitter) + Duration::from_millis(1), "{wait:?}");
        }
    }
}
