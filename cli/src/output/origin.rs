//! What made a job, in words.

use baton::v1::{Job, TriggerKind};

use crate::selector::short_id;

/// "manual", "schedule nightly", "sub-job of 7be0d21c"; nothing when it is not known.
pub fn words(job: &Job) -> String {
    let of = |what: &str| match job.parent_job_id.as_str() {
        "" => what.to_owned(),
        parent => format!("{what} of {}", short_id(parent)),
    };
    match job.trigger() {
        TriggerKind::Unspecified => String::new(),
        TriggerKind::Manual => "manual".to_owned(),
        TriggerKind::Schedule if job.schedule.is_empty() => "schedule".to_owned(),
        TriggerKind::Schedule => format!("schedule {}", job.schedule),
        TriggerKind::SubJob => of("sub-job"),
        TriggerKind::AfterJobs => "after jobs".to_owned(),
        TriggerKind::Callback => of("callback"),
        TriggerKind::Backfill => format!("backfill {} of schedule {}", short_id(&job.backfill_id), job.schedule),
    }
}
