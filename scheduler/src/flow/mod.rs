//! What happens: the engine and the stations of a task, in order.

pub mod request;

// A stand-in with the signatures that `rpc` calls; the engine itself takes its place when the branches meet.
mod stand_in;
pub use stand_in::{Changes, Engine};
