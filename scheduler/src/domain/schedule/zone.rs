//! What a wall clock shows at an instant, and which instants a reading stands for.
//!
//! A zone is a row of spells, each of one offset. Between two spells the clock goes forward (a gap: readings that
//! never show) or back (an overlap: readings that show twice). The zone data is compiled in and the zone of the host
//! is never asked.

use std::{fmt, sync::OnceLock};

use chrono::{DateTime, FixedOffset, Offset, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::civil::{Civil, DAY};
use crate::domain::time::Timestamp;

/// A time zone of the IANA database.
#[derive(Clone, Copy)]
pub struct Zone {
    tz: Tz,
    spells: &'static [Spell],
}

/// A time during which a zone's offset stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spell {
    /// Its first second, in UTC.
    pub(super) start: i64,
    /// The first second after it.
    pub(super) end: i64,
    /// Seconds east of UTC.
    pub(super) offset: i64,
}

/// Which instants a reading stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It shows once.
    Once(i64),
    /// It shows twice, the clock goes back in between.
    Twice {
        /// In the first pass.
        first: i64,
        /// In the second.
        second: i64,
    },
    /// It never shows: the clock goes forward over it at this instant.
    Gap(i64),
}

/// A name that no zone has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time zone {name:?} is unknown; {hint}")]
pub struct UnknownZone {
    /// What was asked for.
    pub name: String,
    /// What was probably meant.
    pub hint: String,
}

impl Zone {
    /// The zone of schedules that name none.
    pub fn utc() -> Self {
        Self::of(Tz::UTC)
    }

    /// Finds a zone by its IANA name, exactly as written there; empty means UTC.
    pub fn parse(name: &str) -> Result<Self, UnknownZone> {
        if name.is_empty() {
            return Ok(Self::utc());
        }
        // A name longer than any zone's is not worth the search for a likeness.
        let known = if name.len() <= NAME_MAX { name.parse::<Tz>().ok() } else { None };
        known.map(Self::of).ok_or_else(|| UnknownZone { name: name.chars().take(NAME_MAX).collect(), hint: hint(name) })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.tz.name()
    }

    /// What the clock shows.
    pub fn civil(self, instant: i64) -> Civil {
        Civil(instant + self.spells[self.index_at(instant)].offset)
    }

    /// Seconds east of UTC.
    pub fn offset_at(self, instant: i64) -> i64 {
        self.spells[self.index_at(instant)].offset
    }

    /// An instant with its offset.
    pub fn time(self, at: Timestamp) -> DateTime<FixedOffset> {
        let offset = self.offset_at(at.0.div_euclid(1_000_000));
        let offset = i32::try_from(offset).ok().and_then(FixedOffset::east_opt).unwrap_or(Utc.fix());
        DateTime::from_timestamp_micros(at.0).unwrap_or_default().with_timezone(&offset)
    }

    /// The instants that a reading stands for.
    pub fn place(self, civil: Civil) -> Placed {
        // The first spell whose clock has not yet passed the reading.
        let index = self.spells.partition_point(|spell| spell.end.saturating_add(spell.offset) <= civil.0);
        let spell = self.spells[index];
        if civil.0 < spell.start.saturating_add(spell.offset) {
            return Placed::Gap(spell.start);
        }
        let first = civil.0 - spell.offset;
        match self.spells.get(index + 1) {
            Some(later) if civil.0 - later.offset >= later.start => {
                Placed::Twice { first, second: civil.0 - later.offset }
            }
            _ => Placed::Once(first),
        }
    }

    /// The spells, in order and without holes.
    pub(super) fn spells(self) -> &'static [Spell] {
        self.spells
    }

    /// The place of the spell that an instant is in.
    pub(super) fn index_at(self, instant: i64) -> usize {
        self.spells.partition_point(|spell| spell.end <= instant)
    }

    fn of(tz: Tz) -> Self {
        static TABLES: OnceLock<Vec<OnceLock<Box<[Spell]>>>> = OnceLock::new();
        let tables = TABLES.get_or_init(|| {
            let count = TZ_VARIANTS.iter().map(|&tz| tz as usize).max().unwrap_or(0) + 1;
            (0..count).map(|_| OnceLock::new()).collect()
        });
        Self { tz, spells: tables[tz as usize].get_or_init(|| spells(tz)) }
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.tz == other.tz
    }
}

impl Eq for Zone {}

/// The longest name that is looked at.
const NAME_MAX: usize = 64;

/// How far apart the offset is looked at in search of changes. The nearest two changes of any zone since 1970 are a
/// week apart; a test looks at every day, a soak at every hour.
const PROBE: i64 = 3 * DAY;

/// Zone data does not list spells to the outside, so they are found by looking. A millisecond, once a zone.
fn spells(tz: Tz) -> Box<[Spell]> {
    let mut found = Vec::new();
    let (mut start, mut seen) = (i64::MIN, 0);
    let mut offset = offset(tz, seen);
    while seen < Civil::END.0 + DAY {
        let ahead = seen + PROBE;
        let then = self::offset(tz, ahead);
        if then == offset {
            seen = ahead;
            continue;
        }
        let (mut before, mut after) = (seen, ahead);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self::offset(tz, middle) == offset { before = middle } else { after = middle }
        }
        found.push(Spell { start, end: after, offset });
        (start, seen, offset) = (after, after, self::offset(tz, after));
    }
    found.push(Spell { start, end: i64::MAX, offset });
    found.into()
}

fn offset(tz: Tz, instant: i64) -> i64 {
    let utc = Civil(instant).datetime();
    i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc())
}

fn hint(name: &str) -> String {
    let wanted = name.to_lowercase().replace(' ', "_");
    if name.len() > NAME_MAX {
        return "use a name of the IANA database such as Europe/Berlin".to_owned();
    }
    // A bare city is the most common slip, then case, then a typing error.
    let nearest = TZ_VARIANTS.iter().map(|tz| tz.name()).min_by_key(|known| {
        let lower = known.to_lowercase();
        let city = lower.rsplit('/').next().unwrap_or(&lower);
        strsim::damerau_levenshtein(&lower, &wanted).min(strsim::damerau_levenshtein(city, &wanted))
    });
    format!("did you mean {}? names are those of the IANA database", nearest.unwrap_or("UTC"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_change_of_any_zone_is_overlooked() {
        for tz in TZ_VARIANTS {
            let zone = Zone::of(tz);
            // Day by day is enough to meet every change, since two are a week apart; a soak looks at every hour.
            let step = if crate::domain::schedule::tests::soak() { 3_600 } else { DAY };
            for instant in (0..Civil::END.0).step_by(step as usize) {
                assert_eq!(zone.offset_at(instant), offset(tz, instant), "{tz} at {instant}");
            }
        }
    }

    #[test]
    fn clocks_of_every_zone_move_on_from_change_to_change() {
        for tz in TZ_VARIANTS {
            let spells = Zone::of(tz).spells();
            for pair in spells.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                // What the search for a reading relies on: the ends of the spells are in order on the wall as well.
                assert!(pair[0].end + pair[0].offset < pair[1].end.saturating_add(pair[1].offset), "{tz}");
                assert!((pair[1].offset - pair[0].offset).abs() <= DAY);
            }
        }
    }

    #[test]
    fn an_unknown_zone_is_answered_with_the_nearest() {
        for (wrong, right) in
            [("Europe/Berln", "Europe/Berlin"), ("shanghai", "Asia/Shanghai"), ("america/new york", "America/New_York")]
        {
            let error = Zone::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(right), "{error}");
        }
        assert!(Zone::parse("Asia/NoSuch").is_err());
        assert!(Zone::parse(&"x".repeat(100_000)).unwrap_err().to_string().len() < 200);
        assert_eq!(Zone::parse("").unwrap(), Zone::utc());
    }
}
