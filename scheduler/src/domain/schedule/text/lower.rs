//! From words to readings of a wall clock.

use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::{CycleUnit, Form, MonthDay, Rule, Step, Time};
use crate::domain::schedule::{
    cron::{
        ALL_DAYS, ALL_HOURS, ALL_MINUTES, ALL_MONTHS, ALL_WEEKDAYS, Bits, DayOfMonth, DayOfWeek, Days, Fields, Grid,
    },
    cycle::{Cycle, Unit},
    pattern::Pattern,
    wall::Manner,
};

impl Rule {
    /// The readings that fire. `origin` is where intervals of the calendar count from, when the text names no date.
    pub(in crate::domain::schedule) fn pattern(&self, origin: NaiveDate) -> Option<Pattern> {
        match &self.0 {
            Form::Steps { step, window, days } => Some(grids(&week_fields(*days), steps(*step, *window))),
            Form::Weekly { days, times } => Some(grids(&week_fields(*days), at(times))),
            Form::Monthly { day, months, times } => Some(grids(&month_fields(*day, *months), at(times))),
            Form::Cycle { every, unit, times, starting } => {
                let unit = match unit {
                    CycleUnit::Days => Unit::Days,
                    CycleUnit::Weeks(days) => Unit::Weeks(*days),
                    CycleUnit::Months(day) => Unit::Months(month_fields(*day, ALL_MONTHS).days),
                };
                let times = times.iter().map(|time| time.0).collect();
                Cycle::new(unit, *every, starting.unwrap_or(origin), times).map(Pattern::cycle)
            }
        }
    }

    /// How it takes a change of the clock: as the cron expression that says the same would.
    pub(in crate::domain::schedule) fn manner(&self) -> Manner {
        match self.0 {
            Form::Steps { step: Step::Hours(..), window: Some(_), .. } => Manner::Fixed,
            Form::Steps { .. } => Manner::Elapsed,
            _ => Manner::Fixed,
        }
    }
}

/// Seconds, minutes and hours of the times of a day.
pub(super) type TimeSets = Vec<(Bits, Bits, Bits)>;

/// Times of a day as few products of seconds, minutes and hours.
pub(super) fn at(times: &[Time]) -> TimeSets {
    let mut hours: BTreeMap<(u32, u32), Bits> = BTreeMap::new();
    for time in times {
        let (hour, minute, second) = time.parts();
        *hours.entry((minute, second)).or_default() |= 1 << hour;
    }
    hours.into_iter().map(|((minute, second), hours)| (1 << second, 1 << minute, hours)).collect()
}

/// The times of steps as few products: whole hours together, the first and the last hour of a window aside.
pub(super) fn steps(step: Step, window: Option<(Time, Time)>) -> TimeSets {
    let every = |n: u32, of: u32, from: u32| (0..of).filter(|m| m % n == from % n).fold(0, |bits, m| bits | 1 << m);
    match (step, window) {
        (Step::Seconds(n), _) => vec![(every(n, 60, 0), ALL_MINUTES, ALL_HOURS)],
        (Step::Minutes(n), None) => vec![(1, every(n, 60, 0), ALL_HOURS)],
        (Step::Hours(n, minute), None) => vec![(1, 1 << minute, every(n, 24, 0))],
        (Step::Minutes(n), Some((from, to))) => {
            let mut hours: BTreeMap<Bits, Bits> = BTreeMap::new();
            for minute in (from.0 / 60..=to.0 / 60).step_by(n as usize) {
                // Collected by hour first: the key is the hour's whole set of minutes.
                let hour = minute / 60;
                let inside = |m: &u32| m % n == from.0 / 60 % n && (from.0 / 60..=to.0 / 60).contains(&(hour * 60 + m));
                let minutes = (0..60).filter(inside).fold(0, |bits, m| bits | 1 << m);
                *hours.entry(minutes).or_default() |= 1 << hour;
            }
            hours.into_iter().map(|(minutes, hours)| (1, minutes, hours)).collect()
        }
        (Step::Hours(n, _), Some((from, to))) => {
            let (hour, minute, _) = from.parts();
            let inside = |h: &u32| (h - hour).is_multiple_of(n) && h * 60 + minute <= to.0 / 60;
            vec![(1, 1 << minute, (hour..24).filter(inside).fold(0, |bits, h| bits | 1 << h))]
        }
    }
}

pub(super) fn month_fields(day: MonthDay, months: Bits) -> Fields {
    let mut days = Days::every();
    match day {
        MonthDay::Day(n) => days.of_month = 1 << n,
        MonthDay::Last => (days.of_month, days.of_month_special) = (0, vec![DayOfMonth::Last(0)]),
        MonthDay::FirstWorkday => (days.of_month, days.of_month_special) = (0, vec![DayOfMonth::NearestWeekday(1)]),
        MonthDay::LastWorkday => (days.of_month, days.of_month_special) = (0, vec![DayOfMonth::LastNearestWeekday(0)]),
        MonthDay::Nth(weekday, n) => (days.of_week, days.of_week_special) = (0, vec![DayOfWeek::Nth(weekday, n)]),
        MonthDay::LastOf(weekday) => (days.of_week, days.of_week_special) = (0, vec![DayOfWeek::Last(weekday)]),
    }
    Fields { seconds: 1, minutes: 1, hours: 1, months, days, years: None }
}

fn week_fields(days: Bits) -> Fields {
    let days = Days { of_month: ALL_DAYS, of_week: days & ALL_WEEKDAYS, ..Days::every() };
    Fields { seconds: 1, minutes: 1, hours: 1, months: ALL_MONTHS, days, years: None }
}

fn grids(fields: &Fields, times: TimeSets) -> Pattern {
    Pattern::grids(
        times
            .into_iter()
            .map(|(seconds, minutes, hours)| Grid::new(Fields { seconds, minutes, hours, ..fields.clone() })),
    )
}
