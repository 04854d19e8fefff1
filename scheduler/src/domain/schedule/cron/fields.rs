//! An expression as sets of numbers: what a wall clock must show for it to fire.

use chrono::{Datelike, NaiveDate};

use super::days::{Bits, Days};
use crate::domain::schedule::civil::{Civil, DAY, YEARS, date_of_day, days_in_month};

/// All minutes, or all seconds.
pub(in crate::domain::schedule) const ALL_MINUTES: Bits = 0x0FFF_FFFF_FFFF_FFFF;
/// All hours.
pub(in crate::domain::schedule) const ALL_HOURS: Bits = 0x00FF_FFFF;
/// All months, from 1.
pub(in crate::domain::schedule) const ALL_MONTHS: Bits = 0x1FFE;

/// What each field allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::domain::schedule) struct Fields {
    pub(in crate::domain::schedule) seconds: Bits,
    pub(in crate::domain::schedule) minutes: Bits,
    pub(in crate::domain::schedule) hours: Bits,
    pub(in crate::domain::schedule) months: Bits,
    pub(in crate::domain::schedule) days: Days,
    /// The years in order; `None` means all of them.
    pub(in crate::domain::schedule) years: Option<Vec<i32>>,
}

impl Fields {
    /// Whether any date of any year matches. A year looks like one of fourteen, and each of those occurs within 28
    /// years, so the search is short and what it does not find does not exist.
    pub(in crate::domain::schedule) fn have_a_date(&self) -> bool {
        let mut seen = 0_u32;
        let mut try_year = |year: i32| {
            let leap = days_in_month(year, 2) == 29;
            let first = NaiveDate::from_ymd_opt(year, 1, 1).unwrap_or_default();
            let kind = 1 << (first.weekday().num_days_from_sunday() + 7 * u32::from(leap));
            if seen & kind != 0 {
                return false;
            }
            seen |= kind;
            first.iter_days().take_while(|date| date.year() == year).any(|date| self.date_matches_but_year(date))
        };
        match &self.years {
            Some(years) => years.iter().copied().any(&mut try_year),
            None => (1996..2024).any(&mut try_year),
        }
    }

    /// Whether it fires on a date.
    pub(in crate::domain::schedule) fn date_matches(&self, date: NaiveDate) -> bool {
        YEARS.contains(&date.year())
            && self.years.as_ref().is_none_or(|years| years.binary_search(&date.year()).is_ok())
            && self.date_matches_but_year(date)
    }

    /// How many readings match from one (included) to another (not included). The work grows with the days in
    /// between, never with the count.
    pub(in crate::domain::schedule) fn count(&self, from: Civil, to: Civil) -> u64 {
        let (from, to) = (from.max(Civil::MIN), to.min(Civil::END));
        if from >= to {
            return 0;
        }
        let (first, last) = (from.0.div_euclid(DAY), (to.0 - 1).div_euclid(DAY));
        let matching = (first..=last).filter(|&day| self.date_matches(date_of_day(day)));
        matching
            .map(|day| {
                let until = if day == last { (to.0 - day * DAY) as u32 } else { DAY as u32 };
                let since = if day == first { from.second_of_day() } else { 0 };
                self.times_before(until) - self.times_before(since)
            })
            .sum()
    }

    fn date_matches_but_year(&self, date: NaiveDate) -> bool {
        self.months >> date.month() & 1 == 1 && self.days.contain(date)
    }

    /// How many times of a day lie before so many seconds after midnight.
    fn times_before(&self, second: u32) -> u64 {
        let below = |bits: Bits, n: u32| u64::from((bits & !(u64::MAX << n)).count_ones());
        let has = |bits: Bits, n: u32| bits >> n & 1;
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        let in_minute = below(self.seconds, second % 60);
        let in_hour =
            below(self.minutes, minute) * u64::from(self.seconds.count_ones()) + has(self.minutes, minute) * in_minute;
        let an_hour = u64::from(self.minutes.count_ones()) * u64::from(self.seconds.count_ones());
        below(self.hours, hour) * an_hour + has(self.hours, hour) * in_hour
    }
}

/// All years as a list for an engine that wants one.
pub(super) fn all_years() -> Vec<i32> {
    YEARS.collect()
}
