//! What happens: the engine and the stations of a task, in order.

pub mod request;
