//! English for expressions that the grammar has no words for, and for notes.

use std::fmt::Write;

use crate::domain::schedule::{
    civil::Civil,
    cron::{
        ALL_DAYS, ALL_HOURS, ALL_MINUTES, ALL_MONTHS, ALL_WEEKDAYS, Bits, DayOfMonth, DayOfWeek, Days, Expression,
        Fields,
    },
    firing::Note,
    wall::Shift,
    words::runs,
};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) fn expression(expression: &Expression) -> String {
    let fields = expression.grid().fields();
    let mut text = times(fields);
    let days = days(&fields.days);
    if !days.is_empty() {
        let _ = write!(text, ", {days}");
    }
    if fields.months != ALL_MONTHS {
        let _ = write!(text, ", in {}", set(fields.months, |n| MONTHS[n as usize - 1].to_owned()));
    }
    if let Some(years) = &fields.years {
        let _ = write!(text, ", in {}", list(years.iter().map(i32::to_string).collect(), "and"));
    }
    text
}

fn times(fields: &Fields) -> String {
    let number = |n: u32| n.to_string();
    let mut parts = Vec::new();
    match fields.seconds {
        1 => {}
        ALL_MINUTES => parts.push("every second".to_owned()),
        seconds => parts.push(format!("second {}", set(seconds, number))),
    }
    match fields.minutes {
        ALL_MINUTES => parts.push("every minute".to_owned()),
        minutes => parts.push(format!("minute {}", set(minutes, number))),
    }
    match fields.hours {
        ALL_HOURS => parts.push("every hour".to_owned()),
        hours => parts.push(format!("hour {}", set(hours, number))),
    }
    format!("at {}", parts.join(" of "))
}

fn days(days: &Days) -> String {
    let month_free = days.of_month == ALL_DAYS && days.of_month_special.is_empty();
    let week_free = days.of_week == ALL_WEEKDAYS && days.of_week_special.is_empty();
    match (month_free, week_free) {
        (true, true) => String::new(),
        (false, true) => format!("on {} of the month", days_of_month(days)),
        (true, false) => format!("on {}", days_of_week(days)),
        _ if days.either => format!("on {} of the month or on {}", days_of_month(days), days_of_week(days)),
        _ => format!("on {} of the month, only if it is {}", days_of_month(days), days_of_week(days)),
    }
}

fn days_of_month(days: &Days) -> String {
    let mut parts = Vec::new();
    if days.of_month != 0 {
        parts.push(format!("day {}", set(days.of_month, |n| n.to_string())));
    }
    parts.extend(days.of_month_special.iter().map(|special| match *special {
        DayOfMonth::Last(0) => "the last day".to_owned(),
        DayOfMonth::Last(n) => format!("day {n} before the last"),
        DayOfMonth::NearestWeekday(n) => format!("the weekday nearest to day {n}"),
        DayOfMonth::LastNearestWeekday(0) => "the last weekday".to_owned(),
        DayOfMonth::LastNearestWeekday(n) => format!("the weekday nearest to day {n} before the last"),
    }));
    list(parts, "or")
}

fn days_of_week(days: &Days) -> String {
    const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
    let mut parts = Vec::new();
    if days.of_week != 0 {
        parts.push(set_with(days.of_week, |n| WEEKDAYS[n as usize].to_owned(), "or"));
    }
    parts.extend(days.of_week_special.iter().map(|special| match *special {
        DayOfWeek::Nth(weekday, n) => {
            format!("the {} {} of the month", ORDINALS[n as usize - 1], WEEKDAYS[weekday as usize])
        }
        DayOfWeek::Last(weekday) => format!("the last {} of the month", WEEKDAYS[weekday as usize]),
    }));
    list(parts, "or")
}

pub(super) fn note(note: &Note, reading: Civil) -> String {
    let clock = |civil: Civil| civil.datetime().format("%H:%M").to_string();
    match note {
        Note::Clock(Shift::Moved { from, merged }) => {
            let others = if *merged { "; the fires of the gap are one" } else { "" };
            format!(
                "{} does not exist (clocks go forward), moved to {}{others}",
                missing(*from, reading),
                clock(reading)
            )
        }
        Note::Clock(Shift::FirstPass) => {
            format!("{} shows twice (clocks go back), fires the first time only", clock(reading))
        }
        Note::Clock(Shift::SecondPass) => format!("{} shows for the second time (clocks went back)", clock(reading)),
        Note::Clock(Shift::AfterGap { from }) => {
            format!("nothing fires at {}, which does not exist (clocks go forward)", missing(*from, reading))
        }
        Note::Excluded { calendar, first, count } => {
            let first = first.datetime().format("%Y-%m-%d %H:%M");
            let fires = if *count == 1 { "fire" } else { "fires" };
            format!("calendar {calendar} leaves out {count} {fires} from {first} on")
        }
    }
}

/// A reading that does not exist, with its date when that does not exist either.
fn missing(from: Civil, reading: Civil) -> String {
    let format = if from.date() == reading.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    from.datetime().format(format).to_string()
}

fn set(bits: Bits, name: impl Fn(u32) -> String) -> String {
    set_with(bits, name, "and")
}

fn set_with(bits: Bits, name: impl Fn(u32) -> String, joint: &str) -> String {
    let runs = runs(bits).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![name(first)],
        1 => vec![name(first), name(last)],
        _ => vec![format!("{} to {}", name(first), name(last))],
    });
    list(runs.collect(), joint)
}

fn list(mut items: Vec<String>, joint: &str) -> String {
    let Some(last) = items.pop() else { return String::new() };
    if items.is_empty() { last } else { format!("{} {joint} {last}", items.join(", ")) }
}
