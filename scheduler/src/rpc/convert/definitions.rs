//! Definitions of jobs into messages and back: the whole of one, whose parts have files of their own.

#[cfg(test)]
mod tests;

use baton::v1;

use super::{Fields, callbacks, duration, failures, http, placement, schedules, sorted, unsorted};
use crate::{
    domain::{
        definition::{JobConfig, Shards, Split, SubJob, Target, TaskConfig, TaskDefaults, TriggerRule},
        retention::Retention,
    },
    rpc::status::Violation,
};

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
    let mut fields = Fields::default();
    let defaults = config.task_defaults.unwrap_or_default();
    let inside = format!("{field}.task_defaults");
    let (match_labels, placement) = fields.selector(&format!("{inside}.runner"), defaults.runner);
    let task_defaults = TaskDefaults {
        timeout: fields.duration(format!("{inside}.timeout"), defaults.timeout),
        retry: fields.retry(&format!("{inside}.retry"), defaults.retry),
        match_labels,
        env: sorted(defaults.env),
        working_dir: defaults.working_dir,
        trigger_rule: fields.trigger_rule(format!("{inside}.trigger_rule"), defaults.trigger_rule),
        on_failure: fields.on_failure(format!("{inside}.on_failure"), defaults.on_failure),
        placement,
        queue_timeout: fields.duration(format!("{inside}.queue_timeout"), defaults.queue_timeout),
        concurrency: defaults.concurrency.map(placement::read_concurrency),
        priority: Some(defaults.priority).filter(|priority| *priority != 0),
        when_cut_off: fields.when_cut_off(format!("{inside}.when_cut_off"), defaults.when_cut_off),
        warn_after: fields.duration(format!("{inside}.warn_after"), defaults.warn_after),
    };
    let tasks = config.tasks.into_iter().enumerate();
    let tasks = tasks.map(|(position, task)| fields.task(&format!("{field}.tasks[{position}]"), task)).collect();
    let schedules = config.schedules.into_iter().enumerate();
    let schedules = schedules
        .map(|(position, schedule)| fields.schedule(&format!("{field}.schedules[{position}]"), schedule))
        .collect();
    let callbacks = fields.callbacks(&format!("{field}.callbacks"), config.callbacks);
    let overlap = fields.overlap(format!("{field}.overlap"), config.overlap);
    let retention = config.retention.map(|kept| Retention {
        age: fields.duration(format!("{field}.retention.age"), kept.age),
        count: Some(kept.count).filter(|count| *count > 0),
        logs: fields.duration(format!("{field}.retention.logs"), kept.logs),
    });
    let config = JobConfig {
        namespace: config.namespace,
        name: config.name,
        labels: sorted(config.labels),
        params: sorted(config.params),
        timeout: fields.duration(format!("{field}.timeout"), config.timeout),
        warn_after: fields.duration(format!("{field}.warn_after"), config.warn_after),
        task_defaults,
        tasks,
        fail_fast: config.fail_fast,
        schedules,
        overlap,
        queue_limit: Some(config.queue_limit).filter(|limit| *limit > 0),
        start_deadline: fields.duration(format!("{field}.start_deadline"), config.start_deadline),
        after_jobs: config.after_jobs,
        max_active_jobs: Some(config.max_active_jobs).filter(|limit| *limit > 0),
        callbacks,
        retention,
    };
    fields.whole(config)
}

impl Fields {
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

    fn trigger_rule(&mut self, field: String, rule: i32) -> Option<TriggerRule> {
        self.one_of(field, rule, &TriggerRule::ALL, trigger_rule, "is no trigger rule")
    }
}
