//! The rows as they lie in the tables. They never leave `store`.

#![allow(missing_docs, unreachable_pub, reason = "a column is described where its table is made, and seen here only")]

pub(crate) mod job;
pub(crate) mod job_config;
pub(crate) mod job_config_version;
pub(crate) mod log_chunk;
pub(crate) mod runner;
pub(crate) mod scheduler;
pub(crate) mod task;
pub(crate) mod task_attempt;
