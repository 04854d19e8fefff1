//! `baton describe`: everything about one thing, for people.

mod placement;

use std::time::Duration;

use baton::v1::{
    AfterJob, Attempt, GetJobRequest, GetRequest, GetRunnerRequest, GetTaskRequest, HttpTarget, Job, JobConfig,
    ListSchedulesRequest, ListTasksRequest, Retention, Retry, Runner, StoredJobConfig, StoredSchedule, Task,
    TaskConfig, TaskKind, TaskState, task_config::Target,
};
use chrono::{DateTime, Utc};
use clap::Subcommand;

use super::{get, next};
use crate::{
    context::Context,
    errors::{Error, Exit},
    output::{
        Output, callbacks,
        facts::Facts,
        glyphs, origin,
        text::{Line, Tone},
        time::{self, proto_span},
    },
    selector::{Selector, TaskSelector, short_id},
    view::{bar, tree},
};

/// How many tasks of a job or config are listed.
const TASKS_MAX: usize = 1_000;

/// What `describe` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton describe config orders-etl
  baton describe job 7be0d21c
  baton describe task 7be0d21c/join
  baton describe runner etl-2")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// A job config with its tasks.
    #[command(visible_alias = "configs")]
    Config {
        /// Its name.
        name: String,
        /// This version instead of the newest.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        version: Option<u32>,
        /// Print the text it was applied from and nothing else.
        #[arg(long)]
        source: bool,
    },
    /// A job with its tasks.
    #[command(visible_alias = "jobs")]
    Job {
        /// Its id, or a unique end or beginning of it.
        #[arg(value_name = "JOB")]
        job: Selector,
    },
    /// A task with its attempts.
    #[command(visible_alias = "tasks")]
    Task {
        /// The task: JOB/TASK[#SHARD].
        #[arg(value_name = "JOB/TASK[#SHARD]")]
        task: TaskSelector,
    },
    /// A runner.
    #[command(visible_alias = "runners")]
    Runner {
        /// Its name.
        #[arg(value_name = "RUNNER")]
        runner: String,
    },
}

/// Reads it and prints all of it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    if context.output.is_name() {
        return Err(Error::Usage("`describe` prints more than names: use `baton get` with -o name".to_owned()));
    }
    match args.kind {
        Kind::Config { name, version, source } => config(context, name, version, source).await,
        Kind::Job { job } => self::job(context, &job).await,
        Kind::Task { task } => self::task(context, task.0).await,
        Kind::Runner { runner } => self::runner(context, runner).await,
    }?;
    Ok(Exit::Ok)
}

async fn config(context: &Context, name: String, version: Option<u32>, source: bool) -> Result<(), Error> {
    let request =
        GetRequest { namespace: context.namespace.clone(), name: name.clone(), version: version.unwrap_or(0) };
    let response = context.client().await?.get(request).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    let stored = response.job_config.clone().unwrap_or_default();
    if source {
        if stored.source.is_empty() {
            let next = format!("see it with `baton get config {name} -o yaml`");
            return Err(Error::with_next("this version was applied as a message and has no text", next));
        }
        return output.raw(stored.source.as_bytes());
    }
    let config = stored.config.clone().unwrap_or_default();
    let now = Utc::now();
    output.lines(&config_lines(output, &stored, &config, &response.round, now))?;
    if config.schedules.is_empty() || stored.version != stored.latest_version {
        return Ok(());
    }
    let request = ListSchedulesRequest {
        namespace: config.namespace,
        job_config: config.name,
        language: context.language.into(),
        ..ListSchedulesRequest::default()
    };
    let schedules = context.client().await?.list_schedules(request).await?.schedules;
    output.lines(&schedule_lines(output, &schedules, now))
}

/// How long ended jobs are kept, in a few words.
fn retention(kept: &Retention) -> String {
    let span = |span, always: &str| match proto_span(span) {
        Some(Duration::ZERO) => Some(always.to_owned()),
        span => span.map(time::span),
    };
    let mut words = Vec::new();
    words.extend(span(kept.age, "for ever").map(|age| format!("jobs {age}")));
    match kept.count {
        0 => {}
        1 => words.push("at most 1 job".to_owned()),
        count => words.push(format!("at most {count} jobs")),
    }
    words.extend(span(kept.logs, "as long as the job").map(|logs| format!("logs {logs}")));
    words.join(", ")
}

/// Whom the round waits for that makes the next job, and who has finished in it.
fn round(after: &[AfterJob]) -> String {
    let (waits, finished): (Vec<_>, Vec<_>) = after.iter().partition(|one| one.job_id.is_empty());
    let names: Vec<&str> = waits.iter().map(|one| one.name.as_str()).collect();
    let finished: Vec<String> =
        finished.iter().map(|one| format!("{} finished ({})", one.name, short_id(&one.job_id))).collect();
    match (finished.is_empty(), names.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("waits for {}", names.join(", ")),
        (false, true) => finished.join(", "),
        (false, false) => format!("waits for {}; {}", names.join(", "), finished.join(", ")),
    }
}

fn config_lines(
    output: Output,
    stored: &StoredJobConfig,
    config: &JobConfig,
    after: &[AfterJob],
    now: DateTime<Utc>,
) -> Vec<Line> {
    let version = if stored.version == stored.latest_version {
        format!("v{}", stored.version)
    } else {
        format!("v{} (the newest is v{})", stored.version, stored.latest_version)
    };
    let mut facts = Facts::default();
    facts.add("config", config.name.as_str());
    facts.add("namespace", config.namespace.as_str());
    facts.add("version", version);
    facts.add("applied", output.instant(stored.create_time, now));
    facts.pairs("labels", &config.labels);
    facts.pairs("params", &config.params);
    if let Some(timeout) = proto_span(config.timeout) {
        facts.add("timeout", time::span(timeout));
    }
    if let Some(kept) = &config.retention {
        facts.add("retention", retention(kept));
    }
    if let Some(after) = proto_span(config.warn_after) {
        facts.add("warn after", time::span(after));
    }
    facts.add("comes after", config.after_jobs.join(", "));
    facts.add("next round", round(after));
    if config.max_active_jobs > 0 {
        facts.add("at once", format!("{} jobs at most", config.max_active_jobs));
    }
    for callback in &config.callbacks {
        facts.add("callback", callbacks::words(callback));
    }
    facts.add("tasks", stored.task_count.to_string());
    let mut lines = facts.into_lines();
    for task in config.tasks.iter().take(TASKS_MAX) {
        lines.push(Line::new());
        lines.extend(task_config_lines(task));
    }
    if config.tasks.len() > TASKS_MAX {
        lines.push(Line::new().with(format!("… {} more tasks", config.tasks.len() - TASKS_MAX), Tone::Dim));
    }
    lines
}

fn task_config_lines(task: &TaskConfig) -> Vec<Line> {
    let mut facts = Facts::below(Line::new().with("  ", Tone::Plain).with(&task.name, Tone::Bold));
    match &task.target {
        Some(Target::Command(command)) => facts.add("  command", command.argv.join(" ")),
        Some(Target::Shell(script)) => {
            let mut lines = script.trim_end().lines();
            facts.add("  shell", lines.next().unwrap_or_default());
            lines.for_each(|line| facts.more(line));
        }
        Some(Target::Job(job)) => {
            facts.add("  job", job.name.as_str());
            facts.pairs("  params", &job.params);
        }
        Some(Target::Http(http)) => http_facts(&mut facts, http),
        None => {}
    }
    facts.add("  needs", task.needs.join(", "));
    if let Some(shards) = &task.shards {
        let into = match (shards.count, shards.items.is_empty()) {
            (0, true) => "one per runner".to_owned(),
            (0, false) => format!("one per item of {}", shards.items),
            (count, _) => count.to_string(),
        };
        let at_once =
            if shards.max_parallel > 0 { format!(", {} at once", shards.max_parallel) } else { String::new() };
        facts.add("  shards", into + &at_once);
    }
    facts.add("  when", task.when.as_str());
    facts.add("  rule", word(task.trigger_rule().as_str_name(), "TRIGGER_RULE_"));
    facts.add("  on failure", word(task.on_failure().as_str_name(), "ON_FAILURE_"));
    if let Some(retry) = &task.retry {
        let delay = proto_span(retry.delay).filter(|delay| !delay.is_zero());
        let delay = delay.map_or_else(String::new, |delay| format!(", {} apart", time::span(delay)));
        facts.add("  attempts", format!("{}{delay}{}", retry.max_attempts, growth(retry)));
        let codes: Vec<String> = retry.no_retry_exit_codes.iter().map(ToString::to_string).collect();
        facts.add("  no retry after", codes.join(", "));
    }
    if let Some(timeout) = proto_span(task.timeout) {
        facts.add("  timeout", time::span(timeout));
    }
    if let Some(after) = proto_span(task.warn_after) {
        facts.add("  warn after", time::span(after));
    }
    facts.add("  when cut off", word(task.when_cut_off().as_str_name(), "WHEN_CUT_OFF_"));
    placement::add(&mut facts, task);
    facts.pairs("  env", &task.env);
    facts.add("  directory", task.working_dir.as_str());
    if task.enabled == Some(false) {
        facts.add("  enabled", "no: skipped in every job");
    }
    for callback in &task.callbacks {
        facts.add("  callback", callbacks::words(callback));
    }
    facts.into_lines()
}

fn http_facts(facts: &mut Facts, http: &HttpTarget) {
    let method = match (http.method.as_str(), http.body.is_empty()) {
        ("", true) => "GET",
        ("", false) => "POST",
        (method, _) => method,
    };
    for (place, url) in http.urls.iter().enumerate() {
        if place == 0 {
            facts.add("  http", format!("{method} {url}"));
        } else {
            facts.more(&format!("or {url}"));
        }
    }
    facts.pairs("  headers", &http.headers);
    let mut body = http.body.trim_end().lines();
    facts.add("  body", body.next().unwrap_or_default());
    body.for_each(|line| facts.more(line));
    let timeouts = [("connect", http.connect_timeout), ("read", http.read_timeout), ("request", http.request_timeout)];
    let timeouts =
        timeouts.into_iter().filter_map(|(name, span)| Some(format!("{name} {}", time::span(proto_span(span)?))));
    facts.add("  http timeouts", timeouts.collect::<Vec<_>>().join(", "));
    let success = http.success_when.as_ref().map(|success| success.status.join(", "));
    facts.add("  success when", success.unwrap_or_default());
    facts.add("  redirects", word(http.redirects().as_str_name(), "REDIRECTS_"));
    if http.max_response_bytes > 0 {
        facts.add("  max response", format!("{} bytes", http.max_response_bytes));
    }
    if http.wait_for_callback {
        facts.add("  callback", "waits for it");
    }
}

/// What each schedule means, what it waits for, and whether it is switched off.
fn schedule_lines(output: Output, schedules: &[StoredSchedule], now: DateTime<Utc>) -> Vec<Line> {
    let mut lines = Vec::new();
    for schedule in schedules {
        let head = Line::new().with("  schedule ", Tone::Plain).with(&schedule.key, Tone::Bold);
        let mut facts = Facts::below(head);
        facts.add("  means", schedule.description.as_str());
        facts.add("  zone", next::zone(schedule));
        facts.add("  next", next::when(output, schedule, now));
        if let Some(late) = proto_span(schedule.late) {
            facts.add("  late", time::span(late));
        }
        if schedule.last_fire_time.is_some() {
            facts.add("  last", output.instant(schedule.last_fire_time, now));
        }
        let calendars = schedule.schedule.as_ref().map(|schedule| schedule.calendars.join(", ")).unwrap_or_default();
        facts.add("  except on", calendars);
        lines.push(Line::new());
        lines.extend(facts.into_lines());
    }
    lines
}

/// How waits for retries grow: ", ×2 up to 10m, ±20 %".
fn growth(retry: &Retry) -> String {
    let factor = retry.factor.map(|factor| format!(", ×{factor}"));
    let most = proto_span(retry.max_delay).map(|most| format!(" up to {}", time::span(most)));
    let spread = (retry.jitter_ratio > 0.0).then(|| format!(", ±{:.0} %", retry.jitter_ratio * 100.0));
    [factor, most, spread].into_iter().flatten().collect()
}

/// `TRIGGER_RULE_ALL_DONE` as `all_done`; nothing for what is not set.
fn word(name: &str, prefix: &str) -> String {
    let word = name.trim_start_matches(prefix).to_lowercase();
    if word == "unspecified" { String::new() } else { word }
}

async fn job(context: &Context, selector: &Selector) -> Result<(), Error> {
    if !selector.task.is_empty() {
        return Err(Error::Usage(format!("a task is described with: baton describe task {selector}")));
    }
    let client = context.client().await?;
    let response = client.get_job(GetJobRequest { job_id: selector.job.clone() }).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    let job = response.job.unwrap_or_default();
    let request = ListTasksRequest {
        job_id: job.id.clone(),
        fold_shards: true,
        page_size: TASKS_MAX as u32,
        ..ListTasksRequest::default()
    };
    let tasks = client.list_tasks(request).await?;
    let mut lines = job_lines(output, &job, Utc::now());
    lines.push(Line::new());
    lines.extend(get::task_table(context, &tasks.tasks, false).aligned(output.width()));
    output.lines(&lines)?;
    let short = short_id(&job.id);
    if !tasks.next_page_token.is_empty() {
        output.note(&format!("more tasks: baton get tasks {short} --page {}", tasks.next_page_token));
    }
    output.note(&format!("what they wrote: baton logs {short}"));
    Ok(())
}

fn job_lines(output: Output, job: &Job, now: DateTime<Utc>) -> Vec<Line> {
    let mut facts = Facts::default();
    facts.add("job", job.id.as_str());
    facts.add("config", format!("{} v{}", job.name, job.version));
    facts.add("namespace", job.namespace.as_str());
    facts.span("state", glyphs::job(job.state()).span());
    facts.add("reason", job.reason.as_str());
    facts.add("trigger", origin::words(job));
    for source in &job.after {
        facts.add("after", format!("{} {}", source.name, short_id(&source.job_id)));
    }
    facts.pairs("params", &job.params);
    facts.pairs("labels", &job.labels);
    facts.add("only on", job.runner_id.as_str());
    facts.add("created", output.instant(job.create_time, now));
    facts.add("started", output.instant(job.start_time, now));
    facts.add("ended", output.instant(job.end_time, now));
    facts.add("took", time::elapsed(job.start_time, job.end_time, now));
    let failed = if job.tasks_failed > 0 { format!(", {} failed", job.tasks_failed) } else { String::new() };
    facts.add("tasks", format!("{} of {} ended{failed}", job.tasks_ended, job.tasks_total));
    if job.stopping {
        facts.add("stopping", "a task with `on_failure: stop` failed: what has not started will not start");
    }
    facts.into_lines()
}

async fn task(context: &Context, selector: Selector) -> Result<(), Error> {
    let request = GetTaskRequest { job_id: selector.job, name: selector.task, shard_index: selector.shard };
    let response = context.client().await?.get_task(request).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    let task = response.task.unwrap_or_default();
    output.lines(&task_lines(output, &task, Utc::now()))?;
    let name = format!("{}/{}", short_id(&task.job_id), tree::label(&task));
    let wrote = match task.child_job_id.as_str() {
        "" => name.clone(),
        child => short_id(child).to_owned(),
    };
    output.note(&format!("what it wrote: baton logs {wrote}\nwhy it is so:  baton explain {name}"));
    Ok(())
}

fn task_lines(output: Output, task: &Task, now: DateTime<Utc>) -> Vec<Line> {
    let mut facts = Facts::default();
    facts.add("task", tree::label(task));
    facts.add("id", task.id.as_str());
    facts.add("job", task.job_id.as_str());
    facts.span("state", glyphs::task(task.state()).span());
    facts.add("reason", task.reason.as_str());
    facts.add("needs", task.needs.join(", "));
    if task.kind() == TaskKind::Group {
        facts.add("shards", bar::line(task).render(false));
    } else {
        facts.add(
            "attempt",
            match task.max_attempts {
                0 => task.attempt.to_string(),
                most => format!("{} of {}", task.attempt, most.max(task.attempt)),
            },
        );
        if task.state() == TaskState::Queued {
            if task.not_before.is_some() {
                facts.add("next try", output.instant(task.not_before, now));
            }
            facts.add("only on", task.stays_on_runner_id.as_str());
        }
        facts.add("given up on", task.given_up_runner_ids.join(", "));
        facts.add("runner", task.runner_id.as_str());
        facts.add("stands for", child_line(task));
        let exit = get::task_exit(task);
        facts.add("exit", if exit == "-" { "" } else { &exit });
    }
    facts.add("item", task.shard_item.as_str());
    facts.add("queued", output.instant(task.queue_time, now));
    facts.add("started", output.instant(task.start_time, now));
    facts.add("ended", output.instant(task.end_time, now));
    facts.add("took", time::elapsed(task.start_time, task.end_time, now));
    facts.add("output", task.output.as_str());
    let mut lines = facts.into_lines();
    if !task.attempts.is_empty() {
        lines.push(Line::new());
        lines.push(Line::new().with("earlier attempts", Tone::Bold));
        lines.extend(task.attempts.iter().map(|attempt| attempt_line(attempt, now)));
    }
    lines
}

/// "job load 7be0d21c, running".
fn child_line(task: &Task) -> String {
    match origin::child(task) {
        none if none.is_empty() => none,
        child => format!("{child}, {}", word(task.child_job_state().as_str_name(), "JOB_STATE_")),
    }
}

fn attempt_line(attempt: &Attempt, now: DateTime<Utc>) -> Line {
    let took = time::elapsed(attempt.start_time, attempt.end_time, now);
    let gone = if attempt.gone { "" } else { " · the end of its processes is not proven" };
    Line::from(format!("  {}  {took:>6}  {}  {}{gone}", attempt.number, attempt.runner_id, attempt.reason))
}

async fn runner(context: &Context, runner_id: String) -> Result<(), Error> {
    let response = context.client().await?.get_runner(GetRunnerRequest { runner_id }).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    output.lines(&runner_lines(output, &response.runner.unwrap_or_default(), Utc::now()))
}

fn runner_lines(output: Output, runner: &Runner, now: DateTime<Utc>) -> Vec<Line> {
    let mut facts = Facts::default();
    facts.add("runner", runner.id.as_str());
    facts.span("state", glyphs::runner(runner.state()).span());
    facts.add("reason", runner.reason.as_str());
    facts.add("slots", format!("{} of {} busy", runner.slots_busy, runner.slots));
    facts.pairs("labels", &runner.labels);
    facts.add("runs", runner.capabilities.join(", "));
    facts.add("version", runner.version.as_str());
    facts.add("last seen", output.instant(runner.last_seen_time, now));
    facts.add("known since", output.instant(runner.create_time, now));
    facts.add("scheduler", runner.scheduler_id.as_str());
    facts.into_lines()
}
