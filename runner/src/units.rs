//! Durations and sizes as people write them: `250ms`, `10s`, `1h30m`, `64MiB`.

use std::time::Duration;

const DURATION_UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// The longest duration a setting takes.
pub const DURATION_MAX: Duration = Duration::from_hours(8784);

/// Reads a duration such as `250ms`, `10s`, `5m` or `1h30m`.
///
/// # Errors
/// Says what a duration looks like.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let problem = || format!("`{text}` is not a duration; write it with a unit, such as 250ms, 10s, 5m or 1h30m");
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(problem());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(problem)?;
        let number: f64 = rest[..digits].parse().map_err(|_| problem())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, unit) = DURATION_UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or_else(problem)?;
        seconds += number * unit;
        rest = &rest[end..];
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if span <= DURATION_MAX => Ok(span),
        _ => Err(format!("`{text}` is longer than a year, the most a setting takes")),
    }
}

/// Writes a duration so that `parse_duration` reads the same (to the millisecond).
pub fn format_duration(span: Duration) -> String {
    let mut left = span.as_millis();
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if left >= size {
            text += &(left / size).to_string();
            text += name;
            left %= size;
        }
    }
    text
}

/// Writes a size in bytes for people, such as `64.0 MiB`.
pub fn format_size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{size:.1} {unit}") };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["250ms", "10s", "5m", "1h30m", "2d", "1s500ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("0.5s").unwrap(), Duration::from_millis(500));
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_an_example() {
        for text in ["", "10", "s", "10 parsecs", "-1s", "1..5s", "9999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert!(parse_duration("10").unwrap_err().contains("such as 250ms"));
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(format_size(12), "12 bytes");
        assert_eq!(format_size(64 * 1024 * 1024), "64.0 MiB");
    }
}
