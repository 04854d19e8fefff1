//! Schedules: when something is due.
//!
//! A [`Spec`] is what a job config says, a [`Schedule`] is that understood. `cron` and `text` read the two ways to name
//! readings of a wall clock, `cycle` counts intervals of the calendar, `wall` turns readings into instants by the one
//! rule for clock changes, `zone` knows the clocks. `misfire` and `overlap` decide what becomes of fires, `preview`
//! shows them beforehand, `words` says what they mean, `crontab` reads what others wrote.

pub mod backfill;
mod burst;
mod calendar;
mod civil;
mod compile;
pub mod cron;
pub mod crontab;
mod cycle;
mod firing;
pub mod misfire;
pub mod overlap;
mod pattern;
mod preview;
mod rule;
mod spec;
pub mod text;
mod wall;
mod words;
mod zone;

#[cfg(test)]
mod tests;

pub use self::{
    burst::{Burst, FIRES_PER_MINUTE_MAX, TooFast},
    calendar::{Calendar, CalendarConfig, DESCRIPTION_MAX, DateRange, RANGES_MAX, RangeError},
    civil::{Civil, YEARS},
    compile::Problem,
    firing::{AHEAD_MAX, Fire, Next, NotForward, Note, Schedule},
    preview::{COUNT_MAX, Preview, Shown},
    spec::{
        After, CALENDARS_MAX, CATCHUP_LIMIT, CATCHUP_LIMIT_MAX, CATCHUP_WINDOW, JITTER_MAX, MISFIRE_AFTER, Misfire,
        PERIOD_MAX, PERIOD_MIN, RuleSpec, Spec, identity,
    },
    text::Language,
    wall::{Manner, Shift},
    zone::{Placed, UnknownZone, Zone},
};
