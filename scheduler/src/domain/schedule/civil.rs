//! Readings of a wall clock, before any zone says which instant they are.

use std::ops::RangeInclusive;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime};

/// The years in which schedules fire. Zone data knows rules up to the last of them; a fire beyond it is "beyond
/// 2100", which is not the same as never.
pub const YEARS: RangeInclusive<i32> = 1970..=2100;

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// A reading of a wall clock, counted in seconds from 1970-01-01 00:00 as though the clock never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil(pub i64);

impl Civil {
    /// The first reading of the first of [`YEARS`].
    pub(super) const MIN: Self = Self(0);
    /// The first reading after the last of [`YEARS`]: 2101-01-01 00:00.
    pub(super) const END: Self = Self(4_133_980_800);

    /// The reading at so many seconds after midnight.
    pub(super) fn of(date: NaiveDate, second: u32) -> Self {
        Self(midnight(date) + i64::from(second))
    }

    /// The date.
    pub(super) fn date(self) -> NaiveDate {
        date_of_day(self.0.div_euclid(DAY))
    }

    /// Seconds since midnight.
    pub(super) fn second_of_day(self) -> u32 {
        self.0.rem_euclid(DAY) as u32
    }

    /// The reading as date and time.
    pub fn datetime(self) -> NaiveDateTime {
        DateTime::from_timestamp(self.0, 0).unwrap_or_default().naive_utc()
    }
}

impl From<NaiveDateTime> for Civil {
    fn from(datetime: NaiveDateTime) -> Self {
        Self(datetime.and_utc().timestamp())
    }
}

/// Days since 1970-01-01.
pub(super) fn day_of_date(date: NaiveDate) -> i64 {
    i64::from(date.num_days_from_ce()) - EPOCH_FROM_CE
}

/// The date so many days after 1970-01-01, held within what the calendar can say.
pub(super) fn date_of_day(day: i64) -> NaiveDate {
    i32::try_from(day + EPOCH_FROM_CE).ok().and_then(NaiveDate::from_num_days_from_ce_opt).unwrap_or(NaiveDate::MAX)
}

/// How many days a month has.
pub(super) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// 1970-01-01 counted from the first of January of the year 1.
const EPOCH_FROM_CE: i64 = 719_163;

fn midnight(date: NaiveDate) -> i64 {
    day_of_date(date) * DAY
}
