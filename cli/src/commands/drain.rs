//! `baton drain`: what is there finishes, nothing new comes.

use baton::v1::{DrainRunnerRequest, DrainSchedulerRequest};

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// What `drain` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton drain etl-2 --reason \"new kernel\"
  baton get runner etl-2            until no slot is busy
  baton drain --scheduler 5f0c11d2")]
pub struct Args {
    /// The runner.
    #[arg(value_name = "RUNNER", required_unless_present = "scheduler", conflicts_with = "scheduler")]
    runner: Option<String>,
    /// The scheduler, by its id or a unique end or beginning of it.
    #[arg(long, value_name = "ID")]
    scheduler: Option<String>,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "", conflicts_with = "scheduler")]
    reason: String,
}

/// Drains it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let client = context.client().await?;
    let output = context.output;
    if let Some(scheduler_id) = args.scheduler {
        let response = client.drain_scheduler(DrainSchedulerRequest { scheduler_id: scheduler_id.clone() }).await?;
        if output.is_data() {
            output.data(&response)?;
        } else {
            let id = response.scheduler.map_or_else(|| scheduler_id.clone(), |scheduler| scheduler.id);
            if output.is_name() {
                output.line(&id)?;
            } else {
                output.line(&format!("scheduler {id} is drained: it keeps its streams and gives out nothing new"))?;
                output.note(&format!("undo with: baton resume --scheduler {scheduler_id}"));
            }
        }
        return Ok(Exit::Ok);
    }
    let runner_id = args.runner.unwrap_or_default();
    let request = DrainRunnerRequest { runner_id: runner_id.clone(), reason: args.reason };
    let response = client.drain_runner(request).await?;
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&runner_id)?;
    } else {
        let busy = response.runner.map_or(0, |runner| runner.slots_busy);
        let tasks = match busy {
            0 => "no task runs on it".to_owned(),
            1 => "1 task still runs on it".to_owned(),
            n => format!("{n} tasks still run on it"),
        };
        output.line(&format!("runner {runner_id} drains: {tasks}, nothing new comes"))?;
        output.note(&format!("undo with: baton resume {runner_id}"));
    }
    Ok(Exit::Ok)
}
