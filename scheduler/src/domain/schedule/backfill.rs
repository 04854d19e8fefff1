//! Which fires a backfill is about.

use super::{
    firing::{Next, NotForward, Schedule},
    preview::COUNT_MAX,
    text::Language,
};
use crate::domain::time::Timestamp;

/// How many fires one backfill may have.
pub const FIRES_MAX: u64 = 10_000;
/// How many of its jobs may live at once.
pub const PARALLEL_MAX: u32 = 1_000;

/// How far a backfill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Jobs are still to be made, or to end.
    Running,
    /// Every fire has its job, and those have ended.
    Done,
    /// It makes no more jobs.
    Cancelled,
}

impl State {
    const ALL: [Self; 3] = [Self::Running, Self::Done, Self::Cancelled];

    /// The word of the database.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Done => "DONE",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// The state of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// The fires of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first of them.
    pub first: Timestamp,
    /// How many there are.
    pub count: u64,
}

impl Schedule {
    /// The fires from one instant, included, to another, excluded, both of them past; or which field is wrong, and why.
    pub fn backfill(&self, from: Timestamp, to: Timestamp, now: Timestamp) -> Result<Range, (&'static str, String)> {
        if self.follows_completion() {
            let message = "counts from the ends of its own jobs, and has no fires in the past".to_owned();
            return Err(("schedule", message));
        }
        if to <= from {
            return Err(("to", "must be later than from; it is not part of the range itself".to_owned()));
        }
        if to > now {
            return Err((
                "to",
                "lies in the future, where the schedule fires by itself; choose an instant up to now".to_owned(),
            ));
        }
        let (before, last) = (Timestamp(from.0 - 1), Timestamp(to.0 - 1));
        let Some((first, _, count)) = self.between(before, last) else {
            return Err(("from", "no fire of the schedule lies in the range; `--dry-run` shows what does".to_owned()));
        };
        if count > FIRES_MAX {
            let message = format!(
                "the range holds {count} fires, more than {FIRES_MAX}: take it in parts, one after the other{}",
                self.part(before).map(|end| format!(", the first up to {end}")).unwrap_or_default()
            );
            return Err(("to", message));
        }
        Ok(Range { first, count })
    }

    /// Where a first part of a range may end, on the clocks of the zone: some fires before it would be too long.
    fn part(&self, before: Timestamp) -> Option<String> {
        let shown = self.preview(before, COUNT_MAX, Language::English).ok()?.fires;
        shown.last().map(|fire| fire.utc.clone())
    }

    /// The fires from one on, up to the end of a range, and the one after those if there is one.
    pub fn stretch(
        &self,
        first: Timestamp,
        to: Timestamp,
        count: usize,
    ) -> Result<(Vec<Timestamp>, Option<Timestamp>), NotForward> {
        let mut fires = Vec::with_capacity(count);
        let mut next = Some(first);
        while let Some(fire) = next.filter(|_| fires.len() < count) {
            fires.push(fire);
            next = match self.next(fire)? {
                Next::At(after) if after.time < to => Some(after.time),
                _ => None,
            };
        }
        Ok((fires, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::{After, RuleSpec, Spec};

    fn at(text: &str) -> Timestamp {
        Timestamp(chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros())
    }

    fn schedule(spec: &Spec) -> Schedule {
        Schedule::new(spec, "test", at("2020-01-01T00:00:00Z"), &[]).unwrap()
    }

    #[test]
    fn a_range_has_its_first_instant_and_not_its_last() {
        let daily = schedule(&Spec::cron("0 12 * * *", ""));
        let (from, to) = (at("2026-11-01T12:00:00Z"), at("2026-11-04T12:00:00Z"));
        let range = daily.backfill(from, to, to).unwrap();
        assert_eq!(range, Range { first: from, count: 3 });
        let (fires, next) = daily.stretch(from, to, 2).unwrap();
        assert_eq!((fires, next), (vec![from, at("2026-11-02T12:00:00Z")], Some(at("2026-11-03T12:00:00Z"))));
        assert_eq!(daily.stretch(next.unwrap(), to, 2).unwrap(), (vec![at("2026-11-03T12:00:00Z")], None));
    }

    #[test]
    fn what_cannot_be_made_up_for_is_refused_with_a_way_out() {
        let minutely = schedule(&Spec::cron("* * * * *", ""));
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-02-01T00:00:00Z"));
        let wrong = |found: Result<Range, (&'static str, String)>| found.unwrap_err();
        let (field, message) = wrong(minutely.backfill(from, to, to));
        assert!(field == "to" && message.contains("44640 fires") && message.contains("in parts"), "{message}");
        assert_eq!(wrong(minutely.backfill(to, from, to)).0, "to");
        assert!(wrong(minutely.backfill(from, to, from)).1.contains("in the future"));
        let yearly = schedule(&Spec::cron("0 0 1 3 *", ""));
        assert_eq!(wrong(yearly.backfill(from, to, to)).0, "from");
        let period = std::time::Duration::from_mins(1);
        let delay = schedule(&RuleSpec::Every { period, after: After::Completion }.into());
        assert_eq!(wrong(delay.backfill(from, to, to)).0, "schedule");
    }
}
