//! Saying Chinese: in the one way that each rule is said.

use std::fmt::Write;

use super::{COUNTS, WEEKDAYS};
use crate::domain::schedule::{
    cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits, numbers},
    text::{CycleUnit, Form, MonthDay, Step, Time, WEEKEND, WORKDAYS, is_every_day, monday_first},
};

/// Says a rule.
pub(in crate::domain::schedule::text) fn say(form: &Form) -> String {
    match form {
        Form::Steps { step, window, days } => {
            let step = match *step {
                Step::Seconds(n) => format!("每{}秒", several(n)),
                Step::Minutes(n) => format!("每{}分钟", several(n)),
                Step::Hours(n, 0) => format!("每{}小时", several(n)),
                Step::Hours(n, minute) => format!("每{}小时第{minute}分", several(n)),
            };
            match window {
                Some((from, to)) => format!("{}{from}至{to}之间{step}", days_of(*days)),
                None if is_every_day(*days) => step,
                None => format!("{}{step}", days_of(*days)),
            }
        }
        Form::Weekly { days, times } => format!("{} {}", days_of(*days), times_list(times)),
        Form::Monthly { day, months, times } => {
            let months = match *months {
                ALL_MONTHS => "每月".to_owned(),
                months => format!("每年{}", join(numbers(months).map(|n| format!("{n}月")))),
            };
            format!("{months}{} {}", month_day(*day), times_list(times))
        }
        Form::Cycle { every, unit, times, starting } => {
            let mut text = match unit {
                CycleUnit::Days => format!("每{every}天"),
                CycleUnit::Weeks(days) => format!("每{every}周的{}", weekday_list(*days)),
                CycleUnit::Months(day) => format!("每{every}个月的{}", month_day(*day)),
            };
            let _ = write!(text, " {}", times_list(times));
            if let Some(date) = starting {
                let _ = write!(text, "，从{date}起");
            }
            text
        }
    }
}

fn several(n: u32) -> String {
    if n == 1 { String::new() } else { n.to_string() }
}

fn days_of(days: Bits) -> String {
    match days {
        ALL_WEEKDAYS => "每天".to_owned(),
        WORKDAYS => "每个工作日".to_owned(),
        WEEKEND => "每个周末".to_owned(),
        days => format!("每{}", weekday_list(days)),
    }
}

fn month_day(day: MonthDay) -> String {
    match day {
        MonthDay::Day(n) => format!("{n}日"),
        MonthDay::Last => "最后一天".to_owned(),
        MonthDay::FirstWorkday => "第一个工作日".to_owned(),
        MonthDay::LastWorkday => "最后一个工作日".to_owned(),
        MonthDay::Nth(weekday, n) => format!("第{}个周{}", COUNTS[n as usize - 1], WEEKDAYS[weekday as usize]),
        MonthDay::LastOf(weekday) => format!("最后一个周{}", WEEKDAYS[weekday as usize]),
    }
}

fn weekday_list(days: Bits) -> String {
    join(monday_first(days).into_iter().map(|n| format!("周{}", WEEKDAYS[n as usize])))
}

fn times_list(times: &[Time]) -> String {
    join(times.iter().map(Time::to_string))
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join("、")
}
