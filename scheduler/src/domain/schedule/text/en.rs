//! The grammar in English.
//!
//! ```text
//! text     = steps | weekly | monthly | cycle
//! steps    = "every" [N] ("second" | "minute" | "hour") ["at minute" M] ["between" TIME "and" TIME] ["on" days]
//! weekly   = "every" ("day" | "weekday" | "weekend day" | WEEKDAYS) at
//! monthly  = ["on"] ["the"] monthday "of" ("the month" | "every month" | MONTHS) at
//! cycle    = "every" ("other" | N) ("day" | "week on" WEEKDAYS | "month on" ["the"] monthday | WEEKDAY) at ["starting" DATE]
//! monthday = "day" N | "last day" | ("first" | "last") "weekday" | ("first" … "fifth" | "last") WEEKDAY
//! days     = "weekdays" | "weekends" | WEEKDAYS
//! at       = "at" TIME {"," TIME} ["and" TIME]
//! ```

use std::fmt::Write;

use chrono::NaiveDate;

use super::{CycleUnit, Form, MonthDay, Problem, Step, Stop, Time, WEEKEND, WORKDAYS, is_every_day, monday_first};
use crate::domain::schedule::cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits, numbers};

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
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Form, Stop> {
    let mut reader = Reader { words: words(text), next: 0, length: text.len() };
    let form = if reader.eat("every") { reader.every()? } else { reader.monthly()? };
    if reader.next < reader.words.len() { Err(reader.stop()) } else { Ok(form) }
}

/// Words in lower case with their places; a comma is a word.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut at = 0;
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || c == ',') {
        let word = piece.trim_end_matches(|c: char| c.is_whitespace() || c == ',');
        if !word.is_empty() {
            words.push((at, word.to_lowercase()));
        }
        if piece.ends_with(',') {
            words.push((at + piece.len() - 1, ",".to_owned()));
        }
        at += piece.len();
    }
    words
}

struct Reader {
    words: Vec<(usize, String)>,
    next: usize,
    length: usize,
}

impl Reader {
    fn every(&mut self) -> Result<Form, Stop> {
        if self.eat("other") {
            return self.cycle(2);
        }
        if let Some(n) = self.number() {
            if self.eat_one(&["seconds", "second"]) {
                return self.steps(Step::Seconds(n));
            }
            if self.eat_one(&["minutes", "minute"]) {
                return self.steps(Step::Minutes(n));
            }
            if self.eat_one(&["hours", "hour"]) {
                return self.hours(n);
            }
            return self.cycle(n);
        }
        if self.eat("second") {
            return self.steps(Step::Seconds(1));
        }
        if self.eat("minute") {
            return self.steps(Step::Minutes(1));
        }
        if self.eat("hour") {
            return self.hours(1);
        }
        let days = if self.eat("day") {
            ALL_WEEKDAYS
        } else if self.eat("weekday") {
            WORKDAYS
        } else if self.eat("weekend") {
            self.eat("day");
            WEEKEND
        } else {
            self.weekdays()?
        };
        Ok(Form::Weekly { days, times: self.times()? })
    }

    fn hours(&mut self, n: u32) -> Result<Form, Stop> {
        let minute = if self.eat_all(&["at", "minute"]) { self.number_to(59)? } else { 0 };
        self.steps(Step::Hours(n, minute))
    }

    fn steps(&mut self, step: Step) -> Result<Form, Stop> {
        let window = if self.eat("between") {
            let from = self.time()?;
            self.expect("and")?;
            Some((from, self.time()?))
        } else {
            None
        };
        let days = if !self.eat("on") {
            ALL_WEEKDAYS
        } else if self.eat("weekdays") {
            WORKDAYS
        } else if self.eat("weekends") {
            WEEKEND
        } else {
            self.weekdays()?
        };
        Ok(Form::Steps { step, window, days })
    }

    fn cycle(&mut self, every: u32) -> Result<Form, Stop> {
        let unit = if self.eat_one(&["days", "day"]) {
            CycleUnit::Days
        } else if self.eat_one(&["weeks", "week"]) {
            self.expect("on")?;
            CycleUnit::Weeks(self.weekdays()?)
        } else if self.eat_one(&["months", "month"]) {
            self.expect("on")?;
            self.eat("the");
            CycleUnit::Months(self.month_day()?)
        } else {
            // "every other Tuesday"; of two weekdays nobody knows whether they take turns.
            let day = self.weekday().ok_or_else(|| self.stop())?;
            if self.peek(0) == Some("and") || self.peek(0) == Some(",") {
                return Err(Stop { problem: Some(Problem::AmbiguousInterval), ..self.stop() });
            }
            CycleUnit::Weeks(1 << day)
        };
        let times = self.times()?;
        let starting = if self.eat("starting") { Some(self.date()?) } else { None };
        Ok(Form::Cycle { every, unit, times, starting })
    }

    fn monthly(&mut self) -> Result<Form, Stop> {
        self.eat("on");
        self.eat("the");
        let day = self.month_day()?;
        self.expect("of")?;
        let months = if self.eat_all(&["the", "month"]) || self.eat_all(&["every", "month"]) {
            ALL_MONTHS
        } else {
            self.set(&MONTHS, 1)?
        };
        Ok(Form::Monthly { day, months, times: self.times()? })
    }

    fn month_day(&mut self) -> Result<MonthDay, Stop> {
        if self.eat("day") {
            let day = self.number_to(31)?;
            return if day == 0 { Err(self.back()) } else { Ok(MonthDay::Day(day)) };
        }
        if self.eat("last") {
            return if self.eat("day") {
                Ok(MonthDay::Last)
            } else if self.eat("weekday") {
                Ok(MonthDay::LastWorkday)
            } else {
                self.weekday().map(MonthDay::LastOf).ok_or_else(|| self.stop())
            };
        }
        if self.eat_all(&["first", "weekday"]) {
            return Ok(MonthDay::FirstWorkday);
        }
        let n = self.peek(0).and_then(|word| ORDINALS.iter().position(|&ordinal| ordinal == word));
        let n = n.ok_or_else(|| self.stop())? as u32 + 1;
        self.next += 1;
        self.weekday().map(|weekday| MonthDay::Nth(weekday, n)).ok_or_else(|| self.stop())
    }

    fn times(&mut self) -> Result<Vec<Time>, Stop> {
        if self.peek(0).is_none() {
            return Err(Stop { problem: Some(Problem::TimeMissing), ..self.stop() });
        }
        self.expect("at")?;
        let mut times = vec![self.time()?];
        while self.another() {
            times.push(self.time()?);
        }
        times.sort_unstable();
        Ok(times)
    }

    fn weekdays(&mut self) -> Result<Bits, Stop> {
        self.set(&WEEKDAYS, 0)
    }

    /// A list of names, each once.
    fn set(&mut self, names: &[&str], base: u32) -> Result<Bits, Stop> {
        let mut bits = 0;
        loop {
            let n = self.name(names).ok_or_else(|| self.stop())? + base;
            if bits >> n & 1 == 1 {
                return Err(self.back());
            }
            bits |= 1 << n;
            if !self.another() {
                return Ok(bits);
            }
        }
    }

    /// Whether a list goes on: a comma, "and", or both.
    fn another(&mut self) -> bool {
        let comma = self.eat(",");
        self.eat("and") || comma
    }

    fn weekday(&mut self) -> Option<u32> {
        self.name(&WEEKDAYS)
    }

    fn name(&mut self, names: &[&str]) -> Option<u32> {
        let word = self.peek(0)?;
        let found = names.iter().position(|name| name.eq_ignore_ascii_case(word))?;
        self.next += 1;
        Some(found as u32)
    }

    fn time(&mut self) -> Result<Time, Stop> {
        let time = self.peek(0).and_then(Time::parse);
        let time = time.ok_or_else(|| Stop { problem: Some(Problem::NotATime), ..self.stop() })?;
        self.next += 1;
        Ok(time)
    }

    fn date(&mut self) -> Result<NaiveDate, Stop> {
        let date = self.peek(0).filter(|word| word.len() == 10).and_then(|word| word.parse().ok());
        let date = date.ok_or_else(|| self.stop())?;
        self.next += 1;
        Ok(date)
    }

    fn number(&mut self) -> Option<u32> {
        let word = self.peek(0).filter(|word| word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit()))?;
        let n = word.parse().ok()?;
        self.next += 1;
        Some(n)
    }

    fn number_to(&mut self, max: u32) -> Result<u32, Stop> {
        match self.number() {
            Some(n) if n <= max => Ok(n),
            Some(_) => Err(self.back()),
            None => Err(self.stop()),
        }
    }

    fn eat(&mut self, word: &str) -> bool {
        self.eat_all(&[word])
    }

    fn eat_one(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.eat(word))
    }

    fn eat_all(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(i, word)| self.peek(i) == Some(word));
        if found {
            self.next += words.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<(), Stop> {
        if self.eat(word) { Ok(()) } else { Err(self.stop()) }
    }

    fn peek(&self, ahead: usize) -> Option<&str> {
        self.words.get(self.next + ahead).map(|(_, word)| word.as_str())
    }

    fn stop(&self) -> Stop {
        Stop { at: self.words.get(self.next).map_or(self.length, |(at, _)| *at), problem: None }
    }

    /// Stops at the word just read.
    fn back(&mut self) -> Stop {
        self.next -= 1;
        self.stop()
    }
}

/// Says a rule.
pub(super) fn say(form: &Form) -> String {
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

pub(super) fn weekday_list(days: Bits) -> String {
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
