//! Schedules as messages and back.

use baton::v1;
use chrono::{DateTime, Utc};

use super::{Fields, duration, read_timestamp, timestamp};
use crate::{
    domain::{
        definition::{Overlap, Schedule},
        schedule::{After, CATCHUP_LIMIT, CATCHUP_WINDOW, MISFIRE_AFTER, Misfire, RuleSpec, Spec},
        time::Timestamp,
    },
    rpc::status::Violation,
};

pub(crate) fn schedule(schedule: &Schedule) -> v1::Schedule {
    let Spec {
        rule,
        time_zone,
        start_time,
        end_time,
        jitter,
        misfire,
        misfire_after,
        catchup_window,
        catchup_limit,
        calendars,
    } = &schedule.spec;
    let mut after = v1::ScheduleAfter::Unspecified;
    let rule = match rule {
        RuleSpec::Cron(cron) => v1::schedule::Rule::Cron(cron.clone()),
        RuleSpec::Text(text) => v1::schedule::Rule::Text(text.clone()),
        RuleSpec::Every { period, after: from } => {
            if *from == After::Completion {
                after = v1::ScheduleAfter::Completion;
            }
            v1::schedule::Rule::Every(duration(*period))
        }
        RuleSpec::At(at) => v1::schedule::Rule::At(instant(*at)),
    };
    let misfire = match misfire {
        None => v1::MisfirePolicy::Unspecified,
        Some(Misfire::Skip) => v1::MisfirePolicy::Skip,
        Some(Misfire::RunOnce) => v1::MisfirePolicy::RunOnce,
        Some(Misfire::RunAll) => v1::MisfirePolicy::RunAll,
    };
    v1::Schedule {
        name: schedule.name.clone(),
        rule: Some(rule),
        after: after.into(),
        time_zone: time_zone.clone(),
        start_time: start_time.map(instant),
        end_time: end_time.map(instant),
        jitter: Some(*jitter).filter(|jitter| !jitter.is_zero()).map(duration),
        misfire: misfire.into(),
        misfire_after: Some(*misfire_after).filter(|span| *span != MISFIRE_AFTER).map(duration),
        catchup_window: Some(*catchup_window).filter(|span| *span != CATCHUP_WINDOW).map(duration),
        catchup_limit: Some(*catchup_limit).filter(|limit| *limit != CATCHUP_LIMIT).unwrap_or_default(),
        calendars: calendars.clone(),
    }
}

pub(super) fn overlap(policy: Option<Overlap>) -> v1::Overlap {
    match policy {
        None => v1::Overlap::Unspecified,
        Some(Overlap::Allow) => v1::Overlap::Allow,
        Some(Overlap::Skip) => v1::Overlap::Skip,
        Some(Overlap::Queue) => v1::Overlap::Queue,
        Some(Overlap::Replace) => v1::Overlap::Replace,
    }
}

/// A schedule out of a message, or everything that it cannot say.
pub(crate) fn read_schedule(field: &str, schedule: v1::Schedule) -> Result<Schedule, Vec<Violation>> {
    let mut fields = Fields::default();
    let schedule = fields.schedule(field, schedule);
    fields.whole(schedule)
}

impl Fields {
    pub(super) fn schedule(&mut self, field: &str, schedule: v1::Schedule) -> Schedule {
        let after = match v1::ScheduleAfter::try_from(schedule.after) {
            Ok(v1::ScheduleAfter::Unspecified | v1::ScheduleAfter::Start) => After::Start,
            Ok(v1::ScheduleAfter::Completion) => After::Completion,
            Err(_) => {
                self.refuse(format!("{field}.after"), "is neither START nor COMPLETION");
                After::Start
            }
        };
        let misfire = match v1::MisfirePolicy::try_from(schedule.misfire) {
            Ok(v1::MisfirePolicy::Unspecified) => None,
            Ok(v1::MisfirePolicy::Skip) => Some(Misfire::Skip),
            Ok(v1::MisfirePolicy::RunOnce) => Some(Misfire::RunOnce),
            Ok(v1::MisfirePolicy::RunAll) => Some(Misfire::RunAll),
            Err(_) => {
                self.refuse(format!("{field}.misfire"), "is no misfire policy");
                None
            }
        };
        let rule = match schedule.rule {
            Some(v1::schedule::Rule::Cron(cron)) => RuleSpec::Cron(cron),
            Some(v1::schedule::Rule::Text(text)) => RuleSpec::Text(text),
            Some(v1::schedule::Rule::Every(period)) => {
                let period = self.duration(format!("{field}.every"), Some(period)).unwrap_or_default();
                RuleSpec::Every { period, after }
            }
            Some(v1::schedule::Rule::At(at)) => {
                RuleSpec::At(self.instant(format!("{field}.at"), Some(at)).unwrap_or_default())
            }
            None => {
                self.refuse(field, "says no time: one of cron, text, every, at must be set");
                RuleSpec::default()
            }
        };
        if after == After::Completion && !matches!(rule, RuleSpec::Every { .. }) {
            self.refuse(format!("{field}.after"), "says what every is counted from, and every is not set");
        }
        Schedule {
            name: schedule.name,
            spec: Spec {
                rule,
                time_zone: schedule.time_zone,
                start_time: self.instant(format!("{field}.start_time"), schedule.start_time),
                end_time: self.instant(format!("{field}.end_time"), schedule.end_time),
                jitter: self.duration(format!("{field}.jitter"), schedule.jitter).unwrap_or_default(),
                misfire,
                misfire_after: self
                    .duration(format!("{field}.misfire_after"), schedule.misfire_after)
                    .unwrap_or(MISFIRE_AFTER),
                catchup_window: self
                    .duration(format!("{field}.catchup_window"), schedule.catchup_window)
                    .unwrap_or(CATCHUP_WINDOW),
                catchup_limit: Some(schedule.catchup_limit).filter(|limit| *limit > 0).unwrap_or(CATCHUP_LIMIT),
                calendars: schedule.calendars,
            },
        }
    }

    pub(super) fn overlap(&mut self, field: String, policy: i32) -> Option<Overlap> {
        self.one_of(field, policy, &Overlap::ALL, overlap, "is no overlap policy")
    }

    fn instant(&mut self, field: String, time: Option<prost_types::Timestamp>) -> Option<DateTime<Utc>> {
        let read = read_timestamp(&field, time);
        let instant = read.map(|time| time.map(|time| DateTime::from_timestamp_micros(time.0)));
        match instant {
            Ok(None) => None,
            Ok(Some(Some(instant))) => Some(instant),
            Ok(Some(None)) | Err(_) => {
                self.refuse(field, "is no point in time");
                None
            }
        }
    }
}

fn instant(time: DateTime<Utc>) -> prost_types::Timestamp {
    timestamp(Timestamp(time.timestamp_micros()))
}
