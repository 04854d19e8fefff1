//! The keys of a job file: one table, from which the file is read and its JSON Schema is made.

use super::{
    OnFailure, Overlap, Redirects, TriggerRule, WhenCutOff,
    http::{METHODS, RESPONSES},
    limits::{AT_ONCE, ATTEMPTS, EXIT_CODES, FACTORS, JITTER_RATIOS, PERCENTS, PRIORITIES, QUEUE_LIMITS, SHARDS_MAX},
};
use crate::domain::{
    callback::Event,
    placement::{Operator, Routing},
    retention::COUNT_MAX,
    schedule::CATCHUP_LIMIT_MAX,
};

/// The keys of one kind of map.
pub(super) struct Object {
    /// What it is called.
    pub(super) name: &'static str,
    /// Its keys.
    pub(super) keys: &'static [Key],
    /// Keys of which only one may stand, and whether one must.
    pub(super) choice: Option<(&'static [&'static str], bool)>,
    /// Keys that a later version will know: accepting and ignoring them would be a lie.
    pub(super) later: &'static [&'static str],
}

/// One key.
pub(super) struct Key {
    /// As it stands in the file.
    pub(super) name: &'static str,
    /// What it may hold.
    pub(super) shape: Shape,
    /// What it means.
    pub(super) doc: &'static str,
}

/// What a key may hold.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Text; numbers and truths are taken as they are written.
    Text,
    /// A name: 1 to 100 of a-z, 0-9, "-", "_" and ".", starting with a letter or digit.
    Name,
    /// `true` or `false`.
    Flag,
    /// A span of time.
    Span,
    /// An instant, as RFC 3339.
    Time,
    /// A whole number from the first to the last.
    Integer(i64, i64),
    /// A number from the first to the last.
    Number(f64, f64),
    /// A list of whole numbers from the first to the last.
    Integers(i32, i32),
    /// One of these words; the second list is of words that a later version will know.
    Word(&'static [&'static str], &'static [&'static str]),
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of texts, or a map with this one key that holds the list.
    ShortTexts(&'static str),
    /// Texts by name.
    Pairs,
    /// A map.
    Object(&'static Object),
    /// A list of maps.
    Objects(&'static Object),
}

const fn key(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, doc }
}

/// The names of every value of an enum, in its order.
macro_rules! names {
    ($of:ty) => {
        &{
            let mut names = [""; <$of>::ALL.len()];
            let mut place = 0;
            while place < names.len() {
                names[place] = <$of>::ALL[place].name();
                place += 1;
            }
            names
        }
    };
}

const TRIGGER_RULES: &[&str] = names!(TriggerRule);
const ON_FAILURES: &[&str] = names!(OnFailure);
const OVERLAPS: &[&str] = names!(Overlap);
const ROUTINGS: &[&str] = names!(Routing);
const REDIRECTS: &[&str] = names!(Redirects);
const EVENTS: &[&str] = names!(Event);
const OPERATORS: &[&str] = names!(Operator);

const PRIORITY: Shape = Shape::Integer(*PRIORITIES.start() as i64, *PRIORITIES.end() as i64);

const ON_FAILURE: Shape = Shape::Word(ON_FAILURES, &[]);

const WHEN_CUT_OFF: Shape = Shape::Word(names!(WhenCutOff), &[]);

/// A job file's document.
pub(super) const JOB_CONFIG: Object = Object {
    name: "JobConfig",
    keys: &[
        key("namespace", Shape::Name, "The unit of tenancy this config lives in; \"default\" when unset."),
        key("name", Shape::Name, "Unique within the namespace."),
        key("labels", Shape::Pairs, "Free key=value pairs to find configs and their jobs by."),
        key(
            "params",
            Shape::Pairs,
            "The parameters a job takes, with their default values. A default may be a template; values given at run \
             are taken literally. At most 64 KiB each.",
        ),
        key(
            "timeout",
            Shape::Span,
            "How long a job may take from its start; unset means for ever. A job that passes it is terminated and FAILED.",
        ),
        key("warn_after", Shape::Span, "After how long a job is reported, once, as taking long; unset means never."),
        key("task_defaults", Shape::Object(&TASK_DEFAULTS), "Values for every task that does not set them itself."),
        key("tasks", Shape::Objects(&TASK_CONFIG), "The nodes of the graph, 1 to 100,000."),
        key("fail_fast", Shape::Flag, "When a task with `on_failure: stop` fails, also terminate what is running."),
        key("schedules", Shape::Objects(&SCHEDULE), "When jobs are made by themselves; at most 100."),
        key(
            "overlap",
            Shape::Word(OVERLAPS, &[]),
            "What becomes of a fire while a job of this config is not over; skip when unset.",
        ),
        key(
            "queue_limit",
            Shape::Integer(*QUEUE_LIMITS.start() as i64, *QUEUE_LIMITS.end() as i64),
            "How many fires may wait with `overlap: queue`; 1 when unset.",
        ),
        key(
            "start_deadline",
            Shape::Span,
            "How long after its fire a job that waited may still start, with `overlap: queue`; unset means for ever.",
        ),
        key(
            "after_jobs",
            Shape::Texts,
            "The names of job configs: a job is made once each of them has finished since the last one was made so.",
        ),
        key(
            "max_active_jobs",
            Shape::Integer(*AT_ONCE.start() as i64, *AT_ONCE.end() as i64),
            "How many jobs of this config may run at once, those that a person starts included; unset means any number.",
        ),
        key("callbacks", Shape::Objects(&CALLBACK), "What is told to others about its jobs; at most 16."),
        key(
            "retention",
            Shape::Object(&RETENTION),
            "How long its ended jobs are kept; unset leaves it to the scheduler.",
        ),
    ],
    choice: None,
    later: &["enabled"],
};

/// How long ended jobs are kept.
const RETENTION: Object = Object {
    name: "Retention",
    keys: &[
        key("age", Shape::Span, "How long a job is kept after its end; 0s means for ever."),
        key("count", Shape::Integer(1, COUNT_MAX as i64), "How many ended jobs are kept, the newest ones."),
        key("logs", Shape::Span, "How long the output of a job is kept after its end; 0s means as long as the job."),
    ],
    choice: None,
    later: &[],
};

/// An item of `schedules`.
pub(super) const SCHEDULE: Object = Object {
    name: "Schedule",
    keys: &[
        key("name", Shape::Name, "Names it within its job config; without one it is known by its position."),
        key(
            "cron",
            Shape::Text,
            "A cron expression: 5 fields are Unix (0 and 7 are Sunday), 6 or 7 are Quartz (seconds first, 1 is Sunday).",
        ),
        key("text", Shape::Text, "Words, in English or Chinese, such as \"every weekday at 09:00\"."),
        key("every", Shape::Span, "An interval of elapsed time, from 1 second to 10 years."),
        key("at", Shape::Time, "Once, at this instant."),
        key(
            "after",
            Shape::Word(&["start", "completion"], &[]),
            "What `every` is counted from: start_time (a fixed rate), or the end of the job before (a fixed delay).",
        ),
        key("time_zone", Shape::Text, "The IANA name of its zone; UTC when unset, never the zone of a host."),
        key("start_time", Shape::Time, "Nothing fires before it; intervals are counted from it."),
        key("end_time", Shape::Time, "Nothing fires at or after it; permanent when unset."),
        key(
            "jitter",
            Shape::Span,
            "Each fire is due up to this much later, always by the same for one fire; at most 24 h.",
        ),
        key(
            "misfire",
            Shape::Word(&["skip", "run_once", "run_all"], &[]),
            "What to do with fires that were missed while nothing could fire them; run_once when unset.",
        ),
        key("misfire_after", Shape::Span, "How late a fire may be before it counts as missed; 5m when unset."),
        key("catchup_window", Shape::Span, "Missed fires older than this are not run; 24h when unset."),
        key(
            "catchup_limit",
            Shape::Integer(1, CATCHUP_LIMIT_MAX as i64),
            "How many missed fires run_all runs at most; 100 when unset.",
        ),
        key(
            "calendars",
            Shape::Texts,
            "The names of calendars on whose dates, in its zone, nothing fires; at most 16.",
        ),
    ],
    choice: Some((&["cron", "text", "every", "at"], true)),
    later: &[],
};

/// A document of a calendar file.
pub(super) const CALENDAR: Object = Object {
    name: "Calendar",
    keys: &[
        key("namespace", Shape::Name, "The unit of tenancy it belongs to; \"default\" when unset."),
        key("name", Shape::Name, "Unique within the namespace."),
        key("description", Shape::Text, "What it is for."),
        key("exclude", Shape::Texts, "Dates such as 2026-12-25, and ranges such as 2026-12-24..2026-12-31."),
    ],
    choice: None,
    later: &[],
};

/// `task_defaults`.
pub(super) const TASK_DEFAULTS: Object = Object {
    name: "TaskDefaults",
    keys: &[
        key("timeout", Shape::Span, "How long one attempt may run; unset means for ever."),
        key("retry", Shape::Object(&RETRY), "What to do when an attempt fails; unset means one attempt only."),
        key("runner", Shape::Object(&RUNNER), "Which runners may take a task; unset means any."),
        key("env", Shape::Pairs, "Environment variables of every task; a task's own value for a name wins."),
        key("working_dir", Shape::Text, "Where a task runs, relative to the runner's --work-dir."),
        key("trigger_rule", Shape::Word(TRIGGER_RULES, &[]), "When a task may start, given how its parents ended."),
        key("on_failure", ON_FAILURE, "What a failure of a task does; fail when unset."),
        key("when_cut_off", WHEN_CUT_OFF, "What a task does while its runner is cut off; stop when unset."),
        key("warn_after", Shape::Span, "After how long an attempt is reported, once, as taking long."),
        key("queue_timeout", Shape::Span, "How long a task may wait for a runner; unset means for ever."),
        key("concurrency", Shape::Object(&CONCURRENCY), "What tasks share with tasks of any job config."),
        key("priority", PRIORITY, "Higher goes first among the tasks a runner could take; 0 by default."),
    ],
    choice: None,
    later: &["callbacks", "max_log_bytes"],
};

/// An item of `tasks`.
pub(super) const TASK_CONFIG: Object = Object {
    name: "TaskConfig",
    keys: &[
        key("name", Shape::Name, "Unique within the job config."),
        key(
            "command",
            Shape::ShortTexts("argv"),
            "A program and its arguments, started without a shell; each item is a template.",
        ),
        key("shell", Shape::Text, "A script for `/bin/sh -e`; never a template: values reach it through `env`."),
        key("http", Shape::Object(&HTTP), "An HTTP request, made by the runner; takes neither env nor working_dir."),
        key("job", Shape::Object(&SUB_JOB), "Another job, which the task stands for: it ends as that job ends."),
        key("env", Shape::Pairs, "Environment variables of the task; values are templates."),
        key("working_dir", Shape::Text, "Where the task runs, relative to the runner's --work-dir."),
        key("needs", Shape::Texts, "The names of the tasks this one comes after."),
        key(
            "shards",
            Shape::Object(&SHARDS),
            "Splits the task into shards that run side by side; its children wait for all of them.",
        ),
        key(
            "timeout",
            Shape::Span,
            "How long one attempt may run; unset means for ever. The runner ends it, and the attempt counts as failed.",
        ),
        key("runner", Shape::Object(&RUNNER), "Which runners may take the task; unset means any."),
        key("retry", Shape::Object(&RETRY), "What to do when an attempt fails; unset means one attempt only."),
        key(
            "trigger_rule",
            Shape::Word(TRIGGER_RULES, &[]),
            "When the task may start, given how its parents ended; all_success when unset.",
        ),
        key(
            "when",
            Shape::Text,
            "A condition that must hold when the gate opens, or the task is SKIPPED; unset means true.",
        ),
        key(
            "on_failure",
            ON_FAILURE,
            "What a failure of this task does: fail (when unset), stop the job, ignore it, transfer the task to each other \
             runner once, or retry_then_transfer, which spends `retry` on each runner in turn.",
        ),
        key(
            "when_cut_off",
            WHEN_CUT_OFF,
            "What it does while its runner is cut off from every scheduler: stop, when unset, so that another copy may \
             start, or continue: then a runner that is lost fails the task, and nothing is tried again by itself.",
        ),
        key(
            "warn_after",
            Shape::Span,
            "After how long an attempt is reported, once, as taking long; before its timeout.",
        ),
        key("enabled", Shape::Flag, "False skips the task in every job; unset means true."),
        key(
            "priority",
            PRIORITY,
            "Higher goes first among the tasks a runner could take; 0 by default. A minute of waiting makes up for one \
             point.",
        ),
        key(
            "queue_timeout",
            Shape::Span,
            "How long the task may wait for a runner each time it is QUEUED; unset means for ever. Then it is FAILED.",
        ),
        key(
            "concurrency",
            Shape::Object(&CONCURRENCY),
            "What the task shares with tasks of any job config of its namespace; unset means nothing.",
        ),
        key("callbacks", Shape::Objects(&CALLBACK), "What is told to others about this task; at most 16."),
    ],
    choice: Some((&["command", "shell", "http", "job"], false)),
    later: &["container", "secrets", "artifacts"],
};

/// `job`.
pub(super) const SUB_JOB: Object = Object {
    name: "JobTarget",
    keys: &[
        key("name", Shape::Name, "The name of its job config, in the same namespace; its newest version is run."),
        key("params", Shape::Pairs, "Values for its params; each is a template, worked out when the job is made."),
    ],
    choice: None,
    later: &["namespace", "version"],
};

/// `http`.
pub(super) const HTTP: Object = Object {
    name: "HttpTarget",
    keys: &[
        key("method", Shape::Word(&METHODS, &[]), "When unset POST with a body and GET without."),
        key(
            "urls",
            Shape::Texts,
            "Where to ask: addresses of one and the same service, each a template. The next one is asked when the one \
             before certainly did nothing, or when doing it twice does no harm.",
        ),
        key("headers", Shape::Pairs, "Headers of the request; values are templates."),
        key("body", Shape::Text, "The body of the request, a template."),
        key("connect_timeout", Shape::Span, "How long it may take to resolve the name and connect; 10s when unset."),
        key(
            "read_timeout",
            Shape::Span,
            "How long the service may be silent, before its answer and between two pieces of it; 30s when unset.",
        ),
        key(
            "request_timeout",
            Shape::Span,
            "How long one request may take to the last byte, redirects included; 5m when unset. Each url has it anew.",
        ),
        key(
            "success_when",
            Shape::ShortTexts("status"),
            "The statuses and ranges that are a success, such as [\"200-299\", \"404\"]; 200-299 when unset.",
        ),
        key("redirects", Shape::Word(REDIRECTS, &[]), "Which redirects are followed; same_host when unset."),
        key(
            "max_response_bytes",
            Shape::Integer(*RESPONSES.start() as i64, *RESPONSES.end() as i64),
            "How many bytes of a response are read; 1048576 when unset. The rest is not waited for.",
        ),
        key(
            "wait_for_callback",
            Shape::Flag,
            "After a success, wait until the task is completed with the token that the service was given.",
        ),
    ],
    choice: None,
    later: &[],
};

/// An item of `callbacks`.
pub(super) const CALLBACK: Object = Object {
    name: "Callback",
    keys: &[
        key(
            "events",
            Shape::Words(EVENTS),
            "What is told. `started` and `missed` are of job configs alone; a failed attempt that another follows is no \
             event.",
        ),
        key("http", Shape::Object(&HTTP_CALLBACK), "Calls a webhook."),
        key("email", Shape::Object(&EMAIL_CALLBACK), "Sends a mail through the scheduler's mail server."),
        key("job", Shape::Object(&JOB_CALLBACK), "Starts a job of another job config in the same namespace."),
        key(
            "blocking",
            Shape::Flag,
            "Holds the task in CALLBACK, and its children with it, until this is delivered or given up. Of tasks, for \
             finished and failed alone.",
        ),
    ],
    choice: Some((&["http", "email", "job"], true)),
    later: &[],
};

/// `http` of a callback.
pub(super) const HTTP_CALLBACK: Object = Object {
    name: "HttpCallback",
    keys: &[
        key("url", Shape::Text, "Where the event is posted to, http:// or https://."),
        key("headers", Shape::Pairs, "Headers to send with it, as they are."),
        key(
            "secret_headers",
            Shape::Pairs,
            "Headers whose values are secrets: `env:BATON_SECRET_NAME`, or `file:NAME` in the scheduler's --secrets-dir.",
        ),
        key("secret", Shape::Text, "The key that signs the message, as a reference like those of secret_headers."),
    ],
    choice: None,
    later: &[],
};

/// `email` of a callback.
pub(super) const EMAIL_CALLBACK: Object = Object {
    name: "EmailCallback",
    keys: &[
        key("to", Shape::Texts, "The addresses of those who get it, at most 50."),
        key("subject", Shape::Text, "A template over the event; unset means one that says what happened."),
    ],
    choice: None,
    later: &[],
};

/// `job` of a callback.
pub(super) const JOB_CALLBACK: Object = Object {
    name: "JobCallback",
    keys: &[
        key("name", Shape::Name, "The name of the job config."),
        key("params", Shape::Pairs, "Values of its params, templates over the event."),
    ],
    choice: None,
    later: &[],
};

/// `shards`.
pub(super) const SHARDS: Object = Object {
    name: "Shards",
    keys: &[
        key("count", Shape::Integer(1, SHARDS_MAX as i64), "So many shards, numbered from 0."),
        key(
            "items",
            Shape::Text,
            "A template that gives a JSON list (or one item a line): one shard an item. An empty list finishes the task.",
        ),
        key(
            "one_per_runner",
            Shape::Flag,
            "One shard for every runner that may take the task and is alive when the gate opens.",
        ),
        key(
            "max_parallel",
            Shape::Integer(0, u32::MAX as i64),
            "How many shards may be queued or running at once; 0 means all.",
        ),
        key(
            "min_success_percent",
            Shape::Integer(*PERCENTS.start() as i64, *PERCENTS.end() as i64),
            "The share of shards that must finish for the task to finish; 100 when unset.",
        ),
    ],
    choice: Some((&["count", "items", "one_per_runner"], true)),
    later: &[],
};

/// `runner`.
pub(super) const RUNNER: Object = Object {
    name: "RunnerSelector",
    keys: &[
        key("match_labels", Shape::Pairs, "Every one of these labels must be on the runner with this value."),
        key(
            "match_expressions",
            Shape::Objects(&LABEL_EXPRESSION),
            "Every one of these must hold for the runner's labels; at most 32.",
        ),
        key("min_version", Shape::Text, "The oldest version of the runner's software that will do, such as 1.4.0."),
        key("runners", Shape::Texts, "The ids of the runners that may take the task; unset means any."),
        key("exclude_runners", Shape::Texts, "The ids of runners that may not take the task."),
        key(
            "routing",
            Shape::Word(ROUTINGS, &[]),
            "Which of the runners that may take the task and have an idle slot gets it; any when unset.",
        ),
        key(
            "routing_key",
            Shape::Text,
            "A template, for `routing: consistent_hash`: tasks with the same text go to the same runner.",
        ),
    ],
    choice: None,
    later: &[],
};

/// An item of `match_expressions`.
pub(super) const LABEL_EXPRESSION: Object = Object {
    name: "LabelExpression",
    keys: &[
        key("key", Shape::Text, "The label's key."),
        key("operator", Shape::Word(OPERATORS, &[]), "How it is compared."),
        key("values", Shape::Texts, "With what, for in and not_in."),
    ],
    choice: None,
    later: &[],
};

/// `concurrency`.
pub(super) const CONCURRENCY: Object = Object {
    name: "Concurrency",
    keys: &[
        key("key", Shape::Text, "The key that only so many tasks may hold at once, taken literally."),
        key(
            "limit",
            Shape::Integer(*AT_ONCE.start() as i64, *AT_ONCE.end() as i64),
            "How many tasks may hold the key while this one does; of several limits the lowest counts.",
        ),
    ],
    choice: None,
    later: &[],
};

/// `retry`.
pub(super) const RETRY: Object = Object {
    name: "Retry",
    keys: &[
        key(
            "max_attempts",
            Shape::Integer(*ATTEMPTS.start() as i64, *ATTEMPTS.end() as i64),
            "How many attempts in all, the first included.",
        ),
        key("delay", Shape::Span, "How long to wait before the second attempt; 0 by default."),
        key(
            "factor",
            Shape::Number(*FACTORS.start(), *FACTORS.end()),
            "Each further wait is so many times the one before; 1 by default.",
        ),
        key("max_delay", Shape::Span, "The longest wait, before chance is added; unset means no bound."),
        key(
            "jitter_ratio",
            Shape::Number(*JITTER_RATIOS.start(), *JITTER_RATIOS.end()),
            "How far chance makes a wait shorter or longer, as a share of it; 0 by default.",
        ),
        key(
            "no_retry_exit_codes",
            Shape::Integers(*EXIT_CODES.start(), *EXIT_CODES.end()),
            "Exit codes after which no attempt follows, whatever is left.",
        ),
    ],
    choice: None,
    later: &[],
};
