//! Walking the readings of a wall clock that match an expression.
//!
//! The `cron` crate does the walking, on readings dressed as UTC, where none of its trouble with clock changes can
//! occur. What its dialect cannot say is put around it: either-day expressions become two walks of which the nearer
//! step counts, and special days become a wider walk with a question asked at each step.

use std::{fmt::Write, str::FromStr, sync::Arc};

use chrono::{DateTime, Utc};

use super::{
    days::{ALL_DAYS, ALL_WEEKDAYS, Bits, Days, numbers},
    fields::{ALL_HOURS, ALL_MINUTES, ALL_MONTHS, Fields, all_years},
};
use crate::domain::schedule::civil::{Civil, DAY};

/// The readings that match, in order, walked in both directions.
#[derive(Debug, Clone)]
pub(in crate::domain::schedule) struct Grid {
    fields: Arc<Fields>,
    walks: Arc<[Walk]>,
}

#[derive(Debug)]
struct Walk {
    engine: cron::Schedule,
    /// Set when the engine offers dates that may not match.
    days: Option<Days>,
}

impl Grid {
    /// Readies the walk. Fields without a date give an empty one.
    pub(in crate::domain::schedule) fn new(fields: Fields) -> Self {
        let walks = if fields.have_a_date() {
            fields.days.alternatives().into_iter().filter_map(|days| Walk::new(&fields, days)).collect()
        } else {
            Vec::new()
        };
        Self { fields: Arc::new(fields), walks: walks.into() }
    }

    /// What it is made of.
    pub(in crate::domain::schedule) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The first reading that matches, from this one on.
    pub(in crate::domain::schedule) fn at_or_after(&self, from: Civil) -> Option<Civil> {
        let from = from.max(Civil::MIN);
        self.walks.iter().filter_map(|walk| walk.at_or_after(from)).min()
    }

    /// The last reading that matches, up to this one.
    pub(in crate::domain::schedule) fn at_or_before(&self, until: Civil) -> Option<Civil> {
        let until = until.min(Civil(Civil::END.0 - 1));
        self.walks.iter().filter_map(|walk| walk.at_or_before(until)).max()
    }

    /// How many readings match from one (included) to another (not included).
    pub(in crate::domain::schedule) fn count(&self, from: Civil, to: Civil) -> u64 {
        if self.walks.is_empty() { 0 } else { self.fields.count(from, to) }
    }
}

impl PartialEq for Grid {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Walk {
    fn new(fields: &Fields, days: Days) -> Option<Self> {
        let (of_month, of_week) = days.bounds();
        if of_month == 0 || of_week == 0 {
            return None;
        }
        let years = fields.years.clone().unwrap_or_else(all_years);
        let mut text = String::with_capacity(64);
        push(&mut text, fields.seconds, ALL_MINUTES, 0);
        push(&mut text, fields.minutes, ALL_MINUTES, 0);
        push(&mut text, fields.hours, ALL_HOURS, 0);
        push(&mut text, of_month, ALL_DAYS, 0);
        push(&mut text, fields.months, ALL_MONTHS, 0);
        // The engine counts weekdays from 1, which is Sunday.
        push(&mut text, of_week, ALL_WEEKDAYS, 1);
        if fields.years.is_none() {
            text.push('*');
        } else {
            let years: Vec<_> = years.iter().map(i32::to_string).collect();
            text.push_str(&years.join(","));
        }
        let engine = cron::Schedule::from_str(&text).ok()?;
        Some(Self { engine, days: (!days.are_plain()).then_some(days) })
    }

    fn at_or_after(&self, from: Civil) -> Option<Civil> {
        let mut from = from;
        loop {
            // The engine's step is strictly after.
            let found = Civil(self.engine.after(&dressed(Civil(from.0 - 1))?).next()?.timestamp());
            match &self.days {
                Some(days) if !days.contain(found.date()) => from = Civil((found.0.div_euclid(DAY) + 1) * DAY),
                _ => return Some(found),
            }
        }
    }

    fn at_or_before(&self, until: Civil) -> Option<Civil> {
        let mut until = until;
        loop {
            let found = Civil(self.engine.after(&dressed(Civil(until.0 + 1))?).next_back()?.timestamp());
            match &self.days {
                Some(days) if !days.contain(found.date()) => until = Civil(found.0.div_euclid(DAY) * DAY - 1),
                _ => return Some(found),
            }
        }
    }
}

fn dressed(civil: Civil) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(civil.0, 0)
}

fn push(text: &mut String, bits: Bits, all: Bits, base: u32) {
    if bits == all {
        text.push_str("* ");
        return;
    }
    for (i, n) in numbers(bits).enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}", n + base);
    }
    text.push(' ');
}
