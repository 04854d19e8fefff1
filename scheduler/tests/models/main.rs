//! Small models of what must always hold, explored whole: every order of every step is tried. What decides in them is
//! the product's own code; what surrounds it is the least that can go wrong.
//!
//! Each model has its guards as switches. With all of them no property fails; with one removed the checker has to find
//! the fault, or the model would prove nothing. `docs/models.md` shows what each came to; `--nocapture` prints it, and the
//! steps that lead to each fault.

mod gate;
mod lease;
mod page;
mod runner;
mod sessions;
mod terminate;

use std::{collections::BTreeSet, fmt::Debug, hash::Hash};

use stateright::{Checker as _, HasDiscoveries, Model};

/// Explores a model whole: nothing that must not happen does, and what should be possible is.
fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + Send + Sync + PartialEq,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().spawn_bfs().join();
    checker.assert_properties();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: {states} states, {depth} steps deep, and every property holds");
    page::shows(name, "nothing", &format!("{states} | {depth} | holds"));
}

/// Explores a model that lacks a guard until this property fails.
fn fails<M>(name: &str, without: &str, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + Clone + Send + Sync + PartialEq,
    M::Action: Debug + Clone + PartialEq,
{
    let checker = model.checker().finish_when(HasDiscoveries::AnyOf(BTreeSet::from([property]))).spawn_bfs().join();
    let states = checker.unique_state_count();
    let Some(path) = checker.discovery(property) else {
        panic!("{name} without {without}: the fault was not found in {states} states");
    };
    let steps: Vec<M::Action> = path.into_actions();
    println!(
        "{name} without {without}: {property:?} fails after {} steps ({states} states seen): {steps:?}",
        steps.len()
    );
    page::shows(name, without, &format!("{states} | {} | fails: {property}", steps.len()));
}
