//! Reading one field of an expression.

use super::{
    Dialect,
    days::{Bits, DayOfMonth, DayOfWeek},
    error::ParseError,
};
use crate::domain::schedule::civil::YEARS;

/// Which field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
    Year,
}

/// What a field says.
#[derive(Debug, Default)]
pub(super) struct Field {
    /// The numbers it allows; weekdays count from 0, which is Sunday.
    pub(super) bits: Bits,
    /// The same for years, which do not fit into bits, in order.
    pub(super) years: Vec<i32>,
    pub(super) days_of_month: Vec<DayOfMonth>,
    pub(super) days_of_week: Vec<DayOfWeek>,
    /// It starts with `*` or is `?`, so it does not restrict the day.
    pub(super) starred: bool,
    /// It covers its whole range as `*`, `*/n`, `0/n` or `MIN-MAX/n`.
    pub(super) whole: bool,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Year => "year",
        }
    }

    /// The numbers that may be written.
    fn limits(self, dialect: Dialect) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek if dialect == Dialect::Unix => (0, 7),
            Self::DayOfWeek => (1, 7),
            Self::Year => (*YEARS.start() as u32, *YEARS.end() as u32),
        }
    }
}

/// Reads one field. Offsets in errors count from the start of the expression.
pub(super) fn parse(kind: Kind, dialect: Dialect, text: &str, offset: usize) -> Result<Field, ParseError> {
    let mut reader = Reader { kind, dialect, offset, field: Field::default() };
    reader.field.starred = text.starts_with('*') || text == "?";
    let mut at = offset;
    for item in text.split(',') {
        reader.offset = at;
        reader.item(item, text)?;
        at += item.len() + 1;
    }
    reader.field.years.sort_unstable();
    reader.field.years.dedup();
    reader.field.whole &= !text.contains(',');
    Ok(reader.field)
}

struct Reader {
    kind: Kind,
    dialect: Dialect,
    offset: usize,
    field: Field,
}

impl Reader {
    fn item(&mut self, item: &str, whole_field: &str) -> Result<(), ParseError> {
        if item.is_empty() {
            return Err(self.error("a list item is empty", "remove the stray comma"));
        }
        if item == "?" {
            return self.question_mark(whole_field);
        }
        if self.special(item)? {
            return Ok(());
        }
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step, base.len() + 1, base)?)),
            None => (item, None),
        };
        let (first, last) = self.span(base, step.is_some())?;
        self.add(first, last, step.unwrap_or(1));
        let (min, max) = self.kind.limits(self.dialect);
        self.field.whole = base == "*" || (first == min && last == max);
        Ok(())
    }

    /// The first and last number of `*`, `a`, `a-b`, or the `a` of `a/n`.
    fn span(&self, base: &str, stepped: bool) -> Result<(u32, u32), ParseError> {
        let (min, max) = self.kind.limits(self.dialect);
        // Both 0 and 7 are Sunday, and the week has it once.
        let max_once = if self.kind == Kind::DayOfWeek && self.dialect == Dialect::Unix { 6 } else { max };
        if base == "*" {
            return Ok((min, max_once));
        }
        if let Some((first, last)) = base.split_once('-') {
            let first = self.number(first, 0)?;
            let last = self.number(last, base.find('-').map_or(0, |dash| dash + 1))?;
            if first > last && self.kind == Kind::Year {
                return Err(self.error(format!("the range {base} ends before it begins"), "years do not wrap around"));
            }
            // A range that starts at Sunday written as 7 starts the week.
            return Ok((if first > last && first > max_once { 0 } else { first }, last));
        }
        let first = self.number(base, 0)?;
        Ok((first, if stepped { max_once.max(first) } else { first }))
    }

    fn add(&mut self, first: u32, last: u32, step: u32) {
        let (min, max) = self.kind.limits(self.dialect);
        if self.kind == Kind::Year {
            self.field.years.extend((first..=last).step_by(step as usize).map(|year| year as i32));
            return;
        }
        let shift = match (self.kind, self.dialect) {
            (Kind::DayOfWeek, Dialect::Quartz) => 1,
            _ => 0,
        };
        let mut set = |n: u32| {
            let n = if self.kind == Kind::DayOfWeek { (n - shift) % 7 } else { n };
            self.field.bits |= 1 << n;
        };
        if first <= last {
            (first..=last).step_by(step as usize).for_each(&mut set);
        } else {
            // Round the corner the count goes on: 22-4/2 is 22, 0, 2, 4.
            let top = if self.kind == Kind::DayOfWeek && self.dialect == Dialect::Unix { 6 } else { max };
            (first..=top).chain(min..=last).step_by(step as usize).for_each(&mut set);
        }
    }

    fn step(&self, step: &str, at: usize, base: &str) -> Result<u32, ParseError> {
        let (min, max) = self.kind.limits(self.dialect);
        let size = match self.kind {
            Kind::DayOfWeek => 7,
            _ => max - min + 1,
        };
        let name = self.kind.name();
        let fail =
            |message: String, hint: String| Err(ParseError { offset: self.offset + at, ..self.error(message, hint) });
        match step.parse::<u32>() {
            Ok(0) => fail("a step of 0 never moves".to_owned(), "write a step of 1 or more".to_owned()),
            Ok(n) if n < size || n == 1 => Ok(n),
            Ok(n) => fail(
                format!("a step of {n} is longer than the {size} values of a {name}"),
                format!("to fire every {n} {name}s use `every` instead of cron, for one value write {base} alone"),
            ),
            Err(_) => fail(format!("{step:?} is not a step"), "write a number after the slash, such as */5".to_owned()),
        }
    }

    fn number(&self, text: &str, at: usize) -> Result<u32, ParseError> {
        let (min, max) = self.kind.limits(self.dialect);
        let name = self.kind.name();
        let fail =
            |message: String, hint: String| Err(ParseError { offset: self.offset + at, ..self.error(message, hint) });
        if text.bytes().all(|byte| byte.is_ascii_digit()) && (1..=4).contains(&text.len()) {
            let n = text.parse::<u32>().unwrap_or(u32::MAX);
            if (min..=max).contains(&n) {
                return Ok(n);
            }
            let hint = match (self.kind, self.dialect) {
                (Kind::DayOfWeek, Dialect::Quartz) => {
                    "with seconds, 1 is Sunday and 7 is Saturday; a name such as SUN is always clear".to_owned()
                }
                _ => format!("write a number from {min} to {max}"),
            };
            return fail(format!("{n} is not a {name}"), hint);
        }
        let upper = text.to_ascii_uppercase();
        let (names, base): (&[&str], u32) = match (self.kind, self.dialect) {
            (Kind::Month, _) => (&MONTHS, 1),
            (Kind::DayOfWeek, Dialect::Unix) => (&WEEKDAYS, 0),
            (Kind::DayOfWeek, Dialect::Quartz) => (&WEEKDAYS, 1),
            _ => (&[], 0),
        };
        if let Some(index) = names.iter().position(|&known| known == upper) {
            return Ok(index as u32 + base);
        }
        if let Some(known) = names.iter().find(|&&known| upper.starts_with(known)) {
            return fail(format!("{text:?} is not a {name}"), format!("names have three letters: {known}"));
        }
        fail(format!("{text:?} is not a {name}"), self.usage())
    }

    fn question_mark(&mut self, whole_field: &str) -> Result<(), ParseError> {
        if !matches!(self.kind, Kind::DayOfMonth | Kind::DayOfWeek) || whole_field != "?" {
            return Err(self.error("`?` stands alone in a day field", "write * here"));
        }
        if self.dialect == Dialect::Unix {
            return Err(self.error("`?` belongs to expressions with seconds", "write * in five fields"));
        }
        let (first, last) = self.kind.limits(self.dialect);
        self.add(first, last, 1);
        Ok(())
    }

    /// Reads `L`, `L-n`, `LW`, `nW`, `n#k` and `nL`; false when the item is none of these.
    fn special(&mut self, item: &str) -> Result<bool, ParseError> {
        let upper = item.to_ascii_uppercase();
        let looks_special = match self.kind {
            Kind::DayOfMonth => upper.starts_with('L') || upper.ends_with('W'),
            Kind::DayOfWeek => upper.ends_with('L') || upper.contains('#'),
            _ => false,
        };
        if !looks_special {
            return Ok(false);
        }
        if self.dialect == Dialect::Unix {
            return Err(self.error(
                format!("{item:?} belongs to expressions with seconds"),
                "put a 0 for the seconds in front: six fields know L, W and #",
            ));
        }
        if self.kind == Kind::DayOfMonth {
            self.special_day_of_month(&upper)?;
        } else {
            self.special_weekday(&upper)?;
        }
        Ok(true)
    }

    fn special_day_of_month(&mut self, item: &str) -> Result<(), ParseError> {
        let (body, weekday) = match item.strip_suffix('W') {
            Some(body) => (body, true),
            None => (item, false),
        };
        let special = match body.strip_prefix('L') {
            Some("") if weekday => DayOfMonth::LastNearestWeekday(0),
            Some("") => DayOfMonth::Last(0),
            Some(rest) => {
                let before = rest.strip_prefix('-').and_then(|n| n.parse::<u32>().ok()).filter(|n| *n <= LAST_BEFORE);
                match before {
                    Some(n) if weekday => DayOfMonth::LastNearestWeekday(n),
                    Some(n) => DayOfMonth::Last(n),
                    None => return Err(self.error(format!("{item:?} is not a day"), self.usage())),
                }
            }
            None => DayOfMonth::NearestWeekday(self.number(body, 0)?),
        };
        self.field.days_of_month.push(special);
        Ok(())
    }

    fn special_weekday(&mut self, item: &str) -> Result<(), ParseError> {
        if item == "L" {
            // The last day of the week of this dialect, which is Saturday.
            self.field.bits |= 1 << 6;
            return Ok(());
        }
        let special = if let Some((weekday, n)) = item.split_once('#') {
            let weekday = self.number(weekday, 0)? - 1;
            match n.parse::<u32>() {
                Ok(n @ 1..=5) => DayOfWeek::Nth(weekday, n),
                _ => return Err(self.error(format!("{n:?} is not a week of a month"), "write 1 to 5 after #")),
            }
        } else {
            DayOfWeek::Last(self.number(item.strip_suffix('L').unwrap_or(item), 0)? - 1)
        };
        self.field.days_of_week.push(special);
        Ok(())
    }

    fn usage(&self) -> String {
        let text = match (self.kind, self.dialect) {
            (Kind::Month, _) => "write 1 to 12, JAN to DEC, ranges, lists or */n",
            (Kind::DayOfWeek, Dialect::Unix) => "write 0 to 7 (0 and 7 are Sunday), SUN to SAT, ranges, lists or */n",
            (Kind::DayOfWeek, Dialect::Quartz) => "write 1 to 7 (1 is Sunday), SUN to SAT, ?, FRI#3, FRIL or lists",
            (Kind::DayOfMonth, Dialect::Quartz) => "write 1 to 31, ?, L, L-3 (at most L-30), LW, 15W, ranges or lists",
            _ => "write numbers, ranges such as 1-5, lists such as 1,15 or steps such as */5",
        };
        text.to_owned()
    }

    fn error(&self, message: impl Into<String>, hint: impl Into<String>) -> ParseError {
        ParseError { field: self.kind.name(), offset: self.offset, message: message.into(), hint: hint.into() }
    }
}

/// The most days before the last of a month that `L-n` can say.
const LAST_BEFORE: u32 = 30;
