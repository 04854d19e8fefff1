//! Reports of other schedulers about changing clocks, each a story of a schedule that must not repeat them here.

use super::at;
use super::{cron, fires, next, schedule};
use crate::domain::schedule::{Next, Note, Shift, Spec};

#[test]
fn a_quarter_hourly_schedule_loses_nothing_in_the_repeated_hour() {
    let quarterly = cron("0 */15 * * * *", "America/New_York");
    let found = fires(&quarterly, "2025-11-02T04:00:00Z", "2025-11-02T09:00:00Z");
    assert_eq!(found.len(), 20);
    assert_eq!(found[0], "2025-11-02T04:15:00Z");
    assert_eq!(found[19], "2025-11-02T09:00:00Z");
    // Twenty within five hours, in order, are fifteen minutes apart.
    assert!(found.is_sorted());
}

#[test]
fn asked_in_the_second_pass_the_answer_is_not_in_the_past() {
    let quarterly = cron("0 */15 * * * *", "America/New_York");
    assert_eq!(next(&quarterly, "2025-11-02T06:20:00Z", 1), ["2025-11-02T06:30:00Z"]);
    let found = next(&quarterly, "2025-11-02T05:20:00Z", 9);
    assert_eq!(found[0], "2025-11-02T05:30:00Z");
    assert_eq!(found[8], "2025-11-02T07:30:00Z");
    assert!(found.is_sorted());
}

#[test]
fn a_daily_job_in_the_gap_runs_once_when_the_clock_has_moved() {
    let daily = cron("0 2 * * *", "America/New_York");
    assert_eq!(fires(&daily, "2019-03-10T06:50:00Z", "2019-03-10T07:10:00Z"), ["2019-03-10T07:00:00Z"]);
    assert_eq!(next(&daily, "2025-03-09T06:30:00Z", 2), ["2025-03-09T07:00:00Z", "2025-03-10T06:00:00Z"]);
}

#[test]
fn a_four_hourly_job_goes_on_after_the_gap_the_same_day() {
    for hours in ["2/4", "2,6,10,14,18,22"] {
        let four_hourly = cron(&format!("30 {hours} * * *"), "Australia/Sydney");
        let found = next(&four_hourly, "2019-10-05T15:00:00Z", 6);
        // 03:00, 06:30, 10:30, 14:30, 18:30 and 22:30 at +11:00.
        assert_eq!(
            found,
            [
                "2019-10-05T16:00:00Z",
                "2019-10-05T19:30:00Z",
                "2019-10-05T23:30:00Z",
                "2019-10-06T03:30:00Z",
                "2019-10-06T07:30:00Z",
                "2019-10-06T11:30:00Z"
            ]
        );
    }
}

#[test]
fn a_minutely_job_fires_every_real_minute_of_the_long_night() {
    let minutely = cron("* * * * *", "Europe/Berlin");
    assert_eq!(fires(&minutely, "2025-10-26T00:00:00Z", "2025-10-26T02:30:00Z").len(), 150);
}

#[test]
fn the_day_of_the_change_is_not_an_hour_late() {
    let afternoon = cron("4 16 * * *", "America/New_York");
    assert_eq!(next(&afternoon, "2025-03-08T21:04:00Z", 1), ["2025-03-09T20:04:00Z"]);
    let monday_noon = cron("0 12 * * 1", "Europe/Amsterdam");
    assert_eq!(fires(&monday_noon, "2013-10-27T23:00:00Z", "2013-10-28T22:59:00Z"), ["2013-10-28T11:00:00Z"]);
}

#[test]
fn the_zone_of_the_host_does_not_matter() {
    // What a host in London does to a table in UTC is not looked at here at all: nothing reads its zone.
    for minute in [0, 30, 59] {
        let hourly = cron(&format!("{minute} 1 * * *"), "");
        let expected = format!("2022-10-30T01:{minute:02}:00Z");
        assert_eq!(fires(&hourly, "2022-10-30T00:00:00Z", "2022-10-30T23:59:59Z"), [expected]);
    }
}

#[test]
fn a_day_that_begins_at_one_still_has_its_midnight_job() {
    let midnight = cron("0 0 * * *", "America/Sao_Paulo");
    assert_eq!(next(&midnight, "2018-11-03T12:00:00Z", 2), ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]);
    let midnight = cron("0 0 * * *", "America/Santiago");
    assert_eq!(next(&midnight, "2024-09-07T12:00:00Z", 2), ["2024-09-08T04:00:00Z", "2024-09-09T03:00:00Z"]);
}

#[test]
fn a_gap_of_half_an_hour_drops_nothing() {
    let early = cron("15 2 * * *", "Australia/Lord_Howe");
    // The end of the gap is 02:30 at +11:00, where it was +10:30.
    assert_eq!(next(&early, "2024-10-05T12:00:00Z", 2), ["2024-10-05T15:30:00Z", "2024-10-06T15:15:00Z"]);
}

#[test]
fn a_day_that_never_was_is_made_up_for_at_its_end() {
    let noon = cron("0 12 * * *", "Pacific/Apia");
    // Samoa went from the end of the 29th to the start of the 31st of December 2011.
    assert_eq!(
        next(&noon, "2011-12-29T00:00:00Z", 3),
        ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]
    );
}

#[test]
fn fires_of_one_gap_are_one_fire_and_merge_with_the_one_at_its_end() {
    let thrice = cron("0,30 2,3 * * *", "America/New_York");
    let Next::At(fire) = thrice.next(at("2025-03-09T06:00:00Z")).unwrap() else { panic!("it fires") };
    let Note::Clock(Shift::Moved { from, merged }) = fire.notes[0] else { panic!("the clock moved it") };
    assert_eq!((from.datetime().to_string(), merged), ("2025-03-09 02:00:00".to_owned(), true));
    assert_eq!(next(&thrice, "2025-03-09T06:00:00Z", 2), ["2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"]);
}

#[test]
fn half_past_two_neither_disappears_nor_comes_twice() {
    let spring = cron("30 2 * * *", "America/New_York");
    assert_eq!(fires(&spring, "2025-03-09T05:00:00Z", "2025-03-10T05:00:00Z"), ["2025-03-09T07:00:00Z"]);
    let autumn = cron("30 1 * * *", "America/New_York");
    assert_eq!(fires(&autumn, "2025-11-02T04:00:00Z", "2025-11-03T04:59:00Z"), ["2025-11-02T05:30:00Z"]);
}

#[test]
fn a_zone_east_of_greenwich_fires_once_and_not_again_in_utc() {
    let early = cron("35 5 * * *", "Etc/GMT-1");
    assert_eq!(fires(&early, "2025-01-01T04:00:00Z", "2025-01-01T06:30:00Z"), ["2025-01-01T04:35:00Z"]);
}

#[test]
fn a_single_date_in_a_gap_fires_at_its_end_if_fixed_and_never_if_not() {
    let fixed = cron("0 30 2 9 3 ? 2025", "America/New_York");
    assert_eq!(next(&fixed, "2025-01-01T00:00:00Z", 2), ["2025-03-09T07:00:00Z"]);
    assert_eq!(fixed.next(at("2025-04-01T00:00:00Z")).unwrap(), Next::Over);
    let elapsed = cron("0 */5 2 9 3 ? 2025", "America/New_York");
    assert_eq!(elapsed.next(at("2025-01-01T00:00:00Z")).unwrap(), Next::Never);
    assert!(elapsed.first_fire(at("2025-01-01T00:00:00Z")).unwrap_err().to_string().contains("never fires"));
}

#[test]
fn words_take_a_change_of_the_clock_as_their_cron_form_does() {
    let steps = schedule(&Spec::text("every 15 minutes between 00:00 and 04:00", "America/New_York"));
    // 00:15 to 01:45 in both passes of the second hour, then 02:00 to 04:00.
    assert_eq!(fires(&steps, "2025-11-02T04:00:00Z", "2025-11-02T12:00:00Z").len(), 20);
    let named = schedule(&Spec::text("every day at 01:30", "America/New_York"));
    assert_eq!(fires(&named, "2025-11-02T04:00:00Z", "2025-11-03T04:00:00Z").len(), 1);
}
