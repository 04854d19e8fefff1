//! What is said is read back as the same, in both languages, and what is not in the grammar is refused.

use chrono::NaiveDate;
use proptest::prelude::*;

use super::{at, cron, schedule, soak, walk};
use crate::domain::schedule::{
    Language, Spec,
    cron::{Expression, range},
    text::{CycleUnit, EVERY_MAX, Form, MonthDay, Rule, Step, TIMES_MAX, TextError, Time},
    wall::Manner,
};

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![(0..1_440_u32).prop_map(|minute| Time(minute * 60)), (0..86_400_u32).prop_map(Time)]
}

fn times() -> impl Strategy<Value = Vec<Time>> {
    let count = prop_oneof![4 => 1..5_usize, 1 => 5..=TIMES_MAX];
    count.prop_flat_map(|n| prop::collection::btree_set(time(), n)).prop_map(|times| times.into_iter().collect())
}

fn weekdays() -> impl Strategy<Value = u64> {
    1..128_u64
}

fn month_day() -> impl Strategy<Value = MonthDay> {
    prop_oneof![
        (1..=31_u32).prop_map(MonthDay::Day),
        Just(MonthDay::Last),
        Just(MonthDay::FirstWorkday),
        Just(MonthDay::LastWorkday),
        (0..7_u32, 1..=5_u32).prop_map(|(weekday, n)| MonthDay::Nth(weekday, n)),
        (0..7_u32).prop_map(MonthDay::LastOf),
    ]
}

fn steps() -> impl Strategy<Value = Form> {
    let step = prop_oneof![
        prop::sample::select(vec![1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]).prop_map(Step::Seconds),
        prop::sample::select(vec![1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]).prop_map(Step::Minutes),
        (prop::sample::select(vec![1, 2, 3, 4, 6, 8, 12]), prop_oneof![Just(0), 0..60_u32])
            .prop_map(|(n, minute)| Step::Hours(n, minute)),
    ];
    let window = prop::option::of((0..1_440_u32, 0..1_440_u32).prop_map(|(from, to)| (Time(from * 60), Time(to * 60))));
    (step, window, prop_oneof![Just(127_u64), weekdays()]).prop_map(|(step, window, days)| Form::Steps {
        step,
        window,
        days,
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let months = prop_oneof![Just(range(1, 12)), (1..4_096_u64).prop_map(|bits| bits << 1)];
    let unit = prop_oneof![
        Just(CycleUnit::Days),
        weekdays().prop_map(CycleUnit::Weeks),
        month_day().prop_map(CycleUnit::Months)
    ];
    let starting =
        prop::option::of((0..36_000_i64).prop_map(|day| NaiveDate::default() + chrono::TimeDelta::days(day)));
    prop_oneof![
        steps(),
        (weekdays(), times()).prop_map(|(days, times)| Form::Weekly { days, times }),
        (month_day(), months, times()).prop_map(|(day, months, times)| Form::Monthly { day, months, times }),
        (2..=366_u32, unit, times(), starting).prop_map(|(every, unit, times, starting)| Form::Cycle {
            every,
            unit,
            times,
            starting
        }),
    ]
    .prop_map(Rule)
    .prop_filter("not in the grammar", Rule::is_sound)
}

/// Says a rule in both languages and reads it back.
fn is_read_back(rule: &Rule) -> Result<(), TestCaseError> {
    for language in [Language::English, Language::Chinese] {
        let said = rule.describe(language);
        let read = Rule::parse(&said).map_err(|error| TestCaseError::fail(format!("{said}: {error}")))?;
        prop_assert_eq!(&read, rule, "{}", said);
    }
    Ok(())
}

/// The parts of the grammar one by one, each in full; how they go together is left to chance, above.
#[test]
fn every_word_of_the_grammar_is_read_back_as_the_same() {
    let noon = || vec![Time(43_200)];
    let every_day = 127;
    let all_months = range(1, 12);
    let mut rules = Vec::new();
    let seconds = (1..60).map(Step::Seconds);
    let steps =
        seconds.chain((1..60).map(Step::Minutes)).chain((1..24).flat_map(|n| (0..60).map(move |m| Step::Hours(n, m))));
    for step in steps {
        rules.push(Form::Steps { step, window: None, days: every_day });
    }
    for days in 1..=every_day {
        rules.push(Form::Steps { step: Step::Minutes(15), window: Some((Time(28_800), Time(64_800))), days });
        rules.push(Form::Weekly { days, times: noon() });
        rules.push(Form::Cycle { every: 2, unit: CycleUnit::Weeks(days), times: noon(), starting: None });
    }
    // Each minute opens one window and closes another.
    for minute in 0..1_440 {
        for window in [(Time(minute * 60), Time(86_340)), (Time(0), Time(minute * 60))] {
            for step in [Step::Minutes(1), Step::Hours(2, 0)] {
                rules.push(Form::Steps { step, window: Some(window), days: every_day });
            }
        }
    }
    for second in 0..86_400 {
        rules.push(Form::Weekly { days: every_day, times: vec![Time(second)] });
    }
    let named = [MonthDay::Last, MonthDay::FirstWorkday, MonthDay::LastWorkday].into_iter();
    let weekdays = (0..7).flat_map(|day| (1..=5).map(move |n| MonthDay::Nth(day, n)).chain([MonthDay::LastOf(day)]));
    let month_days: Vec<_> = (1..=31).map(MonthDay::Day).chain(named).chain(weekdays).collect();
    // Every set of months is 200,000 rules; where there is no time, each month and all of them are.
    let months: Vec<u64> = if soak() {
        (1..4_096).map(|bits| bits << 1).collect()
    } else {
        (1..=12).map(|n| 1 << n).chain([all_months]).collect()
    };
    for &day in &month_days {
        rules.extend(months.iter().map(|&months| Form::Monthly { day, months, times: noon() }));
    }
    let units = month_days.into_iter().map(CycleUnit::Months).chain([CycleUnit::Days, CycleUnit::Weeks(every_day)]);
    for unit in units {
        let every = if soak() { 2..=EVERY_MAX } else { 2..=40 };
        rules.extend(every.map(|every| Form::Cycle { every, unit, times: noon(), starting: None }));
    }
    let first = NaiveDate::default();
    for starting in first.iter_days().take(if soak() { 48_000 } else { 1_500 }).map(Some) {
        rules.push(Form::Cycle { every: 3, unit: CycleUnit::Days, times: noon(), starting });
    }
    let (mut read_back, all) = (0, rules.len());
    for rule in rules.into_iter().map(Rule).filter(Rule::is_sound) {
        is_read_back(&rule).unwrap();
        read_back += 1;
    }
    println!("{read_back} rules are read back in two languages, {} are not in the grammar", all - read_back);
    assert!(read_back > 80_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if soak() { 500_000 } else { 2_000 }, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_said_is_read_back_as_the_same(rule in rule()) {
        is_read_back(&rule)?;
    }

    #[test]
    fn no_text_is_a_panic(text in "\\PC{0,40}", words in "(every|other|每|周|第|一|day|at|on|the|of|[0-9]{1,3}|09:00| |、|,){0,12}") {
        let _ = Rule::parse(&text);
        let _ = Rule::parse(&words);
        let _ = Expression::parse(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn the_cron_form_of_words_fires_as_they_do(rule in rule()) {
        let Some(form) = rule.cron() else { return Ok(()) };
        let expression = Expression::parse(&form).unwrap();
        let manner = if expression.is_interval_like() { Manner::Elapsed } else { Manner::Fixed };
        prop_assert_eq!(manner, rule.manner(), "{}", form);
        // A change of the clock each way, and a leap day.
        for (from, to) in [("2028-03-11T12:00:00Z", "2028-03-13T00:00:00Z"), ("2028-11-04T12:00:00Z", "2028-11-06T00:00:00Z"), ("2028-02-28T00:00:00Z", "2028-03-02T00:00:00Z")] {
            let words = schedule(&Spec::text(&rule.describe(Language::English), "America/New_York"));
            let fields = cron(&form, "America/New_York");
            if words.count(at(from), at(to)) < 3_000 {
                prop_assert_eq!(walk(&words, at(from), at(to)), walk(&fields, at(from), at(to)), "{}", form);
            }
            prop_assert_eq!(words.count(at(from), at(to)), fields.count(at(from), at(to)));
        }
        // And read as fields, it is recognised as the same words, or as words with the same fires.
        if let Some(recognised) = expression.as_text() {
            let words = schedule(&Spec::text(&recognised.describe(Language::Chinese), "America/New_York"));
            let (from, to) = (at("2028-11-04T12:00:00Z"), at("2029-11-06T00:00:00Z"));
            prop_assert_eq!(words.count(from, to), cron(&form, "America/New_York").count(from, to));
        }
    }
}

#[test]
fn people_write_in_more_ways_than_one() {
    for (written, english, chinese) in [
        ("Every weekday at 9:00", "every weekday at 09:00", "每个工作日 09:00"),
        (
            "every monday, wednesday, and friday at 9:00",
            "every Monday, Wednesday and Friday at 09:00",
            "每周一、周三、周五 09:00",
        ),
        ("on the last day of every month at 23:30", "last day of the month at 23:30", "每月最后一天 23:30"),
        ("every weekend at 10:00", "every weekend day at 10:00", "每个周末 10:00"),
        (
            "every 15 minutes between 08:00 and 18:00",
            "every 15 minutes between 08:00 and 18:00",
            "每天08:00至18:00之间每15分钟",
        ),
        ("every 2 weeks on Tuesday at 09:00", "every other Tuesday at 09:00", "每2周的周二 09:00"),
        ("every 3 months on day 1 at 09:00", "every 3 months on day 1 at 09:00", "每3个月的1日 09:00"),
        ("every day at 17:30 and 09:00", "every day at 09:00 and 17:30", "每天 09:00、17:30"),
        ("每个工作日09：00", "every weekday at 09:00", "每个工作日 09:00"),
        ("每星期天 8:05", "every Sunday at 08:05", "每周日 08:05"),
        ("隔周的周二 09:00", "every other Tuesday at 09:00", "每2周的周二 09:00"),
        ("每两个月的最后一天 09:00", "every 2 months on the last day at 09:00", "每2个月的最后一天 09:00"),
        ("每隔一天 09:00", "every other day at 09:00", "每2天 09:00"),
        ("每月15号 09:00", "day 15 of the month at 09:00", "每月15日 09:00"),
    ] {
        let rule = Rule::parse(written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(rule.describe(Language::English), english);
        assert_eq!(rule.describe(Language::Chinese), chinese);
    }
}

#[test]
fn what_is_not_in_the_grammar_is_refused_with_the_nearest_forms() {
    let refusal = |text: &str| -> TextError { Rule::parse(text).unwrap_err() };
    for (text, says, nearest) in [
        ("every 7 minutes", "does not divide", "every 15 minutes"),
        ("every day at 9am", "24-hour clock", "every day at 09:00"),
        ("every day", "time is missing", "every day at 09:00"),
        ("every other Tuesday and Friday at 09:00", "read in two ways", "every other Tuesday at 09:00"),
        ("every fortnight at 09:00", "\"fortnight at 09:00\"", "every other day at 09:00"),
        ("day 31 of February at 09:00", "never fire", "day 24 of December at 18:00"),
        ("every 2 months on day 31 at 09:00", "some months", "every 3 months on day 1 at 09:00"),
        ("every 15 minutes between 22:00 and 06:00", "two schedules", "every 15 minutes between 08:00 and 18:00"),
        ("every day at 09:00 and 9:00", "named twice", "every day at 09:00"),
        ("每隔两天 09:00", "read in two ways", "每2天 09:00"),
        ("每天早上九点", "24-hour clock", "每天 09:00"),
        ("每7分钟", "does not divide", "每15分钟"),
    ] {
        let error = refusal(text);
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.nearest.contains(&nearest), "{text}: {error}");
    }
    assert_eq!(refusal("every fortnight at 09:00").offset, 6);
    assert!(refusal("").to_string().contains("empty"));
    assert!(refusal(&"every ".repeat(1_000)).to_string().contains("512"));
}

#[test]
fn a_window_holds_both_of_its_ends() {
    let steps = schedule(&Spec::text("every 15 minutes between 08:10 and 18:10", ""));
    assert_eq!(steps.count(at("2025-01-01T00:00:00Z"), at("2025-01-01T23:59:59Z")), 41);
    assert_eq!(super::next(&steps, "2025-01-01T18:00:00Z", 2), ["2025-01-01T18:10:00Z", "2025-01-02T08:10:00Z"]);
    let hours = schedule(&Spec::text("every 2 hours between 09:30 and 17:30 on weekdays", ""));
    assert_eq!(hours.count(at("2025-01-01T00:00:00Z"), at("2025-01-01T23:59:59Z")), 5);
}
