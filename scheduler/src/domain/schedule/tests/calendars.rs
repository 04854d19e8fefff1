//! Windows and calendars of exclusion.

use super::{at, cron, fires, next};
use crate::domain::schedule::{Calendar, Next, Note, Schedule, Spec};

fn holidays() -> Calendar {
    let exclude = ["2026-12-24..2026-12-26", "2026-12-26..2027-01-01", "2027-05-01"];
    Calendar { name: "holidays".to_owned(), exclude: exclude.iter().map(|range| range.parse().unwrap()).collect() }
}

fn with_holidays(spec: Spec) -> Schedule {
    let spec = Spec { calendars: vec!["holidays".to_owned()], ..spec };
    Schedule::new(&spec, "test", at("2020-01-01T00:00:00Z"), &[holidays()]).unwrap()
}

#[test]
fn nothing_fires_on_an_excluded_date_of_the_schedules_zone() {
    let daily = with_holidays(Spec::cron("0 9 * * *", "Asia/Shanghai"));
    let Next::At(fire) = daily.next(at("2026-12-23T01:00:00Z")).unwrap() else { panic!("it fires") };
    assert_eq!(super::rfc3339(fire.time), "2027-01-02T01:00:00Z");
    let [Note::Excluded { calendar, first, count }] = &fire.notes[..] else { panic!("{:?}", fire.notes) };
    assert_eq!((calendar.as_str(), *count), ("holidays", 9));
    assert_eq!(first.datetime().to_string(), "2026-12-24 09:00:00");
    // The same for the way back and for the count.
    assert_eq!(daily.last(at("2027-01-01T12:00:00Z")), Some(at("2026-12-23T01:00:00Z")));
    assert_eq!(daily.count(at("2026-12-20T00:00:00Z"), at("2027-01-03T00:00:00Z")), 5);
}

#[test]
fn the_local_date_decides_not_the_one_in_utc() {
    // 23:30 in New York on the 23rd is the 24th in UTC, and is not excluded.
    let late = with_holidays(Spec::cron("30 23 * * *", "America/New_York"));
    assert_eq!(next(&late, "2026-12-23T12:00:00Z", 2), ["2026-12-24T04:30:00Z", "2027-01-03T04:30:00Z"]);
}

#[test]
fn a_busy_schedule_leaps_over_an_exclusion() {
    let every_second = with_holidays(Spec::cron("* * * * * *", ""));
    assert_eq!(next(&every_second, "2026-12-23T23:59:59Z", 1), ["2027-01-02T00:00:00Z"]);
    assert_eq!(every_second.count(at("2026-12-23T23:59:58Z"), at("2027-01-02T00:00:00Z")), 2);
}

#[test]
fn an_interval_waits_out_an_exclusion() {
    let mut spec = Spec::every(std::time::Duration::from_secs(5));
    spec.start_time = Some("2026-12-01T00:00:00Z".parse().unwrap());
    let five = with_holidays(spec);
    let now = at("2026-12-23T23:59:55Z");
    let Next::At(fire) = five.next(now).unwrap() else { panic!("it fires") };
    assert_eq!(super::rfc3339(fire.time), "2027-01-02T00:00:00Z");
    assert_eq!(five.due_at(fire.time, now), fire.time);
    // Nor is the start of its window brought forward.
    let start = at("2026-12-01T00:00:00Z");
    assert_eq!(five.due_at(start, at("2026-11-01T00:00:00Z")), start);
}

#[test]
fn a_schedule_whose_dates_are_all_excluded_is_refused() {
    let only = with_holidays(Spec::cron("0 0 9 25 12 ? 2026", ""));
    assert!(only.first_fire(at("2026-01-01T00:00:00Z")).unwrap_err().to_string().contains("never fires"));
}

#[test]
fn a_window_holds_its_start_and_not_its_end() {
    let mut spec = Spec::cron("0 * * * *", "");
    spec.start_time = Some("2026-01-01T10:00:00Z".parse().unwrap());
    spec.end_time = Some("2026-01-01T13:00:00Z".parse().unwrap());
    let windowed = super::schedule(&spec);
    let inside = ["2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z"];
    assert_eq!(next(&windowed, "2020-01-01T00:00:00Z", 9), inside);
    assert_eq!(windowed.next(at("2026-01-01T12:00:00Z")).unwrap(), Next::Over);
    assert_eq!(windowed.last(at("2030-01-01T00:00:00Z")), Some(at("2026-01-01T12:00:00Z")));
    assert_eq!(windowed.last(at("2026-01-01T09:59:59Z")), None);
    assert_eq!(windowed.count(at("2020-01-01T00:00:00Z"), at("2030-01-01T00:00:00Z")), 3);
    assert!(windowed.first_fire(at("2027-01-01T00:00:00Z")).unwrap_err().to_string().contains("last fire has passed"));
}

#[test]
fn a_window_without_a_fire_is_refused() {
    let mut spec = Spec::cron("0 0 1 6 *", "");
    spec.start_time = Some("2026-01-01T00:00:00Z".parse().unwrap());
    spec.end_time = Some("2026-05-01T00:00:00Z".parse().unwrap());
    assert_eq!(super::schedule(&spec).next(at("2026-02-01T00:00:00Z")).unwrap(), Next::Never);
}

#[test]
fn ranges_are_read_strictly() {
    for wrong in ["", "2026-13-01", "2026-12-26..2026-12-24", "christmas", "2026-12-24.."] {
        assert!(wrong.parse::<crate::domain::schedule::DateRange>().is_err(), "{wrong}");
    }
}

#[test]
fn a_permanent_schedule_has_no_end() {
    let daily = cron("0 0 * * *", "");
    assert_eq!(fires(&daily, "2099-12-30T12:00:00Z", "2100-01-01T00:00:00Z").len(), 2);
}
