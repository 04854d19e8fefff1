//! What holds for every schedule: forward only, there and back the same, counted without walking, bounded, never a
//! panic.

use std::time::Duration;

use chrono::NaiveDate;
use proptest::prelude::*;

use super::{
    at, cron,
    generate::{Chance, Model},
    next, rfc3339, schedule, walk,
};
use crate::domain::{
    schedule::{After, Next, RuleSpec, Schedule, Spec, cron::Expression},
    time::Timestamp,
};

#[test]
fn a_leap_day_is_waited_for_and_beyond_2100_is_not_never() {
    let leap = cron("0 0 29 2 *", "");
    assert_eq!(next(&leap, "2024-02-29T12:00:00Z", 1), ["2028-02-29T00:00:00Z"]);
    assert_eq!(leap.next(at("2096-03-01T00:00:00Z")).unwrap(), Next::Beyond2100);
    assert_eq!(next(&cron("* * * * *", ""), "2024-02-29T12:00:00Z", 1), ["2024-02-29T12:01:00Z"]);
    assert_eq!(cron("0 0 0 1 1 ? 2020-2024", "").next(at("2024-01-01T00:00:00Z")).unwrap(), Next::Over);
}

#[test]
fn no_instant_is_out_of_range() {
    for spec in [
        Spec::cron("0 0 29 2 *", "Pacific/Apia"),
        Spec::cron("* * * * *", "America/New_York"),
        Spec::every(Duration::from_secs(5)),
        Spec::text("every 3 months on day 1 at 09:00", "Europe/Berlin"),
    ] {
        let schedule = schedule(&spec);
        for instant in [i64::MIN, -1, 0, 1, 4_133_980_800_000_000, i64::MAX - 1, i64::MAX] {
            let _ = schedule.next(Timestamp(instant)).unwrap();
            let _ = schedule.last(Timestamp(instant));
            let _ = schedule.count(Timestamp(i64::MIN), Timestamp(instant));
        }
    }
}

#[test]
fn the_search_for_rare_dates_comes_to_an_end() {
    for text in
        ["0 0 30 2 *", "0 0 0 31 2,4,6,9,11 ?", "0 0 0 29 2 ? 2025-2027", "0 0 0 ? 2 MON#5 2025", "0 0 0 L-30 2 ?"]
    {
        assert!(Expression::parse(text).is_err(), "{text}");
    }
    for text in ["0 0 0 29 2 MON", "0 0 0 29W 2 ?", "0 0 0 ? 2 MON#5", "59 59 23 31 12 ? 2100", "* * 29 2 *"] {
        for zone in ["", "America/New_York", "Africa/Casablanca"] {
            let schedule = cron(text, zone);
            assert!(matches!(schedule.next(at("2025-01-01T00:00:00Z")).unwrap(), Next::At(_)), "{text}");
            let _ = schedule.next(at("2100-12-31T23:59:59Z")).unwrap();
        }
    }
}

#[test]
fn an_interval_is_counted_from_its_anchor() {
    let mut spec = Spec::every(Duration::from_hours(168));
    spec.start_time = Some("2025-01-01T09:00:00Z".parse().unwrap());
    let weekly = schedule(&spec);
    assert_eq!(next(&weekly, "2020-01-01T00:00:00Z", 2), ["2025-01-01T09:00:00Z", "2025-01-08T09:00:00Z"]);
    // However often it is asked on the way, the answer is the same.
    for day in 2..8 {
        assert_eq!(
            next(&weekly, &format!("2025-01-0{day}T10:00:00Z"), 1)[0],
            if day < 8 { "2025-01-08T09:00:00Z" } else { "" }
        );
    }
    // Without a start_time it counts from its creation, which is no fire itself.
    let five = schedule(&Spec::every(Duration::from_secs(5)));
    assert_eq!(next(&five, "2020-01-01T00:00:00Z", 2), ["2020-01-01T00:00:05Z", "2020-01-01T00:00:10Z"]);
}

#[test]
fn a_delay_counts_from_the_end_of_the_job_before() {
    let delay: Spec = RuleSpec::Every { period: Duration::from_mins(10), after: After::Completion }.into();
    let delay = schedule(&delay);
    assert_eq!(next(&delay, "2025-01-01T00:03:21Z", 1), ["2025-01-01T00:13:21Z"]);
    assert!(delay.follows_completion());
    assert_eq!(delay.last(at("2025-01-01T00:00:00Z")), None);
}

#[test]
fn intervals_of_the_calendar_count_from_a_date() {
    let mut spec = Spec::text("every other Tuesday at 09:00", "Europe/Berlin");
    spec.start_time = Some("2026-12-02T00:00:00Z".parse().unwrap());
    let found = next(&schedule(&spec), "2026-01-01T00:00:00Z", 3);
    assert_eq!(found, ["2026-12-08T08:00:00Z", "2026-12-22T08:00:00Z", "2027-01-05T08:00:00Z"]);
    let quarterly = schedule(&Spec::text("every 3 months on the last day at 23:30 starting 2026-11-30", ""));
    let found = next(&quarterly, "2026-01-01T00:00:00Z", 3);
    assert_eq!(found, ["2026-11-30T23:30:00Z", "2027-02-28T23:30:00Z", "2027-05-31T23:30:00Z"]);
    let third_day = schedule(&Spec::text("每3天 09:00，从2027-02-27起", ""));
    assert_eq!(next(&third_day, "2026-01-01T00:00:00Z", 2), ["2027-02-27T09:00:00Z", "2027-03-02T09:00:00Z"]);
}

#[test]
fn jitter_is_the_same_for_one_fire_and_spread_over_many() {
    let mut spec = Spec::cron("* * * * *", "");
    spec.jitter = Duration::from_secs(30);
    let jittered = schedule(&spec);
    let fires = walk(&jittered, at("2025-01-01T00:00:00Z"), at("2025-01-02T00:00:00Z"));
    let delays: Vec<_> = fires.iter().map(|fire| jittered.due(*fire).since(*fire)).collect();
    assert!(delays.iter().all(|delay| *delay < spec.jitter));
    assert_eq!(delays, fires.iter().map(|fire| jittered.due(*fire).since(*fire)).collect::<Vec<_>>());
    let mean = delays.iter().sum::<Duration>() / delays.len() as u32;
    assert!((Duration::from_secs(13)..Duration::from_secs(17)).contains(&mean), "{mean:?}");
    let other = Schedule::new(&spec, "other", at("2020-01-01T00:00:00Z"), &[]).unwrap();
    assert_ne!(other.due(fires[0]), jittered.due(fires[0]));
}

/// Some schedule of any kind.
fn any_schedule() -> impl Strategy<Value = Schedule> {
    let zones = ["", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu"];
    let texts = [
        "every 15 minutes between 08:10 and 18:05 on weekdays",
        "every 2 hours between 01:30 and 21:00",
        "every day at 02:30, 03:00 and 17:30",
        "every other Tuesday at 02:30",
        "every 3 days at 00:00 and 12:00",
        "every 2 weeks on Sunday and Friday at 02:15",
        "every 2 months on the last weekday at 01:30",
        "last day of the month at 23:30",
    ];
    (any::<u64>(), 0..3_u8, prop::sample::select(zones.to_vec()), prop::sample::select(texts.to_vec()), 1..100_000_u64)
        .prop_map(|(seed, kind, zone, text, period)| match kind {
            0 => {
                let hint = NaiveDate::from_ymd_opt(2026, 3, 8).unwrap().and_hms_opt(2, 30, 0).unwrap();
                let model = Model::random(&mut Chance(seed), hint);
                // Not every expression has a date.
                let text = if Expression::parse(&model.text).is_ok() { model.text.as_str() } else { "30 2 * * *" };
                cron(text, zone)
            }
            1 => schedule(&Spec::text(text, zone)),
            _ => schedule(&Spec { time_zone: zone.to_owned(), ..Spec::every(Duration::from_secs(period)) }),
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_goes_forward_and_back_the_same_way_and_is_counted_right(
        schedule in any_schedule(),
        start in 1_767_225_600_i64..1_798_761_600,
        micros in 0..1_000_000_i64,
    ) {
        let from = Timestamp(start * 1_000_000 + micros);
        let mut fires = Vec::new();
        let mut asked = from;
        while fires.len() < 60 {
            let Next::At(fire) = schedule.next(asked).unwrap() else { break };
            prop_assert!(fire.time > asked);
            // Nothing in between: asked later on the way, the answer stays.
            let middle = Timestamp(asked.0 + (fire.time.0 - asked.0) / 2);
            prop_assert_eq!(schedule.next(middle).unwrap(), Next::At(fire.clone()));
            fires.push(fire.time);
            asked = fire.time;
        }
        prop_assert_eq!(schedule.count(from, asked), fires.len() as u64);
        let mut until = asked;
        for fire in fires.iter().rev() {
            prop_assert_eq!(schedule.last(until).map(rfc3339), Some(rfc3339(*fire)));
            until = Timestamp(fire.0 - 1);
        }
    }
}
