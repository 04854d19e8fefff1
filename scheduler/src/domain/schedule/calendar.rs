//! Calendars of exclusion: named lists of dates on which nothing fires.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::{
    civil::Civil,
    zone::{Placed, Zone},
};

/// The most ranges that one calendar holds.
pub const RANGES_MAX: usize = 10_000;

/// A named list of dates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// Unique within the namespace.
    pub name: String,
    /// The dates, in any order.
    pub exclude: Vec<DateRange>,
}

/// A calendar as it is written: the keys of its file are those of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarConfig {
    /// The unit of tenancy it belongs to.
    pub namespace: String,
    /// What it is for.
    pub description: String,
    /// Its name and its dates.
    pub calendar: Calendar,
}

/// The longest description of a calendar, in characters.
pub const DESCRIPTION_MAX: usize = 1_000;

/// Dates from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DateRange {
    /// The first date.
    pub first: NaiveDate,
    /// The last date.
    pub last: NaiveDate,
}

/// Why a date or range was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a date or range; write 2026-12-25, or 2026-12-24..2026-12-31 with both ends included")]
pub struct RangeError {
    /// What was written.
    pub text: String,
}

impl std::fmt::Display for DateRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}..{}", self.first, self.last) }
    }
}

impl std::str::FromStr for DateRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let error = || RangeError { text: text.chars().take(RANGE_TEXT_MAX).collect() };
        let date = |text: &str| text.trim().parse::<NaiveDate>().map_err(|_| error());
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let range = Self { first: date(first)?, last: date(last)? };
        if range.first <= range.last { Ok(range) } else { Err(error()) }
    }
}

/// How much of a wrong range its error repeats.
const RANGE_TEXT_MAX: usize = 40;

/// The excluded dates of some calendars in one zone, as stretches of time in order and apart.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exclusions {
    stretches: Vec<Stretch>,
    names: Vec<String>,
}

/// A stretch of time in which nothing fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Its first second.
    pub(super) start: i64,
    /// The first second after it.
    pub(super) end: i64,
    calendar: usize,
}

impl Exclusions {
    /// The dates of all calendars, as the clocks of a zone show them.
    pub(super) fn new<'a>(calendars: impl IntoIterator<Item = &'a Calendar>, zone: Zone) -> Self {
        let (mut stretches, mut names) = (Vec::<Stretch>::new(), Vec::new());
        for calendar in calendars {
            let begin = |date: NaiveDate| match zone.place(Civil::of(date, 0)) {
                Placed::Once(at) | Placed::Gap(at) | Placed::Twice { first: at, .. } => at,
            };
            stretches.extend(calendar.exclude.iter().map(|range| Stretch {
                start: begin(range.first),
                end: range.last.succ_opt().map_or(i64::MAX, begin),
                calendar: names.len(),
            }));
            names.push(calendar.name.clone());
        }
        stretches.sort_by_key(|stretch| (stretch.start, stretch.end));
        let mut apart: Vec<Stretch> = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match apart.last_mut() {
                Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
                _ => apart.push(stretch),
            }
        }
        Self { stretches: apart, names }
    }

    /// Whether nothing is excluded.
    pub(super) fn is_empty(&self) -> bool {
        self.stretches.is_empty()
    }

    /// The stretch that an instant is in.
    pub(super) fn at(&self, instant: i64) -> Option<Stretch> {
        let index = self.stretches.partition_point(|stretch| stretch.end <= instant);
        self.stretches.get(index).copied().filter(|stretch| stretch.start <= instant)
    }

    /// The stretches that begin before `until` and end after `after`.
    pub(super) fn between(&self, after: i64, until: i64) -> impl Iterator<Item = Stretch> {
        let index = self.stretches.partition_point(|stretch| stretch.end <= after);
        self.stretches[index..].iter().copied().take_while(move |stretch| stretch.start <= until)
    }

    /// The calendar that a stretch comes from; of several that meet, the one that begins first.
    pub(super) fn name(&self, stretch: Stretch) -> &str {
        &self.names[stretch.calendar]
    }
}
