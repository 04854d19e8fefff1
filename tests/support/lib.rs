//! Starts the real programs on free ports and tells stories about them.
//!
//! A test says what world it wants ([`World`]), starts it ([`Cluster`]), applies and runs jobs, breaks something
//! on purpose, waits for what happens ([`eventually`], [`Cluster::until`]) and checks that nothing else did. When
//! the cluster goes out of scope every process of it is killed and its database dropped, also when the test fails:
//! then what its parts wrote is printed.

pub mod beats;
pub mod by_hand;
mod cluster;
mod command_line;
mod crowd;
mod database;
mod grpcurl;
mod jobs;
mod marks;
mod part;
mod postgres;
pub mod processes;
pub mod programs;
pub mod proxy;
mod runner;
pub mod service;
mod small_disk;
mod stories;
pub mod tls;
mod wait;

pub use by_hand::ByHand;
pub use cluster::{Api, Cluster, World};
pub use command_line::{Output, run_program};
pub use crowd::Crowd;
pub use database::Backend;
pub use grpcurl::Grpcurl;
pub use jobs::{Asked, View, is_over, job, one_task};
pub use marks::{Gate, Latch, Marks};
pub use part::Part;
pub use postgres::durable;
pub use runner::{Runner, RunnerSpec};
pub use small_disk::SmallDisk;
pub use stories::tell;
pub use wait::{PATIENCE, eventually, repeats, soon};

/// The messages and clients of the protocol.
pub use baton::v1;
