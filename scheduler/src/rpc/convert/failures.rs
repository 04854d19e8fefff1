//! What a definition says of failures as messages, and back.

use baton::v1;

use super::{Fields, duration};
use crate::domain::definition::{OnFailure, Retry, WhenCutOff};

pub(super) fn retry(retry: &Retry) -> v1::Retry {
    v1::Retry {
        max_attempts: retry.max_attempts,
        delay: Some(retry.delay).filter(|delay| !delay.is_zero()).map(duration),
        factor: Some(retry.factor).filter(|factor| (factor - 1.0).abs() > f64::EPSILON),
        max_delay: retry.max_delay.map(duration),
        jitter_ratio: retry.jitter_ratio,
        no_retry_exit_codes: retry.no_retry_exit_codes.clone(),
    }
}

pub(super) fn on_failure(policy: Option<OnFailure>) -> v1::OnFailure {
    match policy {
        None => v1::OnFailure::Unspecified,
        Some(OnFailure::Fail) => v1::OnFailure::Fail,
        Some(OnFailure::Stop) => v1::OnFailure::Stop,
        Some(OnFailure::Ignore) => v1::OnFailure::Ignore,
        Some(OnFailure::Transfer) => v1::OnFailure::Transfer,
        Some(OnFailure::RetryThenTransfer) => v1::OnFailure::RetryThenTransfer,
    }
}

pub(super) fn when_cut_off(choice: Option<WhenCutOff>) -> v1::WhenCutOff {
    match choice {
        None => v1::WhenCutOff::Unspecified,
        Some(WhenCutOff::Stop) => v1::WhenCutOff::Stop,
        Some(WhenCutOff::Continue) => v1::WhenCutOff::Continue,
    }
}

impl Fields {
    pub(super) fn retry(&mut self, field: &str, retry: Option<v1::Retry>) -> Option<Retry> {
        let retry = retry?;
        Some(Retry {
            max_attempts: retry.max_attempts,
            delay: self.duration(format!("{field}.delay"), retry.delay).unwrap_or_default(),
            factor: retry.factor.unwrap_or(1.0),
            max_delay: self.duration(format!("{field}.max_delay"), retry.max_delay),
            jitter_ratio: retry.jitter_ratio,
            no_retry_exit_codes: retry.no_retry_exit_codes,
        })
    }

    pub(super) fn on_failure(&mut self, field: String, policy: i32) -> Option<OnFailure> {
        self.one_of(field, policy, &OnFailure::ALL, on_failure, "is no failure policy")
    }

    pub(super) fn when_cut_off(&mut self, field: String, choice: i32) -> Option<WhenCutOff> {
        let wrong = "is nothing that a task can do while its runner is cut off";
        self.one_of(field, choice, &WhenCutOff::ALL, when_cut_off, wrong)
    }
}
