//! Cron expressions that the grammar has words for.

use crate::domain::schedule::{
    cron::{
        ALL_DAYS, ALL_HOURS, ALL_MINUTES, ALL_MONTHS, ALL_WEEKDAYS, Bits, DayOfMonth, DayOfWeek, Expression, Fields,
        numbers, range,
    },
    text::{self, Form, MonthDay, Step, TIMES_MAX, Time},
    wall::Manner,
};

/// The rule with the same fires, clock changes included.
pub(super) fn rule(expression: &Expression) -> Option<text::Rule> {
    let fields = expression.grid().fields();
    if fields.years.is_some() || fields.days.either {
        return None;
    }
    let rule = text::Rule(steps(fields).filter(|_| expression.is_interval_like()).or_else(|| named(fields))?);
    let manner = if expression.is_interval_like() { Manner::Elapsed } else { Manner::Fixed };
    (rule.manner() == manner && rule.is_sound()).then_some(rule)
}

fn steps(fields: &Fields) -> Option<Form> {
    let days = &fields.days;
    if days.of_month != ALL_DAYS || !special(fields) || fields.months != ALL_MONTHS || days.of_week == 0 {
        return None;
    }
    let days = days.of_week;
    let (seconds, minutes, hours) = (fields.seconds, fields.minutes, fields.hours);
    if minutes == ALL_MINUTES && hours == ALL_HOURS && seconds != 1 {
        let step = Step::Seconds(step_of(seconds, 60)?);
        return Some(Form::Steps { step, window: None, days });
    }
    if seconds != 1 {
        return None;
    }
    if let Some(n) = step_of(minutes, 60) {
        let window = if hours == ALL_HOURS {
            None
        } else {
            let (first, last) = (hours.trailing_zeros(), hours.ilog2());
            if hours != range(first, last) {
                return None;
            }
            Some((Time(first * 3_600), Time(last * 3_600 + (60 - n) * 60)))
        };
        return Some(Form::Steps { step: Step::Minutes(n), window, days });
    }
    let minute = single(minutes)?;
    Some(Form::Steps { step: Step::Hours(step_of(hours, 24)?, minute), window: None, days })
}

fn named(fields: &Fields) -> Option<Form> {
    let second = single(fields.seconds)?;
    let count = fields.hours.count_ones() * fields.minutes.count_ones();
    // Times of one minute read well in any number, others only while they are few.
    if count as usize > TIMES_MAX || (single(fields.minutes).is_none() && count > FEW) {
        return None;
    }
    let times = numbers(fields.hours)
        .flat_map(|hour| numbers(fields.minutes).map(move |minute| Time(hour * 3_600 + minute * 60 + second)))
        .collect();
    let (days, months) = (&fields.days, fields.months);
    if special(fields) && days.of_month == ALL_DAYS && months == ALL_MONTHS {
        return Some(Form::Weekly { days: days.of_week, times });
    }
    let by_month = days.of_week == ALL_WEEKDAYS && days.of_week_special.is_empty();
    let by_week = days.of_month == ALL_DAYS && days.of_month_special.is_empty();
    let day = match (days.of_month_special.as_slice(), days.of_week_special.as_slice()) {
        ([], []) if by_month => MonthDay::Day(single(days.of_month)?),
        ([DayOfMonth::Last(0)], []) if by_month && days.of_month == 0 => MonthDay::Last,
        ([DayOfMonth::NearestWeekday(1)], []) if by_month && days.of_month == 0 => MonthDay::FirstWorkday,
        ([DayOfMonth::LastNearestWeekday(0)], []) if by_month && days.of_month == 0 => MonthDay::LastWorkday,
        ([], [DayOfWeek::Nth(weekday, n)]) if by_week && days.of_week == 0 => MonthDay::Nth(*weekday, *n),
        ([], [DayOfWeek::Last(weekday)]) if by_week && days.of_week == 0 => MonthDay::LastOf(*weekday),
        _ => return None,
    };
    Some(Form::Monthly { day, months, times })
}

/// How many times of different minutes are named one by one.
const FEW: u32 = 6;

/// Whether no special day is named.
fn special(fields: &Fields) -> bool {
    fields.days.of_month_special.is_empty() && fields.days.of_week_special.is_empty()
}

fn single(bits: Bits) -> Option<u32> {
    bits.is_power_of_two().then(|| bits.trailing_zeros())
}

/// The n of a set that is every nth number from 0.
fn step_of(bits: Bits, of: u32) -> Option<u32> {
    let n = of.checked_div(bits.count_ones())?;
    let steps = (0..of).step_by(n as usize).fold(0, |bits: Bits, m| bits | 1 << m);
    (steps == bits && n < of).then_some(n)
}
