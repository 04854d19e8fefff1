//! `baton mark` and `baton skip`: a person says how a task ended, or that it is not wanted.

use baton::v1::{MarkKind, MarkRequest, MarkResponse};
use clap::ValueEnum;

use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    output::glyphs,
    selector::{Selector, TaskSelector, short_id},
};

/// What `mark` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton mark 7be0d21c/load finished --reason \"loaded by hand\"
  baton mark 7be0d21c/check failed --reason \"the figures are wrong\"
  baton mark 7be0d21c/resize#3 gone --reason \"host etl-2 was switched off\"

What the task kept from starting is decided again. A task that is under way is refused: terminate it first.")]
pub struct Args {
    /// Which task: JOB/TASK[#SHARD].
    #[arg(value_name = "JOB/TASK[#SHARD]")]
    target: TaskSelector,
    /// How it ended; gone says that nothing is left of attempts whose end was never proven.
    #[arg(value_enum, value_name = "HOW")]
    how: How,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    Finished,
    Failed,
    Skipped,
    Gone,
}

/// What `skip` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton skip 7be0d21c/publish
  baton skip 7be0d21c/resize#3 --reason \"the picture is gone\"

Only what waits can be skipped; `baton mark` changes how a task ended.")]
pub struct SkipArgs {
    /// Which task: JOB/TASK[#SHARD].
    #[arg(value_name = "JOB/TASK[#SHARD]")]
    target: TaskSelector,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Marks a task.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let mark = match args.how {
        How::Finished => MarkKind::Finished,
        How::Failed => MarkKind::Failed,
        How::Skipped => MarkKind::Skipped,
        How::Gone => MarkKind::Gone,
    };
    let mut request = request(&args.target.0, mark, args.reason, args.request_id.as_deref());
    request.waiting_only = false;
    send(context, args.target.0, request).await
}

/// Skips a task that waits.
pub async fn skip(context: &Context, args: SkipArgs) -> Result<Exit, Error> {
    let mut request = request(&args.target.0, MarkKind::Skipped, args.reason, args.request_id.as_deref());
    request.waiting_only = true;
    send(context, args.target.0, request).await
}

fn request(target: &Selector, mark: MarkKind, reason: String, id: Option<&str>) -> MarkRequest {
    MarkRequest {
        job_id: target.job.clone(),
        name: target.task.clone(),
        shard_index: target.shard,
        mark: mark.into(),
        waiting_only: false,
        reason,
        request_id: request_id(id),
    }
}

async fn send(context: &Context, target: Selector, request: MarkRequest) -> Result<Exit, Error> {
    let gone = request.mark() == MarkKind::Gone;
    let response: MarkResponse = context.client().await?.mark(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
        return Ok(Exit::Ok);
    }
    let job = response.job.unwrap_or_default();
    let what = Selector { job: short_id(&job.id).to_owned(), ..target };
    if output.is_name() {
        output.line(&format!("{}/{}", job.id, what.task))?;
        return Ok(Exit::Ok);
    }
    if gone {
        output.line(&format!("{what}: nothing of it is in doubt any more"))?;
        output.note(&format!("it may run again: baton rerun {what}"));
        return Ok(Exit::Ok);
    }
    let task = response.task.unwrap_or_default();
    let reconsidered = match response.reconsidered {
        0 => String::new(),
        1 => ", 1 skipped task is decided again".to_owned(),
        n => format!(", {n} skipped tasks are decided again"),
    };
    output.line(&format!("{what} is {} now{reconsidered}", glyphs::task(task.state()).word))?;
    output.note(&format!("the job is {}: baton watch {}", glyphs::job(job.state()).word, short_id(&job.id)));
    Ok(Exit::Ok)
}
