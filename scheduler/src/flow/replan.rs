//! A schedule is planned anew when what its plan was made from is no longer so: the clock was set back, a calendar
//! changed, it was switched on again. Nothing fires early or twice because of it.

use super::schedules::wait_for;
use crate::{
    domain::{
        schedule::{NotForward, Schedule},
        time::Timestamp,
    },
    store::schedule::{MissedRow, ScheduleRow, State},
};

/// The reason of fires that lay in a time in which their schedule was switched off.
pub(super) const SWITCHED_OFF: &str = "not run: the schedule was switched off";

/// After the clock of the database was set back: it waits for the first fire after now that has not been. A fixed rate
/// keeps its nominal time, and waits for it no longer than its period.
pub(super) fn after_clock(row: &mut ScheduleRow, schedule: &Schedule, now: Timestamp) -> Result<(), NotForward> {
    if matches!(row.state, State::Due | State::Turn | State::Over) {
        wait_for(row, schedule, &schedule.resume(now, row.last_fire_at)?, now);
    }
    row.planned_at = Some(now);
    Ok(())
}

/// After the dates of one of its calendars changed.
pub(super) fn after_calendar(
    row: &mut ScheduleRow,
    schedule: &Schedule,
    changed: Timestamp,
    now: Timestamp,
) -> Result<(), NotForward> {
    if matches!(row.state, State::Due | State::Turn | State::Over) {
        let next = schedule.revise(row.next_fire_at, changed.min(now), row.last_fire_at)?;
        wait_for(row, schedule, &next, now);
    }
    row.planned_at = Some(now);
    Ok(())
}

/// Switches it off, until some time or for good.
pub(super) fn switch_off(row: &mut ScheduleRow, until: Option<Timestamp>, reason: &str, now: Timestamp) {
    if row.state != State::Paused {
        // A fire that was due and not decided yet lies in the time that is not made up for.
        row.planned_at = Some(row.next_fire_at.map_or(now, |fire| now.min(Timestamp(fire.0 - 1))));
    }
    (row.state, row.next_fire_at, row.due_at) = (State::Paused, None, until);
    reason.clone_into(&mut row.reason);
}

/// Switches it on again. The fires in between are told as one entry and not made up for.
pub(super) fn switch_on(
    row: &mut ScheduleRow,
    schedule: &Schedule,
    now: Timestamp,
) -> Result<Option<MissedRow>, NotForward> {
    let off_since = row.planned_at.unwrap_or(now);
    if schedule.follows_completion() && row.last_made_at.is_some() {
        // The end of its last job says when it goes on, but never earlier than if that had ended just now.
        (row.state, row.next_fire_at, row.due_at) = (State::End, None, None);
        row.reason.clear();
        row.planned_at = Some(now);
        return Ok(None);
    }
    let from = row.last_fire_at.map_or(off_since, |fire| fire.max(off_since));
    let missed = schedule.between(from, now).map(|(first, last, count)| MissedRow {
        job_config_id: row.job_config_id,
        key: row.key.clone(),
        before: row.last_fire_at,
        first,
        last,
        count: i64::try_from(count).unwrap_or(i64::MAX),
        reason: SWITCHED_OFF.to_owned(),
    });
    if let Some(missed) = &missed {
        row.last_fire_at = row.last_fire_at.max(Some(missed.last));
    }
    wait_for(row, schedule, &schedule.resume(now, row.last_fire_at)?, now);
    Ok(missed)
}
