//! `baton rerun`: what failed is run again, or one task of a job.

use baton::v1::RerunRequest;

use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    selector::{Selector, short_id},
};

/// What `rerun` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton rerun 7be0d21c                          what failed or was cut short; what finished is kept
  baton rerun 7be0d21c/join                     this task, and what it kept from starting
  baton rerun 7be0d21c/join --with-following    this task and everything after it
  baton rerun 7be0d21c/resize#3 --reason \"disk was full\"

Earlier attempts and their logs stay: baton logs 7be0d21c/join --attempt 1")]
pub struct Args {
    /// What to run again: JOB[/TASK[#SHARD]].
    #[arg(value_name = "JOB[/TASK[#SHARD]]")]
    target: Selector,
    /// Every task of the job that failed or was cut short; this is what happens when no task is named.
    #[arg(long, conflicts_with_all = ["only", "with_following"])]
    from_failed: bool,
    /// The named task alone; this is what happens when a task is named.
    #[arg(long, conflicts_with = "with_following")]
    only: bool,
    /// The named task and everything after it, finished or not.
    #[arg(long)]
    with_following: bool,
    /// Also where an old copy may still live; two may then run at once.
    #[arg(long)]
    force: bool,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Has it run again; the job is watched with `baton watch`.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let Selector { job, task, shard } = args.target.clone();
    if args.from_failed && !task.is_empty() {
        return Err(Error::Usage(format!("--from-failed is about a whole job: baton rerun {job} --from-failed")));
    }
    if (args.only || args.with_following) && task.is_empty() {
        return Err(Error::Usage(format!("name the task too: baton rerun {job}/TASK")));
    }
    let request = RerunRequest {
        job_id: job,
        name: task,
        shard_index: shard,
        with_following: args.with_following,
        force: args.force,
        reason: args.reason,
        request_id: request_id(args.request_id.as_deref()),
    };
    let response = context.client().await?.rerun(request).await?;
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
    let again = match response.tasks {
        1 => "1 task runs again".to_owned(),
        n => format!("{n} tasks run again"),
    };
    let reconsidered = match response.reconsidered {
        0 => String::new(),
        1 => ", 1 skipped task is decided again".to_owned(),
        n => format!(", {n} skipped tasks are decided again"),
    };
    output.line(&format!("{what}: {again}{reconsidered}"))?;
    output.note(&format!("see it run: baton watch {short}"));
    Ok(Exit::Ok)
}
