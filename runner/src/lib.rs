//! Baton's runner: holds one stream to a scheduler and runs the tasks it is given.
//!
//! ```text
//! link ──frames──▶ runner ──▶ machine ──▶ runner ──▶ process, http  (or target: a handler of yours)
//!                    ▲                                  │
//!                    └────────── started, ended ────────┘
//! ```
//!
//! [`machine`] decides, purely; [`Runner`] carries out. `link` speaks the protocol, `process` runs and ends children, `http` asks services,
//! `state` remembers across deaths, `logs` ships output, and [`watchdog`] is the parent that outlives them all.
//!
//! To embed a runner, give [`Runner::new`] a [`Config`]; to run tasks in your own program, add [`Runner::handler`]; to
//! have the work of a killed program ended, call [`watchdog::guard`] first in `main`.

pub mod clock;
pub mod config;
mod environment;
mod http;
mod link;
mod logs;
pub mod machine;
mod orphans;
mod process;
mod runner;
mod state;
mod target;
pub mod task;
mod tmp;
mod tree;
pub mod units;
pub mod watchdog;

#[cfg(test)]
#[path = "../tests/support/drawn.rs"]
mod drawn;

pub use http::Network;
pub use runner::{Config, Error, Runner};
pub use state::Error as StateError;
pub use target::{Context, Outcome, Writer};
