//! What is true: states, graphs, definitions, policies. Pure functions: values come in, values go out; time, ids and
//! chance are arguments.

pub mod definition;
pub mod schedule;
pub mod time;
