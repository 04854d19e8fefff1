//! One file a command: what it takes, and what it does.

pub mod apply;
pub mod backfill;
pub mod calendar;
pub mod completion;
pub mod delete;
pub mod describe;
pub mod dev;
pub mod drain;
pub mod errors;
pub mod explain;
pub mod get;
pub mod import;
pub mod init;
pub mod logs;
pub mod next;
pub mod restore;
pub mod resume;
pub mod run;
pub mod schedule;
pub mod schema;
pub mod switch;
pub mod terminate;
pub mod validate;
pub mod version;
pub mod watch;
