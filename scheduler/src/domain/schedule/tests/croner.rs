//! A second opinion: another library on the same expressions in UTC, where clocks do not change.

use chrono::{DateTime, NaiveDate, Utc};
use croner::parser::{CronParser, Seconds, Year};

use super::{
    at, cron,
    generate::{Chance, Model, Part},
    soak, walk,
};
use crate::domain::{schedule::cron::Expression, time::Timestamp};

const FIRES: usize = 12;

#[test]
fn random_expressions_fire_as_another_library_says() {
    let unix = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).sloppy_ranges(true).build();
    let quartz = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .alternative_weekdays(true)
        .dom_and_dow(true)
        .sloppy_ranges(true)
        .build();
    let mut chance = Chance(7);
    let mut compared = 0;
    let count = if soak() { 200_000 } else { 4_000 };
    for n in 0..count {
        let hint =
            NaiveDate::from_ymd_opt(2026, 1 + n % 12, 1 + n % 28).unwrap().and_hms_opt(n % 24, n % 60, 0).unwrap();
        let model = Model::random(&mut chance, hint);
        // Where Vixie's rule about a star with a step decides, the two differ on purpose.
        let stepped = |part: &Part, other: &Part| part.text.starts_with("*/") && other.text != "*";
        if model.unix && (stepped(&model.day, &model.weekday) || stepped(&model.weekday, &model.day)) {
            continue;
        }
        // What it does not read at all, it has no say in.
        let theirs = if model.unix { unix.parse(&model.text) } else { quartz.parse(&model.text) };
        let Ok(theirs) = theirs else { continue };
        if Expression::parse(&model.text).is_err() {
            continue;
        }
        let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
        let expected: Vec<Timestamp> = theirs
            .iter_after(start)
            .take(FIRES)
            .take_while(|time| *time < "2096-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap())
            .map(|time| Timestamp(time.timestamp_micros()))
            .collect();
        let Some(last) = expected.last() else { continue };
        let ours = walk(&cron(&model.text, ""), at("2026-01-01T00:00:00Z"), *last);
        assert_eq!(ours, expected, "{:?}", model.text);
        compared += 1;
    }
    println!("{compared} of {count} expressions agree");
    assert!(compared > count / 3);
}
