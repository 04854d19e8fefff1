//! What can be asked about schedules and calendars.

use uuid::Uuid;

use super::Caller;
use crate::domain::{schedule::CalendarConfig, time::Timestamp};

/// Asks to switch schedules of a job config off or on.
#[derive(Debug, Clone)]
pub struct Switch {
    /// Who asks.
    pub caller: Caller,
    /// The config's namespace.
    pub namespace: String,
    /// The config's name.
    pub name: String,
    /// The one schedule; `None` means all, those that the config will have too.
    pub schedule: Option<String>,
    /// What is asked for.
    pub to: Position,
}

/// Whether schedules fire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// They do.
    On,
    /// They do not.
    Off {
        /// Until when; `None` means until they are switched on.
        until: Option<Timestamp>,
        /// Why.
        reason: String,
    },
}

/// Asks to store calendars, all or none. They have been validated.
#[derive(Debug, Clone)]
pub struct PutCalendars {
    /// Who asks.
    pub caller: Caller,
    /// The calendars.
    pub calendars: Vec<CalendarConfig>,
}

/// What became of one calendar.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PutCalendar {
    /// What was done.
    pub change: super::Change,
    /// How many schedules name it.
    pub schedules: u64,
}

/// Asks for one job for each fire of a schedule from one instant up to another.
#[derive(Debug, Clone)]
pub struct Backfill {
    /// Who asks.
    pub caller: Caller,
    /// The config's namespace.
    pub namespace: String,
    /// The config's name.
    pub name: String,
    /// The schedule; `None` when there is only one.
    pub schedule: Option<String>,
    /// The first instant of the range.
    pub from: Timestamp,
    /// The first instant after the range.
    pub to: Timestamp,
    /// How many of its jobs live at once at most.
    pub max_parallel: u32,
    /// Fires that have a job already get another.
    pub again: bool,
}

/// Asks to let a backfill make no more jobs.
#[derive(Debug, Clone)]
pub struct CancelBackfill {
    /// Who asks.
    pub caller: Caller,
    /// The backfill.
    pub id: Uuid,
    /// The namespace of its job config.
    pub namespace: String,
    /// The name of its job config.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Asks to delete a calendar.
#[derive(Debug, Clone)]
pub struct DeleteCalendar {
    /// Who asks.
    pub caller: Caller,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}
