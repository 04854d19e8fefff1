//! What is said: messages become values, answers become messages.

mod api;
mod audit;
mod backfills;
mod calendars;
mod callbacks;
mod caller;
mod commands;
mod completions;
mod convert;
mod frames;
mod heartbeat;
mod job_configs;
mod jobs;
mod logs;
mod page;
mod repair;
mod runners;
mod schedulers;
mod schedules;
pub(crate) mod server;
mod status;
#[cfg(test)]
mod tests;
mod uses;
mod watch;

pub(crate) use api::{Api, STREAMS_MAX};
