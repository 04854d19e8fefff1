//! Messages into values and back. Total: what has no meaning is an error that names its field.
//!
//! Each kind of thing has a file of its own; here is what they share.

pub(super) mod callbacks;
pub(super) mod definitions;
mod failures;
pub(super) mod fleet;
pub(super) mod http;
pub(super) mod jobs;
pub(super) mod logs;
mod placement;
pub(super) mod schedules;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{api::Fields, status::Violation};
use crate::domain::time::Timestamp;

pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(time.0.rem_euclid(1_000_000) * 1000).expect("less than a second has nine digits");
    prost_types::Timestamp { seconds: time.0.div_euclid(1_000_000), nanos }
}

pub(crate) fn duration(span: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: span.subsec_nanos().cast_signed() }
}

/// An instant, if the field is set.
pub(crate) fn read_timestamp(
    field: &str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Violation> {
    let Some(time) = time else { return Ok(None) };
    let micros =
        time.seconds.checked_mul(1_000_000).and_then(|micros| micros.checked_add(i64::from(time.nanos / 1000)));
    match micros {
        Some(micros) if (0..1_000_000_000).contains(&time.nanos) => Ok(Some(Timestamp(micros))),
        _ => Err(Violation::new(field, "is no point in time")),
    }
}

/// A span of time, if the field is set.
pub(crate) fn read_duration(field: &str, span: Option<prost_types::Duration>) -> Result<Option<Duration>, Violation> {
    let Some(span) = span else { return Ok(None) };
    match (u64::try_from(span.seconds), u32::try_from(span.nanos)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Violation::new(field, "is no span of time: it must not be negative")),
    }
}

pub(crate) fn sorted(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

fn unsorted(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Fields {
    fn duration(&mut self, field: impl AsRef<str>, span: Option<prost_types::Duration>) -> Option<Duration> {
        self.take(read_duration(field.as_ref(), span))
    }

    /// The value that has this number; none where the field is not set.
    fn one_of<T: Copy, N: Into<i32>>(
        &mut self,
        field: String,
        given: i32,
        all: &[T],
        number: impl Fn(Option<T>) -> N,
        wrong: &str,
    ) -> Option<T> {
        let known = all.iter().copied().find(|known| number(Some(*known)).into() == given);
        if known.is_none() && given != number(None).into() {
            self.refuse(field, wrong);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_spans_survive_the_way_out_and_back() {
        for micros in [0, 1, -1, 1_764_500_000_123_456, -62_135_596_800_000_000] {
            let time = Timestamp(micros);
            assert_eq!(read_timestamp("t", Some(timestamp(time))).unwrap(), Some(time));
        }
        let span = Duration::new(5, 250_000_000);
        assert_eq!(read_duration("d", Some(duration(span))).unwrap(), Some(span));
        assert!(read_timestamp("t", Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 })).is_err());
        assert!(read_timestamp("t", Some(prost_types::Timestamp { seconds: 0, nanos: -1 })).is_err());
    }
}
