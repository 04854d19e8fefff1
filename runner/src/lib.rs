//! stub
pub mod clock;
pub mod machine;
pub mod task;
pub mod units;
