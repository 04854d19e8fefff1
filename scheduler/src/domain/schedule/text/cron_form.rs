//! The cron expression that says the same as words, where there is one.

use super::{
    Form, MonthDay, Rule, Step, Time,
    lower::{TimeSets, at, steps},
};
use crate::domain::schedule::cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits, numbers};

impl Rule {
    /// The expression with the same fires, clock changes included: five fields where that is enough.
    pub fn cron(&self) -> Option<String> {
        match &self.0 {
            Form::Steps { step, window, days } => stepped(*step, *window, *days),
            Form::Weekly { days, times } => {
                let (second, minute, hours) = single(at(times))?;
                Some(join(second, &list(minute), &list(hours), None, ALL_MONTHS, &Week::Days(*days)))
            }
            Form::Monthly { day, months, times } => {
                let (second, minute, hours) = single(at(times))?;
                let (of_month, week) = match *day {
                    MonthDay::Day(n) => (n.to_string(), Week::Days(ALL_WEEKDAYS)),
                    MonthDay::Last => ("L".to_owned(), Week::Special("?".to_owned())),
                    MonthDay::FirstWorkday => ("1W".to_owned(), Week::Special("?".to_owned())),
                    MonthDay::LastWorkday => ("LW".to_owned(), Week::Special("?".to_owned())),
                    MonthDay::Nth(weekday, n) => {
                        ("?".to_owned(), Week::Special(format!("{}#{n}", NAMES[weekday as usize])))
                    }
                    MonthDay::LastOf(weekday) => {
                        ("?".to_owned(), Week::Special(format!("{}L", NAMES[weekday as usize])))
                    }
                };
                Some(join(second, &list(minute), &list(hours), Some(&of_month), *months, &week))
            }
            Form::Cycle { .. } => None,
        }
    }
}

const NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

enum Week {
    Days(Bits),
    /// Something that only six fields can say.
    Special(String),
}

fn stepped(step: Step, window: Option<(Time, Time)>, days: Bits) -> Option<String> {
    let every = |n: u32| if n == 1 { "*".to_owned() } else { format!("*/{n}") };
    let week = Week::Days(days);
    match (step, window) {
        (Step::Seconds(n), _) => {
            let week = if days == ALL_WEEKDAYS { "* * ?".to_owned() } else { format!("? * {}", names(days)) };
            Some(format!("{} * * {week}", every(n)))
        }
        (Step::Minutes(n), None) => Some(join(1, &every(n), "*", None, ALL_MONTHS, &week)),
        (Step::Hours(n, minute), None) => Some(join(1, &minute.to_string(), &every(n), None, ALL_MONTHS, &week)),
        (Step::Minutes(n), Some(_)) => {
            let (_, minutes, hours) = single(steps(step, window))?;
            let whole = (0..60).step_by(n as usize).fold(0, |bits: Bits, m| bits | 1 << m);
            let (first, last) = (hours.trailing_zeros(), hours.ilog2());
            (minutes == whole).then(|| join(1, &every(n), &format!("{first}-{last}"), None, ALL_MONTHS, &week))
        }
        (Step::Hours(..), Some(_)) => {
            let (_, minute, hours) = single(steps(step, window))?;
            Some(join(1, &list(minute), &list(hours), None, ALL_MONTHS, &week))
        }
    }
}

/// The one product of seconds, minutes and hours that times are, if they are one.
fn single(times: TimeSets) -> Option<(Bits, Bits, Bits)> {
    if times.len() == 1 { times.into_iter().next() } else { None }
}

fn join(second: Bits, minutes: &str, hours: &str, of_month: Option<&str>, months: Bits, week: &Week) -> String {
    let months = if months == ALL_MONTHS { "*".to_owned() } else { list(months) };
    match week {
        Week::Days(days) if second == 1 => {
            let days = if *days == ALL_WEEKDAYS { "*".to_owned() } else { week_numbers(*days) };
            format!("{minutes} {hours} {} {months} {days}", of_month.unwrap_or("*"))
        }
        Week::Days(ALL_WEEKDAYS) => {
            format!("{} {minutes} {hours} {} {months} ?", list(second), of_month.unwrap_or("*"))
        }
        Week::Days(days) => format!("{} {minutes} {hours} ? {months} {}", list(second), names(*days)),
        Week::Special(special) => {
            format!("{} {minutes} {hours} {} {months} {special}", list(second), of_month.unwrap_or("?"))
        }
    }
}

/// Numbers one by one, so that the field never counts as covering its whole range.
fn list(bits: Bits) -> String {
    numbers(bits).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
}

fn week_numbers(days: Bits) -> String {
    if days == super::WORKDAYS { "1-5".to_owned() } else { list(days) }
}

fn names(days: Bits) -> String {
    if days == super::WORKDAYS {
        return "MON-FRI".to_owned();
    }
    numbers(days).map(|n| NAMES[n as usize]).collect::<Vec<_>>().join(",")
}
