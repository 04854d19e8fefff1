//! What can be asked about schedules and calendars.

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
