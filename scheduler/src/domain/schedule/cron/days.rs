//! On which days an expression fires: two fields, each a set with special days, and how they go together.

use chrono::{Datelike, NaiveDate, Weekday};

use crate::domain::schedule::civil::days_in_month;

/// A set of small numbers, one bit each.
pub(in crate::domain::schedule) type Bits = u64;

/// The numbers of a set in order.
pub(in crate::domain::schedule) fn numbers(bits: Bits) -> impl Iterator<Item = u32> + Clone {
    (0..u64::BITS).filter(move |n| bits >> n & 1 == 1)
}

/// The set of all numbers from one to another.
pub(in crate::domain::schedule) fn range(first: u32, last: u32) -> Bits {
    (first..=last).fold(0, |bits, n| bits | 1 << n)
}

/// Every day of a month.
pub(in crate::domain::schedule) const ALL_DAYS: Bits = 0xFFFF_FFFE;
/// Every day of a week; 0 is Sunday.
pub(in crate::domain::schedule) const ALL_WEEKDAYS: Bits = 0x7F;

/// A day of a month that a number does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::domain::schedule) enum DayOfMonth {
    /// So many days before the last: `L`, `L-3`.
    Last(u32),
    /// The weekday (Monday to Friday) nearest to a day, within the month: `15W`. A month without the day has none.
    NearestWeekday(u32),
    /// The weekday nearest to so many days before the last: `LW`, `L-3W`.
    LastNearestWeekday(u32),
}

/// A weekday counted within its month; 0 is Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::domain::schedule) enum DayOfWeek {
    /// The nth: `5#3`.
    Nth(u32, u32),
    /// The last: `5L`.
    Last(u32),
}

/// The two day fields of an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::domain::schedule) struct Days {
    /// Days of the month by number.
    pub(in crate::domain::schedule) of_month: Bits,
    /// Other days of the month.
    pub(in crate::domain::schedule) of_month_special: Vec<DayOfMonth>,
    /// Days of the week by number; 0 is Sunday.
    pub(in crate::domain::schedule) of_week: Bits,
    /// Other days of the week.
    pub(in crate::domain::schedule) of_week_special: Vec<DayOfWeek>,
    /// Whether one of the fields is enough.
    pub(in crate::domain::schedule) either: bool,
}

impl Days {
    /// Every day.
    pub(in crate::domain::schedule) fn every() -> Self {
        Self {
            of_month: ALL_DAYS,
            of_month_special: Vec::new(),
            of_week: ALL_WEEKDAYS,
            of_week_special: Vec::new(),
            either: false,
        }
    }

    /// Whether a date is one of them.
    pub(in crate::domain::schedule) fn contain(&self, date: NaiveDate) -> bool {
        if self.either {
            self.month_day_matches(date) || self.weekday_matches(date)
        } else {
            self.month_day_matches(date) && self.weekday_matches(date)
        }
    }

    /// The parts of which any makes a date match.
    pub(super) fn alternatives(&self) -> Vec<Self> {
        if !self.either {
            return vec![self.clone()];
        }
        let by_month = Self { of_week: ALL_WEEKDAYS, of_week_special: Vec::new(), either: false, ..self.clone() };
        let by_week = Self { of_month: ALL_DAYS, of_month_special: Vec::new(), either: false, ..self.clone() };
        vec![by_month, by_week]
    }

    /// Days of the month and of the week outside which nothing can match; exact when there are no special days.
    pub(super) fn bounds(&self) -> (Bits, Bits) {
        let mut of_month = self.of_month;
        for special in &self.of_month_special {
            of_month |= match *special {
                DayOfMonth::Last(before) => range(28_u32.saturating_sub(before).max(1), 31 - before),
                DayOfMonth::NearestWeekday(day) => range(day.saturating_sub(2).max(1), (day + 2).min(31)),
                DayOfMonth::LastNearestWeekday(before) => {
                    range(26_u32.saturating_sub(before).max(1), (33 - before).min(31))
                }
            };
        }
        let mut of_week = self.of_week;
        let mut reach = if self.of_week == 0 { 0 } else { ALL_DAYS };
        for special in &self.of_week_special {
            match *special {
                DayOfWeek::Nth(weekday, n) => {
                    of_week |= 1 << weekday;
                    reach |= range(n * 7 - 6, (n * 7).min(31));
                }
                DayOfWeek::Last(weekday) => {
                    of_week |= 1 << weekday;
                    reach |= range(22, 31);
                }
            }
        }
        (of_month & reach, of_week)
    }

    /// Whether [`Days::bounds`] say all there is to say.
    pub(super) fn are_plain(&self) -> bool {
        self.of_month_special.is_empty() && self.of_week_special.is_empty()
    }

    fn month_day_matches(&self, date: NaiveDate) -> bool {
        self.of_month >> date.day() & 1 == 1 || self.of_month_special.iter().any(|special| special.is(date))
    }

    fn weekday_matches(&self, date: NaiveDate) -> bool {
        let weekday = date.weekday().num_days_from_sunday();
        self.of_week >> weekday & 1 == 1 || self.of_week_special.iter().any(|special| special.is(date))
    }
}

impl DayOfMonth {
    fn is(self, date: NaiveDate) -> bool {
        let last = days_in_month(date.year(), date.month());
        match self {
            Self::Last(before) => date.day() + before == last,
            Self::NearestWeekday(day) => day <= last && date.day() == nearest_weekday(date, day, last),
            Self::LastNearestWeekday(before) => {
                before < last && date.day() == nearest_weekday(date, last - before, last)
            }
        }
    }
}

impl DayOfWeek {
    fn is(self, date: NaiveDate) -> bool {
        match self {
            Self::Nth(weekday, n) => date.weekday().num_days_from_sunday() == weekday && (date.day() - 1) / 7 + 1 == n,
            Self::Last(weekday) => {
                let last = days_in_month(date.year(), date.month());
                date.weekday().num_days_from_sunday() == weekday && date.day() + 7 > last
            }
        }
    }
}

/// The weekday nearest to a day of the month that `date` is in, without leaving the month.
fn nearest_weekday(date: NaiveDate, day: u32, last: u32) -> u32 {
    match date.with_day(day).map(|wanted| wanted.weekday()) {
        Some(Weekday::Sat) if day == 1 => 3,
        Some(Weekday::Sat) => day - 1,
        Some(Weekday::Sun) if day == last => day - 2,
        Some(Weekday::Sun) => day + 1,
        _ => day,
    }
}
