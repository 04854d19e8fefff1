//! Random expressions, each with a model of what it means that was not made by reading it.

use std::collections::BTreeSet;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike, Weekday};

/// A small generator of numbers that is the same for ever.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// True one time of `n`.
    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn between(&mut self, first: u32, last: u32) -> u32 {
        first + self.below(last - first + 1)
    }
}

/// One field: how it is written and what it allows.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    pub(super) text: String,
    pub(super) set: BTreeSet<u32>,
    pub(super) whole: bool,
    pub(super) starred: bool,
    special: Option<Special>,
}

#[derive(Debug, Clone, Copy)]
enum Special {
    Last(u32),
    Nearest(u32),
    LastNearest,
    Nth(u32, u32),
    LastOf(u32),
}

/// An expression and what it means.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) text: String,
    pub(super) unix: bool,
    pub(super) second: Part,
    pub(super) minute: Part,
    pub(super) hour: Part,
    pub(super) day: Part,
    pub(super) month: Part,
    pub(super) weekday: Part,
}

const MONTHS: [&str; 12] = ["jan", "Feb", "MAR", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "Mon", "TUE", "wed", "thu", "fri", "sat"];

impl Model {
    /// An expression that fires now and then around `hint`, a reading near a change of the clock.
    pub(super) fn random(chance: &mut Chance, hint: NaiveDateTime) -> Self {
        let unix = chance.one_in(2);
        // Every second of three days says no more than a few of them, and takes long.
        let mut second = if unix || chance.one_in(2) { fixed(0) } else { field(chance, 0, 59, hint.second(), &[]) };
        if second.set.len() > 6 && !chance.one_in(20) {
            second = fixed(7);
        }
        let near = if chance.one_in(2) { hint.minute() } else { 30 };
        let minute = field(chance, 0, 59, near, &[]);
        let hour = field(chance, 0, 23, hint.hour(), &[]);
        let month = if chance.one_in(3) { field(chance, 1, 12, hint.month(), &MONTHS) } else { star(1, 12) };
        let mut day = if chance.one_in(3) { field(chance, 1, 31, hint.day(), &[]) } else { star(1, 31) };
        let mut weekday = if chance.one_in(3) { weekdays(chance, unix) } else { star(0, 6) };
        if !unix {
            match chance.below(6) {
                0 => day = special_day(chance, hint.day()),
                1 => weekday = special_weekday(chance, hint.date().weekday().num_days_from_sunday()),
                2 | 3 if weekday.text == "*" => weekday.text = "?".to_owned(),
                _ => {}
            }
        }
        let mut words = vec![&minute.text, &hour.text, &day.text, &month.text, &weekday.text];
        if !unix {
            words.insert(0, &second.text);
        }
        let text = words.into_iter().cloned().collect::<Vec<_>>().join(" ");
        Self { text, unix, second, minute, hour, day, month, weekday }
    }

    pub(super) fn is_interval_like(&self) -> bool {
        self.minute.whole || self.hour.whole
    }

    /// Whether a reading matches, its second aside.
    pub(super) fn has_minute(&self, reading: NaiveDateTime) -> bool {
        self.minute.set.contains(&reading.minute())
            && self.hour.set.contains(&reading.hour())
            && self.month.set.contains(&reading.month())
            && self.has_date(reading.date())
    }

    fn has_date(&self, date: NaiveDate) -> bool {
        let day = self.day.set.contains(&date.day()) || self.day.special.is_some_and(|special| special.is(date));
        let weekday = self.weekday.set.contains(&date.weekday().num_days_from_sunday())
            || self.weekday.special.is_some_and(|special| special.is(date));
        let either = self.unix && !self.day.starred && !self.weekday.starred;
        if either { day || weekday } else { day && weekday }
    }
}

impl Special {
    /// By walking the month, not by arithmetic on its days.
    fn is(self, date: NaiveDate) -> bool {
        let first = date.with_day(1).unwrap();
        let month: Vec<NaiveDate> = first.iter_days().take_while(|day| day.month() == date.month()).collect();
        let nearest = |wanted: usize| {
            let is_workday = |day: &&NaiveDate| !matches!(day.weekday(), Weekday::Sat | Weekday::Sun);
            let wanted = month.get(wanted)?;
            month.iter().filter(is_workday).min_by_key(|day| (**day - *wanted).num_days().abs()).copied()
        };
        let of = |weekday: u32| {
            month.iter().filter(move |day| day.weekday().num_days_from_sunday() == weekday).copied().collect::<Vec<_>>()
        };
        let wanted = match self {
            Self::Last(before) => month.len().checked_sub(before as usize + 1).map(|index| month[index]),
            Self::Nearest(day) => nearest(day as usize - 1),
            Self::LastNearest => nearest(month.len() - 1),
            Self::Nth(weekday, n) => of(weekday).get(n as usize - 1).copied(),
            Self::LastOf(weekday) => of(weekday).last().copied(),
        };
        wanted == Some(date)
    }
}

fn fixed(n: u32) -> Part {
    Part { text: n.to_string(), set: BTreeSet::from([n]), ..Part::default() }
}

fn star(min: u32, max: u32) -> Part {
    Part { text: "*".to_owned(), set: (min..=max).collect(), whole: true, starred: true, special: None }
}

fn field(chance: &mut Chance, min: u32, max: u32, hint: u32, names: &[&str]) -> Part {
    let near = |chance: &mut Chance| {
        let offset = chance.below(4);
        (hint + 3 - offset).clamp(min, max)
    };
    match chance.below(8) {
        0 | 1 => star(min, max),
        2 => {
            let n = [2, 3, 4, 5, 6, 7, 10][chance.below(7) as usize];
            let set = (min..=max).step_by(n as usize).collect();
            let (text, starred) = match chance.below(3) {
                0 => (format!("*/{n}"), true),
                1 => (format!("{min}/{n}"), false),
                _ => (format!("{min}-{max}/{n}"), false),
            };
            Part { text, set, whole: true, starred, special: None }
        }
        3 => {
            let (first, last) = (near(chance), chance.between(min, max));
            let set: BTreeSet<u32> =
                if first <= last { (first..=last).collect() } else { (first..=max).chain(min..=last).collect() };
            let whole = (first, last) == (min, max);
            Part { text: format!("{}-{}", named(chance, first, min, names), last), set, whole, ..Part::default() }
        }
        4 => {
            let (first, n) = (near(chance), chance.between(2, 9.min(max - min)));
            let set = (first..=max).step_by(n as usize).collect();
            Part { text: format!("{first}/{n}"), set, whole: first == min, ..Part::default() }
        }
        5 => {
            let set: BTreeSet<u32> =
                (0..chance.between(2, 4)).map(|_| chance.between(min, max)).chain([hint]).collect();
            let texts: Vec<_> = set.iter().map(|&n| named(chance, n, min, names)).collect();
            let text = texts.join(",");
            Part { text, set, ..Part::default() }
        }
        _ => {
            let n = near(chance);
            Part { text: named(chance, n, min, names), set: BTreeSet::from([n]), ..Part::default() }
        }
    }
}

fn named(chance: &mut Chance, n: u32, min: u32, names: &[&str]) -> String {
    if names.is_empty() || chance.one_in(2) { n.to_string() } else { names[(n - min) as usize].to_owned() }
}

/// Numbers differ by dialect, and of the Unix ones 0 and 7 are the same day.
fn weekdays(chance: &mut Chance, unix: bool) -> Part {
    let number = |chance: &mut Chance, day: u32| match (unix, day) {
        _ if chance.one_in(3) => WEEKDAYS[day as usize].to_owned(),
        (true, 0) if chance.one_in(2) => "7".to_owned(),
        (true, day) => day.to_string(),
        (false, day) => (day + 1).to_string(),
    };
    if chance.one_in(2) {
        let set: BTreeSet<u32> = (0..chance.between(1, 3)).map(|_| chance.below(7)).collect();
        let texts: Vec<_> = set.iter().map(|&day| number(chance, day)).collect();
        return Part { text: texts.join(","), set, ..Part::default() };
    }
    let (first, length) = (chance.below(7), chance.between(1, 5));
    let set = (first..first + length).map(|day| day % 7).collect();
    let last = (first + length - 1) % 7;
    let first = if length == 1 { WEEKDAYS[first as usize].to_owned() } else { number(chance, first) };
    let text = if length == 1 { first } else { format!("{first}-{}", WEEKDAYS[last as usize]) };
    Part { text, set, ..Part::default() }
}

fn special_day(chance: &mut Chance, hint: u32) -> Part {
    let day = (hint + 2).saturating_sub(chance.below(5)).clamp(1, 31);
    let (text, special) = match chance.below(4) {
        0 => ("L".to_owned(), Special::Last(0)),
        1 => {
            let before = chance.below(6);
            (format!("l-{before}"), Special::Last(before))
        }
        2 => ("LW".to_owned(), Special::LastNearest),
        _ => (format!("{day}W"), Special::Nearest(day)),
    };
    Part { text, special: Some(special), ..Part::default() }
}

fn special_weekday(chance: &mut Chance, hint: u32) -> Part {
    let day = if chance.one_in(2) { hint } else { chance.below(7) };
    let name = if chance.one_in(2) { WEEKDAYS[day as usize].to_owned() } else { (day + 1).to_string() };
    let (text, special) = if chance.one_in(2) {
        let n = chance.between(1, 5);
        (format!("{name}#{n}"), Special::Nth(day, n))
    } else {
        (format!("{name}L"), Special::LastOf(day))
    };
    Part { text, special: Some(special), ..Part::default() }
}
