//! `baton resume`: a drained runner or scheduler works again.

use baton::v1::{ResumeRunnerRequest, ResumeSchedulerRequest};

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// What `resume` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton resume etl-2
  baton resume --scheduler 5f0c11d2")]
pub struct Args {
    /// The runner.
    #[arg(value_name = "RUNNER", required_unless_present = "scheduler", conflicts_with = "scheduler")]
    runner: Option<String>,
    /// The scheduler, by its id or a unique end or beginning of it.
    #[arg(long, value_name = "ID")]
    scheduler: Option<String>,
}

/// Resumes it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let client = context.client().await?;
    let output = context.output;
    if let Some(scheduler_id) = args.scheduler {
        let response = client.resume_scheduler(ResumeSchedulerRequest { scheduler_id: scheduler_id.clone() }).await?;
        if output.is_data() {
            output.data(&response)?;
        } else {
            let id = response.scheduler.map_or(scheduler_id, |scheduler| scheduler.id);
            output.line(&if output.is_name() { id } else { format!("scheduler {id} gives out work again") })?;
        }
        return Ok(Exit::Ok);
    }
    let runner_id = args.runner.unwrap_or_default();
    let response = client.resume_runner(ResumeRunnerRequest { runner_id: runner_id.clone() }).await?;
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&runner_id)?;
    } else {
        output.line(&format!("runner {runner_id} takes new work again"))?;
    }
    Ok(Exit::Ok)
}
