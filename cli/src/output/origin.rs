//! Which job led to which, in words.

use baton::v1::{Job, Task, TriggerKind};

use crate::selector::short_id;

/// "manual", "schedule nightly", "sub-job of plan/load (7be0d21c)", "after load, users"; nothing when it is not known.
pub fn words(job: &Job) -> String {
    match job.trigger() {
        TriggerKind::Unspecified => String::new(),
        TriggerKind::Manual => "manual".to_owned(),
        TriggerKind::Schedule if job.schedule.is_empty() => "schedule".to_owned(),
        TriggerKind::Schedule => format!("schedule {}", job.schedule),
        TriggerKind::SubJob => of("sub-job", job),
        TriggerKind::AfterJobs if job.after.is_empty() => "after jobs".to_owned(),
        TriggerKind::AfterJobs => {
            let names: Vec<&str> = job.after.iter().map(|source| source.name.as_str()).collect();
            format!("after {}", names.join(", "))
        }
        TriggerKind::Callback => of("callback", job),
        TriggerKind::Backfill => format!("backfill {} of schedule {}", short_id(&job.backfill_id), job.schedule),
    }
}

fn of(what: &str, job: &Job) -> String {
    let (name, id) = (&job.parent_job_name, short_id(&job.parent_job_id));
    let task = match (job.parent_task_name.as_str(), job.parent_shard_index) {
        ("", _) => String::new(),
        (task, None) => format!("/{task}"),
        (task, Some(shard)) => format!("/{task}#{shard}"),
    };
    match (name.as_str(), id) {
        ("", "") => what.to_owned(),
        ("", id) => format!("{what} of {id}"),
        (name, id) => format!("{what} of {name}{task} ({id})"),
    }
}

/// The job that a task stands for: "job load 7be0d21c"; nothing for other tasks.
pub fn child(task: &Task) -> String {
    match task.child_job_id.as_str() {
        "" => String::new(),
        id => format!("job {} {}", task.child_job_name, short_id(id)),
    }
}

#[cfg(test)]
mod tests {
    use baton::v1::SourceJob;

    use super::*;

    #[test]
    fn a_job_says_what_made_it() {
        let job = |trigger: TriggerKind| Job { trigger: trigger.into(), ..Job::default() };
        assert_eq!(words(&job(TriggerKind::Manual)), "manual");
        assert_eq!(words(&Job { schedule: "nightly".into(), ..job(TriggerKind::Schedule) }), "schedule nightly");
        let child = Job {
            parent_job_id: "019366ab-1111-7222-8333-00007be0d21c".into(),
            parent_job_name: "plan".into(),
            parent_task_name: "load".into(),
            parent_shard_index: Some(3),
            ..job(TriggerKind::SubJob)
        };
        assert_eq!(words(&child), "sub-job of plan/load#3 (7be0d21c)");
        let source = |name: &str| SourceJob { name: name.into(), ..SourceJob::default() };
        let after = Job { after: vec![source("a"), source("b")], ..job(TriggerKind::AfterJobs) };
        assert_eq!(words(&after), "after a, b");
    }
}
