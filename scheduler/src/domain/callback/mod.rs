//! Callbacks: what is told to others when a job or task ends, and how hard it is tried.
//!
//! An event is derived from what a row was and what it became, never told by the station that changed it, so that no
//! station can forget it.

pub mod address;
pub mod delivery;
mod event;
pub mod letter;
pub mod payload;
pub mod signature;

pub use self::event::{Event, of_job, of_task};

/// Whether a callback can still be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is tried, now or later.
    Pending,
    /// It arrived.
    Delivered,
    /// It is not tried any more.
    GivenUp,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::GivenUp];

    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Delivered => "DELIVERED",
            Self::GivenUp => "GIVEN_UP",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}
