//! Spans of time as people write them: `90s`, `15m`, `1h30m`, `1d`, `500ms`.

use std::{fmt::Write as _, time::Duration};

use super::limits::SPAN_MAX;

/// The units, largest first, in microseconds.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

/// Reads a span: numbers with units, the larger unit first, each unit once. Tells what is wrong otherwise.
pub fn parse(text: &str) -> Result<Duration, String> {
    const HOW: &str = "write it like 90s, 15m, 1h30m, 1d or 500ms";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("a span of time is empty; {HOW}"));
    }
    let mut micros = 0_u64;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if number.is_empty() {
            return Err(format!("{text:?} is no span of time; {HOW}"));
        }
        if unit.is_empty() {
            return Err(format!("{text:?} lacks a unit; {HOW}"));
        }
        let Some(&(_, size)) = units.find(|&&(name, _)| name == unit) else {
            let known = UNITS.iter().any(|&(name, _)| name == unit);
            let why = if known { "has its units out of order" } else { "has an unknown unit" };
            return Err(format!("{text:?} {why}; {HOW}"));
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
        let sum = part.and_then(|part| micros.checked_add(part));
        micros = sum.filter(|&sum| Duration::from_micros(sum) <= SPAN_MAX).ok_or_else(too_long)?;
        rest = after;
    }
    Ok(Duration::from_micros(micros))
}

/// Writes a span in the shortest form that `parse` reads as the same; below a millisecond it is cut.
pub fn format(span: Duration) -> String {
    let mut micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, size) in UNITS {
        if micros >= size {
            let _ = write!(text, "{}{unit}", micros / size);
            micros %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// The refusal of a span above [`SPAN_MAX`].
pub(super) fn too_long() -> String {
    format!("a span of time is at most {}", format(SPAN_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        for (text, millis) in [
            ("90s", 90_000),
            ("15m", 900_000),
            ("6h", 21_600_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("500ms", 500),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_unclear_is_refused() {
        for text in ["", "90", "s", "1x", "1m1h", "1h1h", "-5s", "1.5s", "1 h", "99999999999999999999s", "4000d"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0..=SPAN_MAX.as_millis() as u64) {
            let span = Duration::from_millis(millis);
            prop_assert_eq!(parse(&format(span)), Ok(span));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
