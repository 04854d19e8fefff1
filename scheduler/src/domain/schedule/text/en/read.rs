//! Reading English.

use chrono::NaiveDate;

use super::{MONTHS, ORDINALS, WEEKDAYS};
use crate::domain::schedule::{
    cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits},
    text::{CycleUnit, Form, MonthDay, Problem, Step, Stop, Time, WEEKEND, WORKDAYS},
};

/// Reads a text.
pub(in crate::domain::schedule::text) fn read(text: &str) -> Result<Form, Stop> {
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
