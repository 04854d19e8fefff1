//! What becomes of fires that nothing could fire in time.

use std::time::Duration;

use super::{at, rfc3339, schedule};
use crate::domain::{
    schedule::{
        After, Misfire, Next, RuleSpec, Schedule, Spec,
        misfire::{Decision, Missed, Pace, Reason, Waiting},
    },
    time::Timestamp,
};

const ALONE: Pace = Pace::OneByOne { last_made: None };

fn with(misfire: Misfire, spec: Spec) -> Schedule {
    schedule(&Spec { misfire: Some(misfire), ..spec })
}

fn decide(schedule: &Schedule, first: &str, now: &str) -> Decision {
    schedule.decide(waiting(schedule, at(first)), at(now), Pace::Together).unwrap()
}

fn waiting(schedule: &Schedule, time: Timestamp) -> Waiting {
    Waiting { time, due_at: schedule.due(time) }
}

fn run(decision: &Decision) -> Vec<String> {
    decision.run.iter().map(|due| rfc3339(due.time)).collect()
}

fn waits_for(decision: &Decision) -> String {
    let Next::At(fire) = &decision.next else { panic!("{:?}", decision.next) };
    rfc3339(fire.time)
}

fn minutely() -> Spec {
    Spec::cron("* * * * *", "")
}

#[test]
fn two_hours_away_each_policy_does_what_it_says() {
    let (first, now) = ("2025-01-01T10:00:00Z", "2025-01-01T12:00:30Z");
    let once = decide(&with(Misfire::RunOnce, minutely()), first, now);
    assert_eq!(run(&once), ["2025-01-01T12:00:00Z"]);
    assert_eq!(
        once.missed,
        [Missed { first: at(first), last: at("2025-01-01T11:59:00Z"), count: 120, reason: Reason::Superseded }]
    );
    let skip = decide(&with(Misfire::Skip, minutely()), first, now);
    // The newest is thirty seconds late: late, not missed.
    assert_eq!(run(&skip), ["2025-01-01T12:00:00Z"]);
    assert_eq!((skip.missed[0].count, skip.missed[0].reason), (120, Reason::PolicySkip));
    let all = decide(&with(Misfire::RunAll, minutely()), first, now);
    assert_eq!(all.run.len(), 100);
    assert_eq!(run(&all)[99], "2025-01-01T12:00:00Z");
    assert!(all.run.iter().take(99).all(|due| due.catch_up) && !all.run[99].catch_up);
    assert_eq!((all.missed[0].count, all.missed[0].reason), (21, Reason::OverLimit));
    // None of them stops for good.
    for decision in [once, skip, all] {
        assert_eq!(waits_for(&decision), "2025-01-01T12:01:00Z");
    }
}

#[test]
fn a_newest_fire_that_is_too_late_is_missed_as_well() {
    let hourly = Spec::cron("0 * * * *", "");
    let skip = decide(&with(Misfire::Skip, hourly.clone()), "2025-01-01T10:00:00Z", "2025-01-01T12:10:00Z");
    assert!(skip.run.is_empty());
    assert_eq!(skip.missed[0].count, 3);
    let once = decide(&with(Misfire::RunOnce, hourly), "2025-01-01T10:00:00Z", "2025-01-01T12:10:00Z");
    assert_eq!(run(&once), ["2025-01-01T12:00:00Z"]);
    // The one fire that is run is subject to overlap as any other.
    assert!(!once.run[0].catch_up);
    assert_eq!(once.run[0].late, Duration::from_mins(10));
}

#[test]
fn what_is_older_than_the_window_is_not_run() {
    let daily = Spec { catchup_window: Duration::from_hours(6), ..Spec::cron("0 0 * * *", "") };
    let once = decide(&with(Misfire::RunOnce, daily.clone()), "2025-01-01T00:00:00Z", "2025-01-03T07:00:00Z");
    assert!(once.run.is_empty());
    assert_eq!((once.missed[0].count, once.missed[0].reason), (3, Reason::OutsideWindow));
    assert_eq!(waits_for(&once), "2025-01-04T00:00:00Z");
    let all = decide(&with(Misfire::RunAll, daily), "2025-01-01T00:00:00Z", "2025-01-03T05:00:00Z");
    assert_eq!(run(&all), ["2025-01-03T00:00:00Z"]);
    assert_eq!((all.missed[0].count, all.missed[0].reason), (2, Reason::OutsideWindow));
}

#[test]
fn a_run_lost_in_a_short_absence_is_made_up_for() {
    let noon = Spec::cron("30 12 * * *", "");
    let decision = decide(&schedule(&noon), "2025-01-01T12:30:00Z", "2025-01-01T12:31:00Z");
    assert_eq!(run(&decision), ["2025-01-01T12:30:00Z"]);
    assert!(decision.missed.is_empty());
    // A lock held for a minute, or a busy loop, changes how late it is and nothing else.
    assert_eq!(decision.run[0].late, Duration::from_mins(1));
    assert!(!decision.run[0].catch_up);
}

#[test]
fn two_weeks_of_a_five_second_schedule_cost_no_more_than_the_limit() {
    let (first, now) = ("2025-01-01T00:00:00Z", "2025-01-15T00:00:02Z");
    for spec in [Spec::cron("*/5 * * * * *", "Europe/Berlin"), Spec::every(Duration::from_secs(5))] {
        for (misfire, runs) in [(Misfire::Skip, 1), (Misfire::RunOnce, 1), (Misfire::RunAll, 100)] {
            let decision = decide(&with(misfire, spec.clone()), first, now);
            assert_eq!(decision.run.len(), runs);
            assert_eq!(decision.missed.len(), 1, "one row, not a flood");
            assert_eq!(decision.missed[0].count + runs as u64, 241_921);
            assert_eq!(waits_for(&decision), "2025-01-15T00:00:05Z");
        }
    }
}

#[test]
fn a_century_of_seconds_is_counted_not_walked() {
    const SECONDS: u64 = (2_098 - 1_971) * 365 * 86_400 + 32 * 86_400;
    // Walking these four billion fires would outlast any patience.
    for zone in ["", "America/New_York"] {
        let all = with(Misfire::RunAll, Spec::cron("* * * * * *", zone));
        let decision = decide(&all, "1971-01-01T00:00:00Z", "2098-01-01T00:00:00Z");
        assert_eq!(decision.run.len(), 100);
        assert_eq!(decision.missed[0].count + 100, SECONDS + 1);
    }
}

#[test]
fn one_by_one_the_oldest_goes_first_and_the_next_is_waited_for() {
    let all = with(Misfire::RunAll, Spec::cron("0 * * * *", ""));
    let decide = |fire: &str, now: &str, last_made: Option<&str>| {
        all.decide(waiting(&all, at(fire)), at(now), Pace::OneByOne { last_made: last_made.map(at) }).unwrap()
    };
    let first = decide("2025-01-01T10:00:00Z", "2025-01-01T12:01:00Z", None);
    assert_eq!(run(&first), ["2025-01-01T10:00:00Z"]);
    assert!(first.run[0].catch_up);
    assert_eq!(waits_for(&first), "2025-01-01T11:00:00Z");
    let second = decide("2025-01-01T11:00:00Z", "2025-01-01T12:02:00Z", Some("2025-01-01T12:01:00Z"));
    assert_eq!(run(&second), ["2025-01-01T11:00:00Z"]);
    // The newest is in time, but it was due when the catch-up began and so waits for its turn.
    let third = decide("2025-01-01T12:00:00Z", "2025-01-01T12:03:00Z", Some("2025-01-01T12:02:00Z"));
    assert!(third.run[0].catch_up);
    assert_eq!(waits_for(&third), "2025-01-01T13:00:00Z");
    // The one after it is a fire like any other.
    let fourth = decide("2025-01-01T13:00:00Z", "2025-01-01T13:00:00Z", Some("2025-01-01T12:03:00Z"));
    assert!(!fourth.run[0].catch_up);
}

#[test]
fn an_interval_stored_at_day_seven_fires_there_whatever_the_restarts() {
    let mut spec = Spec::every(Duration::from_hours(168));
    spec.start_time = Some("2025-01-01T00:00:00Z".parse().unwrap());
    let weekly = schedule(&spec);
    for day in 2..8 {
        let decision = decide(&weekly, "2025-01-08T00:00:00Z", &format!("2025-01-0{day}T00:00:00Z"));
        assert_eq!(decision.run.len(), usize::from(day == 8));
        assert_eq!(waits_for(&decision), "2025-01-08T00:00:00Z");
    }
    assert_eq!(run(&decide(&weekly, "2025-01-08T00:00:00Z", "2025-01-08T00:00:00Z")), ["2025-01-08T00:00:00Z"]);
}

#[test]
fn a_clock_set_forward_an_hour_catches_up_once() {
    let mut spec = Spec::every(Duration::from_secs(5));
    spec.start_time = Some("2025-01-01T00:00:00Z".parse().unwrap());
    let decision = decide(&schedule(&spec), "2025-01-01T10:00:05Z", "2025-01-01T11:00:03Z");
    assert_eq!(run(&decision), ["2025-01-01T11:00:00Z"]);
    assert_eq!(waits_for(&decision), "2025-01-01T11:00:05Z");
}

#[test]
fn a_clock_set_back_an_hour_does_not_stop_an_interval_for_that_hour() {
    let mut spec = Spec::every(Duration::from_secs(5));
    spec.start_time = Some("2025-01-01T00:00:00Z".parse().unwrap());
    let five = schedule(&spec);
    // It waits for 11:00:05 when the clock goes back to 10:00:01, and is told to wake within its period.
    let mut now = at("2025-01-01T10:00:01Z");
    let mut waiting =
        Waiting { time: at("2025-01-01T11:00:05Z"), due_at: five.due_at(at("2025-01-01T11:00:05Z"), now) };
    for n in 0..100 {
        assert_eq!(waiting.due_at, at("2025-01-01T10:00:06Z") + Duration::from_secs(5 * n));
        now = waiting.due_at;
        let decision = five.decide(waiting, now, ALONE).unwrap();
        // One fire a period, each with a nominal time of its own, none twice.
        assert_eq!(decision.run.len(), 1);
        assert_eq!(decision.run[0].time, at("2025-01-01T11:00:05Z") + Duration::from_secs(5 * n));
        let Next::At(fire) = decision.next else { panic!("it goes on") };
        waiting = Waiting { time: fire.time, due_at: decision.due_at.unwrap() };
    }
}

#[test]
fn a_far_future_left_by_a_wrong_clock_is_recomputed() {
    let daily = schedule(&Spec::cron("0 0 * * *", ""));
    let resumed = |now: &str, last: Option<&str>| match daily.resume(at(now), last.map(at)).unwrap() {
        Next::At(fire) => rfc3339(fire.time),
        nothing => panic!("{nothing:?}"),
    };
    assert_eq!(resumed("2025-01-01T12:00:00Z", None), "2025-01-02T00:00:00Z");
    // What has fired in the time that comes again does not fire again.
    assert_eq!(resumed("2025-01-01T23:30:00Z", Some("2025-01-02T00:00:00Z")), "2025-01-03T00:00:00Z");
}

#[test]
fn jitter_delays_what_is_due_and_loses_nothing() {
    let jittered = schedule(&Spec { jitter: Duration::from_secs(50), misfire: Some(Misfire::RunAll), ..minutely() });
    let mut seen = Vec::new();
    let mut time = at("2025-01-01T00:00:00Z");
    for second in 0..3_600 {
        let now = Timestamp(at("2025-01-01T00:00:00Z").0 + second * 1_000_000);
        let decision = jittered.decide(waiting(&jittered, time), now, Pace::Together).unwrap();
        assert!(decision.run.iter().all(|due| jittered.due(due.time) <= now));
        assert!(decision.missed.is_empty());
        seen.extend(decision.run.iter().map(|due| due.time));
        let Next::At(fire) = decision.next else { panic!("it goes on") };
        time = fire.time;
    }
    assert!(seen.windows(2).all(|pair| pair[1].0 - pair[0].0 == 60_000_000));
    assert!(seen.len() >= 59);
}

#[test]
fn a_single_time_in_the_past_needs_a_policy_that_says_run() {
    let now = at("2025-01-01T12:00:00Z");
    let spec: Spec = RuleSpec::At("2025-01-01T11:00:00Z".parse().unwrap()).into();
    let refused = schedule(&spec).first_fire(now).unwrap_err().to_string();
    assert!(refused.contains("in the past") && refused.contains("misfire"), "{refused}");
    let once = with(Misfire::RunOnce, spec);
    let fire = once.first_fire(now).unwrap();
    let decision = once.decide(waiting(&once, fire.time), now, ALONE).unwrap();
    assert_eq!(run(&decision), ["2025-01-01T11:00:00Z"]);
    assert_eq!(decision.next, Next::Over);
}

#[test]
fn a_delay_has_one_fire_due_however_long_it_waited() {
    let spec: Spec = RuleSpec::Every { period: Duration::from_mins(1), after: After::Completion }.into();
    let decision = decide(&schedule(&spec), "2025-01-01T00:01:00Z", "2025-01-01T02:00:00Z");
    assert_eq!(run(&decision), ["2025-01-01T00:01:00Z"]);
    assert!(decision.missed.is_empty());
}

#[test]
fn what_is_not_due_is_left_alone() {
    let decision = decide(&schedule(&minutely()), "2025-01-01T00:01:00Z", "2025-01-01T00:00:59Z");
    assert!(decision.run.is_empty() && decision.missed.is_empty());
    assert_eq!(waits_for(&decision), "2025-01-01T00:01:00Z");
}
