//! `baton complete`: a task that waits for its callback is completed.

use baton::v1::{CompleteTaskRequest, CompletionResult};

use crate::{
    context::Context,
    errors::{Error, Exit},
    selector::short_id,
};

/// What `complete` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton complete TOKEN
  baton complete TOKEN --data '{\"rows\": 12}'
  baton complete TOKEN --failed --message \"no room left\"

The token is what the called service got in the header Baton-Callback-Token. It is good once, and as
long as its attempt lives. The service itself needs no baton: curl -X POST URL does the same.")]
pub struct Args {
    /// The token, or the whole callback url.
    #[arg(value_name = "TOKEN|URL")]
    token: String,
    /// The work failed: the attempt fails, and is tried again if its task says so.
    #[arg(long)]
    failed: bool,
    /// What later tasks may read: a JSON object, or key=value lines.
    #[arg(long, value_name = "TEXT", default_value = "")]
    data: String,
    /// What happened, in words.
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,
}

/// Completes the task.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let token = args.token.split('?').next().unwrap_or_default();
    let token = token.rsplit_once("/v1/complete/").map_or(token, |(_, token)| token).to_owned();
    let result = if args.failed { CompletionResult::Failed } else { CompletionResult::Finished };
    let request = CompleteTaskRequest { token, result: result.into(), output: args.data, message: args.message };
    let response = context.client().await?.complete_task(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&response.task_id)?;
    } else {
        let how = if args.failed { "as failed" } else { "as finished" };
        output.line(&format!("task {} of job {}: completed {how}", response.task_id, short_id(&response.job_id)))?;
        output.note(&format!("see what follows: baton watch {}", short_id(&response.job_id)));
    }
    Ok(Exit::Ok)
}
