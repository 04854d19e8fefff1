//! Small models of what must always hold, explored whole: every order of every step is tried. What decides in them is
//! the product's own code; what surrounds it is the least that can go wrong.
//!
//! Each model has its guards as switches. With all of them no property fails; with one removed the checker has to find
//! the fault, or the model would prove nothing. Run with `--nocapture` for the counts.

mod gate;
mod lease;
mod sessions;
mod terminate;

use std::{collections::BTreeSet, fmt::Debug, hash::Hash};

use baton_scheduler::domain::{task::Circumstances, time::Timestamp};
use stateright::{Checker as _, HasDiscoveries, Model};

/// A model has no clock of its own and no chance: an attempt follows another at once.
fn at() -> Circumstances {
    Circumstances { now: Timestamp(0), exit_code: None, chance: 0.5, others_left: false, attempts_before: 0 }
}

/// Explores a model whole: nothing that must not happen does, and what should be possible is. Returns how many states
/// it has.
fn holds<M>(what: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + Send + Sync + PartialEq,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    println!("{what}: {states} states, {} steps deep, and every property holds", checker.max_depth());
    states
}

/// Explores a model that lacks a guard until this property fails. Returns the steps of a shortest way there.
fn fails<M>(without: &str, model: M, property: &'static str) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + Send + Sync + PartialEq,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property]))).spawn_bfs().join();
    let Some(path) = checker.discovery(property) else {
        panic!("without {without} the fault was not found in {} states", checker.unique_state_count());
    };
    let steps: Vec<M::Action> = path.into_actions();
    let states = checker.unique_state_count();
    println!("  without {without}: {property:?} fails after {} steps ({states} states seen): {steps:?}", steps.len());
    steps.len()
}
