//! What follows a failed attempt: another one, how soon and where, or none.
//!
//! The policy is the task's own; what it has used up so far is in the task's row, so that it holds across restarts and
//! whichever scheduler decides. Chance is an argument.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::definition::{JobConfig, OnFailure, Overlap, Retry, TaskConfig, WhenCutOff, limits::SPAN_MAX};

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
    /// Whether a runner is there that did not have it yet.
    pub others_left: bool,
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
    /// Every runner that may take it had its turn.
    NoneLeft,
}

/// The policy of a task with its defaults filled in.
pub fn of(task: &TaskConfig) -> Policy<'_> {
    Policy { retry: task.retry.as_ref(), on_failure: task.on_failure.unwrap_or(OnFailure::Fail) }
}

/// Whether a task ends by itself when its runner is cut off from every scheduler. It does wherever anything but a person
/// could start another copy of it, or something that must not run beside it: another attempt, another runner, another job
/// of its config, another holder of its concurrency key, a job that waits for the place of its own. Where nothing could,
/// or where the task is to go on, a lost attempt is left alone until its end is proven.
pub fn stops_when_cut_off(config: &JobConfig, task: &TaskConfig) -> bool {
    let overlaps = config.overlap == Some(Overlap::Allow);
    let limited = task.concurrency.is_some() || config.max_active_jobs.is_some();
    task.when_cut_off != Some(WhenCutOff::Continue) && (of(task).tries_again() || limited || !overlaps)
}

impl Policy<'_> {
    /// One attempt, and nothing after it.
    pub const NOTHING: Self = Self { retry: None, on_failure: OnFailure::Fail };

    /// What follows an attempt that failed with this exit code, if it had one, or was lost. `chance` is from 0 to 1.
    pub fn next(&self, used: Used, exit_code: Option<i32>, chance: f64) -> Next {
        let once = Retry::times(1, Duration::ZERO);
        let retry = self.retry.unwrap_or(&once);
        let refused = exit_code.is_some_and(|code| retry.no_retry_exit_codes.contains(&code));
        let spent = used.attempts >= ATTEMPTS_TOTAL_MAX;
        let elsewhere = if used.others_left { Next::Elsewhere } else { Next::Nothing(Why::NoneLeft) };
        match self.on_failure {
            // `retry` stands aside, what it says of exit codes included.
            OnFailure::Transfer if !spent => elsewhere,
            _ if refused => Next::Nothing(Why::ExitCode),
            OnFailure::RetryThenTransfer if !spent && used.here < retry.max_attempts => {
                Next::Stay(delay(retry, used.here, chance))
            }
            OnFailure::RetryThenTransfer if !spent => elsewhere,
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
    if retry.delay.is_zero() {
        return Duration::ZERO;
    }
    let most = retry.max_delay.unwrap_or(SPAN_MAX).as_secs_f64();
    let exponent = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
    let plain = (retry.delay.as_secs_f64() * retry.factor.powi(exponent)).min(most);
    let spread = 1.0 + retry.jitter_ratio * (2.0 * chance - 1.0);
    Duration::try_from_secs_f64((plain * spread).max(0.0)).unwrap_or(SPAN_MAX)
}

/// What chance draws for an attempt, from 0 to 1: always the same for one, so that a decision that is taken twice comes
/// out alike, and evenly spread over many.
pub fn chance(task: Uuid, attempt: u32) -> f64 {
    let mut hash = Sha256::new();
    hash.update(task.as_bytes());
    hash.update(attempt.to_be_bytes());
    let digest = hash.finalize();
    let drawn = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    f64::from(drawn) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::definition::Concurrency;

    const SECOND: Duration = Duration::from_secs(1);

    fn retry(max_attempts: u32) -> Retry {
        Retry { no_retry_exit_codes: vec![2], ..Retry::times(max_attempts, SECOND * 30) }
    }

    fn used(attempts: u32, here: u32) -> Used {
        Used { attempts, here, others_left: true }
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

    #[test]
    fn chance_is_the_same_for_an_attempt_and_spread_over_many() {
        let draws: Vec<f64> = (0..1_000).map(|attempt| chance(Uuid::nil(), attempt)).collect();
        assert!((draws[7] - chance(Uuid::nil(), 7)).abs() < f64::EPSILON);
        for tenth in 0..10 {
            let low = f64::from(tenth) / 10.0;
            let within = draws.iter().filter(|draw| (low..low + 0.1).contains(*draw)).count();
            assert!((50..200).contains(&within), "{within} of 1000 from {low}");
        }
    }

    /// Rule 8 of the protocol: retry, transfer and overlap start copies by themselves, and `continue` says to go on.
    #[test]
    fn a_task_ends_when_cut_off_wherever_another_copy_could_start() {
        let task = |on_failure, attempts, when_cut_off| TaskConfig {
            on_failure,
            retry: Some(Retry::times(attempts, SECOND)),
            when_cut_off,
            ..TaskConfig::default()
        };
        let stops = |overlap, task| stops_when_cut_off(&JobConfig { overlap, ..JobConfig::default() }, &task);
        let allow = Some(Overlap::Allow);
        assert!(!stops(allow, task(None, 1, None)), "nothing could start another");
        assert!(stops(allow, task(None, 2, None)));
        assert!(stops(allow, task(Some(OnFailure::Transfer), 1, None)));
        assert!(stops(allow, task(Some(OnFailure::RetryThenTransfer), 1, Some(WhenCutOff::Stop))));
        for overlap in [None, Some(Overlap::Skip), Some(Overlap::Queue), Some(Overlap::Replace)] {
            assert!(stops(overlap, task(None, 1, None)), "{overlap:?}");
            assert!(!stops(overlap, task(None, 3, Some(WhenCutOff::Continue))), "{overlap:?}");
        }
        let key = TaskConfig { concurrency: Some(Concurrency::default()), ..task(None, 1, None) };
        assert!(stops(allow, key), "another task could take the key");
        let one = JobConfig { overlap: allow, max_active_jobs: Some(1), ..JobConfig::default() };
        assert!(stops_when_cut_off(&one, &task(None, 1, None)), "another job could take the place");
    }

    #[test]
    fn when_every_runner_had_its_turn_there_is_no_other() {
        let two = retry(2);
        let alone = |attempts, here| Used { others_left: false, ..used(attempts, here) };
        let transfer = Policy { retry: None, on_failure: OnFailure::Transfer };
        assert_eq!(transfer.next(used(1, 1), None, 0.5), Next::Elsewhere);
        assert_eq!(transfer.next(alone(2, 1), None, 0.5), Next::Nothing(Why::NoneLeft));
        let then = Policy { retry: Some(&two), on_failure: OnFailure::RetryThenTransfer };
        assert_eq!(then.next(alone(1, 1), None, 0.5), Next::Stay(SECOND * 30), "its own turn is not over");
        assert_eq!(then.next(alone(2, 2), None, 0.5), Next::Nothing(Why::NoneLeft));
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
