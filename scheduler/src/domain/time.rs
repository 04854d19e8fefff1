//! Instants as Baton stores them.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// An instant in UTC microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time since an earlier instant; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(micros(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(micros(span)))
    }
}

/// An instant in words that every language reads: RFC 3339 in UTC.
pub fn rfc3339(at: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_micros(at.0).unwrap_or_default();
    time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

/// A span in microseconds, capped at what an `i64` holds.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
