//! What is true: states, graphs, definitions, policies. Pure functions: values come in, values go out; time, ids and
//! chance are arguments.

pub mod definition;
pub mod gate;
#[cfg(test)]
mod gate_properties;
pub mod graph;
pub mod output;
pub mod params;
pub mod reference;
pub mod selector;
pub mod template;
pub mod time;
pub mod when;
