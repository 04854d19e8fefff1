//! Schedules in words: a small strict grammar, the same in English and Chinese.
//!
//! A rule is what the words mean; each language has one file that reads and says it, and what one says, it reads back as
//! the same rule. What is not in the grammar is refused with the nearest forms that are: a schedule that was guessed
//! wrong is found out in production.

mod cron_form;
mod en;
mod error;
mod lower;
mod zh;

use chrono::NaiveDate;

pub use error::TextError;

use super::cron::{ALL_WEEKDAYS, Bits};

/// The longest text that is read, in bytes: more than any rule needs to be said.
pub const LENGTH_MAX: usize = 512;
/// The most times of one day that a rule names.
pub const TIMES_MAX: usize = 24;
/// The longest interval of the calendar, in its unit.
pub const EVERY_MAX: u32 = 366;
/// The last day of a month that an interval of months may name; what some months lack is refused.
const SAFE_DAY: u32 = 28;

/// Monday to Friday.
const WORKDAYS: Bits = 0b011_1110;
/// Saturday and Sunday.
const WEEKEND: Bits = 0b100_0001;

/// The languages of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// English.
    English,
    /// Chinese.
    Chinese,
}

/// What a text means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule(pub(super) Form);

/// The forms of the grammar.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// `every 15 minutes between 08:00 and 18:00 on weekdays`
    Steps { step: Step, window: Option<(Time, Time)>, days: Bits },
    /// `every Monday and Friday at 09:00`
    Weekly { days: Bits, times: Vec<Time> },
    /// `last day of the month at 23:30`
    Monthly { day: MonthDay, months: Bits, times: Vec<Time> },
    /// `every other Tuesday at 09:00`
    Cycle { every: u32, unit: CycleUnit, times: Vec<Time>, starting: Option<NaiveDate> },
}

/// The distance of steps, which always divides what it counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Seconds(u32),
    Minutes(u32),
    /// So many hours, at a minute of the hour. In a window the minute is 0: steps count from its start.
    Hours(u32, u32),
}

/// What an interval of the calendar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CycleUnit {
    Days,
    Weeks(Bits),
    Months(MonthDay),
}

/// A day of a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MonthDay {
    /// By number; a month without it has none.
    Day(u32),
    Last,
    /// The first or the last of Monday to Friday.
    FirstWorkday,
    LastWorkday,
    /// The nth of a weekday, 1 to 5; 0 is Sunday.
    Nth(u32, u32),
    LastOf(u32),
}

/// A time of the day, in seconds after midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Time(pub(super) u32);

impl Rule {
    /// Reads a text of either language.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let language = if text.chars().any(|c| c >= '\u{2E80}') { Language::Chinese } else { Language::English };
        if text.len() > LENGTH_MAX {
            return Err(TextError::too_long(language, text.len()));
        }
        let form = match language {
            Language::English => en::read(text),
            Language::Chinese => zh::read(text),
        };
        let form = form.and_then(|form| match form.problem() {
            Some(problem) => Err(Stop { at: 0, problem: Some(problem) }),
            None => Ok(form),
        });
        form.map(Self).map_err(|stop| TextError::new(language, text, stop))
    }

    /// Whether the grammar would read it back.
    pub(super) fn is_sound(&self) -> bool {
        self.0.problem().is_none()
    }

    /// Says it; reading what is said gives the same rule.
    pub fn describe(&self, language: Language) -> String {
        match language {
            Language::English => en::say(&self.0),
            Language::Chinese => zh::say(&self.0),
        }
    }
}

/// Where reading stopped, and why if it is known.
#[derive(Debug, Clone, Copy)]
struct Stop {
    at: usize,
    problem: Option<Problem>,
}

/// What is wrong with words that could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Problem {
    StepDoesNotDivide,
    WindowBackwards,
    WindowWithSeconds,
    WindowTooShort,
    MinuteInWindow,
    TooManyTimes,
    SameTimeTwice,
    EveryOutOfRange,
    DayMissingInSomeMonths,
    NoSuchDate,
    AmbiguousInterval,
    NotATime,
    TimeMissing,
}

impl Form {
    /// What the words say that no schedule could do, or that could be meant in two ways.
    fn problem(&self) -> Option<Problem> {
        match self {
            Self::Steps { step, window, .. } => step.problem().or_else(|| window_problem(*step, *window)),
            Self::Weekly { times, .. } => times_problem(times),
            Self::Monthly { day, months, times } => times_problem(times).or_else(|| {
                let fields = lower::month_fields(*day, *months);
                (!fields.have_a_date()).then_some(Problem::NoSuchDate)
            }),
            Self::Cycle { every, unit, times, .. } => times_problem(times).or_else(|| {
                if !(2..=EVERY_MAX).contains(every) {
                    return Some(Problem::EveryOutOfRange);
                }
                let lacking = matches!(unit, CycleUnit::Months(MonthDay::Day(day)) if *day > SAFE_DAY)
                    || matches!(unit, CycleUnit::Months(MonthDay::Nth(_, 5)));
                lacking.then_some(Problem::DayMissingInSomeMonths)
            }),
        }
    }
}

impl Step {
    fn problem(self) -> Option<Problem> {
        let (n, of) = match self {
            Self::Seconds(n) | Self::Minutes(n) => (n, 60),
            Self::Hours(n, _) => (n, 24),
        };
        (n == 0 || n >= of || of % n != 0).then_some(Problem::StepDoesNotDivide)
    }
}

fn window_problem(step: Step, window: Option<(Time, Time)>) -> Option<Problem> {
    let (from, to) = window?;
    match step {
        Step::Seconds(_) => Some(Problem::WindowWithSeconds),
        Step::Hours(_, minute) if minute != 0 => Some(Problem::MinuteInWindow),
        _ if from.0 % 60 != 0 || to.0 % 60 != 0 => Some(Problem::WindowWithSeconds),
        _ if from >= to => Some(Problem::WindowBackwards),
        Step::Minutes(n) if to.0 - from.0 < n * 60 => Some(Problem::WindowTooShort),
        Step::Hours(n, _) if to.0 - from.0 < n * 3_600 => Some(Problem::WindowTooShort),
        _ => None,
    }
}

fn times_problem(times: &[Time]) -> Option<Problem> {
    if times.is_empty() {
        return Some(Problem::TimeMissing);
    }
    if times.len() > TIMES_MAX {
        return Some(Problem::TooManyTimes);
    }
    times.windows(2).any(|pair| pair[0] == pair[1]).then_some(Problem::SameTimeTwice)
}

impl Time {
    fn new(hour: u32, minute: u32, second: u32) -> Option<Self> {
        (hour < 24 && minute < 60 && second < 60).then_some(Self(hour * 3_600 + minute * 60 + second))
    }

    pub(super) fn parts(self) -> (u32, u32, u32) {
        (self.0 / 3_600, self.0 / 60 % 60, self.0 % 60)
    }

    /// Reads `9:00`, `09:00` and `09:00:30`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut number = |widths: std::ops::RangeInclusive<usize>| {
            let part = parts.next()?;
            let digits = widths.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse::<u32>().ok()).flatten()
        };
        let (hour, minute) = (number(1..=2)?, number(2..=2)?);
        let second = if text.matches(':').count() == 2 { number(2..=2)? } else { 0 };
        if text.matches(':').count() > 2 { None } else { Self::new(hour, minute, second) }
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (hour, minute, second) = self.parts();
        write!(f, "{hour:02}:{minute:02}")?;
        if second == 0 { Ok(()) } else { write!(f, ":{second:02}") }
    }
}

/// The weekdays of a set, Monday first, as people list them.
fn monday_first(days: Bits) -> Vec<u32> {
    (1..=7).map(|n| n % 7).filter(|n| days >> n & 1 == 1).collect()
}

fn is_every_day(days: Bits) -> bool {
    days == ALL_WEEKDAYS
}
