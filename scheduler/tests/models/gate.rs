//! Two parents end on two schedulers at once. Their join is decided exactly once, and as all of its parents ended.

use baton_scheduler::domain::{
    definition::{OnFailure, TriggerRule},
    gate::{self, End, Gate, Outcome, Parents},
    task::{Event, Kind, TaskState},
};
use stateright::{Model, Property};

use crate::{fails, holds};

/// What keeps the two turns apart.
#[derive(Debug, Clone, Copy)]
struct Guards {
    /// A turn locks the row of the job.
    lock: bool,
    /// What the lock guards is read in a later statement than the one that waited for it.
    later_statement: bool,
    /// The child is written on the condition that it is in the state that was read.
    guarded: bool,
}

const ALL: Guards = Guards { lock: true, later_statement: true, guarded: true };

#[derive(Debug)]
struct Gates {
    rule: TriggerRule,
    guards: Guards,
}

/// The join, as committed: its state, and how many of its parents succeeded, failed, were skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Join {
    state: TaskState,
    counts: (u32, u32, u32),
}

impl Join {
    fn parents(self) -> Parents {
        let (succeeded, failed, skipped) = self.counts;
        Parents { succeeded, failed, skipped, ..Parents::waiting(2) }
    }

    /// What the end of one more parent makes of it.
    fn count(mut self, outcome: Outcome, rule: TriggerRule) -> Self {
        let mut parents = self.parents();
        parents.count(outcome);
        self.counts = (parents.succeeded, parents.failed, parents.skipped);
        let event = match parents.gate(rule) {
            Gate::Wait => return self,
            Gate::Open => Event::GateOpened,
            Gate::Closed { .. } => Event::GateClosed,
        };
        // In any other state it was decided before.
        self.state = self.state.after(Kind::Task, event).unwrap_or(self.state);
        self
    }
}

/// The turn in which a parent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Turn {
    Begun,
    /// It waits for the job's row; the statement that waits sees the join so.
    Asked(Join),
    Locked(Join),
    Read(Join),
    Committed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    ends: [Outcome; 2],
    join: Join,
    locked_by: Option<usize>,
    turns: [Turn; 2],
    starts: u8,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Ask(usize),
    Lock(usize),
    Read(usize),
    Commit(usize),
    Pick,
}

impl Model for Gates {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let ends = [End::Finished, End::Failed, End::Skipped(gate::SkipCause::Condition)];
        let outcomes = ends.map(|end| gate::counts_as(end, OnFailure::Fail));
        let join = Join { state: TaskState::Created, counts: (0, 0, 0) };
        let pairs = outcomes.into_iter().flat_map(|left| outcomes.map(|right| [left, right]));
        pairs.map(|ends| State { ends, join, locked_by: None, turns: [Turn::Begun; 2], starts: 0 }).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        for (at, turn) in state.turns.iter().enumerate() {
            match turn {
                Turn::Begun => actions.push(Step::Ask(at)),
                Turn::Asked(_) if !self.guards.lock || state.locked_by.is_none() => actions.push(Step::Lock(at)),
                Turn::Locked(_) => actions.push(Step::Read(at)),
                Turn::Read(_) => actions.push(Step::Commit(at)),
                Turn::Asked(_) | Turn::Committed => {}
            }
        }
        if state.join.state == TaskState::Queued {
            actions.push(Step::Pick);
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Ask(at) => state.turns[at] = Turn::Asked(state.join),
            Step::Lock(at) => {
                let Turn::Asked(seen) = state.turns[at] else { return None };
                state.turns[at] = Turn::Locked(seen);
                state.locked_by = self.guards.lock.then_some(at);
            }
            Step::Read(at) => {
                let Turn::Locked(seen) = state.turns[at] else { return None };
                state.turns[at] = Turn::Read(if self.guards.later_statement { state.join } else { seen });
            }
            Step::Commit(at) => {
                let Turn::Read(seen) = state.turns[at] else { return None };
                state.locked_by = state.locked_by.filter(|by| *by != at);
                if self.guards.guarded && seen.state != state.join.state {
                    // It missed, and the turn is repeated.
                    state.turns[at] = Turn::Begun;
                } else {
                    state.turns[at] = Turn::Committed;
                    state.join = seen.count(state.ends[at], self.rule);
                }
            }
            Step::Pick => {
                state.join.state = state.join.state.after(Kind::Task, Event::Picked)?;
                state.starts += 1;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONCE, |_, state: &State| state.starts <= 1),
            Property::always(DECIDED, |model: &Self, state: &State| {
                let mut parents = Parents::waiting(2);
                for end in state.ends {
                    parents.count(end);
                }
                let ended = state.turns == [Turn::Committed; 2];
                !ended
                    || match parents.gate(model.rule) {
                        Gate::Wait => false,
                        Gate::Open => matches!(state.join.state, TaskState::Queued | TaskState::Dispatched),
                        Gate::Closed { .. } => state.join.state == TaskState::Skipped,
                    }
            }),
        ]
    }
}

const ONCE: &str = "the join starts at most once";
const DECIDED: &str = "when its parents have ended it is decided, as all of them ended";

#[test]
fn the_join_of_parents_that_end_at_once_is_decided_once() {
    for rule in TriggerRule::ALL {
        holds(&format!("gate, {}", rule.name()), Gates { rule, guards: ALL });
    }
}

#[test]
fn without_the_lock_of_the_job_the_join_waits_for_ever() {
    let rule = TriggerRule::AllSuccess;
    fails("gate, all_success", "the job's lock", Gates { rule, guards: Guards { lock: false, ..ALL } }, DECIDED);
}

#[test]
fn read_in_the_statement_that_waited_the_join_waits_for_ever() {
    let rule = TriggerRule::AllSuccess;
    fails(
        "gate, all_success",
        "a later statement",
        Gates { rule, guards: Guards { later_statement: false, ..ALL } },
        DECIDED,
    );
}

/// Under the lock the guard of the write is a second line; alone it is the only one against a second start.
#[test]
fn without_lock_and_guard_the_join_starts_twice() {
    let rule = TriggerRule::OneSuccess;
    let guards = Guards { lock: false, guarded: false, ..ALL };
    fails("gate, one_success", "lock and guarded write", Gates { rule, guards }, ONCE);
}
