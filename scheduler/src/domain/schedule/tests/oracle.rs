//! Every fire around every change of every clock, against an oracle that walks minute by minute.
//!
//! The oracle asks the zone library what the clock shows at each minute, or which instant each minute of the wall is,
//! and knows the rule for clock changes in its plainest form. It shares no code with what it checks.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::{cron, generate::Chance, generate::Model, soak, walk};
use crate::domain::{
    schedule::{Language, Next, Spec, cron::Expression},
    time::Timestamp,
};

/// Three days around a change of a clock, minute by minute.
struct Days {
    tz: Tz,
    change: DateTime<Utc>,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    /// What the clock shows at each minute.
    shown: Vec<(i64, NaiveDateTime)>,
    /// The instant of each minute of the wall, and whether it was made up because the reading does not exist.
    placed: Vec<(NaiveDateTime, i64, bool)>,
}

impl Days {
    fn around(tz: Tz, change: DateTime<Utc>) -> Self {
        let (from, to) = (change - TimeDelta::hours(36), change + TimeDelta::hours(36));
        let minutes = (to - from).num_minutes();
        let instant = |n: i64| from + TimeDelta::minutes(n);
        let shown =
            (0..minutes).map(|n| (instant(n).timestamp(), instant(n).with_timezone(&tz).naive_local())).collect();
        // Wide enough for the day that Samoa left out.
        let first = from.naive_utc() - TimeDelta::hours(50);
        let placed = (0..minutes + 100 * 60).map(|n| place(tz, first + TimeDelta::minutes(n)));
        Self { tz, change, from, to, shown, placed: placed.collect() }
    }

    fn fires(&self, model: &Model) -> BTreeSet<i64> {
        let seconds = |minute: i64| model.second.set.iter().map(move |&second| minute + i64::from(second));
        let inside = |&at: &i64| at > self.from.timestamp() && at < self.to.timestamp();
        if model.is_interval_like() {
            let minutes = self.shown.iter().filter(|(_, reading)| model.has_minute(*reading));
            return minutes.flat_map(|(at, _)| seconds(*at)).filter(inside).collect();
        }
        let minutes = self.placed.iter().filter(|(reading, ..)| model.has_minute(*reading));
        let moved = |made_up: bool, at: i64| if made_up { vec![at] } else { seconds(at).collect() };
        minutes.flat_map(|(_, at, made_up)| moved(*made_up, *at)).filter(inside).collect()
    }
}

/// The first pass of an overlap, the first instant after a gap.
fn place(tz: Tz, reading: NaiveDateTime) -> (NaiveDateTime, i64, bool) {
    if let Some(time) = tz.from_local_datetime(&reading).earliest() {
        return (reading, time.timestamp(), false);
    }
    let mut later = reading;
    while tz.from_local_datetime(&later).earliest().is_none() {
        later += TimeDelta::minutes(1);
    }
    (reading, tz.from_local_datetime(&later).earliest().unwrap().timestamp(), true)
}

/// The changes of a zone's clock in some years.
fn changes(tz: Tz, first_year: i32, last_year: i32) -> Vec<(DateTime<Utc>, i32, i32)> {
    let hour = |n: i64| Utc.with_ymd_and_hms(first_year, 1, 1, 0, 0, 0).unwrap() + TimeDelta::hours(n);
    let offset = |at: DateTime<Utc>| tz.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc();
    let hours = (i64::from(last_year - first_year) + 1) * 8_784;
    let mut found = Vec::new();
    for day in 0..hours / 24 {
        if offset(hour(day * 24)) == offset(hour(day * 24 + 24)) {
            continue;
        }
        let minutes = (0..24 * 60).map(|n| hour(day * 24) + TimeDelta::minutes(n));
        for at in minutes {
            let next = at + TimeDelta::minutes(1);
            if offset(at) != offset(next) {
                found.push((next, offset(at), offset(next)));
            }
        }
    }
    found
}

/// What was compared. A difference is a failure, so what is told of it always agreed.
#[derive(Debug, Default)]
struct Tally {
    zones: BTreeSet<&'static str>,
    changes: usize,
    /// Expressions of five fields, and of six.
    dialects: [usize; 2],
    /// Minutes at each of which both said whether something fires, and when.
    minutes: usize,
    fires: usize,
    /// Questions about the next, the last and the number of fires, asked at instants in between.
    questions: usize,
}

impl Tally {
    fn tell(&self, what: &str) {
        let Self { zones, changes, dialects: [unix, quartz], minutes, fires, questions } = self;
        println!(
            "{what}: {} zones, {changes} changes, {} expressions ({unix} of five fields, {quartz} of six), {minutes} \
             minutes, {fires} fires, {questions} questions, 0 differences",
            zones.len(),
            unix + quartz,
        );
    }
}

fn check(days: &Days, model: &Model, tally: &mut Tally) {
    tally.dialects[usize::from(!model.unix)] += 1;
    tally.minutes += days.shown.len();
    let expression = match Expression::parse(&model.text) {
        Ok(expression) => expression,
        // Only what can never fire is refused.
        Err(error) => {
            assert!(error.message.contains("never fires"), "{}: {error}", model.text);
            assert!(days.fires(model).is_empty());
            return;
        }
    };
    let schedule = cron(&model.text, days.tz.name());
    let micros = |at: i64| Timestamp(at * 1_000_000);
    let (from, to) = (micros(days.from.timestamp()), micros(days.to.timestamp() - 1));
    let found = walk(&schedule, from, to);
    let expected: Vec<_> = days.fires(model).into_iter().map(micros).collect();
    if found != expected {
        let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
            (found.into_iter().collect(), expected.into_iter().collect());
        let show = |set: Vec<&Timestamp>| set.into_iter().take(5).map(|time| super::rfc3339(*time)).collect::<Vec<_>>();
        panic!(
            "{:?} in {} around {}: should not fire {:?}, should fire {:?}",
            model.text,
            days.tz,
            days.change,
            show(found.difference(&expected).collect()),
            show(expected.difference(&found).collect())
        );
    }
    // The count is computed and the way back is walked: both agree with the way forward.
    assert_eq!(schedule.count(from, to), found.len() as u64, "{} in {} around {}", model.text, days.tz, days.change);
    let mut until = to;
    for fire in found.iter().rev().take(200) {
        assert_eq!(schedule.last(until), Some(*fire), "{} in {} around {}", model.text, days.tz, days.change);
        until = Timestamp(fire.0 - 1);
    }
    // The words for it, if there are such, mean the same.
    if let Some(rule) = expression.as_text() {
        let words = rule.describe(Language::English);
        assert_eq!(walk(&super::schedule(&Spec::text(&words, days.tz.name())), from, to), found, "{words}");
    }
    // Whenever it is asked near the change, in either pass, the answers are those of the walk.
    for n in 0..ASKED {
        let asked = micros(days.change.timestamp() + (n - ASKED / 2) * ASKED_EVERY);
        let (passed, ahead) = found.split_at(found.partition_point(|fire| *fire <= asked));
        match ahead.first() {
            Some(fire) => assert!(matches!(schedule.next(asked).unwrap(), Next::At(next) if next.time == *fire)),
            None => assert!(!matches!(schedule.next(asked).unwrap(), Next::At(next) if next.time <= to)),
        }
        if let Some(fire) = passed.last() {
            assert_eq!(schedule.last(asked), Some(*fire), "{} in {} at {}", model.text, days.tz, super::rfc3339(asked));
        }
        assert_eq!(schedule.count(asked, to), ahead.len() as u64, "{} in {}", model.text, days.tz);
    }
    tally.questions += 3 * ASKED as usize;
    tally.fires += found.len();
}

/// How many instants around a change are asked about, and how many seconds apart.
const ASKED: i64 = 24;
const ASKED_EVERY: i64 = 617;

#[test]
fn every_clock_change_of_every_zone_fires_as_a_walk_by_minutes_does() {
    let mut distinct = BTreeMap::new();
    let mut all = Vec::new();
    for tz in TZ_VARIANTS {
        for change in changes(tz, 2024, 2027) {
            all.push((tz, change.0));
            distinct.entry(change).or_insert(tz);
        }
    }
    assert!(all.len() > 1_000, "the zone data has lost its rules");
    // Zones that change alike are looked at once, unless there is time for all.
    let chosen: Vec<(Tz, DateTime<Utc>)> =
        if soak() { all } else { distinct.into_iter().map(|((at, ..), tz)| (tz, at)).collect() };
    let rounds = if soak() { 60 } else { 10 };
    run("2024 to 2027", &chosen, rounds);
}

#[test]
fn the_oddest_clock_changes_fire_as_a_walk_by_minutes_does() {
    let zones = [
        (Tz::Australia__Lord_Howe, 2018, 2027),
        (Tz::Pacific__Apia, 2010, 2013),
        (Tz::America__Sao_Paulo, 2016, 2019),
        (Tz::America__Santiago, 2022, 2027),
        (Tz::Africa__Casablanca, 2022, 2027),
        (Tz::Antarctica__Troll, 2024, 2026),
        (Tz::Asia__Pyongyang, 2015, 2018),
        (Tz::Asia__Kathmandu, 1985, 1986),
        (Tz::America__Caracas, 2007, 2016),
    ];
    let chosen: Vec<(Tz, DateTime<Utc>)> = zones
        .iter()
        .flat_map(|(tz, first, last)| changes(*tz, *first, *last).into_iter().map(|c| (*tz, c.0)))
        .collect();
    run("oddest", &chosen, if soak() { 300 } else { 15 });
}

fn run(what: &str, chosen: &[(Tz, DateTime<Utc>)], rounds: u32) {
    let mut tally = Tally { changes: chosen.len(), ..Tally::default() };
    for (n, (tz, change)) in chosen.iter().enumerate() {
        let days = Days::around(*tz, *change);
        let hint = (*change - TimeDelta::minutes(1)).with_timezone(tz).naive_local() + TimeDelta::minutes(1);
        let mut chance = Chance(0xBA70 + n as u64);
        tally.zones.insert(tz.name());
        for _ in 0..rounds {
            check(&days, &Model::random(&mut chance, hint), &mut tally);
        }
    }
    tally.tell(what);
    assert!(tally.fires > 1_000);
}
