//! Proof that schedules fire when they should: against oracles that share no code with them, and as stories.

mod calendars;
mod clock_changes;
mod croner;
mod dialects;
mod generate;
mod grammar;
mod imports;
mod misfires;
mod oracle;
mod overlaps;
mod previews;
mod walks;

use super::{Next, Schedule, Spec};
use crate::domain::time::Timestamp;

/// An instant from RFC 3339.
fn at(text: &str) -> Timestamp {
    Timestamp(chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros())
}

fn rfc3339(time: Timestamp) -> String {
    let time = chrono::DateTime::from_timestamp_micros(time.0).unwrap();
    time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
}

/// A schedule created at 2020-01-01.
fn schedule(spec: &Spec) -> Schedule {
    Schedule::new(spec, "test", at("2020-01-01T00:00:00Z"), &[]).unwrap()
}

fn cron(expression: &str, zone: &str) -> Schedule {
    schedule(&Spec::cron(expression, zone))
}

/// The fires after one instant, up to and including another.
fn fires(schedule: &Schedule, after: &str, until: &str) -> Vec<String> {
    walk(schedule, at(after), at(until)).into_iter().map(rfc3339).collect()
}

fn walk(schedule: &Schedule, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let mut found = Vec::new();
    let mut from = after;
    while let Next::At(fire) = schedule.next(from).unwrap() {
        assert!(fire.time > from, "{} does not lie after {}", rfc3339(fire.time), rfc3339(from));
        if fire.time > until {
            break;
        }
        from = fire.time;
        found.push(from);
    }
    found
}

/// The first so many fires after an instant.
fn next(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = at(after);
    while found.len() < count
        && let Next::At(fire) = schedule.next(from).unwrap()
    {
        from = fire.time;
        found.push(rfc3339(from));
    }
    found
}

/// Whether to take the long way.
pub(super) fn soak() -> bool {
    std::env::var_os("BATON_SOAK").is_some()
}

#[test]
fn no_schedule_reads_the_clock_the_zone_or_the_environment_of_its_host() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/domain/schedule"))];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("tests") {
                    folders.push(path);
                }
                continue;
            }
            files += 1;
            let source = std::fs::read_to_string(&path).unwrap();
            for word in ["Local", "now()", "env::", "SystemTime", "Instant::"] {
                assert!(!source.contains(word), "{} names {word}", path.display());
            }
        }
    }
    assert!(files > 20);
}
