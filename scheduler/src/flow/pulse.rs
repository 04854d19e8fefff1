//! Signs of life: those of the runners are committed, and the scheduler gives its own.
//!
//! Only a committed sign of life is acknowledged, so that a scheduler that lost its database cannot prolong what a
//! runner may do alone. The same touches tell for how long this scheduler has known what is true: it decides no loss
//! before it has been in unbroken touch for a full `lost_after` [9].

use std::time::{Duration, Instant};

use tracing::warn;
use uuid::Uuid;

use super::engine::{Engine, TURN_MAX};
use crate::{
    domain::{
        time::{Timestamp, micros},
        timing::Timing,
    },
    store::{self, Store},
};

/// What a beat came to.
#[derive(Debug)]
pub(super) enum Seen {
    /// Committed.
    Committed {
        /// Sessions and the frames up to which their signs of life are committed.
        sessions: Vec<(Uuid, u64)>,
        /// Sessions that no longer count.
        superseded: Vec<Uuid>,
        /// Whether an operator drained this scheduler, when that was asked.
        drained: Option<bool>,
        /// The addresses of the cluster, when they were asked for.
        addresses: Option<Vec<String>>,
        /// The clock of the database.
        clock: Timestamp,
    },
    /// The database is out of reach.
    Failed {
        /// Sessions that were heard.
        sessions: Vec<Uuid>,
    },
}

/// The right to decide losses. It ends with the touch that it rests on: what a turn reads may be much younger than the
/// moment it was begun in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judge {
    /// The clock of the database when signs of life were last committed, and when that was.
    clock: (Timestamp, Instant),
    gap: Duration,
}

impl Judge {
    /// One that trusts in everything, for tests that make runners silent by hand.
    #[cfg(test)]
    pub(super) fn trusting(now: Timestamp) -> Self {
        Self { clock: (now, Instant::now()), gap: Duration::from_hours(24) }
    }

    /// Whether losses may be decided by this reading of the database's clock, taken now: signs of life could be
    /// committed until just before, and the clock has not jumped since.
    pub(super) fn may_still(self, clock: Timestamp, now: Instant) -> bool {
        let (before, then) = self.clock;
        now - then <= self.gap * 2
            && jump((before, then), (clock, now)).unsigned_abs() <= micros(self.gap).unsigned_abs()
    }
}

/// By how many microseconds the clock of the database ran ahead of ours between two readings.
fn jump(before: (Timestamp, Instant), after: (Timestamp, Instant)) -> i64 {
    (after.0.0 - before.0.0) - micros(after.1 - before.1)
}

/// The beats of a scheduler.
#[derive(Debug)]
pub(super) struct Pulse {
    store: Store,
    timing: Timing,
    scheduler: Uuid,
    addresses: Vec<String>,
    under_way: bool,
    own_at: Instant,
    /// Since when touch is unbroken.
    touch_since: Instant,
    touched_at: Instant,
    /// The last reading of the database clock, and when it was taken.
    clock: Option<(Timestamp, Instant)>,
    failing: bool,
}

impl Pulse {
    pub(super) fn new(store: Store, timing: Timing, scheduler: Uuid, address: String) -> Self {
        let now = Instant::now();
        Self {
            store,
            timing,
            scheduler,
            addresses: vec![address],
            under_way: false,
            own_at: now,
            touch_since: now,
            touched_at: now,
            clock: None,
            failing: false,
        }
    }

    /// The addresses of the cluster, this scheduler's first.
    pub(super) fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether this scheduler has been in touch long enough to decide losses.
    fn may_judge(&self, now: Instant) -> bool {
        now - self.touched_at <= self.timing.touch_gap && now - self.touch_since >= self.timing.lost_after
    }

    /// The right to decide losses, once this scheduler has been in touch for long enough.
    pub(super) fn judge(&self, now: Instant) -> Option<Judge> {
        let clock = self.clock.filter(|_| self.may_judge(now))?;
        Some(Judge { clock, gap: self.timing.touch_gap })
    }

    /// The database answered.
    pub(super) fn touched(&mut self, now: Instant) {
        if now - self.touched_at > self.timing.touch_gap {
            self.touch_since = now;
        }
        self.touched_at = now;
    }

    /// The database did not answer.
    pub(super) fn lost_touch(&mut self, now: Instant) {
        self.touch_since = now;
        self.touched_at = now;
    }

    /// Commits what was heard, and from time to time this scheduler's own sign of life.
    pub(super) fn beat(&mut self, heard: Vec<(String, Uuid, u64)>, engine: Engine, now: Instant) {
        let own = self.own_at <= now;
        if self.under_way || (heard.is_empty() && !own) {
            return;
        }
        if own {
            self.own_at = now + own_interval(&self.timing);
        }
        self.under_way = true;
        let (store, scheduler, alive_for) = (self.store.clone(), self.scheduler, self.timing.lost_after);
        store.carrier().spawn(async move {
            // The one writer of a SQLite file may be busy with a turn: that is no silence of the database.
            let limit = if store.is_clustered() { BEAT_MAX } else { TURN_MAX + BEAT_MAX };
            let committed = within(limit, &store, commit(&store, scheduler, &heard, own, alive_for)).await;
            let seen = match committed {
                Ok(seen) => seen,
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    warn!(%error, cause, "signs of life could not be committed");
                    Seen::Failed { sessions: heard.into_iter().map(|(_, session, _)| session).collect() }
                }
            };
            engine.seen(seen).await;
        });
    }

    /// Takes in what a beat came to.
    pub(super) fn seen(&mut self, seen: &Seen, now: Instant) {
        self.under_way = false;
        match seen {
            Seen::Committed { addresses, clock, .. } => {
                self.touched(now);
                if let Some(addresses) = addresses {
                    self.addresses.clone_from(addresses);
                }
                if let Some(before) = self.clock.replace((*clock, now)) {
                    let by = jump(before, (*clock, now));
                    if by.unsigned_abs() > micros(self.timing.touch_gap).unsigned_abs() {
                        warn!(by_s = by / 1_000_000, "the database clock jumped");
                        self.touch_since = now;
                    }
                }
                self.failing = false;
            }
            Seen::Failed { .. } => self.lost_touch(now),
        }
    }

    /// The last act of a scheduler that stops as planned: nobody decides the loss of its runners within `hold_for`.
    pub(super) async fn part(&self, store: &Store, hold_for: Duration) -> Result<(), store::Error> {
        let tx = store.begin_beats().await?;
        let now = store::scheduler::now(&tx).await?;
        // A runner adds `hold_for` to its self-stop, and that may just have been renewed: its tasks may go on for so long
        // and need `lost_after` to be gone.
        store::runner::hold(&tx, self.scheduler, now + hold_for + self.timing.lost_after).await?;
        store::scheduler::leave(&tx, self.scheduler).await?;
        tx.commit().await
    }
}

/// Runs what must not take longer than `limit`; its connection is given up then.
async fn within<T>(
    limit: Duration,
    store: &Store,
    work: impl Future<Output = Result<T, store::Error>>,
) -> Result<T, store::Error> {
    let mut work = std::pin::pin!(work);
    tokio::time::timeout(limit, work.as_mut()).await.unwrap_or_else(|_| {
        // Before the work is dropped, which gives its connection back.
        store.distrust_beats();
        Err(store::Error::Silent(limit))
    })
}

/// The database has not answered when it takes longer than this to commit signs of life.
const BEAT_MAX: Duration = Duration::from_secs(5);

/// A scheduler gives its own sign of life so often that, with nothing else to do, its touch does not count as broken
/// because one of them comes late.
fn own_interval(timing: &Timing) -> Duration {
    timing.touch_gap / 4
}

async fn commit(
    store: &Store,
    scheduler: Uuid,
    heard: &[(String, Uuid, u64)],
    own: bool,
    alive_for: Duration,
) -> Result<Seen, store::Error> {
    let tx = store.begin_beats().await?;
    let sessions: Vec<(String, Uuid)> = heard.iter().map(|(runner, session, _)| (runner.clone(), *session)).collect();
    let touched = if sessions.is_empty() { Vec::new() } else { store::runner::touch(&tx, &sessions).await? };
    let missed: Vec<(String, Uuid)> =
        sessions.iter().filter(|(_, session)| !touched.contains(session)).cloned().collect();
    // A row that was held by a turn is taken by the next beat; one whose session was replaced never is.
    let counting = if missed.is_empty() { Vec::new() } else { store::runner::still_counting(&tx, &missed).await? };
    let superseded =
        missed.into_iter().map(|(_, session)| session).filter(|session| !counting.contains(session)).collect();
    let (mut drained, mut addresses) = (None, None);
    let clock = store::scheduler::now(&tx).await?;
    if own {
        drained = Some(store::scheduler::touch(&tx, scheduler).await?);
        let since = Timestamp(clock.0 - micros(alive_for));
        addresses = Some(store::scheduler::addresses(&tx, scheduler, since).await?);
    }
    tx.commit().await?;
    let sessions =
        heard.iter().filter(|(_, session, _)| touched.contains(session)).map(|(_, session, seq)| (*session, *seq));
    Ok(Seen::Committed { sessions: sessions.collect(), superseded, drained, addresses, clock })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing;

    #[test]
    fn a_sweep_that_was_kept_waiting_decides_nothing() {
        let gap = Duration::from_secs(10);
        let (then, at) = (Instant::now(), |second: u64| Timestamp(micros(Duration::from_secs(1_000 + second))));
        let judge = Judge { clock: (at(0), then), gap };
        let may = |clock: u64, ours: u64| judge.may_still(at(clock), then + Duration::from_secs(ours));
        assert!(may(1, 1));
        assert!(may(20, 20));
        // Frozen, or waiting for a database that stood still: nobody's signs of life were committed meanwhile.
        assert!(!may(60, 60));
        // The clock of the database was set: runners look silent that are not.
        assert!(!may(3_600, 1));
    }

    #[tokio::test]
    async fn a_scheduler_that_hears_nobody_may_judge_all_the_same() {
        for beat in [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(10)] {
            let timing = Timing::from_beat(beat, beat / 10);
            let world = testing::sqlite().await;
            let mut pulse = Pulse::new(world.store.clone(), timing, Uuid::now_v7(), String::new());
            let start = Instant::now();
            let mut now = start;
            while now < start + timing.lost_after {
                assert!(!pulse.may_judge(now), "too early to judge");
                // Each of its own signs of life comes late by as much as its interval.
                now += own_interval(&timing) * 2;
                pulse.touched(now);
            }
            assert!(pulse.may_judge(now), "with beats of {beat:?}");
            assert!(!pulse.may_judge(now + timing.touch_gap * 2), "out of touch");
        }
    }
}
