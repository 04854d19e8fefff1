//! What is true: states, graphs, definitions, policies. Pure functions: values come in, values go out; time, ids and
//! chance are arguments.

pub mod callback;
pub mod command;
pub mod completion;
pub mod definition;
pub mod explain;
#[cfg(test)]
mod failures_page;
pub mod gate;
#[cfg(test)]
mod gate_properties;
pub mod gathering;
pub mod graph;
pub mod heartbeat;
pub mod hex;
pub mod id;
pub mod job;
pub mod origin;
pub mod output;
pub mod params;
pub mod placement;
pub mod policy;
pub mod reference;
pub mod repair;
pub mod retention;
pub mod runner;
pub mod schedule;
pub mod scheduler;
pub mod selector;
#[cfg(test)]
mod states_page;
pub mod sub_job;
pub mod task;
pub mod template;
pub mod time;
pub mod timing;
pub mod uses;
pub mod when;
