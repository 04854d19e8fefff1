//! Intervals of the calendar: every third day, every other Tuesday, the last day of every third month.
//!
//! They are counted from a date of their own, which cron cannot do: `*/2` in its day field starts again each month.

use chrono::{Datelike, Days as DaySpan, NaiveDate};

use super::{
    civil::{Civil, YEARS, day_of_date},
    cron::{Bits, Days},
};

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unit {
    /// Days.
    Days,
    /// Weeks, which begin on Monday, and the days of a week that fires; 0 is Sunday.
    Weeks(Bits),
    /// Months, and the day of a month that fires.
    Months(Days),
}

/// Every so many days, weeks or months at some times of the day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cycle {
    unit: Unit,
    every: u32,
    /// The first date of the cycle, which is a date that fires.
    first: NaiveDate,
    /// Seconds after midnight, in order.
    times: Vec<u32>,
}

impl Cycle {
    /// The cycle whose first date is the first that fits on or after `origin`. `None` when there is none.
    pub(super) fn new(unit: Unit, every: u32, origin: NaiveDate, times: Vec<u32>) -> Option<Self> {
        // Two years hold every day that a month or a week can have, 29 February aside, and that is not offered.
        let first = origin.iter_days().take(FIRST_WITHIN).find(|&date| unit.has(date))?;
        Some(Self { unit, every: every.max(1), first, times })
    }

    /// The first reading that matches, from this one on.
    pub(super) fn at_or_after(&self, from: Civil) -> Option<Civil> {
        let date = from.date();
        if self.matches(date)
            && let Some(&second) = self.times.iter().find(|&&second| second >= from.second_of_day())
        {
            return Some(Civil::of(date, second));
        }
        let next = self.date_from(date.succ_opt()?)?;
        Some(Civil::of(next, *self.times.first()?))
    }

    /// The last reading that matches, up to this one.
    pub(super) fn at_or_before(&self, until: Civil) -> Option<Civil> {
        let date = until.date();
        if self.matches(date)
            && let Some(&second) = self.times.iter().rev().find(|&&second| second <= until.second_of_day())
        {
            return Some(Civil::of(date, second));
        }
        let previous = self.date_until(date.pred_opt()?)?;
        Some(Civil::of(previous, *self.times.last()?))
    }

    /// How many readings match from one (included) to another (not included).
    pub(super) fn count(&self, from: Civil, to: Civil) -> u64 {
        let mut count = 0;
        let mut date = self.date_from(from.date());
        while let Some(day) = date.filter(|&day| Civil::of(day, 0) < to) {
            let inside = |&&second: &&u32| (from..to).contains(&Civil::of(day, second));
            count += self.times.iter().filter(inside).count() as u64;
            date = day.succ_opt().and_then(|day| self.date_from(day));
        }
        count
    }

    fn matches(&self, date: NaiveDate) -> bool {
        date >= self.first && YEARS.contains(&date.year()) && self.unit.has(date) && self.phase(date) == 0
    }

    /// How many days, weeks or months after one that fires.
    fn phase(&self, date: NaiveDate) -> i64 {
        let count = |date| match self.unit {
            Unit::Days => day_of_date(date),
            // 1970-01-01 was a Thursday.
            Unit::Weeks(_) => (day_of_date(date) + 3).div_euclid(7),
            Unit::Months(_) => i64::from(date.year()) * 12 + i64::from(date.month0()),
        };
        (count(date) - count(self.first)).rem_euclid(i64::from(self.every))
    }

    /// Leaps over the periods that do not fire, so that the work is a month of days at most, whatever the period.
    fn date_from(&self, date: NaiveDate) -> Option<NaiveDate> {
        let mut date = date.max(self.first);
        while date.year() <= *YEARS.end() {
            let phase = self.phase(date);
            if phase == 0 && self.unit.has(date) {
                return Some(date);
            }
            let ahead = if phase == 0 { 0 } else { u64::from(self.every) - phase as u64 };
            date = match self.unit {
                _ if ahead == 0 => date.succ_opt()?,
                Unit::Days => date.checked_add_days(DaySpan::new(ahead))?,
                Unit::Weeks(_) => {
                    let monday = date - DaySpan::new(date.weekday().num_days_from_monday().into());
                    monday.checked_add_days(DaySpan::new(ahead * 7))?
                }
                Unit::Months(_) => date.with_day(1)?.checked_add_months(chrono::Months::new(ahead as u32))?,
            };
        }
        None
    }

    fn date_until(&self, date: NaiveDate) -> Option<NaiveDate> {
        let mut date = date.min(NaiveDate::from_ymd_opt(*YEARS.end(), 12, 31)?);
        while date >= self.first {
            let phase = self.phase(date);
            if phase == 0 && self.unit.has(date) {
                return Some(date);
            }
            // To the last day of the period that fires.
            date = match self.unit {
                _ if phase == 0 => date.pred_opt()?,
                Unit::Days => date.checked_sub_days(DaySpan::new(phase as u64))?,
                Unit::Weeks(_) => {
                    let sunday = date + DaySpan::new((6 - date.weekday().num_days_from_monday()).into());
                    sunday.checked_sub_days(DaySpan::new(phase as u64 * 7))?
                }
                Unit::Months(_) => {
                    let after = date.with_day(1)?.checked_sub_months(chrono::Months::new(phase as u32 - 1))?;
                    after.pred_opt()?
                }
            };
        }
        None
    }
}

/// How many days the first date of a cycle is looked for.
const FIRST_WITHIN: usize = 800;

impl Unit {
    fn has(&self, date: NaiveDate) -> bool {
        match self {
            Self::Days => true,
            Self::Weeks(weekdays) => weekdays >> date.weekday().num_days_from_sunday() & 1 == 1,
            Self::Months(days) => days.contain(date),
        }
    }
}
