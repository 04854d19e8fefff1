//! Which queued task goes to which idle slot, and which has to wait. Pure: tasks, runners and what is known of their
//! past come in, pairs go out; time and chance are arguments.
//!
//! Tasks that ask for the same are one [`Class`]. Whether a runner may take them is asked of [`Class::mismatch`] alone, by
//! the picker and by whoever explains why a task waits. [`assign`] then goes through the tasks by [`rank`], and a
//! [`Routing`] chooses among the runners that may take one and have an idle slot.

mod assign;
mod class;
mod expression;
mod limit;
#[cfg(test)]
mod page;
mod pin;
mod rank;
mod routing;
mod turns;
mod usage;
mod version;

pub use self::{
    assign::{Candidate, Offer, assign},
    class::{Ask, CLASS_BYTES_MAX, Class, Mismatch, Traits},
    expression::{Expression, Operator},
    limit::{Holders, Limit},
    pin::pinned_in_vain,
    rank::{AGEING, rank},
    routing::{Draw, Routing, Seat},
    turns::{Outlook, Present, anyone_left, outlook},
    usage::{Usage, Used},
    version::Version,
};

/// The class of tasks that stand for a job, as [`Class`] writes it: no runner takes them.
pub const SUB_JOB: &str = "job;;";
