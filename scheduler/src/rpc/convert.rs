//! Messages into values and back. Total: what has no meaning is an error that names its field.

pub(super) mod callbacks;
mod failures;
pub(super) mod http;
mod placement;
pub(super) mod schedules;

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use baton::v1;

use super::status::Violation;
use crate::{
    domain::{
        definition::{JobConfig, Shards, Split, SubJob, Target, TaskConfig, TaskDefaults, TriggerRule},
        explain::{Check, Explanation, Standing},
        gate::SkipCause,
        job::JobState,
        origin::Trigger,
        placement::Class,
        retention::Retention,
        runner::RunnerState,
        scheduler::SchedulerState,
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::{log, read},
};

pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(time.0.rem_euclid(1_000_000) * 1000).expect("less than a second has nine digits");
    prost_types::Timestamp { seconds: time.0.div_euclid(1_000_000), nanos }
}

pub(crate) fn duration(span: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: span.subsec_nanos().cast_signed() }
}

/// An instant, if the field is set.
pub(crate) fn read_timestamp(
    field: &str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, Violation> {
    let Some(time) = time else { return Ok(None) };
    let micros =
        time.seconds.checked_mul(1_000_000).and_then(|micros| micros.checked_add(i64::from(time.nanos / 1000)));
    match micros {
        Some(micros) if (0..1_000_000_000).contains(&time.nanos) => Ok(Some(Timestamp(micros))),
        _ => Err(Violation::new(field, "is no point in time")),
    }
}

/// A span of time, if the field is set.
pub(crate) fn read_duration(field: &str, span: Option<prost_types::Duration>) -> Result<Option<Duration>, Violation> {
    let Some(span) = span else { return Ok(None) };
    match (u64::try_from(span.seconds), u32::try_from(span.nanos)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Violation::new(field, "is no span of time: it must not be negative")),
    }
}

pub(crate) fn sorted(map: HashMap<String, String>) -> BTreeMap<String, String> {
    map.into_iter().collect()
}

fn unsorted(map: &BTreeMap<String, String>) -> HashMap<String, String> {
    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
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

/// The states that a filter names.
pub(crate) fn read_job_states(field: &str, states: &[i32]) -> Result<Vec<JobState>, Vec<Violation>> {
    read_states(field, states, &JobState::ALL, |state| job_state(state).into())
}

/// The states that a filter names.
pub(crate) fn read_task_states(field: &str, states: &[i32]) -> Result<Vec<TaskState>, Vec<Violation>> {
    read_states(field, states, &TaskState::ALL, |state| task_state(state).into())
}

fn read_states<T: Copy>(
    field: &str,
    states: &[i32],
    all: &[T],
    number: impl Fn(T) -> i32,
) -> Result<Vec<T>, Vec<Violation>> {
    let (mut read, mut violations) = (Vec::new(), Vec::new());
    for (position, wanted) in states.iter().enumerate() {
        match all.iter().find(|state| number(**state) == *wanted) {
            Some(state) => read.push(*state),
            None => violations.push(Violation::new(format!("{field}[{position}]"), "is no state")),
        }
    }
    if violations.is_empty() { Ok(read) } else { Err(violations) }
}

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

/// The kinds of triggers that a filter names.
pub(crate) fn read_triggers(field: &str, triggers: &[i32]) -> Result<Vec<Trigger>, Vec<Violation>> {
    read_states(field, triggers, &Trigger::ALL, |one| trigger(one).into())
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
        config: config.map(task_config),
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

pub(crate) fn runner(runner: read::Runner, state: RunnerState) -> v1::Runner {
    let state = match state {
        RunnerState::Online => v1::RunnerState::Online,
        RunnerState::Draining => v1::RunnerState::Draining,
        RunnerState::Silent => v1::RunnerState::Silent,
        RunnerState::Offline => v1::RunnerState::Offline,
    };
    v1::Runner {
        id: runner.id,
        state: state.into(),
        labels: runner.labels.into_iter().collect(),
        version: runner.version,
        capabilities: runner.capabilities,
        slots: runner.slots,
        slots_busy: runner.slots_busy,
        last_seen_time: Some(timestamp(runner.last_seen_at)),
        scheduler_id: runner.scheduler_id.map(|id| id.to_string()).unwrap_or_default(),
        reason: runner.drain_reason,
        create_time: Some(timestamp(runner.created_at)),
    }
}

pub(crate) fn scheduler(scheduler: read::Scheduler, state: SchedulerState) -> v1::Scheduler {
    let state = match state {
        SchedulerState::Working => v1::SchedulerState::Working,
        SchedulerState::Drained => v1::SchedulerState::Drained,
        SchedulerState::Offline => v1::SchedulerState::Offline,
    };
    v1::Scheduler {
        id: scheduler.id.to_string(),
        address: scheduler.address,
        version: scheduler.version,
        state: state.into(),
        start_time: Some(timestamp(scheduler.started_at)),
        last_seen_time: Some(timestamp(scheduler.last_seen_at)),
        runners: scheduler.runners,
    }
}

pub(crate) fn log_stream(stream: log::Stream) -> v1::LogStream {
    match stream {
        log::Stream::Stdout => v1::LogStream::Stdout,
        log::Stream::Stderr => v1::LogStream::Stderr,
    }
}

/// Which output a request names; both when it names none.
pub(crate) fn read_log_stream(field: &str, stream: i32) -> Result<Option<log::Stream>, Violation> {
    match v1::LogStream::try_from(stream) {
        Ok(v1::LogStream::Unspecified) => Ok(None),
        Ok(v1::LogStream::Stdout) => Ok(Some(log::Stream::Stdout)),
        Ok(v1::LogStream::Stderr) => Ok(Some(log::Stream::Stderr)),
        Err(_) => Err(Violation::new(field, "is no output: LOG_STREAM_STDOUT or LOG_STREAM_STDERR")),
    }
}

pub(crate) fn job_config(config: &JobConfig) -> v1::JobConfig {
    let defaults = &config.task_defaults;
    let none = *defaults == TaskDefaults::default();
    v1::JobConfig {
        namespace: config.namespace.clone(),
        name: config.name.clone(),
        labels: unsorted(&config.labels),
        params: unsorted(&config.params),
        timeout: config.timeout.map(duration),
        task_defaults: (!none).then(|| v1::TaskDefaults {
            timeout: defaults.timeout.map(duration),
            retry: defaults.retry.as_ref().map(failures::retry),
            runner: placement::selector(&defaults.match_labels, &defaults.placement),
            env: unsorted(&defaults.env),
            working_dir: defaults.working_dir.clone(),
            trigger_rule: trigger_rule(defaults.trigger_rule).into(),
            on_failure: failures::on_failure(defaults.on_failure).into(),
            queue_timeout: defaults.queue_timeout.map(duration),
            concurrency: defaults.concurrency.as_ref().map(placement::concurrency),
            priority: defaults.priority.unwrap_or_default(),
            when_cut_off: failures::when_cut_off(defaults.when_cut_off).into(),
            warn_after: defaults.warn_after.map(duration),
        }),
        tasks: config.tasks.iter().map(task_config).collect(),
        fail_fast: config.fail_fast,
        schedules: config.schedules.iter().map(schedules::schedule).collect(),
        overlap: schedules::overlap(config.overlap).into(),
        queue_limit: config.queue_limit.unwrap_or_default(),
        start_deadline: config.start_deadline.map(duration),
        after_jobs: config.after_jobs.clone(),
        max_active_jobs: config.max_active_jobs.unwrap_or_default(),
        warn_after: config.warn_after.map(duration),
        callbacks: config.callbacks.iter().map(callbacks::callback).collect(),
        retention: config.retention.map(|kept| v1::Retention {
            age: kept.age.map(duration),
            count: kept.count.unwrap_or_default(),
            logs: kept.logs.map(duration),
        }),
    }
}

pub(crate) fn task_config(task: &TaskConfig) -> v1::TaskConfig {
    let target = match &task.target {
        Target::Command(argv) => v1::task_config::Target::Command(v1::CommandTarget { argv: argv.clone() }),
        Target::Shell(script) => v1::task_config::Target::Shell(script.clone()),
        Target::Job(job) => {
            v1::task_config::Target::Job(v1::JobTarget { name: job.name.clone(), params: unsorted(&job.params) })
        }
        Target::Http(target) => v1::task_config::Target::Http(http::target(target)),
    };
    v1::TaskConfig {
        name: task.name.clone(),
        target: Some(target),
        env: unsorted(&task.env),
        working_dir: task.working_dir.clone(),
        needs: task.needs.clone(),
        shards: task.shards.as_ref().map(shards),
        timeout: task.timeout.map(duration),
        runner: placement::selector(&task.match_labels, &task.placement),
        retry: task.retry.as_ref().map(failures::retry),
        trigger_rule: trigger_rule(task.trigger_rule).into(),
        when: task.when.clone(),
        on_failure: failures::on_failure(task.on_failure).into(),
        when_cut_off: failures::when_cut_off(task.when_cut_off).into(),
        warn_after: task.warn_after.map(duration),
        enabled: task.enabled,
        priority: task.priority,
        queue_timeout: task.queue_timeout.map(duration),
        concurrency: task.concurrency.as_ref().map(placement::concurrency),
        callbacks: task.callbacks.iter().map(callbacks::callback).collect(),
    }
}

fn shards(shards: &Shards) -> v1::Shards {
    let (count, items, one_per_runner) = match &shards.split {
        Split::Count(count) => (*count, String::new(), false),
        Split::Items(items) => (0, items.clone(), false),
        Split::OnePerRunner => (0, String::new(), true),
    };
    let min_success_percent = Some(shards.min_success_percent).filter(|percent| *percent != 100);
    v1::Shards { count, items, one_per_runner, max_parallel: shards.max_parallel, min_success_percent }
}

fn trigger_rule(rule: Option<TriggerRule>) -> v1::TriggerRule {
    match rule {
        None => v1::TriggerRule::Unspecified,
        Some(TriggerRule::AllSuccess) => v1::TriggerRule::AllSuccess,
        Some(TriggerRule::AllDone) => v1::TriggerRule::AllDone,
        Some(TriggerRule::AllFailed) => v1::TriggerRule::AllFailed,
        Some(TriggerRule::AllSkipped) => v1::TriggerRule::AllSkipped,
        Some(TriggerRule::OneSuccess) => v1::TriggerRule::OneSuccess,
        Some(TriggerRule::OneFailed) => v1::TriggerRule::OneFailed,
        Some(TriggerRule::OneDone) => v1::TriggerRule::OneDone,
        Some(TriggerRule::NoneFailed) => v1::TriggerRule::NoneFailed,
        Some(TriggerRule::NoneFailedMinOneSuccess) => v1::TriggerRule::NoneFailedMinOneSuccess,
        Some(TriggerRule::NoneSkipped) => v1::TriggerRule::NoneSkipped,
        Some(TriggerRule::Always) => v1::TriggerRule::Always,
    }
}

/// A definition out of a message. What the message cannot say is told for all fields at once; what makes no sense as a
/// definition is told by its validation.
pub(crate) fn read_job_config(field: &str, config: v1::JobConfig) -> Result<JobConfig, Vec<Violation>> {
    let mut reader = Reader::default();
    let defaults = config.task_defaults.unwrap_or_default();
    let inside = format!("{field}.task_defaults");
    let (match_labels, placement) = reader.selector(&format!("{inside}.runner"), defaults.runner);
    let task_defaults = TaskDefaults {
        timeout: reader.duration(format!("{inside}.timeout"), defaults.timeout),
        retry: reader.retry(&format!("{inside}.retry"), defaults.retry),
        match_labels,
        env: sorted(defaults.env),
        working_dir: defaults.working_dir,
        trigger_rule: reader.trigger_rule(format!("{inside}.trigger_rule"), defaults.trigger_rule),
        on_failure: reader.on_failure(format!("{inside}.on_failure"), defaults.on_failure),
        placement,
        queue_timeout: reader.duration(format!("{inside}.queue_timeout"), defaults.queue_timeout),
        concurrency: defaults.concurrency.map(placement::read_concurrency),
        priority: Some(defaults.priority).filter(|priority| *priority != 0),
        when_cut_off: reader.when_cut_off(format!("{inside}.when_cut_off"), defaults.when_cut_off),
        warn_after: reader.duration(format!("{inside}.warn_after"), defaults.warn_after),
    };
    let tasks = config.tasks.into_iter().enumerate();
    let tasks = tasks.map(|(position, task)| reader.task(&format!("{field}.tasks[{position}]"), task)).collect();
    let schedules = config.schedules.into_iter().enumerate();
    let schedules = schedules
        .map(|(position, schedule)| reader.schedule(&format!("{field}.schedules[{position}]"), schedule))
        .collect();
    let callbacks = reader.callbacks(&format!("{field}.callbacks"), config.callbacks);
    let overlap = reader.overlap(format!("{field}.overlap"), config.overlap);
    let retention = config.retention.map(|kept| Retention {
        age: reader.duration(format!("{field}.retention.age"), kept.age),
        count: Some(kept.count).filter(|count| *count > 0),
        logs: reader.duration(format!("{field}.retention.logs"), kept.logs),
    });
    let config = JobConfig {
        namespace: config.namespace,
        name: config.name,
        labels: sorted(config.labels),
        params: sorted(config.params),
        timeout: reader.duration(format!("{field}.timeout"), config.timeout),
        warn_after: reader.duration(format!("{field}.warn_after"), config.warn_after),
        task_defaults,
        tasks,
        fail_fast: config.fail_fast,
        schedules,
        overlap,
        queue_limit: Some(config.queue_limit).filter(|limit| *limit > 0),
        start_deadline: reader.duration(format!("{field}.start_deadline"), config.start_deadline),
        after_jobs: config.after_jobs,
        max_active_jobs: Some(config.max_active_jobs).filter(|limit| *limit > 0),
        callbacks,
        retention,
    };
    if reader.violations.is_empty() { Ok(config) } else { Err(reader.violations) }
}

/// Reads fields and remembers what was wrong with them.
#[derive(Default)]
struct Reader {
    violations: Vec<Violation>,
}

impl Reader {
    fn task(&mut self, field: &str, task: v1::TaskConfig) -> TaskConfig {
        let target = match task.target {
            Some(v1::task_config::Target::Command(command)) => Target::Command(command.argv),
            Some(v1::task_config::Target::Shell(script)) => Target::Shell(script),
            Some(v1::task_config::Target::Job(job)) => {
                Target::Job(SubJob { name: job.name, params: sorted(job.params) })
            }
            Some(v1::task_config::Target::Http(target)) => Target::Http(Box::new(self.http(field, target))),
            None => {
                self.refuse(field, "says nothing to run: one of command, shell, http, job must be set");
                Target::default()
            }
        };
        let (match_labels, placement) = self.selector(&format!("{field}.runner"), task.runner);
        TaskConfig {
            name: task.name,
            target,
            env: sorted(task.env),
            working_dir: task.working_dir,
            needs: task.needs,
            shards: task.shards.and_then(|shards| self.shards(&format!("{field}.shards"), shards)),
            timeout: self.duration(format!("{field}.timeout"), task.timeout),
            match_labels,
            retry: self.retry(&format!("{field}.retry"), task.retry),
            trigger_rule: self.trigger_rule(format!("{field}.trigger_rule"), task.trigger_rule),
            when: task.when,
            on_failure: self.on_failure(format!("{field}.on_failure"), task.on_failure),
            when_cut_off: self.when_cut_off(format!("{field}.when_cut_off"), task.when_cut_off),
            warn_after: self.duration(format!("{field}.warn_after"), task.warn_after),
            enabled: task.enabled,
            priority: task.priority,
            placement,
            queue_timeout: self.duration(format!("{field}.queue_timeout"), task.queue_timeout),
            concurrency: task.concurrency.map(placement::read_concurrency),
            callbacks: self.callbacks(&format!("{field}.callbacks"), task.callbacks),
        }
    }

    fn shards(&mut self, field: &str, shards: v1::Shards) -> Option<Shards> {
        let split = match (shards.count, shards.items.is_empty(), shards.one_per_runner) {
            (1.., true, false) => Split::Count(shards.count),
            (0, false, false) => Split::Items(shards.items),
            (0, true, true) => Split::OnePerRunner,
            _ => {
                self.refuse(field, "exactly one of count, items, one_per_runner must be set");
                return None;
            }
        };
        let min_success_percent = shards.min_success_percent.unwrap_or(100);
        Some(Shards { split, max_parallel: shards.max_parallel, min_success_percent })
    }

    fn duration(&mut self, field: impl AsRef<str>, span: Option<prost_types::Duration>) -> Option<Duration> {
        read_duration(field.as_ref(), span).unwrap_or_else(|violation| {
            self.violations.push(violation);
            None
        })
    }

    fn trigger_rule(&mut self, field: String, rule: i32) -> Option<TriggerRule> {
        let known = TriggerRule::ALL.into_iter().find(|known| i32::from(trigger_rule(Some(*known))) == rule);
        if known.is_none() && rule != i32::from(v1::TriggerRule::Unspecified) {
            self.refuse(field, "is no trigger rule");
        }
        known
    }

    fn refuse(&mut self, field: impl Into<String>, description: &str) {
        self.violations.push(Violation::new(field, description));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        callback::Event,
        definition::{
            Callback, Concurrency, Http, OnFailure, Overlap, Redirects, Retry, Schedule, WhenCutOff,
            callback::{Action, Email, StartJob, Webhook},
        },
        schedule::{After, Misfire, RuleSpec, Spec},
    };

    fn full_schedules() -> Vec<Schedule> {
        let at = chrono::DateTime::from_timestamp_micros(1_764_500_000_123_456).unwrap();
        let every = RuleSpec::Every { period: Duration::from_secs(5), after: After::Completion };
        let mut specs = vec![Spec::cron("30 2 * * *", "Europe/Berlin"), Spec::text("every day at 02:30", "")];
        specs.push(Spec {
            start_time: Some(at),
            end_time: Some(at + chrono::TimeDelta::days(1)),
            jitter: Duration::from_secs(1),
            misfire: Some(Misfire::RunAll),
            misfire_after: Duration::from_secs(2),
            catchup_window: Duration::from_secs(3),
            catchup_limit: 4,
            calendars: vec!["holidays".to_owned()],
            ..every.into()
        });
        specs.push(Spec { misfire: Some(Misfire::Skip), ..RuleSpec::At(at).into() });
        specs.into_iter().map(|spec| Schedule { name: String::new(), spec }).collect()
    }

    fn full_http() -> Target {
        Target::Http(Box::new(Http {
            method: "PUT".to_owned(),
            urls: vec!["http://a".to_owned(), "https://b".to_owned()],
            headers: BTreeMap::from([("X".to_owned(), "y".to_owned())]),
            body: "{}".to_owned(),
            connect_timeout: Some(Duration::from_secs(1)),
            read_timeout: Some(Duration::from_secs(2)),
            request_timeout: Some(Duration::from_secs(3)),
            success_when: vec!["200".to_owned(), "400-499".to_owned()],
            redirects: Some(Redirects::Any),
            max_response_bytes: Some(7),
            wait_for_callback: true,
        }))
    }

    fn full_callbacks() -> Vec<Callback> {
        let pairs = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let webhook = Webhook {
            url: "https://h/x".to_owned(),
            headers: pairs.clone(),
            secret_headers: pairs.clone(),
            secret: "file:k".to_owned(),
        };
        let email = Email { to: vec!["a@b".to_owned()], subject: "s".to_owned() };
        let job = StartJob { name: "j".to_owned(), params: pairs };
        [Action::Http(webhook), Action::Email(email), Action::Job(job)]
            .into_iter()
            .map(|action| Callback { events: Event::ALL.to_vec(), blocking: action.key() == "job", action })
            .collect()
    }

    fn full() -> JobConfig {
        let labels = BTreeMap::from([("pool".to_owned(), "etl".to_owned())]);
        let retry = Some(Retry {
            factor: 2.5,
            max_delay: Some(Duration::from_mins(1)),
            jitter_ratio: 0.25,
            no_retry_exit_codes: vec![2, 64],
            ..Retry::times(3, Duration::from_millis(1500))
        });
        let mut tasks: Vec<TaskConfig> = TriggerRule::ALL
            .into_iter()
            .zip(0..)
            .map(|(rule, number)| TaskConfig {
                name: format!("t{number}"),
                target: Target::Command(vec!["echo".to_owned(), number.to_string()]),
                trigger_rule: Some(rule),
                on_failure: OnFailure::ALL.get(number % 6).copied(),
                ..TaskConfig::default()
            })
            .collect();
        tasks.push(TaskConfig {
            name: "all".to_owned(),
            target: Target::Shell("true".to_owned()),
            env: labels.clone(),
            working_dir: "w".to_owned(),
            needs: vec!["t1".to_owned(), "t2".to_owned()],
            shards: Some(Shards {
                split: Split::Items("{{ x }}".to_owned()),
                max_parallel: 2,
                min_success_percent: 50,
            }),
            timeout: Some(Duration::from_mins(1)),
            match_labels: labels.clone(),
            retry: retry.clone(),
            trigger_rule: None,
            when: "true".to_owned(),
            on_failure: None,
            when_cut_off: Some(WhenCutOff::Stop),
            warn_after: Some(Duration::from_secs(7)),
            enabled: Some(false),
            priority: Some(-7),
            placement: placement::full(),
            queue_timeout: Some(Duration::from_mins(9)),
            concurrency: Some(Concurrency { key: "db".to_owned(), limit: 2 }),
            callbacks: full_callbacks(),
        });
        tasks.push(TaskConfig { name: "ask".to_owned(), target: full_http(), ..TaskConfig::default() });
        tasks.push(TaskConfig {
            name: "sub".to_owned(),
            target: Target::Job(SubJob { name: "other".to_owned(), params: labels.clone() }),
            ..TaskConfig::default()
        });
        JobConfig {
            namespace: "data".to_owned(),
            name: "etl".to_owned(),
            labels: labels.clone(),
            params: labels.clone(),
            timeout: Some(Duration::from_hours(1)),
            task_defaults: TaskDefaults {
                timeout: Some(Duration::from_secs(5)),
                retry,
                match_labels: labels.clone(),
                env: labels,
                working_dir: "d".to_owned(),
                trigger_rule: Some(TriggerRule::AllDone),
                on_failure: Some(OnFailure::Stop),
                placement: placement::full(),
                queue_timeout: Some(Duration::from_mins(8)),
                concurrency: Some(Concurrency { key: "api".to_owned(), limit: 7 }),
                priority: Some(9),
                when_cut_off: Some(WhenCutOff::Continue),
                warn_after: Some(Duration::from_secs(8)),
            },
            tasks,
            fail_fast: true,
            schedules: full_schedules(),
            overlap: Some(Overlap::Queue),
            queue_limit: Some(3),
            start_deadline: Some(Duration::from_secs(90)),
            after_jobs: vec!["before".to_owned()],
            max_active_jobs: Some(4),
            warn_after: Some(Duration::from_secs(9)),
            callbacks: full_callbacks(),
            retention: Some(Retention {
                age: Some(Duration::from_hours(9)),
                count: Some(7),
                logs: Some(Duration::ZERO),
            }),
        }
    }

    #[test]
    fn a_definition_survives_the_way_out_and_back() {
        let config = full();
        assert_eq!(read_job_config("config", job_config(&config)).unwrap(), config);
        let empty = JobConfig::default();
        assert_eq!(read_job_config("config", job_config(&empty)).unwrap(), empty);
        for split in [Split::Count(4), Split::OnePerRunner] {
            let shards = Some(Shards { split, max_parallel: 0, min_success_percent: 100 });
            let target = Target::Shell("true".to_owned());
            let tasks = vec![TaskConfig { target, shards, ..TaskConfig::default() }];
            let config = JobConfig { tasks, ..JobConfig::default() };
            assert_eq!(read_job_config("config", job_config(&config)).unwrap(), config);
        }
    }

    #[test]
    fn every_field_without_a_meaning_is_named() {
        let mut config = job_config(&full());
        config.timeout = Some(prost_types::Duration { seconds: -1, nanos: 0 });
        config.tasks[0].target = None;
        config.tasks[1].trigger_rule = 99;
        config.tasks[2].on_failure = 77;
        config.tasks[4].runner = Some(v1::RunnerSelector {
            routing: 88,
            match_expressions: vec![v1::LabelExpression { operator: 66, ..v1::LabelExpression::default() }],
            ..v1::RunnerSelector::default()
        });
        if let Some(v1::task_config::Target::Http(http)) = &mut config.tasks[12].target {
            http.redirects = 66;
            http.read_timeout = Some(prost_types::Duration { seconds: 0, nanos: -1 });
        }
        config.tasks[3].shards = Some(v1::Shards { count: 2, one_per_runner: true, ..v1::Shards::default() });
        let violations = read_job_config("config", config).unwrap_err();
        let mut fields: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "config.tasks[0]",
                "config.tasks[12].http.read_timeout",
                "config.tasks[12].http.redirects",
                "config.tasks[1].trigger_rule",
                "config.tasks[2].on_failure",
                "config.tasks[3].shards",
                "config.tasks[4].runner.match_expressions[0].operator",
                "config.tasks[4].runner.routing",
                "config.timeout"
            ]
        );
    }

    #[test]
    fn instants_and_spans_survive_the_way_out_and_back() {
        for micros in [0, 1, -1, 1_764_500_000_123_456, -62_135_596_800_000_000] {
            let time = Timestamp(micros);
            assert_eq!(read_timestamp("t", Some(timestamp(time))).unwrap(), Some(time));
        }
        let span = Duration::new(5, 250_000_000);
        assert_eq!(read_duration("d", Some(duration(span))).unwrap(), Some(span));
        assert!(read_timestamp("t", Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 })).is_err());
        assert!(read_timestamp("t", Some(prost_types::Timestamp { seconds: 0, nanos: -1 })).is_err());
    }

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
}
