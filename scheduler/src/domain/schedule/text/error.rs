//! What was not understood, and the nearest forms that would be.

use super::{Language, Problem, Stop};

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Where it stops to be understood, in bytes from the start of the text.
    pub offset: usize,
    /// What is wrong there.
    pub message: String,
    /// The forms of the grammar that are nearest to it.
    pub nearest: Vec<&'static str>,
}

impl std::fmt::Display for TextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let forms: Vec<_> = self.nearest.iter().map(|form| format!("{form:?}")).collect();
        write!(f, "{}; the nearest forms are {}", self.message, forms.join(", "))
    }
}

impl std::error::Error for TextError {}

/// How many forms a refusal shows.
const NEAREST: usize = 3;

const ENGLISH: &[&str] = &[
    "every 30 seconds",
    "every 15 minutes",
    "every 15 minutes between 08:00 and 18:00",
    "every 15 minutes between 08:00 and 18:00 on weekdays",
    "every 2 hours",
    "every hour at minute 15",
    "every day at 09:00",
    "every day at 09:00 and 17:30",
    "every weekday at 09:00",
    "every weekend day at 10:00",
    "every Monday and Friday at 09:00",
    "day 15 of the month at 09:00",
    "last day of the month at 23:30",
    "first weekday of the month at 09:00",
    "first Monday of the month at 09:00",
    "day 24 of December at 18:00",
    "every other day at 09:00",
    "every other Tuesday at 09:00",
    "every 2 weeks on Tuesday and Friday at 09:00",
    "every 3 months on day 1 at 09:00",
    "every 3 months on the last day at 09:00 starting 2027-01-31",
];

const CHINESE: &[&str] = &[
    "每30秒",
    "每15分钟",
    "每天08:00至18:00之间每15分钟",
    "每个工作日08:00至18:00之间每15分钟",
    "每2小时",
    "每小时第15分",
    "每天 09:00",
    "每天 09:00、17:30",
    "每个工作日 09:00",
    "每个周末 10:00",
    "每周一、周五 09:00",
    "每月15日 09:00",
    "每月最后一天 23:30",
    "每月第一个工作日 09:00",
    "每月第一个周一 09:00",
    "每年12月24日 18:00",
    "每2天 09:00",
    "每2周的周二 09:00",
    "每3个月的1日 09:00",
    "每3个月的最后一天 09:00，从2027-01-31起",
];

impl TextError {
    pub(super) fn new(language: Language, text: &str, stop: Stop) -> Self {
        let rest: String = text.get(stop.at..).unwrap_or_default().trim().chars().take(40).collect();
        let message = match stop.problem {
            Some(problem) => problem.says().to_owned(),
            None if text.trim().is_empty() => "the text is empty".to_owned(),
            None if rest.is_empty() => "the text ends too early".to_owned(),
            None => format!("not understood from {rest:?} on"),
        };
        Self { offset: stop.at, message, nearest: nearest(language, text) }
    }

    pub(super) fn too_long(language: Language, length: usize) -> Self {
        let message = format!("{length} bytes are more than the {} that are read", super::LENGTH_MAX);
        Self { offset: 0, message, nearest: forms(language)[..NEAREST].to_vec() }
    }
}

impl Problem {
    fn says(self) -> &'static str {
        match self {
            Self::StepDoesNotDivide => {
                "the step does not divide its hour or day, so it would not be even; use `every` for any other interval"
            }
            Self::WindowBackwards => {
                "the window must begin before it ends, on the same day; use two schedules for a night"
            }
            Self::WindowWithSeconds => "a window is in minutes, and so are its steps",
            Self::WindowTooShort => "the window is shorter than one step; name the times instead",
            Self::MinuteInWindow => "in a window hours count from its start, so they have no minute of their own",
            Self::TooManyTimes => "more than 24 times a day; use steps or several schedules",
            Self::SameTimeTwice => "the same time is named twice",
            Self::EveryOutOfRange => "an interval of the calendar goes from 2 to 366",
            Self::DayMissingInSomeMonths => "some months do not have this day; say the last day, or a day up to 28",
            Self::NoSuchDate => "there is no such date, so it would never fire",
            Self::AmbiguousInterval => "this interval is read in two ways; write the number of days, weeks or months",
            Self::NotATime => "times are written on the 24-hour clock, such as 09:00 or 21:30",
            Self::TimeMissing => "the time is missing",
        }
    }
}

fn forms(language: Language) -> &'static [&'static str] {
    match language {
        Language::English => ENGLISH,
        Language::Chinese => CHINESE,
    }
}

/// The forms with the most in common with a text, whatever its numbers are.
fn nearest(language: Language, text: &str) -> Vec<&'static str> {
    let shape = |text: &str| -> String {
        text.to_lowercase().chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect()
    };
    let wanted = shape(text);
    let mut ranked: Vec<(f64, &'static str)> =
        forms(language).iter().map(|form| (strsim::sorensen_dice(&shape(form), &wanted), *form)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().take(NEAREST).map(|(_, form)| form).collect()
}
