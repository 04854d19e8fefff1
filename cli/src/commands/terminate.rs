//! `baton terminate`: a job, a task or a shard ends, with all its processes.

use std::time::Duration;

use baton::v1::TerminateRequest;

use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    output::time::to_proto,
    selector::{self, Selector, short_id},
};

/// What `terminate` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton terminate 7be0d21c
  baton terminate 7be0d21c/join --grace 1m --reason \"wrong day\"
  baton terminate 7be0d21c/resize#3")]
pub struct Args {
    /// What to end: JOB[/TASK[#SHARD]].
    #[arg(value_name = "JOB[/TASK[#SHARD]]")]
    target: Selector,
    /// How long processes may take to end by themselves before they are killed; 10s when not given.
    #[arg(long, value_name = "SPAN", value_parser = selector::span)]
    grace: Option<Duration>,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Stores the wish; the job is watched with `baton watch`.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let request = TerminateRequest {
        job_id: args.target.job.clone(),
        name: args.target.task.clone(),
        shard_index: args.target.shard,
        grace: args.grace.map(to_proto),
        reason: args.reason,
        request_id: request_id(args.request_id.as_deref()),
    };
    let response = context.client().await?.terminate(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
        return Ok(Exit::Ok);
    }
    let job_id = response.job.map_or_else(|| args.target.job.clone(), |job| job.id);
    if output.is_name() {
        output.line(&job_id)?;
        return Ok(Exit::Ok);
    }
    let short = short_id(&job_id);
    let what = Selector { job: short.to_owned(), ..args.target };
    let tasks = match response.tasks {
        0 => "nothing was left to end".to_owned(),
        1 => "1 task is being ended".to_owned(),
        n => format!("{n} tasks are being ended"),
    };
    output.line(&format!("{what}: {tasks}"))?;
    if response.tasks > 0 {
        output.note(&format!("see it end: baton watch {short}"));
    }
    Ok(Exit::Ok)
}
