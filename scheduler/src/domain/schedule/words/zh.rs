//! Chinese for expressions that the grammar has no words for, and for notes.

use std::fmt::Write;

use crate::domain::schedule::{
    civil::Civil,
    cron::{
        ALL_DAYS, ALL_HOURS, ALL_MINUTES, ALL_MONTHS, ALL_WEEKDAYS, Bits, DayOfMonth, DayOfWeek, Days, Expression,
        Fields,
    },
    firing::Note,
    wall::Shift,
    words::runs,
};

const WEEKDAYS: [&str; 7] = ["周日", "周一", "周二", "周三", "周四", "周五", "周六"];

pub(super) fn expression(expression: &Expression) -> String {
    let fields = expression.grid().fields();
    let mut parts = Vec::new();
    if let Some(years) = &fields.years {
        let years: Vec<_> = years.iter().map(|year| format!("{year}年")).collect();
        parts.push(years.join("、"));
    }
    if fields.months != ALL_MONTHS {
        parts.push(set(fields.months, |n| format!("{n}月")));
    }
    parts.push(days(&fields.days));
    parts.push(times(fields));
    parts.join("，")
}

fn times(fields: &Fields) -> String {
    let mut text = match fields.hours {
        ALL_HOURS => "每小时".to_owned(),
        hours => set(hours, |n| format!("{n}时")),
    };
    match fields.minutes {
        ALL_MINUTES => text += "每分钟",
        minutes => {
            let _ = write!(text, "的{}", set(minutes, |n| format!("{n}分")));
        }
    }
    match fields.seconds {
        1 => {}
        ALL_MINUTES => text += "每秒",
        seconds => {
            let _ = write!(text, "的{}", set(seconds, |n| format!("{n}秒")));
        }
    }
    text
}

fn days(days: &Days) -> String {
    let month_free = days.of_month == ALL_DAYS && days.of_month_special.is_empty();
    let week_free = days.of_week == ALL_WEEKDAYS && days.of_week_special.is_empty();
    match (month_free, week_free) {
        (true, true) => "每天".to_owned(),
        (false, true) => format!("当月{}", days_of_month(days)),
        (true, false) => format!("每逢{}", days_of_week(days)),
        _ if days.either => format!("当月{}或每逢{}", days_of_month(days), days_of_week(days)),
        _ => format!("当月{}且为{}", days_of_month(days), days_of_week(days)),
    }
}

fn days_of_month(days: &Days) -> String {
    let mut parts = Vec::new();
    if days.of_month != 0 {
        parts.push(set(days.of_month, |n| format!("{n}日")));
    }
    parts.extend(days.of_month_special.iter().map(|special| match *special {
        DayOfMonth::Last(0) => "最后一天".to_owned(),
        DayOfMonth::Last(n) => format!("倒数第{}天", n + 1),
        DayOfMonth::NearestWeekday(n) => format!("离{n}日最近的工作日"),
        DayOfMonth::LastNearestWeekday(0) => "最后一个工作日".to_owned(),
        DayOfMonth::LastNearestWeekday(n) => format!("离倒数第{}天最近的工作日", n + 1),
    }));
    parts.join("或")
}

fn days_of_week(days: &Days) -> String {
    const COUNTS: [&str; 5] = ["一", "二", "三", "四", "五"];
    let mut parts = Vec::new();
    if days.of_week != 0 {
        parts.push(set(days.of_week, |n| WEEKDAYS[n as usize].to_owned()));
    }
    parts.extend(days.of_week_special.iter().map(|special| match *special {
        DayOfWeek::Nth(weekday, n) => format!("当月第{}个{}", COUNTS[n as usize - 1], WEEKDAYS[weekday as usize]),
        DayOfWeek::Last(weekday) => format!("当月最后一个{}", WEEKDAYS[weekday as usize]),
    }));
    parts.join("或")
}

pub(super) fn note(note: &Note, reading: Civil) -> String {
    let clock = |civil: Civil| civil.datetime().format("%H:%M").to_string();
    match note {
        Note::Clock(Shift::Moved { from, merged }) => {
            let others = if *merged { "，空档内的触发合并为一次" } else { "" };
            format!("{}不存在（时钟拨快），移到{}{others}", missing(*from, reading), clock(reading))
        }
        Note::Clock(Shift::FirstPass) => format!("{}出现两次（时钟拨慢），只在第一次触发", clock(reading)),
        Note::Clock(Shift::SecondPass) => format!("{}第二次出现（时钟已拨慢）", clock(reading)),
        Note::Clock(Shift::AfterGap { from }) => {
            format!("{}不存在（时钟拨快），不触发", missing(*from, reading))
        }
        Note::Excluded { calendar, first, count } => {
            let first = first.datetime().format("%Y-%m-%d %H:%M");
            format!("日历{calendar}排除了从{first}起的{count}次触发")
        }
    }
}

/// A reading that does not exist, with its date when that does not exist either.
fn missing(from: Civil, reading: Civil) -> String {
    let format = if from.date() == reading.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    from.datetime().format(format).to_string()
}

fn set(bits: Bits, name: impl Fn(u32) -> String) -> String {
    let runs = runs(bits).into_iter().flat_map(|(first, last)| match last - first {
        0 => vec![name(first)],
        1 => vec![name(first), name(last)],
        _ => vec![format!("{}至{}", name(first), name(last))],
    });
    runs.collect::<Vec<_>>().join("、")
}
