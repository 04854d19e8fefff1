//! Instants and spans as people read them.

use std::time::Duration;

use chrono::{DateTime, Local, SecondsFormat, TimeDelta, Utc};
use clap::ValueEnum;
use prost_types::Timestamp;

/// How instants are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimeMode {
    /// In the zone of this machine, with its offset.
    Local,
    /// In UTC.
    Utc,
    /// As a distance from now.
    Relative,
    /// As programs read it, in UTC. What a pipe gets unless told otherwise.
    #[value(name = "rfc3339")]
    Rfc3339,
}

/// An instant of the protocol. One that no calendar holds is as good as none.
pub fn utc(time: Option<Timestamp>) -> Option<DateTime<Utc>> {
    let time = time?;
    DateTime::from_timestamp(time.seconds, u32::try_from(time.nanos).ok()?)
}

/// An instant for the protocol.
pub fn timestamp(time: DateTime<Utc>) -> Timestamp {
    Timestamp { seconds: time.timestamp(), nanos: time.timestamp_subsec_nanos() as i32 }
}

/// An instant in words; "-" when there is none.
pub fn instant(time: Option<Timestamp>, mode: TimeMode, now: DateTime<Utc>) -> String {
    let Some(time) = utc(time) else { return "-".to_owned() };
    match mode {
        TimeMode::Local => time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S %:z").to_string(),
        TimeMode::Utc => time.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        TimeMode::Relative => relative(time, now),
        TimeMode::Rfc3339 => time.to_rfc3339_opts(SecondsFormat::AutoSi, true),
    }
}

/// "14m ago", "in 5m".
fn relative(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let coarse = |delta: TimeDelta| {
        let seconds = delta.num_seconds();
        match seconds {
            0..60 => format!("{seconds}s"),
            60..3_600 => format!("{}m", seconds / 60),
            3_600..86_400 => format!("{}h", seconds / 3_600),
            _ => format!("{}d", seconds / 86_400),
        }
    };
    if time > now { format!("in {}", coarse(time - now)) } else { format!("{} ago", coarse(now - time)) }
}

/// How long it took from one instant to another, or to now; "-" when it has not begun.
pub fn elapsed(start: Option<Timestamp>, end: Option<Timestamp>, now: DateTime<Utc>) -> String {
    match between(start, end, now) {
        // Tenths that run through while one watches tell nothing.
        Some(span) if end.is_none() => self::span(Duration::from_secs(span.as_secs())),
        Some(span) => self::span(span),
        None => "-".to_owned(),
    }
}

/// The time between two instants, or up to now.
pub fn between(start: Option<Timestamp>, end: Option<Timestamp>, now: DateTime<Utc>) -> Option<Duration> {
    let start = utc(start)?;
    // Clocks of two machines may differ: nothing takes less than no time.
    Some((utc(end).unwrap_or(now) - start).to_std().unwrap_or_default())
}

/// "450ms", "8.3s", "41s", "1m03s", "2h05m", "3d04h".
pub fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.subsec_millis() > 0 => format!("{}ms", span.subsec_millis()),
        1..10 if span.subsec_millis() >= 100 => format!("{}.{}s", seconds, span.subsec_millis() / 100),
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A span of the protocol.
pub fn proto_span(span: Option<prost_types::Duration>) -> Option<Duration> {
    span.and_then(|span| Duration::try_from(span).ok())
}

/// A span for the protocol.
pub fn to_proto(span: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: span.as_secs() as i64, nanos: span.subsec_nanos() as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps)] // as the messages have it
    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    #[test]
    fn spans_carry_two_units_at_most() {
        for (milliseconds, text) in [
            (0, "0s"),
            (450, "450ms"),
            (8_300, "8.3s"),
            (41_900, "41s"),
            (63_000, "1m03s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn instants_are_written_as_asked() {
        let now = DateTime::from_timestamp(1_764_504_000, 0).unwrap();
        assert_eq!(instant(at(1_764_503_160), TimeMode::Relative, now), "14m ago");
        assert_eq!(instant(at(1_764_504_300), TimeMode::Relative, now), "in 5m");
        assert_eq!(instant(at(1_764_504_000), TimeMode::Utc, now), "2025-11-30 12:00:00 UTC");
        assert_eq!(instant(at(1_764_504_000), TimeMode::Rfc3339, now), "2025-11-30T12:00:00Z");
        assert_eq!(instant(None, TimeMode::Local, now), "-");
    }

    #[test]
    fn a_clock_that_is_ahead_makes_no_negative_time() {
        let now = DateTime::from_timestamp(100, 0).unwrap();
        assert_eq!(elapsed(at(160), None, now), "0s");
        assert_eq!(elapsed(None, at(160), now), "-");
        assert_eq!(elapsed(at(10), at(73), now), "1m03s");
    }
}
