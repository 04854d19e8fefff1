//! When a task may start, given how its parents ended.
//!
//! A gate is decided from four counts, never from the parents themselves, so that a parent's end costs its children one
//! addition each, however many parents they have. It opens as soon as nothing can change that any more. It closes as
//! soon as it is certain that it can never open *and* why: were a child of one skipped and one failing parent closed by
//! whichever ends first, the same job could end differently on different days.

use serde::{Deserialize, Serialize};

use super::{
    definition::{OnFailure, TriggerRule},
    task::TaskState,
};

/// Why a task was skipped, as its children see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipCause {
    /// Its own condition, `enabled: false`, a person, or a gate that no failure closed: counts as skipped.
    Condition,
    /// A failed parent closed its gate, or the job stopped: counts as failed.
    UpstreamFailed,
}

impl SkipCause {
    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Condition => "CONDITION",
            Self::UpstreamFailed => "UPSTREAM_FAILED",
        }
    }

    /// The cause with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Condition, Self::UpstreamFailed].into_iter().find(|cause| cause.word() == word)
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Its work is done.
    Finished,
    /// Its work failed.
    Failed,
    /// It was ended from outside.
    Terminated,
    /// It never ran.
    Skipped(SkipCause),
}

impl End {
    /// How a task in this state ended, if it has. One that was skipped without a cause passes a failure on: that is the
    /// safer reading.
    pub fn of(state: TaskState, skip_cause: Option<SkipCause>) -> Option<Self> {
        Some(match state {
            TaskState::Finished => Self::Finished,
            TaskState::Failed => Self::Failed,
            TaskState::Terminated => Self::Terminated,
            TaskState::Skipped => Self::Skipped(skip_cause.unwrap_or(SkipCause::UpstreamFailed)),
            _ => return None,
        })
    }
}

/// How a parent's end counts for the gates of its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// As a success.
    Succeeded,
    /// As a failure.
    Failed,
    /// As skipped.
    Skipped,
}

/// The parents of a task, counted by how their ends count. Those that have not ended are the rest of `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parents {
    /// How many there are.
    pub total: u32,
    /// How many ended and count as a success.
    pub succeeded: u32,
    /// How many ended and count as a failure.
    pub failed: u32,
    /// How many ended and count as skipped.
    pub skipped: u32,
}

/// Whether a task may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It depends on parents that have not ended.
    Wait,
    /// It may start, whatever the other parents do.
    Open,
    /// It can never start.
    Closed {
        /// The cause with which the task is skipped.
        cause: SkipCause,
        /// Which parents closed it: those that count so.
        by: Outcome,
    },
}

impl Parents {
    /// Of so many parents, none of which has ended.
    pub fn waiting(total: u32) -> Self {
        Self { total, ..Self::default() }
    }

    /// Counts one more parent that ended.
    pub fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Succeeded => self.succeeded += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Skipped => self.skipped += 1,
        }
    }

    /// Whether every parent ended.
    pub fn all_ended(self) -> bool {
        self.succeeded + self.failed + self.skipped >= self.total
    }

    /// Decides the gate. A task without parents may start under every rule; a fan-out over nothing is a parent that
    /// finished.
    #[expect(clippy::match_same_arms, reason = "a paragraph a rule reads like the table it is")]
    pub fn gate(self, rule: TriggerRule) -> Gate {
        if self.total == 0 {
            return Gate::Open;
        }
        let (succeeded, failed, skipped) = (self.succeeded > 0, self.failed > 0, self.skipped > 0);
        let at_the_end = |gate| if self.all_ended() { gate } else { Gate::Wait };
        match rule {
            TriggerRule::Always => Gate::Open,
            TriggerRule::AllDone => at_the_end(Gate::Open),

            TriggerRule::AllSuccess if failed => closed(Outcome::Failed),
            // A parent that still runs may fail, and a failure is the stronger cause.
            TriggerRule::AllSuccess if skipped => at_the_end(closed(Outcome::Skipped)),
            TriggerRule::AllSuccess => at_the_end(Gate::Open),

            TriggerRule::AllFailed if succeeded => closed(Outcome::Succeeded),
            TriggerRule::AllFailed if skipped => closed(Outcome::Skipped),
            TriggerRule::AllFailed => at_the_end(Gate::Open),

            TriggerRule::AllSkipped if failed => closed(Outcome::Failed),
            TriggerRule::AllSkipped if succeeded => at_the_end(closed(Outcome::Succeeded)),
            TriggerRule::AllSkipped => at_the_end(Gate::Open),

            TriggerRule::OneSuccess if succeeded => Gate::Open,
            TriggerRule::OneSuccess if failed => at_the_end(closed(Outcome::Failed)),
            TriggerRule::OneSuccess => at_the_end(closed(Outcome::Skipped)),

            TriggerRule::OneFailed if failed => Gate::Open,
            TriggerRule::OneFailed if succeeded => at_the_end(closed(Outcome::Succeeded)),
            TriggerRule::OneFailed => at_the_end(closed(Outcome::Skipped)),

            TriggerRule::OneDone if succeeded || failed => Gate::Open,
            TriggerRule::OneDone => at_the_end(closed(Outcome::Skipped)),

            TriggerRule::NoneFailed if failed => closed(Outcome::Failed),
            TriggerRule::NoneFailed => at_the_end(Gate::Open),

            TriggerRule::NoneFailedMinOneSuccess if failed => closed(Outcome::Failed),
            TriggerRule::NoneFailedMinOneSuccess if succeeded => at_the_end(Gate::Open),
            TriggerRule::NoneFailedMinOneSuccess => at_the_end(closed(Outcome::Skipped)),

            TriggerRule::NoneSkipped if skipped => closed(Outcome::Skipped),
            TriggerRule::NoneSkipped => at_the_end(Gate::Open),
        }
    }
}

/// A closed gate passes a failure on only if a failure closed it: an error handler that nobody needed is no failure
/// for what comes after it.
fn closed(by: Outcome) -> Gate {
    let cause = if by == Outcome::Failed { SkipCause::UpstreamFailed } else { SkipCause::Condition };
    Gate::Closed { cause, by }
}

/// Says why a gate is closed, with one of the parents that closed it.
pub fn closed_because(rule: TriggerRule, by: Outcome, parent: &str) -> String {
    let did = match by {
        Outcome::Succeeded => "succeeded",
        Outcome::Failed => "failed",
        Outcome::Skipped => "was skipped",
    };
    format!("{} cannot hold: {parent:?} {did}", rule.name())
}

/// How a task's end counts for the gates of its children. A task that was ended from outside failed; one that was
/// skipped because of a failure passes the failure on, whatever its own `on_failure` says: it did not fail itself.
pub fn counts_as(end: End, on_failure: OnFailure) -> Outcome {
    match end {
        End::Finished => Outcome::Succeeded,
        End::Failed | End::Terminated if on_failure == OnFailure::Ignore => Outcome::Succeeded,
        End::Failed | End::Terminated | End::Skipped(SkipCause::UpstreamFailed) => Outcome::Failed,
        End::Skipped(SkipCause::Condition) => Outcome::Skipped,
    }
}

/// Whether a task's end makes its job FAILED in the end.
pub fn fails_job(end: End, on_failure: OnFailure) -> bool {
    matches!(end, End::Failed | End::Terminated) && on_failure != OnFailure::Ignore
}

/// Whether a group of which every shard ended is FINISHED: enough of its shards are. A group of nothing is.
pub fn group_finishes(finished: u32, count: u32, min_success_percent: u32) -> bool {
    u64::from(finished) * 100 >= u64::from(min_success_percent) * u64::from(count)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Every way in which `total` parents can stand.
    fn standings(total: u32) -> impl Iterator<Item = Parents> {
        (0..=total).flat_map(move |succeeded| {
            (0..=total - succeeded).flat_map(move |failed| {
                (0..=total - succeeded - failed).map(move |skipped| Parents { total, succeeded, failed, skipped })
            })
        })
    }

    /// Every standing that one more end can lead to.
    fn next(parents: Parents) -> Vec<Parents> {
        if parents.all_ended() {
            return Vec::new();
        }
        let outcomes = [Outcome::Succeeded, Outcome::Failed, Outcome::Skipped];
        outcomes
            .map(|outcome| {
                let mut after = parents;
                after.count(outcome);
                after
            })
            .into()
    }

    /// What a decision means for the task; which parents are named is only said.
    fn meaning(gate: Gate) -> Option<Result<(), SkipCause>> {
        match gate {
            Gate::Wait => None,
            Gate::Open => Some(Ok(())),
            Gate::Closed { cause, .. } => Some(Err(cause)),
        }
    }

    #[test]
    fn a_gate_that_is_decided_stays_decided() {
        for rule in TriggerRule::ALL {
            for parents in (0..=5).flat_map(standings) {
                if let Some(decided) = meaning(parents.gate(rule)) {
                    for after in next(parents) {
                        assert_eq!(meaning(after.gate(rule)), Some(decided), "{rule:?} {parents:?} then {after:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_gate_closes_as_early_as_its_cause_is_certain() {
        for rule in TriggerRule::ALL {
            for parents in (1..=5).flat_map(standings).filter(|parents| !parents.all_ended()) {
                let ahead: Vec<_> = next(parents).into_iter().map(|after| meaning(after.gate(rule))).collect();
                let certain = matches!(ahead[0], Some(Err(_))) && ahead.iter().all(|gate| *gate == ahead[0]);
                assert!(!certain || parents.gate(rule) != Gate::Wait, "{rule:?} hesitates at {parents:?}");
            }
        }
    }

    #[test]
    fn when_every_parent_ended_no_gate_waits() {
        for rule in TriggerRule::ALL {
            for parents in (0..=5).flat_map(standings).filter(|parents| parents.all_ended()) {
                assert_ne!(parents.gate(rule), Gate::Wait, "{rule:?} {parents:?}");
            }
        }
    }

    #[test]
    fn a_task_without_parents_may_start_under_every_rule() {
        for rule in TriggerRule::ALL {
            assert_eq!(Parents::waiting(0).gate(rule), Gate::Open, "{rule:?}");
        }
    }

    #[test]
    fn one_failed_parent_closes_all_success_at_once() {
        let parents = Parents { total: 9, failed: 1, ..Parents::default() };
        let closed = Gate::Closed { cause: SkipCause::UpstreamFailed, by: Outcome::Failed };
        assert_eq!(parents.gate(TriggerRule::AllSuccess), closed);
        let because = closed_because(TriggerRule::AllSuccess, Outcome::Failed, "extract");
        assert_eq!(because, "all_success cannot hold: \"extract\" failed");
    }

    #[test]
    fn a_failure_is_the_cause_whichever_parent_ended_first() {
        let skipped_first = Parents { total: 2, skipped: 1, ..Parents::default() };
        assert_eq!(skipped_first.gate(TriggerRule::AllSuccess), Gate::Wait);
        let both = Parents { total: 2, skipped: 1, failed: 1, succeeded: 0 };
        let closed = Gate::Closed { cause: SkipCause::UpstreamFailed, by: Outcome::Failed };
        assert_eq!(both.gate(TriggerRule::AllSuccess), closed);
    }

    #[test]
    fn all_done_counts_what_was_skipped_because_of_a_failure() {
        let outcome = counts_as(End::Skipped(SkipCause::UpstreamFailed), OnFailure::Fail);
        let mut parents = Parents::waiting(1);
        parents.count(outcome);
        assert_eq!(parents.gate(TriggerRule::AllDone), Gate::Open);
    }

    #[test]
    fn an_ignored_failure_is_a_success_for_children_and_job() {
        for end in [End::Failed, End::Terminated] {
            assert_eq!(counts_as(end, OnFailure::Ignore), Outcome::Succeeded);
            assert!(!fails_job(end, OnFailure::Ignore));
            assert_eq!(counts_as(end, OnFailure::Stop), Outcome::Failed);
            assert!(fails_job(end, OnFailure::Fail));
        }
        assert_eq!(counts_as(End::Skipped(SkipCause::UpstreamFailed), OnFailure::Ignore), Outcome::Failed);
    }

    #[test]
    fn a_group_finishes_with_the_share_it_was_asked_for() {
        assert!(group_finishes(0, 0, 100));
        assert!(group_finishes(2, 3, 66));
        assert!(!group_finishes(2, 3, 67));
        assert!(group_finishes(100_000, 100_000, 100));
        assert!(!group_finishes(99_999, 100_000, 100));
    }

    /// Only whether there are such parents decides, never how many: that is why the drawn table is total.
    #[test]
    fn the_drawn_table_says_everything() {
        for rule in TriggerRule::ALL {
            for parents in (1..=5).flat_map(standings) {
                let one = |count: u32| u32::from(count > 0);
                let ended = parents.succeeded + parents.failed + parents.skipped;
                let (succeeded, failed, skipped) = (one(parents.succeeded), one(parents.failed), one(parents.skipped));
                let total = succeeded + failed + skipped + one(parents.total - ended);
                let small = Parents { total, succeeded, failed, skipped };
                assert_eq!(parents.gate(rule), small.gate(rule), "{rule:?} {parents:?}");
            }
        }
    }

    #[test]
    fn the_truth_table_in_the_docs_is_the_one_that_decides() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trigger-rules.md");
        let drawn = draw();
        if std::env::var_os("BATON_WRITE_DOCS").is_some() {
            std::fs::write(path, &drawn).expect("docs/trigger-rules.md can be written");
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written, drawn, "docs/trigger-rules.md is out of date: run the test with BATON_WRITE_DOCS=1");
    }

    fn draw() -> String {
        let mut page = String::from(HEAD);
        page.push_str("\n## How an end counts\n\n");
        page.push_str("| the parent ended | `on_failure: fail`, `stop` | `on_failure: ignore` |\n|---|---|---|\n");
        for (end, name) in [
            (End::Finished, "FINISHED"),
            (End::Failed, "FAILED"),
            (End::Terminated, "TERMINATED"),
            (End::Skipped(SkipCause::Condition), "SKIPPED, cause `condition`"),
            (End::Skipped(SkipCause::UpstreamFailed), "SKIPPED, cause `upstream_failed`"),
        ] {
            let count = |on_failure| format!("{:?}", counts_as(end, on_failure)).to_lowercase();
            assert_eq!(counts_as(end, OnFailure::Fail), counts_as(end, OnFailure::Stop));
            writeln!(page, "| {name} | {} | {} |", count(OnFailure::Fail), count(OnFailure::Ignore)).expect("text");
        }
        page.push_str("\n## The table\n\n");
        page.push_str(
            "Among the parents, is there at least one that succeeded, failed, was skipped, has not ended?\n\n",
        );
        page.push_str("| succeeded | failed | skipped | not ended |");
        for rule in TriggerRule::ALL {
            write!(page, " {} |", rule.name()).expect("text");
        }
        page.push_str("\n|---|---|---|---|");
        page.push_str(&"---|".repeat(TriggerRule::ALL.len()));
        page.push('\n');
        for row in 0..16_u32 {
            let bit = |place: u32| row >> (3 - place) & 1;
            let (succeeded, failed, skipped) = (bit(0), bit(1), bit(2));
            let parents = Parents { total: succeeded + failed + skipped + bit(3), succeeded, failed, skipped };
            page.push('|');
            for place in 0..4 {
                page.push_str(if bit(place) == 1 { " yes |" } else { " – |" });
            }
            for rule in TriggerRule::ALL {
                page.push_str(match parents.gate(rule) {
                    Gate::Wait => " waits |",
                    Gate::Open => " **opens** |",
                    Gate::Closed { cause: SkipCause::Condition, .. } => " skipped: condition |",
                    Gate::Closed { cause: SkipCause::UpstreamFailed, .. } => " skipped: upstream failed |",
                });
            }
            page.push('\n');
        }
        page
    }

    const HEAD: &str = "\
# Trigger rules

When a task may start is decided by its `trigger_rule` from how its parents ended. This page is drawn by a test from the
function that decides (`scheduler/src/domain/gate.rs`); it is total: there is no other case. The first row is a task
without parents. A group of shards is one parent; a fan-out over nothing is a parent that finished.

A gate opens as soon as nothing can change that any more. It closes, and its task is SKIPPED, as soon as it is certain
that it can never open and why. The cause is `upstream_failed` if failed parents closed it, else `condition`; it never
depends on which parent ended first.
";
}
