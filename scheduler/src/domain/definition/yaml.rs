//! A job file becomes job configs, or a list of everything that is wrong with it.

use std::collections::HashMap;

use super::{
    Callback, Http, JobConfig, OnFailure, Overlap, Redirects, Retry, Schedule, Shards, Split, SubJob, Target,
    TaskConfig, TaskDefaults, TriggerRule, WhenCutOff,
    callback::{Action, Email, StartJob, Webhook},
    keys,
    limits::PROBLEMS_MAX,
    placement,
    problem::{Part, Path, Problem, Span},
    reader::{self, Fields},
    tree::{self, Body, Node},
    validate::validate,
};
use crate::domain::{
    callback::Event,
    retention::Retention,
    schedule::{After, CATCHUP_LIMIT, CATCHUP_WINDOW, MISFIRE_AFTER, Misfire, RuleSpec, Spec},
    uses,
};

/// One document of a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it defines.
    pub config: JobConfig,
    /// Its own text.
    pub source: String,
    /// Where it names other job configs.
    pub uses: Vec<(Path, Span)>,
}

/// Reads a job file: its documents in order, each of them valid, or every problem in the order of the file. Definitions that
/// name no namespace get this one.
pub fn read(source: &str, namespace: &str) -> Result<Vec<Document>, Vec<Problem>> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let (trees, mut problems) = tree::parse(source);
    let mut documents = Vec::with_capacity(trees.len());
    let mut seen = HashMap::new();
    let lines: Vec<&str> = source.split_inclusive('\n').collect();
    for tree in &trees {
        let mut found = Vec::new();
        let fields = reader::read(&tree.root, &keys::JOB_CONFIG, &Path::default(), &mut found);
        after_what(&tree.root, &mut found);
        let mut config = job_config(fields);
        if config.namespace.is_empty() {
            namespace.clone_into(&mut config.namespace);
        }
        let read = found.len();
        // With so much wrong with the text, what was read of it says nothing.
        let then = if read < PROBLEMS_MAX { validate(&config) } else { Vec::new() };
        for mut problem in then {
            if !found[..read].iter().any(|read| explains(read, &problem)) {
                problem.span = Some(match &problem.part {
                    Part::Bytes(bytes) => tree.root.locate_bytes(&problem.path, bytes, &lines),
                    part => tree.root.locate(&problem.path, *part == Part::Key),
                });
                found.push(problem);
            }
        }
        let full_name = (config.namespace.clone(), config.name.clone());
        let name = Path::default().key("name");
        let place = tree.root.locate(&name, false);
        if let Some(first) = seen.insert(full_name, place).filter(|_| !config.name.is_empty()) {
            let message = format!("{:?} is defined twice in this file, first on line {}", config.name, first.line);
            found.push(Problem::new(name, message).at(place));
        }
        problems.append(&mut found);
        let source = lines.get(tree.lines.start - 1..(tree.lines.end - 1).min(lines.len()));
        let places = uses::of(&config).into_iter().map(|(_, path)| {
            let span = tree.root.locate(&path, false);
            (path, span)
        });
        documents.push(Document { uses: places.collect(), config, source: source.unwrap_or_default().concat() });
    }
    if trees.is_empty() && problems.is_empty() {
        let problem = Problem::new(Path::default(), "the file defines no job");
        problems.push(problem.suggest("a job has a name and tasks; `baton init` writes one".to_owned()));
    }
    if problems.is_empty() {
        return Ok(documents);
    }
    problems.sort_by_key(|problem| problem.span.unwrap_or(Span { line: usize::MAX, column: 0, width: 0 }));
    problems.truncate(PROBLEMS_MAX);
    Err(problems)
}

/// Refuses an `after` where there is nothing that it could be about: to ignore it would be a lie.
fn after_what(root: &Node, problems: &mut Vec<Problem>) {
    let schedules = Path::default().key("schedules");
    let entry = |node: &Node, name: &str| match &node.body {
        Body::Map(entries) => entries.iter().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value.clone()),
        _ => None,
    };
    let Some(list) = entry(root, "schedules") else { return };
    let Body::List(items) = &list.body else { return };
    for (place, item) in items.iter().enumerate() {
        if problems.len() < PROBLEMS_MAX && entry(item, "after").is_some() && entry(item, "every").is_none() {
            let path = schedules.index(place).key("after");
            let message = "`after` says what `every` is counted from, and there is no `every`";
            let problem = Problem::new(path.clone(), message).at(root.locate(&path, true));
            problems.push(problem.suggest("write every: 15m, or leave `after` out".to_owned()));
        }
    }
}

/// Whether what is wrong with the text is the reason why something is wrong with what was read of it.
fn explains(read: &Problem, then: &Problem) -> bool {
    let beside = read.path.parent() == then.path.parent();
    // What an empty list lacks may be an item that was not understood.
    let within = read.path.parent() == then.path;
    then.path.starts_with(&read.path) || (then.part == Part::Missing && (beside || within))
}

fn job_config(mut fields: Fields) -> JobConfig {
    JobConfig {
        namespace: fields.text("namespace").unwrap_or_default(),
        name: fields.text("name").unwrap_or_default(),
        labels: fields.pairs("labels").unwrap_or_default(),
        params: fields.pairs("params").unwrap_or_default(),
        timeout: fields.span("timeout"),
        warn_after: fields.span("warn_after"),
        task_defaults: fields.object("task_defaults").map(task_defaults).unwrap_or_default(),
        tasks: fields.objects("tasks").unwrap_or_default().into_iter().map(task_config).collect(),
        fail_fast: fields.flag("fail_fast").unwrap_or_default(),
        schedules: fields.objects("schedules").unwrap_or_default().into_iter().map(schedule).collect(),
        overlap: fields.text("overlap").and_then(|name| Overlap::named(&name)),
        queue_limit: fields.integer("queue_limit").and_then(|number| number.try_into().ok()),
        start_deadline: fields.span("start_deadline"),
        after_jobs: fields.texts("after_jobs").unwrap_or_default(),
        max_active_jobs: fields.integer("max_active_jobs").and_then(|number| number.try_into().ok()),
        callbacks: fields.objects("callbacks").unwrap_or_default().into_iter().map(callback).collect(),
        retention: fields.object("retention").map(retention),
    }
}

fn retention(mut fields: Fields) -> Retention {
    Retention {
        age: fields.span("age"),
        count: fields.integer("count").and_then(|number| number.try_into().ok()),
        logs: fields.span("logs"),
    }
}

fn schedule(mut fields: Fields) -> Schedule {
    let after = match fields.text("after").as_deref() {
        Some("completion") => Some(After::Completion),
        Some(_) => Some(After::Start),
        None => None,
    };
    let every = fields.span("every");
    let rule = match (fields.text("cron"), fields.text("text"), every, fields.time("at")) {
        (Some(cron), ..) => RuleSpec::Cron(cron),
        (_, Some(text), ..) => RuleSpec::Text(text),
        (_, _, Some(period), _) => RuleSpec::Every { period, after: after.unwrap_or_default() },
        (_, _, _, Some(at)) => RuleSpec::At(at),
        _ => RuleSpec::default(),
    };
    let misfire = fields.text("misfire").and_then(|word| Misfire::named(&word));
    let catchup_limit = fields.integer("catchup_limit").and_then(|number| number.try_into().ok());
    Schedule {
        name: fields.text("name").unwrap_or_default(),
        spec: Spec {
            rule,
            time_zone: fields.text("time_zone").unwrap_or_default(),
            start_time: fields.time("start_time"),
            end_time: fields.time("end_time"),
            jitter: fields.span("jitter").unwrap_or_default(),
            misfire,
            misfire_after: fields.span("misfire_after").unwrap_or(MISFIRE_AFTER),
            catchup_window: fields.span("catchup_window").unwrap_or(CATCHUP_WINDOW),
            catchup_limit: catchup_limit.unwrap_or(CATCHUP_LIMIT),
            calendars: fields.texts("calendars").unwrap_or_default(),
        },
    }
}

fn task_defaults(mut fields: Fields) -> TaskDefaults {
    let (match_labels, placement) = placement::runner(fields.object("runner"));
    TaskDefaults {
        timeout: fields.span("timeout"),
        retry: fields.object("retry").map(Retry::read),
        match_labels,
        env: fields.pairs("env").unwrap_or_default(),
        working_dir: fields.text("working_dir").unwrap_or_default(),
        trigger_rule: fields.text("trigger_rule").and_then(|name| TriggerRule::named(&name)),
        on_failure: fields.text("on_failure").and_then(|name| OnFailure::named(&name)),
        placement,
        queue_timeout: fields.span("queue_timeout"),
        concurrency: fields.object("concurrency").map(placement::concurrency),
        priority: fields.integer("priority").and_then(|number| number.try_into().ok()),
        when_cut_off: fields.text("when_cut_off").and_then(|name| WhenCutOff::named(&name)),
        warn_after: fields.span("warn_after"),
    }
}

fn task_config(mut fields: Fields) -> TaskConfig {
    let (match_labels, placement) = placement::runner(fields.object("runner"));
    let command = fields.texts("command");
    let shell = fields.text("shell").map(Target::Shell);
    let http = fields.object("http").map(|fields| Target::Http(Box::new(self::http(fields))));
    let job = fields.object("job").map(|fields| Target::Job(sub_job(fields)));
    TaskConfig {
        name: fields.text("name").unwrap_or_default(),
        target: command.map(Target::Command).or(shell).or(http).or(job).unwrap_or_default(),
        env: fields.pairs("env").unwrap_or_default(),
        working_dir: fields.text("working_dir").unwrap_or_default(),
        needs: fields.texts("needs").unwrap_or_default(),
        shards: fields.object("shards").and_then(shards),
        timeout: fields.span("timeout"),
        match_labels,
        retry: fields.object("retry").map(Retry::read),
        trigger_rule: fields.text("trigger_rule").and_then(|name| TriggerRule::named(&name)),
        when: fields.text("when").unwrap_or_default(),
        on_failure: fields.text("on_failure").and_then(|name| OnFailure::named(&name)),
        when_cut_off: fields.text("when_cut_off").and_then(|name| WhenCutOff::named(&name)),
        warn_after: fields.span("warn_after"),
        enabled: fields.flag("enabled"),
        priority: fields.integer("priority").and_then(|number| number.try_into().ok()),
        placement,
        queue_timeout: fields.span("queue_timeout"),
        concurrency: fields.object("concurrency").map(placement::concurrency),
        callbacks: fields.objects("callbacks").unwrap_or_default().into_iter().map(callback).collect(),
    }
}

fn callback(mut fields: Fields) -> Callback {
    let webhook = |mut http: Fields| Webhook {
        url: http.text("url").unwrap_or_default(),
        headers: http.pairs("headers").unwrap_or_default(),
        secret_headers: http.pairs("secret_headers").unwrap_or_default(),
        secret: http.text("secret").unwrap_or_default(),
    };
    let email = |mut email: Fields| Email {
        to: email.texts("to").unwrap_or_default(),
        subject: email.text("subject").unwrap_or_default(),
    };
    let job = |mut job: Fields| StartJob {
        name: job.text("name").unwrap_or_default(),
        params: job.pairs("params").unwrap_or_default(),
    };
    let action = match (fields.object("http"), fields.object("email"), fields.object("job")) {
        (Some(http), ..) => Action::Http(webhook(http)),
        (_, Some(mail), _) => Action::Email(email(mail)),
        (_, _, Some(started)) => Action::Job(job(started)),
        _ => Action::default(),
    };
    let events = fields.texts("events").unwrap_or_default();
    Callback {
        events: events.iter().filter_map(|name| Event::named(name)).collect(),
        action,
        blocking: fields.flag("blocking").unwrap_or_default(),
    }
}

fn sub_job(mut fields: Fields) -> SubJob {
    SubJob { name: fields.text("name").unwrap_or_default(), params: fields.pairs("params").unwrap_or_default() }
}

fn http(mut fields: Fields) -> Http {
    Http {
        method: fields.text("method").unwrap_or_default(),
        urls: fields.texts("urls").unwrap_or_default(),
        headers: fields.pairs("headers").unwrap_or_default(),
        body: fields.text("body").unwrap_or_default(),
        connect_timeout: fields.span("connect_timeout"),
        read_timeout: fields.span("read_timeout"),
        request_timeout: fields.span("request_timeout"),
        success_when: fields.texts("success_when").unwrap_or_default(),
        redirects: fields.text("redirects").and_then(|name| Redirects::named(&name)),
        max_response_bytes: fields.integer("max_response_bytes").and_then(|number| number.try_into().ok()),
        wait_for_callback: fields.flag("wait_for_callback").unwrap_or_default(),
    }
}

fn shards(mut fields: Fields) -> Option<Shards> {
    let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    let split = Split::choose(
        fields.integer("count").map_or(0, number),
        fields.text("items").unwrap_or_default(),
        fields.flag("one_per_runner").unwrap_or_default(),
    );
    Some(Shards {
        split: split.ok()?,
        max_parallel: fields.integer("max_parallel").map_or(0, number),
        min_success_percent: fields.integer("min_success_percent").map_or(100, number),
    })
}
