//! Reading Chinese.

use chrono::NaiveDate;

use super::{COUNTS, WEEKDAYS};
use crate::domain::schedule::{
    cron::{ALL_MONTHS, ALL_WEEKDAYS, Bits},
    text::{CycleUnit, Form, MonthDay, Problem, Step, Stop, Time, WEEKEND, WORKDAYS},
};

/// Reads a text.
pub(in crate::domain::schedule::text) fn read(text: &str) -> Result<Form, Stop> {
    let mut reader = Reader::new(text);
    let form = reader.text()?;
    if reader.rest().is_empty() { Ok(form) } else { Err(reader.stop()) }
}

/// The text without white space and with the punctuation of one kind, and where each of its bytes came from.
struct Reader {
    text: String,
    places: Vec<usize>,
    at: usize,
}

impl Reader {
    fn new(original: &str) -> Self {
        let (mut text, mut places) = (String::with_capacity(original.len()), Vec::new());
        for (place, c) in original.char_indices().filter(|(_, c)| !c.is_whitespace()) {
            let c = match c {
                '：' => ':',
                '，' => ',',
                c => c,
            };
            text.push(c);
            places.resize(text.len(), place);
        }
        places.push(original.len());
        Self { text, places, at: 0 }
    }

    fn text(&mut self) -> Result<Form, Stop> {
        let Some(days) = self.days()? else { return self.every() };
        let window = self.window()?;
        if window.is_some() || self.rest().starts_with('每') {
            if !self.eat("每") {
                return Err(self.stop());
            }
            let step = self.step()?.ok_or_else(|| self.stop())?;
            return Ok(Form::Steps { step, window, days });
        }
        Ok(Form::Weekly { days, times: self.times()? })
    }

    /// `每天`, `每个工作日`, `每个周末`, `每周一、周五`; nothing when the text does not begin with days.
    fn days(&mut self) -> Result<Option<Bits>, Stop> {
        if self.eat_one(&["每天", "每日"]) {
            return Ok(Some(ALL_WEEKDAYS));
        }
        if self.eat_one(&["每个工作日", "每工作日"]) {
            return Ok(Some(WORKDAYS));
        }
        if self.eat_one(&["每个周末", "每周末"]) {
            return Ok(Some(WEEKEND));
        }
        let week = ["每个周", "每周", "每个星期", "每星期"].iter().find(|prefix| self.rest().starts_with(**prefix));
        let Some(prefix) = week else { return Ok(None) };
        // What follows "每" is the list of weekdays.
        self.at += if prefix.starts_with("每个") { "每个".len() } else { "每".len() };
        self.weekdays().map(Some)
    }

    fn every(&mut self) -> Result<Form, Stop> {
        if self.eat("每月") || self.eat("每个月") {
            return self.monthly(ALL_MONTHS);
        }
        if self.eat("每年") {
            let months = self.months()?;
            return self.monthly(months);
        }
        if self.eat_one(&["每隔一天", "隔天"]) {
            return self.cycle(2, CycleUnit::Days);
        }
        if self.eat_one(&["每隔一周的", "隔周的", "每隔一周", "隔周"]) {
            let days = self.weekdays()?;
            return self.cycle(2, CycleUnit::Weeks(days));
        }
        if self.rest().starts_with("每隔") {
            // Read as every n by some and as every n + 1 by others.
            return Err(Stop { problem: Some(Problem::AmbiguousInterval), ..self.stop() });
        }
        if !self.eat("每") {
            return Err(self.stop());
        }
        if let Some(step) = self.step()? {
            return Ok(Form::Steps { step, window: None, days: ALL_WEEKDAYS });
        }
        let n = self.number().ok_or_else(|| self.stop())?;
        if self.eat("天") {
            self.cycle(n, CycleUnit::Days)
        } else if self.eat_one(&["周的", "个星期的"]) {
            let days = self.weekdays()?;
            self.cycle(n, CycleUnit::Weeks(days))
        } else if self.eat("个月的") {
            let day = self.month_day()?;
            self.cycle(n, CycleUnit::Months(day))
        } else {
            Err(self.stop())
        }
    }

    /// What follows "每" when it is seconds, minutes or hours.
    fn step(&mut self) -> Result<Option<Step>, Stop> {
        let start = self.at;
        let n = self.number().unwrap_or(1);
        if self.eat("秒") {
            return Ok(Some(Step::Seconds(n)));
        }
        if self.eat_one(&["分钟", "分"]) {
            return Ok(Some(Step::Minutes(n)));
        }
        if self.eat_one(&["个小时", "小时"]) {
            let minute = if self.eat("第") {
                let minute = self.number().filter(|n| *n < 60).ok_or_else(|| self.stop())?;
                if !self.eat("分") {
                    return Err(self.stop());
                }
                self.eat("钟");
                minute
            } else {
                0
            };
            return Ok(Some(Step::Hours(n, minute)));
        }
        self.at = start;
        Ok(None)
    }

    fn window(&mut self) -> Result<Option<(Time, Time)>, Stop> {
        let start = self.at;
        let Some(from) = self.time() else { return Ok(None) };
        if !self.eat_one(&["至", "到"]) {
            self.at = start;
            return Ok(None);
        }
        let to = self.time().ok_or_else(|| self.stop())?;
        self.eat("之间");
        self.eat(",");
        Ok(Some((from, to)))
    }

    fn monthly(&mut self, months: Bits) -> Result<Form, Stop> {
        self.eat("的");
        let day = self.month_day()?;
        Ok(Form::Monthly { day, months, times: self.times()? })
    }

    fn cycle(&mut self, every: u32, unit: CycleUnit) -> Result<Form, Stop> {
        let times = self.times()?;
        let starting = if self.eat_one(&[",从", "从"]) {
            let date = self.rest().get(..10).and_then(|text| text.parse::<NaiveDate>().ok());
            let date = date.ok_or_else(|| self.stop())?;
            self.at += 10;
            if !self.eat_one(&["起", "开始"]) {
                return Err(self.stop());
            }
            Some(date)
        } else {
            None
        };
        Ok(Form::Cycle { every, unit, times, starting })
    }

    fn month_day(&mut self) -> Result<MonthDay, Stop> {
        if self.eat("最后一天") {
            return Ok(MonthDay::Last);
        }
        if self.eat("最后一个") {
            if self.eat("工作日") {
                return Ok(MonthDay::LastWorkday);
            }
            return self.weekday().map(MonthDay::LastOf).ok_or_else(|| self.stop());
        }
        if self.eat("第") {
            let n = COUNTS[..5].iter().position(|count| self.rest().starts_with(count)).ok_or_else(|| self.stop())?;
            self.at += COUNTS[n].len();
            if !self.eat("个") {
                return Err(self.stop());
            }
            if n == 0 && self.eat("工作日") {
                return Ok(MonthDay::FirstWorkday);
            }
            let weekday = self.weekday().ok_or_else(|| self.stop())?;
            return Ok(MonthDay::Nth(weekday, n as u32 + 1));
        }
        let start = self.at;
        match self.number().filter(|n| (1..=31).contains(n)) {
            Some(n) if self.eat_one(&["日", "号"]) => Ok(MonthDay::Day(n)),
            _ => {
                self.at = start;
                Err(self.stop())
            }
        }
    }

    fn months(&mut self) -> Result<Bits, Stop> {
        let mut bits: Bits = 0;
        loop {
            let n = self.number().filter(|n| (1..=12).contains(n) && bits >> *n & 1 == 0).ok_or_else(|| self.stop())?;
            if !self.eat("月") {
                return Err(self.stop());
            }
            bits |= 1 << n;
            if !self.eat("、") {
                return Ok(bits);
            }
        }
    }

    fn weekdays(&mut self) -> Result<Bits, Stop> {
        let mut bits: Bits = 0;
        loop {
            let n = self.weekday().filter(|n| bits >> *n & 1 == 0).ok_or_else(|| self.stop())?;
            bits |= 1 << n;
            if !self.eat("、") {
                return Ok(bits);
            }
        }
    }

    fn weekday(&mut self) -> Option<u32> {
        let start = self.at;
        if self.eat_one(&["周", "星期"]) {
            if self.eat("天") {
                return Some(0);
            }
            if let Some(n) = WEEKDAYS.iter().position(|name| self.rest().starts_with(name)) {
                self.at += WEEKDAYS[n].len();
                return Some(n as u32);
            }
        }
        self.at = start;
        None
    }

    fn times(&mut self) -> Result<Vec<Time>, Stop> {
        if self.rest().is_empty() {
            return Err(Stop { problem: Some(Problem::TimeMissing), ..self.stop() });
        }
        let mut times = Vec::new();
        loop {
            let time = self.time().ok_or_else(|| Stop { problem: Some(Problem::NotATime), ..self.stop() })?;
            times.push(time);
            if !self.eat("、") {
                times.sort_unstable();
                return Ok(times);
            }
        }
    }

    fn time(&mut self) -> Option<Time> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(rest.len());
        let time = Time::parse(&rest[..length])?;
        self.at += length;
        Some(time)
    }

    /// In digits, or one to ten in words; 两 is two.
    fn number(&mut self) -> Option<u32> {
        let digits = self.rest().find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest().len());
        if (1..=4).contains(&digits) {
            let n = self.rest()[..digits].parse().ok()?;
            self.at += digits;
            return Some(n);
        }
        if self.eat("两") {
            return Some(2);
        }
        let n = COUNTS.iter().position(|count| self.rest().starts_with(count))?;
        self.at += COUNTS[n].len();
        Some(n as u32 + 1)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn eat_one(&mut self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.eat(text))
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn stop(&self) -> Stop {
        Stop { at: self.places[self.at], problem: None }
    }
}
