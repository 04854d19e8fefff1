//! Jobs, their tasks and what explains them, as messages; the states and triggers that filters name, and back.

use baton::v1;

use super::{definitions, timestamp};
use crate::{
    domain::{
        definition::TaskConfig,
        explain::{Check, Explanation, Standing},
        gate::SkipCause,
        job::JobState,
        origin::Trigger,
        placement::Class,
        task::{Kind, TaskState},
    },
    rpc::status::Violation,
    store::read,
};

pub(crate) fn job(job: read::Job) -> v1::Job {
    let parent_task = job.parent.and_then(|parent| parent.task);
    let after = job.led.after.into_iter();
    v1::Job {
        id: job.id.to_string(),
        namespace: job.namespace,
        name: job.name,
        version: job.version,
        state: job_state(job.state).into(),
        reason: job.reason,
        trigger: trigger(job.trigger).into(),
        params: job.params.into_iter().collect(),
        labels: job.labels.into_iter().collect(),
        create_time: Some(timestamp(job.created_at)),
        start_time: job.started_at.map(timestamp),
        end_time: job.ended_at.map(timestamp),
        seq: job.seq,
        tasks_total: job.tasks_total,
        tasks_ended: job.tasks_ended,
        tasks_failed: job.tasks_failed,
        tasks: Vec::new(),
        stopping: job.stopping,
        schedule: job.schedule.unwrap_or_default(),
        fire_time: job.fire_time.map(timestamp),
        backfill_id: job.backfill_id.map(|id| id.to_string()).unwrap_or_default(),
        rerun: job.rerun_no,
        parent_job_id: job.parent.map(|parent| parent.job.to_string()).unwrap_or_default(),
        parent_task_id: parent_task.map(|(task, _)| task.to_string()).unwrap_or_default(),
        parent_attempt: parent_task.map_or(0, |(_, attempt)| attempt),
        parent_job_name: job.led.parent_name,
        parent_task_name: job.led.parent_task,
        parent_shard_index: job.led.parent_shard,
        after: after.map(|source| v1::SourceJob { job_id: source.id.to_string(), name: source.name }).collect(),
        runner_id: job.pin.unwrap_or_default(),
    }
}

pub(crate) fn task(task: read::Task) -> v1::Task {
    let kind = match task.kind {
        Kind::Task => v1::TaskKind::Task,
        Kind::Group => v1::TaskKind::Group,
        Kind::Shard => v1::TaskKind::Shard,
    };
    let skip_cause = match task.skip_cause {
        None => v1::SkipCause::Unspecified,
        Some(SkipCause::Condition) => v1::SkipCause::Condition,
        Some(SkipCause::UpstreamFailed) => v1::SkipCause::UpstreamFailed,
    };
    let shard_states = task.shard_states.into_iter();
    let child = task.child;
    let Class { stay, spent, .. } = task.class.unwrap_or_default();
    let stay = stay.filter(|_| task.state == TaskState::Queued);
    v1::Task {
        id: task.id.to_string(),
        job_id: task.job_id.to_string(),
        name: task.name,
        kind: kind.into(),
        group_id: task.group_id.map(|id| id.to_string()).unwrap_or_default(),
        shard_index: task.shard_index,
        shard_count: task.shard_count,
        shard_item: task.shard_item,
        state: task_state(task.state).into(),
        reason: task.reason,
        skip_cause: skip_cause.into(),
        attempt: task.attempt,
        max_attempts: task.max_attempts,
        lease: task.lease,
        runner_id: task.runner_id.unwrap_or_default(),
        slot: task.slot,
        exit_code: task.exit_code,
        exit_signal: task.exit_signal,
        output: task.output,
        create_time: Some(timestamp(task.created_at)),
        queue_time: task.queued_at.map(timestamp),
        dispatch_time: task.dispatched_at.map(timestamp),
        start_time: task.started_at.map(timestamp),
        end_time: task.ended_at.map(timestamp),
        not_before: task.not_before.map(timestamp),
        needs: task.needs,
        seq: task.seq,
        shard_states: shard_states
            .map(|(state, count)| v1::StateCount { state: task_state(state).into(), count })
            .collect(),
        attempts: Vec::new(),
        stdout_bytes: task.stdout_bytes,
        stderr_bytes: task.stderr_bytes,
        child_job_id: child.as_ref().map(|child| child.id.to_string()).unwrap_or_default(),
        child_job_state: child.as_ref().map_or(v1::JobState::Unspecified, |child| job_state(child.state)).into(),
        child_job_name: child.map(|child| child.name).unwrap_or_default(),
        stays_on_runner_id: stay.unwrap_or_default(),
        given_up_runner_ids: spent.into_iter().collect(),
    }
}

pub(crate) fn attempt(attempt: read::Attempt) -> v1::Attempt {
    v1::Attempt {
        number: attempt.number,
        lease: attempt.lease,
        runner_id: attempt.runner_id.unwrap_or_default(),
        reason: attempt.reason,
        exit_code: attempt.exit_code,
        exit_signal: attempt.exit_signal,
        start_time: attempt.started_at.map(timestamp),
        end_time: Some(timestamp(attempt.ended_at)),
        gone: attempt.gone,
    }
}

/// An explanation with what it is about.
pub(crate) fn explanation(
    explanation: Explanation,
    of: read::Job,
    about: Option<read::Task>,
    config: Option<&TaskConfig>,
) -> v1::ExplainResponse {
    let check = |check: Check| {
        let state = match check.standing {
            Standing::Passed => v1::CheckState::Passed,
            Standing::Holds => v1::CheckState::Holds,
            Standing::NotReached => v1::CheckState::NotApplicable,
        };
        v1::Check { name: check.name.to_owned(), state: state.into(), detail: check.detail }
    };
    v1::ExplainResponse {
        task: about.map(task),
        job: Some(job(of)),
        summary: explanation.summary,
        checks: explanation.checks.into_iter().map(check).collect(),
        fixes: explanation.fixes,
        config: config.map(definitions::task_config),
    }
}

pub(crate) fn job_state(state: JobState) -> v1::JobState {
    match state {
        JobState::Created => v1::JobState::Created,
        JobState::Running => v1::JobState::Running,
        JobState::Finished => v1::JobState::Finished,
        JobState::Failed => v1::JobState::Failed,
        JobState::Skipped => v1::JobState::Skipped,
        JobState::Terminating => v1::JobState::Terminating,
        JobState::Terminated => v1::JobState::Terminated,
    }
}

pub(crate) fn task_state(state: TaskState) -> v1::TaskState {
    match state {
        TaskState::Created => v1::TaskState::Created,
        TaskState::Queued => v1::TaskState::Queued,
        TaskState::Dispatched => v1::TaskState::Dispatched,
        TaskState::Running => v1::TaskState::Running,
        TaskState::Callback => v1::TaskState::Callback,
        TaskState::Finished => v1::TaskState::Finished,
        TaskState::Failed => v1::TaskState::Failed,
        TaskState::Skipped => v1::TaskState::Skipped,
        TaskState::Terminating => v1::TaskState::Terminating,
        TaskState::Terminated => v1::TaskState::Terminated,
    }
}

fn trigger(trigger: Trigger) -> v1::TriggerKind {
    match trigger {
        Trigger::Manual => v1::TriggerKind::Manual,
        Trigger::Schedule => v1::TriggerKind::Schedule,
        Trigger::SubJob => v1::TriggerKind::SubJob,
        Trigger::AfterJobs => v1::TriggerKind::AfterJobs,
        Trigger::Callback => v1::TriggerKind::Callback,
        Trigger::Backfill => v1::TriggerKind::Backfill,
    }
}

/// The states that a filter names.
pub(crate) fn read_job_states(field: &str, states: &[i32]) -> Result<Vec<JobState>, Vec<Violation>> {
    read_words(field, states, &JobState::ALL, |state| job_state(state).into(), "is no state of a job")
}

/// The states that a filter names.
pub(crate) fn read_task_states(field: &str, states: &[i32]) -> Result<Vec<TaskState>, Vec<Violation>> {
    read_words(field, states, &TaskState::ALL, |state| task_state(state).into(), "is no state of a task")
}

/// The kinds of triggers that a filter names.
pub(crate) fn read_triggers(field: &str, triggers: &[i32]) -> Result<Vec<Trigger>, Vec<Violation>> {
    read_words(field, triggers, &Trigger::ALL, |one| trigger(one).into(), "is no trigger of a job")
}

/// The values of an enum that a filter names; what is none of them is told as `wrong`.
fn read_words<T: Copy>(
    field: &str,
    numbers: &[i32],
    all: &[T],
    number: impl Fn(T) -> i32,
    wrong: &str,
) -> Result<Vec<T>, Vec<Violation>> {
    let (mut read, mut violations) = (Vec::new(), Vec::new());
    for (position, wanted) in numbers.iter().enumerate() {
        match all.iter().find(|one| number(**one) == *wanted) {
            Some(one) => read.push(*one),
            None => violations.push(Violation::new(format!("{field}[{position}]"), wrong)),
        }
    }
    if violations.is_empty() { Ok(read) } else { Err(violations) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_number_and_every_number_a_state() {
        let numbers: Vec<i32> = JobState::ALL.into_iter().map(|state| job_state(state).into()).collect();
        assert_eq!(read_job_states("states", &numbers).unwrap(), JobState::ALL);
        let numbers: Vec<i32> = TaskState::ALL.into_iter().map(|state| task_state(state).into()).collect();
        assert_eq!(read_task_states("states", &numbers).unwrap(), TaskState::ALL);
        let violations = read_task_states("states", &[3, 0, 99]).unwrap_err();
        assert_eq!(violations[0].field, "states[1]");
        assert_eq!(violations.len(), 2);
    }

    #[test]
    fn what_a_filter_names_wrongly_is_told_for_what_it_is() {
        let numbers: Vec<i32> = Trigger::ALL.into_iter().map(|one| trigger(one).into()).collect();
        assert_eq!(read_triggers("triggers", &numbers).unwrap(), Trigger::ALL);
        let wrong = |read: Result<(), Vec<Violation>>| read.unwrap_err().remove(0).description;
        assert_eq!(wrong(read_triggers("triggers", &[99]).map(drop)), "is no trigger of a job");
        assert_eq!(wrong(read_job_states("states", &[99]).map(drop)), "is no state of a job");
        assert_eq!(wrong(read_task_states("states", &[99]).map(drop)), "is no state of a task");
    }
}
