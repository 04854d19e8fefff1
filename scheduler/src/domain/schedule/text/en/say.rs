//! Saying English: in the one way that each rule is said.

use std::fmt::Write;

use super::{MONTHS, ORDINALS, WEEKDAYS};
use crate::domain::schedule::{
    cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits, numbers},
    text::{CycleUnit, Form, MonthDay, Step, Time, WEEKEND, WORKDAYS, is_every_day, monday_first},
};

/// Says a rule.
pub(in crate::domain::schedule::text) fn say(form: &Form) -> String {
    match form {
        Form::Steps { step, window, days } => {
            let mut text = match *step {
                Step::Seconds(n) => counted(n, "second"),
                Step::Minutes(n) => counted(n, "minute"),
                Step::Hours(n, 0) => counted(n, "hour"),
                Step::Hours(n, minute) => format!("{} at minute {minute}", counted(n, "hour")),
            };
            if let Some((from, to)) = window {
                let _ = write!(text, " between {from} and {to}");
            }
            match *days {
                ALL_WEEKDAYS => {}
                WORKDAYS => text += " on weekdays",
                WEEKEND => text += " on weekends",
                days => {
                    let _ = write!(text, " on {}", weekday_list(days));
                }
            }
            text
        }
        Form::Weekly { days, times } => {
            let days = match *days {
                days if is_every_day(days) => "day".to_owned(),
                WORKDAYS => "weekday".to_owned(),
                WEEKEND => "weekend day".to_owned(),
                days => weekday_list(days),
            };
            format!("every {days} {}", at(times))
        }
        Form::Monthly { day, months, times } => {
            let months = match *months {
                ALL_MONTHS => "the month".to_owned(),
                months => list(numbers(months).map(|n| MONTHS[n as usize - 1].to_owned())),
            };
            format!("{} of {months} {}", month_day(*day), at(times))
        }
        Form::Cycle { every, unit, times, starting } => {
            let mut text = match unit {
                CycleUnit::Days if *every == 2 => "every other day".to_owned(),
                CycleUnit::Days => counted(*every, "day"),
                CycleUnit::Weeks(days) if *every == 2 && days.is_power_of_two() => {
                    format!("every other {}", weekday_list(*days))
                }
                CycleUnit::Weeks(days) => format!("{} on {}", counted(*every, "week"), weekday_list(*days)),
                CycleUnit::Months(day) => {
                    let the = if matches!(day, MonthDay::Day(_)) { "" } else { "the " };
                    format!("{} on {the}{}", counted(*every, "month"), month_day(*day))
                }
            };
            let _ = write!(text, " {}", at(times));
            if let Some(date) = starting {
                let _ = write!(text, " starting {date}");
            }
            text
        }
    }
}

fn counted(n: u32, unit: &str) -> String {
    if n == 1 { format!("every {unit}") } else { format!("every {n} {unit}s") }
}

fn month_day(day: MonthDay) -> String {
    match day {
        MonthDay::Day(n) => format!("day {n}"),
        MonthDay::Last => "last day".to_owned(),
        MonthDay::FirstWorkday => "first weekday".to_owned(),
        MonthDay::LastWorkday => "last weekday".to_owned(),
        MonthDay::Nth(weekday, n) => format!("{} {}", ORDINALS[n as usize - 1], WEEKDAYS[weekday as usize]),
        MonthDay::LastOf(weekday) => format!("last {}", WEEKDAYS[weekday as usize]),
    }
}

fn weekday_list(days: Bits) -> String {
    list(monday_first(days).into_iter().map(|n| WEEKDAYS[n as usize].to_owned()))
}

fn at(times: &[Time]) -> String {
    format!("at {}", list(times.iter().map(Time::to_string)))
}

/// `a`, `a and b`, `a, b and c`.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    let Some(last) = items.pop() else { return String::new() };
    if items.is_empty() { last } else { format!("{} and {last}", items.join(", ")) }
}
