//! What happens: the engine and the stations of a task, in order.

mod admission;
mod audit;
mod backfill;
mod batch;
mod birth;
mod calendars;
mod callbacker;
mod changes;
mod completions;
pub mod courier;
mod data;
mod dispatcher;
mod ending;
mod engine;
mod expander;
mod explain;
mod gates;
mod keeper;
mod order;
mod orders;
mod parked;
mod picker;
mod plan;
mod pulse;
mod reaper;
mod repair;
mod replan;
pub mod request;
mod schedules;
mod sessions;
mod shards;
mod sub_jobs;
mod switch;
#[cfg(test)]
mod tests;
mod transfer;
mod trigger;
mod turn;
mod uses;
mod work;

pub use changes::Subscription as Changes;
pub use ending::REASON_CHARS_MAX;
pub use engine::{Engine, Refusal, Settings};
pub use explain::{explain_job, explain_task};
pub use keeper::keep;
pub use sessions::stream::QUEUE_FRAMES_MAX;
