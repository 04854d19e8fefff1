//! Cron expressions in two dialects, told apart by the number of fields.
//!
//! Five fields are Unix: minute, hour, day of month, month, day of week, where 0 and 7 are Sunday, and where of two
//! restricted day fields either may match. A day field that starts with `*` does not count as restricted, as in Vixie
//! cron. Six or seven fields are Quartz: seconds first, an optional year last, 1 is Sunday, and `? L L-n LW nW W #` in
//! the day fields; there both day fields must match. In both dialects names are known in any case, ranges wrap around
//! and `a/n` counts from `a` to the end.

mod days;
mod error;
mod field;
mod fields;
mod grid;

use std::fmt;

use crate::domain::schedule::civil::YEARS;

pub use error::ParseError;
use field::{Field, Kind};

pub(super) use self::{
    days::{ALL_DAYS, ALL_WEEKDAYS, Bits, DayOfMonth, DayOfWeek, Days, numbers, range},
    fields::{ALL_HOURS, ALL_MINUTES, ALL_MONTHS, Fields},
    grid::Grid,
};

/// The longest expression that is read, in bytes.
pub const LENGTH_MAX: usize = 256;

/// Whose rules an expression follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Five fields, and the macros.
    Unix,
    /// Six or seven fields.
    Quartz,
}

/// A cron expression that can fire.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    dialect: Dialect,
    interval_like: bool,
    grid: Grid,
}

impl Expression {
    /// Reads an expression. Refused with the field, the place and a hint when it is not one, and when no date of any
    /// year matches it.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > LENGTH_MAX {
            let message = format!("{} bytes are more than the {LENGTH_MAX} that are read", text.len());
            return Err(ParseError::whole(message, "shorten it, or use several schedules"));
        }
        let (dialect, parsed) = read(text)?;
        let fields = lower(dialect, &parsed);
        if !fields.have_a_date() {
            let at = parsed.iter().find(|(kind, ..)| *kind == Kind::DayOfMonth);
            return Err(ParseError {
                field: Kind::DayOfMonth.name(),
                offset: at.map_or(0, |(_, offset, _)| *offset),
                message: "it never fires: no date matches".to_owned(),
                hint: "check the days against the months, as in 30 February".to_owned(),
            });
        }
        let interval_like =
            parsed.iter().any(|(kind, _, field)| matches!(kind, Kind::Minute | Kind::Hour) && field.whole);
        let text = text.trim().to_owned();
        Ok(Self { text, dialect, interval_like, grid: Grid::new(fields) })
    }

    /// As it was written, without the white space around it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whose rules it follows.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether its minute or hour field covers its whole range, which makes it follow elapsed time when clocks change.
    pub fn is_interval_like(&self) -> bool {
        self.interval_like
    }

    /// Whether it says in which years it fires, so that there is a last time.
    pub fn has_years(&self) -> bool {
        self.grid.fields().years.is_some()
    }

    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

type Parsed = Vec<(Kind, usize, Field)>;

const UNIX: &[Kind] = &[Kind::Minute, Kind::Hour, Kind::DayOfMonth, Kind::Month, Kind::DayOfWeek];
const QUARTZ: &[Kind] =
    &[Kind::Second, Kind::Minute, Kind::Hour, Kind::DayOfMonth, Kind::Month, Kind::DayOfWeek, Kind::Year];

fn read(text: &str) -> Result<(Dialect, Parsed), ParseError> {
    let trimmed = text.trim();
    let expanded = if trimmed.starts_with('@') { expand(trimmed)? } else { text };
    let words: Vec<(usize, &str)> = expanded
        .split_ascii_whitespace()
        .map(|word| (word.as_ptr() as usize - expanded.as_ptr() as usize, word))
        .collect();
    if let Some((_, word)) = words.first().filter(|(_, word)| word.contains("TZ=")) {
        return Err(ParseError::whole(format!("{word:?} is not a field"), "name the zone in time_zone"));
    }
    let (dialect, kinds) = match words.len() {
        5 => (Dialect::Unix, UNIX),
        6 => (Dialect::Quartz, &QUARTZ[..6]),
        7 => (Dialect::Quartz, QUARTZ),
        0 => return Err(ParseError::whole("it is empty", "write five fields such as 30 2 * * 1-5, or @daily")),
        n => {
            let message = format!("{n} fields are not 5 (minute first), 6 (second first) or 7 (year last)");
            return Err(ParseError::whole(message, "a field holds no spaces; five fields look like 30 2 * * 1-5"));
        }
    };
    let parse = |(&kind, (offset, word)): (&Kind, (usize, &str))| {
        Ok((kind, offset, field::parse(kind, dialect, word, offset)?))
    };
    Ok((dialect, kinds.iter().zip(words).map(parse).collect::<Result<_, _>>()?))
}

fn lower(dialect: Dialect, parsed: &Parsed) -> Fields {
    let bits = |wanted: Kind| parsed.iter().find(|(kind, ..)| *kind == wanted).map(|(_, _, field)| field.bits);
    let field = |wanted: Kind| parsed.iter().find(|(kind, ..)| *kind == wanted).map(|(_, _, field)| field);
    let (of_month, of_week) = (field(Kind::DayOfMonth), field(Kind::DayOfWeek));
    let starred = |field: Option<&Field>| field.is_none_or(|field| field.starred);
    let days = Days {
        of_month: of_month.map_or(ALL_DAYS, |field| field.bits),
        of_month_special: of_month.map_or_else(Vec::new, |field| field.days_of_month.clone()),
        of_week: of_week.map_or(ALL_WEEKDAYS, |field| field.bits),
        of_week_special: of_week.map_or_else(Vec::new, |field| field.days_of_week.clone()),
        either: dialect == Dialect::Unix && !starred(of_month) && !starred(of_week),
    };
    Fields {
        seconds: bits(Kind::Second).unwrap_or(1),
        minutes: bits(Kind::Minute).unwrap_or(ALL_MINUTES),
        hours: bits(Kind::Hour).unwrap_or(ALL_HOURS),
        months: bits(Kind::Month).unwrap_or(ALL_MONTHS),
        days,
        years: field(Kind::Year).map(|field| field.years.clone()).filter(|years| years.len() < YEARS.count()),
    }
}

fn expand(text: &str) -> Result<&'static str, ParseError> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "@hourly" => Ok("0 * * * *"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@monthly" => Ok("0 0 1 * *"),
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@reboot" => Err(ParseError::whole(
            "@reboot is an event, not a time",
            "start the job from the service that starts with the machine: baton run NAME",
        )),
        _ if lower.starts_with("@every") => {
            let span = lower.trim_start_matches("@every").trim();
            Err(ParseError::whole("@every is not cron", format!("write `every: {span}` instead of `cron:`")))
        }
        _ => Err(ParseError::whole(
            format!("{text:?} is not a macro"),
            "the macros are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually",
        )),
    }
}
