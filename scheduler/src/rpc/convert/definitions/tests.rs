//! A definition says the same on the way out and back.

use std::{collections::BTreeMap, time::Duration};

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
        shards: Some(Shards { split: Split::Items("{{ x }}".to_owned()), max_parallel: 2, min_success_percent: 50 }),
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
        retention: Some(Retention { age: Some(Duration::from_hours(9)), count: Some(7), logs: Some(Duration::ZERO) }),
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
