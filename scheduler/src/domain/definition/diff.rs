//! What differs between two definitions, field by field.
//!
//! Tasks are compared by name: moving one in the file changes nothing. Definitions without differences are the same
//! version.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, SecondsFormat, Utc};

use super::{
    Callback, Concurrency, Http, JobConfig, Retry, Shards, Split, Target, TaskConfig, TaskDefaults,
    callback::{Action, Email, StartJob, Webhook},
    span,
};
use crate::domain::{
    retention::Retention,
    schedule::{After, RuleSpec, Spec},
};

/// Characters of a value that are shown.
const SHOWN_MAX: usize = 1_000;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its path, with tasks by name: `tasks[join].needs`.
    pub path: String,
    /// Its value before; empty when it is new.
    pub before: String,
    /// Its value after; empty when it is gone.
    pub after: String,
}

/// Tells every field that differs, in the order of the file; new and gone tasks as one field each.
pub fn diff(before: &JobConfig, after: &JobConfig) -> Vec<Difference> {
    let mut differences = Vec::new();
    compare("", &head(before), &head(after), &mut differences);
    let olds: HashMap<&str, &TaskConfig> = before.tasks.iter().map(|task| (task.name.as_str(), task)).collect();
    let news: HashMap<&str, &TaskConfig> = after.tasks.iter().map(|task| (task.name.as_str(), task)).collect();
    for task in &after.tasks {
        let path = format!("tasks[{}]", task.name);
        match olds.get(task.name.as_str()) {
            Some(old) if *old == task => {}
            Some(old) => compare(&format!("{path}."), &fields(old), &fields(task), &mut differences),
            None => differences.push(Difference { path, before: String::new(), after: summary(task) }),
        }
    }
    for task in before.tasks.iter().filter(|task| !news.contains_key(task.name.as_str())) {
        let path = format!("tasks[{}]", task.name);
        differences.push(Difference { path, before: summary(task), after: String::new() });
    }
    differences
}

/// A field's name and its value in words.
type Field = (String, String);

fn compare(prefix: &str, before: &[Field], after: &[Field], differences: &mut Vec<Difference>) {
    let find =
        |fields: &[Field], name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.clone());
    for (name, value) in after {
        let old = find(before, name).unwrap_or_default();
        if old != *value {
            differences.push(Difference { path: format!("{prefix}{name}"), before: cut(&old), after: cut(value) });
        }
    }
    for (name, value) in before.iter().filter(|(name, _)| find(after, name).is_none()) {
        differences.push(Difference { path: format!("{prefix}{name}"), before: cut(value), after: String::new() });
    }
}

/// What is enough of a value to see what changed.
fn cut(value: &str) -> String {
    match value.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}

/// Everything but the tasks. Only what is set is a field.
fn head(config: &JobConfig) -> Vec<Field> {
    let JobConfig {
        namespace,
        name,
        labels,
        params,
        timeout,
        warn_after,
        task_defaults,
        tasks: _,
        fail_fast,
        schedules: _,
        overlap,
        queue_limit,
        start_deadline,
        after_jobs,
        max_active_jobs,
        callbacks,
        retention,
    } = config;
    let mut fields = vec![field("namespace", namespace.clone()), field("name", name.clone())];
    pairs(&mut fields, "labels", labels);
    pairs(&mut fields, "params", params);
    fields.extend(timeout.map(|timeout| field("timeout", span::format(timeout))));
    fields.extend(warn_after.map(|after| field("warn_after", span::format(after))));
    let TaskDefaults {
        timeout,
        retry,
        match_labels,
        env,
        working_dir,
        trigger_rule,
        on_failure,
        placement,
        queue_timeout,
        concurrency,
        priority,
        when_cut_off,
        warn_after,
    } = task_defaults;
    fields.extend(timeout.map(|timeout| field("task_defaults.timeout", span::format(timeout))));
    self::retry(&mut fields, "task_defaults.retry", retry.as_ref());
    pairs(&mut fields, "task_defaults.runner.match_labels", match_labels);
    pairs(&mut fields, "task_defaults.env", env);
    text(&mut fields, "task_defaults.working_dir", working_dir);
    fields.extend(trigger_rule.map(|rule| field("task_defaults.trigger_rule", rule.name().to_owned())));
    fields.extend(on_failure.map(|policy| field("task_defaults.on_failure", policy.name().to_owned())));
    placement.fields(|name, value| fields.push((format!("task_defaults.{name}"), value)));
    fields.extend(queue_timeout.map(|timeout| field("task_defaults.queue_timeout", span::format(timeout))));
    self::concurrency(&mut fields, "task_defaults.concurrency", concurrency.as_ref());
    fields.extend(priority.map(|priority| field("task_defaults.priority", priority.to_string())));
    fields.extend(when_cut_off.map(|choice| field("task_defaults.when_cut_off", choice.name().to_owned())));
    fields.extend(warn_after.map(|after| field("task_defaults.warn_after", span::format(after))));
    if *fail_fast {
        fields.push(field("fail_fast", "true".to_owned()));
    }
    for (key, schedule) in config.keyed_schedules() {
        self::schedule(&mut fields, &format!("schedules[{key}]"), &schedule.spec);
    }
    fields.extend(overlap.map(|policy| field("overlap", policy.name().to_owned())));
    fields.extend(queue_limit.map(|limit| field("queue_limit", limit.to_string())));
    fields.extend(start_deadline.map(|deadline| field("start_deadline", span::format(deadline))));
    if !after_jobs.is_empty() {
        fields.push(field("after_jobs", after_jobs.join(", ")));
    }
    fields.extend(max_active_jobs.map(|limit| field("max_active_jobs", limit.to_string())));
    self::callbacks(&mut fields, callbacks);
    let Retention { age, count, logs } = retention.unwrap_or_default();
    fields.extend(age.map(|age| field("retention.age", span::format(age))));
    fields.extend(count.map(|count| field("retention.count", count.to_string())));
    fields.extend(logs.map(|logs| field("retention.logs", span::format(logs))));
    fields
}

fn schedule(fields: &mut Vec<Field>, name: &str, spec: &Spec) {
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
    } = spec;
    let mut set = |key: &str, value: String| fields.push((format!("{name}.{key}"), value));
    let time = |time: &DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    match rule {
        RuleSpec::Cron(text) | RuleSpec::Text(text) => set(rule.field(), text.clone()),
        RuleSpec::Every { period, after } => {
            set("every", span::format(*period));
            if *after == After::Completion {
                set("after", "completion".to_owned());
            }
        }
        RuleSpec::At(at) => set("at", time(at)),
    }
    let defaults = Spec::default();
    if !time_zone.is_empty() {
        set("time_zone", time_zone.clone());
    }
    for (key, instant) in [("start_time", start_time), ("end_time", end_time)] {
        if let Some(instant) = instant {
            set(key, time(instant));
        }
    }
    if let Some(misfire) = misfire {
        set("misfire", misfire.name().to_owned());
    }
    let spans = [
        ("jitter", jitter, defaults.jitter),
        ("misfire_after", misfire_after, defaults.misfire_after),
        ("catchup_window", catchup_window, defaults.catchup_window),
    ];
    for (key, span, default) in spans {
        if *span != default {
            set(key, span::format(*span));
        }
    }
    if *catchup_limit != defaults.catchup_limit {
        set("catchup_limit", catchup_limit.to_string());
    }
    if !calendars.is_empty() {
        set("calendars", calendars.join(", "));
    }
}

fn fields(task: &TaskConfig) -> Vec<Field> {
    let TaskConfig {
        name: _,
        target,
        env,
        working_dir,
        needs,
        shards,
        timeout,
        match_labels,
        retry,
        trigger_rule,
        when,
        on_failure,
        when_cut_off,
        warn_after,
        enabled,
        priority,
        placement,
        queue_timeout,
        concurrency,
        callbacks,
    } = task;
    let mut fields = match target {
        Target::Command(argv) => vec![field("command", list(argv))],
        Target::Shell(script) => vec![field("shell", script.clone())],
        Target::Http(target) => http(target),
        Target::Job(job) => {
            let mut fields = vec![field("job.name", job.name.clone())];
            pairs(&mut fields, "job.params", &job.params);
            fields
        }
    };
    pairs(&mut fields, "env", env);
    text(&mut fields, "working_dir", working_dir);
    if !needs.is_empty() {
        fields.push(field("needs", needs.join(", ")));
    }
    if let Some(Shards { split, max_parallel, min_success_percent }) = shards {
        fields.push(match split {
            Split::Count(count) => field("shards.count", count.to_string()),
            Split::Items(items) => field("shards.items", items.clone()),
            Split::OnePerRunner => field("shards.one_per_runner", "true".to_owned()),
        });
        if *max_parallel > 0 {
            fields.push(field("shards.max_parallel", max_parallel.to_string()));
        }
        fields.push(field("shards.min_success_percent", min_success_percent.to_string()));
    }
    fields.extend(timeout.map(|timeout| field("timeout", span::format(timeout))));
    pairs(&mut fields, "runner.match_labels", match_labels);
    self::retry(&mut fields, "retry", retry.as_ref());
    fields.extend(trigger_rule.map(|rule| field("trigger_rule", rule.name().to_owned())));
    text(&mut fields, "when", when);
    fields.extend(on_failure.map(|policy| field("on_failure", policy.name().to_owned())));
    fields.extend(when_cut_off.map(|choice| field("when_cut_off", choice.name().to_owned())));
    fields.extend(warn_after.map(|after| field("warn_after", span::format(after))));
    fields.extend(enabled.map(|enabled| field("enabled", enabled.to_string())));
    fields.extend(priority.map(|priority| field("priority", priority.to_string())));
    placement.fields(|name, value| fields.push((name.to_owned(), value)));
    fields.extend(queue_timeout.map(|timeout| field("queue_timeout", span::format(timeout))));
    self::concurrency(&mut fields, "concurrency", concurrency.as_ref());
    self::callbacks(&mut fields, callbacks);
    fields
}

fn callbacks(fields: &mut Vec<Field>, callbacks: &[Callback]) {
    for (place, Callback { events, action, blocking }) in callbacks.iter().enumerate() {
        let name = format!("callbacks[{place}]");
        let events: Vec<&str> = events.iter().map(|event| event.name()).collect();
        fields.push((format!("{name}.events"), events.join(", ")));
        match action {
            Action::Http(Webhook { url, headers, secret_headers, secret }) => {
                fields.push((format!("{name}.http.url"), url.clone()));
                pairs(fields, &format!("{name}.http.headers"), headers);
                pairs(fields, &format!("{name}.http.secret_headers"), secret_headers);
                text(fields, &format!("{name}.http.secret"), secret);
            }
            Action::Email(Email { to, subject }) => {
                fields.push((format!("{name}.email.to"), to.join(", ")));
                text(fields, &format!("{name}.email.subject"), subject);
            }
            Action::Job(StartJob { name: job, params }) => {
                fields.push((format!("{name}.job.name"), job.clone()));
                pairs(fields, &format!("{name}.job.params"), params);
            }
        }
        if *blocking {
            fields.push((format!("{name}.blocking"), "true".to_owned()));
        }
    }
}

/// A new or gone task in a few words.
fn summary(task: &TaskConfig) -> String {
    let needs = if task.needs.is_empty() { String::new() } else { format!(" (needs: {})", task.needs.join(", ")) };
    match &task.target {
        Target::Command(argv) => cut(&format!("command{needs}: {}", list(argv))),
        Target::Shell(script) => cut(&format!("shell{needs}: {script}")),
        Target::Job(job) => cut(&format!("job{needs}: {}", job.name)),
        Target::Http(http) => cut(&format!("http{needs}: {}", list(&http.urls))),
    }
}

fn http(target: &Http) -> Vec<Field> {
    let Http {
        method,
        urls,
        headers,
        body,
        connect_timeout,
        read_timeout,
        request_timeout,
        success_when,
        redirects,
        max_response_bytes,
        wait_for_callback,
    } = target;
    let mut fields = vec![field("http.urls", list(urls))];
    text(&mut fields, "http.method", method);
    pairs(&mut fields, "http.headers", headers);
    text(&mut fields, "http.body", body);
    for (name, timeout) in [
        ("http.connect_timeout", connect_timeout),
        ("http.read_timeout", read_timeout),
        ("http.request_timeout", request_timeout),
    ] {
        fields.extend(timeout.map(|timeout| field(name, span::format(timeout))));
    }
    if !success_when.is_empty() {
        fields.push(field("http.success_when", success_when.join(", ")));
    }
    fields.extend(redirects.map(|policy| field("http.redirects", policy.name().to_owned())));
    fields.extend(max_response_bytes.map(|bytes| field("http.max_response_bytes", bytes.to_string())));
    if *wait_for_callback {
        fields.push(field("http.wait_for_callback", "true".to_owned()));
    }
    fields
}

fn retry(fields: &mut Vec<Field>, name: &str, retry: Option<&Retry>) {
    let set = retry.map(Retry::fields).unwrap_or_default();
    fields.extend(set.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
}

fn concurrency(fields: &mut Vec<Field>, name: &str, concurrency: Option<&Concurrency>) {
    if let Some(Concurrency { key, limit }) = concurrency {
        fields.push((format!("{name}.key"), key.clone()));
        fields.push((format!("{name}.limit"), limit.to_string()));
    }
}

fn pairs(fields: &mut Vec<Field>, name: &str, pairs: &BTreeMap<String, String>) {
    // An empty value is set, too, and must not look as if it were gone.
    fields.extend(pairs.iter().map(|(key, value)| (format!("{name}.{key}"), quoted(value))));
}

fn text(fields: &mut Vec<Field>, name: &str, value: &str) {
    if !value.is_empty() {
        fields.push(field(name, value.to_owned()));
    }
}

fn field(name: &str, value: String) -> Field {
    (name.to_owned(), value)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Texts as a list in which each can be told from the next.
fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn config(source: &str) -> JobConfig {
        read(source, "default").unwrap_or_else(|problems| panic!("{problems:#?}")).remove(0).config
    }

    fn told(before: &str, after: &str) -> Vec<String> {
        let differences = diff(&config(before), &config(after));
        differences.iter().map(|one| format!("{}: {:?} -> {:?}", one.path, one.before, one.after)).collect()
    }

    const BEFORE: &str = "\
name: etl
params: {day: today, old: \"\"}
timeout: 1h
tasks:
  - {name: a, shell: echo a, env: {X: \"1\"}}
  - {name: b, shell: echo b, needs: [a]}
  - {name: c, command: [echo, c], needs: [b]}
";

    #[test]
    fn every_changed_field_is_told_with_tasks_by_name() {
        let after = "\
name: etl
params: {day: yesterday}
timeout: 90m
fail_fast: true
tasks:
  - {name: c, command: [echo, c], needs: [a, b], retry: {max_attempts: 2}}
  - {name: a, shell: echo a, env: {X: \"2\"}}
  - {name: d, shell: echo d, needs: [a]}
";
        let after_b = after.replace("[a, b]", "[a]");
        assert_eq!(
            told(BEFORE, &after_b),
            [
                "params.day: \"\\\"today\\\"\" -> \"\\\"yesterday\\\"\"",
                "timeout: \"1h\" -> \"1h30m\"",
                "fail_fast: \"\" -> \"true\"",
                "params.old: \"\\\"\\\"\" -> \"\"",
                "tasks[c].needs: \"b\" -> \"a\"",
                "tasks[c].retry.max_attempts: \"\" -> \"2\"",
                "tasks[c].retry.delay: \"\" -> \"0s\"",
                "tasks[a].env.X: \"\\\"1\\\"\" -> \"\\\"2\\\"\"",
                "tasks[d]: \"\" -> \"shell (needs: a): echo d\"",
                "tasks[b]: \"shell (needs: a): echo b\" -> \"\"",
            ]
        );
    }

    #[test]
    fn the_order_of_tasks_is_no_difference() {
        let moved = "\
name: etl
timeout: 60m
params: {old: \"\", day: today}
tasks:
  - {name: c, command: {argv: [echo, c]}, needs: [b]}
  - {name: b, shell: echo b, needs: [a]}
  - {name: a, shell: echo a, env: {X: \"1\"}}
";
        assert_eq!(told(BEFORE, moved), Vec::<String>::new());
    }
}
