//! `baton test-endpoint`: asks a service from a runner, as a task would, and shows what came of it.
//!
//! It is a job like any other, of one `http` task in a namespace of its own, so that what is seen is what a task would see:
//! the runner's resolver, network, certificates and `--http-allow`. Its job config is deleted afterwards; the job stays, as a
//! record of who was asked.

use std::{collections::HashMap, time::Duration};

use baton::v1::{
    ApplyRequest, DeleteRequest, ExplainRequest, FollowRequest, HttpTarget, Job, JobConfig, JobState, LogSelector,
    LogStream, RunRequest, RunnerSelector, SuccessWhen, Task, TaskConfig, TaskState, TerminateRequest,
    apply_request::Definition, task_config::Target,
};
use serde_json::json;
use uuid::Uuid;

use super::watch::exit_of;
use crate::{
    client::{Client, request_id},
    context::Context,
    errors::{Error, Exit},
    follow::{Event, JobWatch},
    output::{escape::Filter, time::to_proto},
    selector::{self, short_id},
};

/// Where its jobs are, unless `-n` says otherwise.
const NAMESPACE: &str = "system";
/// The name of its one task.
const TASK: &str = "ask";
/// How much of a response is read; more is shown of nothing.
const RESPONSE_BYTES: u64 = 64 * 1024;

/// What `test-endpoint` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton test-endpoint --url https://api.example.com/health
  baton test-endpoint --url https://api.example.com/orders \\
      --method POST --header 'Authorization: Bearer …' --body '{\"day\": \"2026-11-30\"}'
  baton test-endpoint --url http://a.example/ --url http://b.example/ --label pool=etl

It makes a job of one http task (in the namespace \"system\", where it stays to be read) and so really
asks the service. Over TLS the runner trusts whom its machine trusts, or what SSL_CERT_FILE names in
the runner's environment. Lines that begin with > were asked, < answered, * say what happened.

Exit codes: 0 the service answered with success · 7 it did not · 1 no runner took it")]
pub struct Args {
    /// Where to ask; several are tried in order, as a task does.
    #[arg(long = "url", value_name = "URL", required = true)]
    urls: Vec<String>,
    /// The method; POST with a body and GET without when not given.
    #[arg(long, value_name = "METHOD", default_value = "")]
    method: String,
    /// A header, "Name: value"; may be repeated.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The body.
    #[arg(long, value_name = "TEXT", default_value = "")]
    body: String,
    /// A status or a range that is a success, such as 200-299; may be repeated.
    #[arg(long = "success", value_name = "STATUS")]
    success: Vec<String>,
    /// The runner that asks; any that can when not given.
    #[arg(long, value_name = "ID", default_value = "")]
    runner: String,
    /// A label that the runner must have; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = selector::pair)]
    labels: Vec<(String, String)>,
    /// How long the service may take to answer as a whole.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = selector::span)]
    request_timeout: Duration,
    /// How long to wait for a runner that takes it.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = selector::span)]
    wait: Duration,
    /// How many bytes of the response to show.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    show: usize,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected \"Name: value\"".to_owned()),
    }
}

/// What came of it.
struct Outcome {
    job: Job,
    task: Task,
    exchange: Vec<u8>,
    body: Vec<u8>,
}

/// Makes the job, waits for its end and shows it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let client = context.client().await?;
    let namespace = if context.namespace.is_empty() { NAMESPACE } else { &context.namespace }.to_owned();
    let name = format!("test-endpoint-{}", short_id(&Uuid::new_v4().simple().to_string()));
    let config = config(&args, &namespace, &name)?;
    let apply = ApplyRequest {
        definition: Some(Definition::Config(config)),
        request_id: request_id(None),
        ..ApplyRequest::default()
    };
    client.apply(apply).await?;
    let outcome = tokio::select! {
        outcome = ask(client, &args, &namespace, &name) => outcome.map(Some),
        _ = tokio::signal::ctrl_c() => Ok(None),
    };
    // Without its config the job goes on and stays readable; a config that cannot be deleted harms nobody.
    let delete = DeleteRequest { namespace, name, request_id: request_id(None), force: false };
    if let Err(error) = client.delete(delete).await {
        context.output.note(&format!("the job config of the test is left behind: {error}"));
    }
    match outcome? {
        Some(outcome) => show(context, &args, &outcome),
        None => Ok(Exit::Interrupted),
    }
}

fn config(args: &Args, namespace: &str, name: &str) -> Result<JobConfig, Error> {
    let mut headers = HashMap::new();
    for (name, value) in &args.headers {
        if headers.insert(name.clone(), literal(value)?).is_some() {
            return Err(Error::Usage(format!("the header \"{name}\" is given twice")));
        }
    }
    let success = Some(SuccessWhen { status: args.success.clone() }).filter(|success| !success.status.is_empty());
    let target = HttpTarget {
        method: args.method.to_uppercase(),
        urls: args.urls.iter().map(|url| literal(url)).collect::<Result<_, _>>()?,
        headers,
        body: literal(&args.body)?,
        read_timeout: Some(to_proto(args.request_timeout)),
        request_timeout: Some(to_proto(args.request_timeout)),
        success_when: success,
        max_response_bytes: RESPONSE_BYTES,
        ..HttpTarget::default()
    };
    let selector = RunnerSelector { match_labels: args.labels.iter().cloned().collect(), ..RunnerSelector::default() };
    let task = TaskConfig {
        name: TASK.to_owned(),
        target: Some(Target::Http(target)),
        runner: Some(selector).filter(|selector| !selector.match_labels.is_empty()),
        ..TaskConfig::default()
    };
    Ok(JobConfig { namespace: namespace.to_owned(), name: name.to_owned(), tasks: vec![task], ..JobConfig::default() })
}

/// A text that is no template, whatever it holds.
fn literal(text: &str) -> Result<String, Error> {
    match ["{{", "{%", "{#"].iter().find(|mark| text.contains(**mark)) {
        Some(mark) => Err(Error::Usage(format!("a test has no job to fill templates from: leave \"{mark}\" out"))),
        None => Ok(text.to_owned()),
    }
}

async fn ask(client: &Client, args: &Args, namespace: &str, name: &str) -> Result<Outcome, Error> {
    let run = RunRequest {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        request_id: request_id(None),
        runner_id: args.runner.clone(),
        ..RunRequest::default()
    };
    let mut job = client.run(run).await?.job.unwrap_or_default();
    let mut task = Task::default();
    let mut watch = JobWatch::start(client.clone(), &job.id);
    let patience = tokio::time::sleep(args.wait);
    tokio::pin!(patience);
    let mut taken = false;
    loop {
        tokio::select! {
            event = watch.next() => match event {
                Some(Ok(Event::Changed(message))) => {
                    job = message.job.unwrap_or(job);
                    task = message.tasks.into_iter().next().unwrap_or(task);
                    taken |= !matches!(
                        task.state(),
                        TaskState::Unspecified | TaskState::Created | TaskState::Queued
                    );
                }
                Some(Ok(Event::Lost(_) | Event::Back)) => {}
                Some(Err(error)) => return Err(error),
                None => break,
            },
            () = &mut patience, if !taken => return Err(nobody(client, args, &job).await),
        }
    }
    let (mut exchange, mut body) = (Vec::new(), Vec::new());
    let selector = LogSelector { job_id: job.id.clone(), name: TASK.to_owned(), ..LogSelector::default() };
    let mut log = client.follow(FollowRequest { selector: Some(selector), ..FollowRequest::default() }).await?;
    while let Some(message) = log.message().await? {
        for chunk in message.chunks {
            let part = if chunk.stream() == LogStream::Stdout { &mut body } else { &mut exchange };
            part.extend_from_slice(&chunk.data);
        }
    }
    Ok(Outcome { job, task, exchange, body })
}

/// Nobody took it: takes it back, and says what it lacked.
async fn nobody(client: &Client, args: &Args, job: &Job) -> Error {
    let explain = ExplainRequest { job_id: job.id.clone(), name: TASK.to_owned(), shard_index: None };
    let explained = client.explain(explain).await;
    let terminate = TerminateRequest {
        job_id: job.id.clone(),
        reason: "no runner took the test".to_owned(),
        request_id: request_id(None),
        ..TerminateRequest::default()
    };
    if let Err(error) = client.terminate(terminate).await {
        return error;
    }
    let seconds = args.wait.as_secs_f64();
    let next = "see who could: baton get runners; wait longer: --wait".to_owned();
    match explained {
        Ok(explained) => {
            let next = explained.fixes.into_iter().next().unwrap_or(next);
            Error::with_next(format!("no runner took it within {seconds} s: {}", explained.summary), next)
        }
        Err(_) => Error::with_next(format!("no runner took it within {seconds} s"), next),
    }
}

fn show(context: &Context, args: &Args, outcome: &Outcome) -> Result<Exit, Error> {
    let Outcome { job, task, exchange, body } = outcome;
    let output = context.output;
    let shown = &body[..body.len().min(args.show)];
    let succeeded = job.state() == JobState::Finished;
    if output.is_data() {
        output.value(&json!({
            "job_id": job.id,
            "runner_id": task.runner_id,
            "succeeded": succeeded,
            "reason": task.reason,
            "exit_code": task.exit_code,
            "exchange": String::from_utf8_lossy(exchange).lines().collect::<Vec<_>>(),
            "body": String::from_utf8_lossy(shown),
            "body_bytes": body.len(),
        }))?;
        return Ok(exit_of(job.state()));
    }
    if output.is_name() {
        output.line(&job.id)?;
        return Ok(exit_of(job.state()));
    }
    output.raw(Filter::new(output.color).text(exchange).as_bytes())?;
    if !shown.is_empty() {
        output.line("")?;
        output.raw(Filter::new(output.color).text(shown).as_bytes())?;
        if !shown.ends_with(b"\n") {
            output.line("")?;
        }
        if shown.len() < body.len() {
            output.note(&format!("… {} bytes more; --show shows them", body.len() - shown.len()));
        }
    }
    let runner = if task.runner_id.is_empty() { "no runner" } else { &task.runner_id };
    let verdict = if succeeded { "success".to_owned() } else { format!("failed: {}", task.reason) };
    output.line(&format!("{verdict} · asked by {runner} · job {}", short_id(&job.id)))?;
    Ok(exit_of(job.state()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_as_it_is_sent() {
        assert_eq!(header("X-A: b: c"), Ok(("X-A".to_owned(), "b: c".to_owned())));
        assert_eq!(header("X-A:"), Ok(("X-A".to_owned(), String::new())));
        assert!(header("X-A=b").is_err() && header(": b").is_err());
    }

    #[test]
    fn a_template_has_nothing_to_be_filled_from() {
        assert!(literal("{\"a\": {\"b\": 1} }").is_ok());
        assert!(matches!(literal("{{ params.a }}"), Err(Error::Usage(_))));
    }
}
