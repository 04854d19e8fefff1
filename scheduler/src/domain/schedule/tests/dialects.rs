//! What expressions mean, field by field, and what refusals say.

use super::at;
use super::{cron, next};
use crate::domain::schedule::{
    Language, Schedule, Spec, Zone,
    cron::{Expression, LENGTH_MAX},
};

fn refusal(expression: &str) -> String {
    Expression::parse(expression).unwrap_err().to_string()
}

/// The dates of the first fires in UTC from 2025-01-01.
fn dates(expression: &str, count: usize) -> Vec<String> {
    next(&cron(expression, ""), "2024-12-31T23:59:59Z", count).iter().map(|time| time[..10].to_owned()).collect()
}

#[test]
fn five_fields_count_weekdays_as_unix_does() {
    // 2025-01-01 was a Wednesday.
    assert_eq!(dates("0 0 * * 1-5", 4), ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-06"]);
    for sunday in ["0", "7", "sun", "SUN", "7-7"] {
        assert_eq!(dates(&format!("0 0 * * {sunday}"), 2), ["2025-01-05", "2025-01-12"]);
    }
    assert_eq!(dates("0 0 * * 5-7", 4), ["2025-01-03", "2025-01-04", "2025-01-05", "2025-01-10"]);
    assert_eq!(dates("0 0 * * 7-1", 3), ["2025-01-05", "2025-01-06", "2025-01-12"]);
    assert_eq!(dates("0 0 * * fri-mon", 5), ["2025-01-03", "2025-01-04", "2025-01-05", "2025-01-06", "2025-01-10"]);
    assert_eq!(dates("0 0 * * */2", 4), ["2025-01-02", "2025-01-04", "2025-01-05", "2025-01-07"]);
}

#[test]
fn six_fields_count_weekdays_as_quartz_does() {
    assert_eq!(dates("0 0 0 ? * 1", 2), ["2025-01-05", "2025-01-12"]);
    assert_eq!(dates("0 0 0 ? * 2-6", 4), ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-06"]);
    assert_eq!(dates("0 0 0 ? * L", 2), ["2025-01-04", "2025-01-11"]);
    assert!(refusal("0 0 0 ? * 0").contains("1 is Sunday"));
}

#[test]
fn of_two_restricted_day_fields_either_matches_in_unix_and_both_in_quartz() {
    let either = ["2025-01-03", "2025-01-10", "2025-01-13", "2025-01-17"];
    assert_eq!(dates("0 0 13 * 5", 4), either);
    assert_eq!(dates("0 0 0 13 * FRI", 2), ["2025-06-13", "2026-02-13"]);
    // A field that starts with a star does not restrict: then both must match.
    assert_eq!(dates("0 0 */2 * 5", 3), ["2025-01-03", "2025-01-17", "2025-01-31"]);
    assert_eq!(dates("0 0 13 * */5", 2), ["2025-04-13", "2025-06-13"]);
}

#[test]
fn special_days_are_found_in_every_month() {
    assert_eq!(dates("0 0 0 L * ?", 3), ["2025-01-31", "2025-02-28", "2025-03-31"]);
    assert_eq!(dates("0 0 0 L-3 * ?", 2), ["2025-01-28", "2025-02-25"]);
    assert_eq!(dates("0 0 0 LW * ?", 5), ["2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30", "2025-05-30"]);
    assert_eq!(dates("0 0 0 15W * ?", 3), ["2025-01-15", "2025-02-14", "2025-03-14"]);
    // The first was a Saturday in February and in March: the nearest weekday within the month is the third.
    assert_eq!(dates("0 0 0 1W * ?", 3), ["2025-01-01", "2025-02-03", "2025-03-03"]);
    // The 31st of August was a Sunday; months without a 31st have none.
    assert_eq!(dates("0 0 0 31W * ?", 5), ["2025-01-31", "2025-03-31", "2025-05-30", "2025-07-31", "2025-08-29"]);
    assert_eq!(dates("0 0 0 29W 2 ?", 2), ["2028-02-29", "2032-02-27"]);
    assert_eq!(dates("0 0 0 ? * 6#3", 2), ["2025-01-17", "2025-02-21"]);
    assert_eq!(dates("0 0 0 ? * FRI#5", 2), ["2025-01-31", "2025-05-30"]);
    assert_eq!(dates("0 0 0 ? * 6L", 2), ["2025-01-31", "2025-02-28"]);
    assert_eq!(dates("0 0 0 1,15,L * ?", 4), ["2025-01-01", "2025-01-15", "2025-01-31", "2025-02-01"]);
    assert_eq!(dates("0 0 0 ? * MON,FRI#2", 3), ["2025-01-06", "2025-01-10", "2025-01-13"]);
}

#[test]
fn ranges_wrap_and_steps_count_on_round_the_corner() {
    let night = next(&cron("0 22-4/2 * * *", ""), "2025-01-01T05:00:00Z", 5);
    let hours: Vec<_> = night.iter().map(|time| &time[11..13]).collect();
    assert_eq!(hours, ["22", "00", "02", "04", "22"]);
    assert_eq!(dates("0 0 1 nov-feb *", 4), ["2025-01-01", "2025-02-01", "2025-11-01", "2025-12-01"]);
    let steps = next(&cron("5/20 * * * *", ""), "2025-01-01T00:00:00Z", 4);
    let minutes: Vec<_> = steps.iter().map(|time| &time[14..16]).collect();
    assert_eq!(minutes, ["05", "25", "45", "05"]);
}

#[test]
fn years_bound_a_schedule() {
    assert_eq!(dates("0 0 0 1 1 ? 2026,2030-2031", 9), ["2026-01-01", "2030-01-01", "2031-01-01"]);
    assert_eq!(dates("0 0 0 1 1 ? 2090/4", 9), ["2090-01-01", "2094-01-01", "2098-01-01"]);
    assert!(refusal("0 0 0 1 1 ? 2030-2020").contains("years do not wrap"));
    assert!(refusal("0 0 0 1 1 ? 2101").contains("1970 to 2100"));
}

#[test]
fn macros_are_known_in_any_case() {
    for (name, same) in [
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@MONTHLY", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ] {
        let from = "2025-06-15T12:00:00Z";
        assert_eq!(next(&cron(name, ""), from, 3), next(&cron(same, ""), from, 3));
    }
    assert!(refusal("@reboot").contains("an event, not a time"));
    assert!(refusal("@every 5m").contains("every: 5m"));
    assert!(refusal("@fortnightly").contains("@weekly"));
}

#[test]
fn a_refusal_names_the_field_the_place_and_what_to_write() {
    for (expression, field, offset, hint) in [
        ("60 * * * *", "minute", 0, "0 to 59"),
        ("0 24 * * *", "hour", 2, "0 to 23"),
        ("0 0 32 * *", "day of month", 4, "1 to 31"),
        ("0 0 * 13 *", "month", 6, "1 to 12"),
        ("0 0 * * 8", "day of week", 8, "0 to 7"),
        ("0 0 * * friday", "day of week", 8, "FRI"),
        ("*/90 * * * *", "minute", 2, "use `every`"),
        ("*/0 * * * *", "minute", 2, "1 or more"),
        (",,, * * * *", "minute", 0, "comma"),
        ("0 1,,2 * * *", "hour", 4, "comma"),
        ("0 0 ? * 1", "day of month", 4, "write *"),
        ("0 0 L * *", "day of month", 4, "six fields"),
        ("0 0 * * 5#3", "day of week", 8, "six fields"),
        ("0 0 0 ? * 5#6", "day of week", 10, "1 to 5"),
        ("0 0 0 L-31 * ?", "day of month", 6, "L-30"),
        ("0 0 0 ? ? *", "month", 8, "write *"),
        ("1-x * * * *", "minute", 2, "numbers"),
        ("0 0 30 2 *", "day of month", 4, "30 February"),
        ("0 0 0 31 4,6,9,11 ?", "day of month", 6, "never fires"),
    ] {
        let error = Expression::parse(expression).unwrap_err();
        assert_eq!((error.field, error.offset), (field, offset), "{error}");
        assert!(error.to_string().contains(hint), "{expression}: {error}");
    }
    assert!(refusal("").contains("empty"));
    assert!(refusal("* * * *").contains("4 fields"));
    assert!(refusal("CRON_TZ=UTC 0 0 * * *").contains("time_zone"));
}

#[test]
fn hostile_expressions_are_refused_or_answered_within_bounds() {
    let long = format!("{} * * * *", vec!["1"; 200_000].join(","));
    assert!(refusal(&long).contains(&LENGTH_MAX.to_string()));
    for text in [
        "\u{0}",
        "* * * * \u{1F4BC}",
        "每 天 的 九 点",
        "-1 * * * *",
        "9999999999 * * * *",
        "*/4294967296 * * * *",
        "1-2-3 * * * *",
        "*/2/3 * * * *",
        "- * * * *",
        "/ * * * *",
        "#L * * * *",
        "0 0 0 W * ?",
        "0 0 0 ? * #",
        "0 0 0 ? * L#1",
        "0 0 0 LL * ?",
        "0 0 0 -W * ?",
        "0 0 0 ? * /2",
        "0 0 0 32W * ?",
        "**",
        "@",
        "? ? ? ? ?",
        "99W 0 0 * * ?",
    ] {
        assert!(Expression::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_unknown_zone_is_refused_at_save() {
    let error =
        Schedule::new(&Spec::cron("0 0 * * *", "Asia/NoSuch"), "", at("2025-01-01T00:00:00Z"), &[]).unwrap_err();
    assert_eq!(error[0].field, "time_zone");
    assert!(error[0].message.contains("did you mean"));
    assert_eq!(Zone::parse("Asia/Shanghai").unwrap().name(), "Asia/Shanghai");
}

#[test]
fn everything_wrong_is_told_at_once() {
    let spec = Spec {
        end_time: Some("2024-01-01T00:00:00Z".parse().unwrap()),
        start_time: Some("2025-01-01T00:00:00Z".parse().unwrap()),
        calendars: vec!["holidays".to_owned()],
        catchup_limit: 0,
        ..Spec::cron("61 * * * *", "Mars/Base")
    };
    let problems = Schedule::new(&spec, "", at("2025-01-01T00:00:00Z"), &[]).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["time_zone", "cron", "end_time", "catchup_limit", "calendars"]);
    // And nothing that is not.
    let problems = Schedule::new(&Spec::every(std::time::Duration::ZERO), "", at("2025-01-01T00:00:00Z"), &[]);
    let fields: Vec<_> = problems.unwrap_err().iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["every"]);
}

#[test]
fn words_say_what_an_expression_means_in_both_languages() {
    for (expression, english, chinese) in [
        ("30 2 * * 1-5", "every weekday at 02:30", "每个工作日 02:30"),
        ("*/15 * * * *", "every 15 minutes", "每15分钟"),
        ("* * * * *", "every minute", "每分钟"),
        ("0 * * * *", "every hour", "每小时"),
        ("*/15 8-17 * * *", "every 15 minutes between 08:00 and 17:45", "每天08:00至17:45之间每15分钟"),
        ("0 30 2 ? * MON-FRI", "every weekday at 02:30", "每个工作日 02:30"),
        ("0 0 9,17 * * SAT,SUN", "every weekend day at 09:00 and 17:00", "每个周末 09:00、17:00"),
        ("0 30 23 L * ?", "last day of the month at 23:30", "每月最后一天 23:30"),
        ("0 0 9 ? * MON#1", "first Monday of the month at 09:00", "每月第一个周一 09:00"),
        ("0 0 24 12 *", "day 24 of December at 00:00", "每年12月24日 00:00"),
        ("0 0 13 * 5", "at minute 0 of hour 0, on day 13 of the month or on Friday", "当月13日或每逢周五，0时的0分"),
        (
            "0 0 0 13 * FRI",
            "at minute 0 of hour 0, on day 13 of the month, only if it is Friday",
            "当月13日且为周五，0时的0分",
        ),
        (
            "5,20-30 8-17/3 * 1,6 *",
            "at minute 5 and 20 to 30 of hour 8, 11, 14 and 17, in January and June",
            "1月、6月，每天，8时、11时、14时、17时的5分、20分至30分",
        ),
    ] {
        let expression = Expression::parse(expression).unwrap();
        assert_eq!(expression.describe(Language::English), english);
        assert_eq!(expression.describe(Language::Chinese), chinese);
    }
}
