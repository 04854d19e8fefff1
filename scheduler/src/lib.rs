//! Baton's scheduler: decides what runs, when and where.
//!
//! Four rooms, and the arrows between them point one way: `rpc → flow → store → domain`.

pub mod config;
pub mod domain;
pub mod flow;
mod rpc;
pub mod store;
