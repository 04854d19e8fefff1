//! `baton run`: a job is made, and waited for or watched if asked.

use std::collections::HashMap;

use baton::v1::RunRequest;

use super::watch;
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    selector::{pair, short_id},
};

/// What `run` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton run hello --follow
  baton run orders-etl -p day=2026-11-30 -p region=eu --wait
  JOB=$(baton run hello -o name)
  baton run hello --runner etl-2                      lets that runner alone take its tasks
  baton run hello --request-id nightly-2026-11-30     makes one job however often it is said

With --wait or --follow the exit code tells how the job ended:
  0 finished · 7 failed · 8 terminated · 9 skipped")]
pub struct Args {
    /// The job config.
    #[arg(value_name = "CONFIG")]
    name: String,
    /// A value for a parameter, taken as it is; may be repeated.
    #[arg(short, long = "param", value_name = "KEY=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Let this runner alone take the tasks of the job. It must be connected, and suit them. Jobs that `job` tasks stand for
    /// go where they would go anyway.
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,
    /// Wait in silence until the job has ended.
    #[arg(long)]
    wait: bool,
    /// Watch the job until it has ended.
    #[arg(long, short, conflicts_with = "wait")]
    follow: bool,
    /// Repeating the command with the same id gives the same job.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Makes the job.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let mut params = HashMap::new();
    for (key, value) in args.params {
        if params.insert(key.clone(), value).is_some() {
            return Err(Error::Usage(format!("the parameter \"{key}\" is given twice")));
        }
    }
    let request = RunRequest {
        namespace: context.namespace.clone(),
        name: args.name,
        params,
        runner_id: args.runner.unwrap_or_default(),
        request_id: request_id(args.request_id.as_deref()),
    };
    let response = context.client().await?.run(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
    }
    let job = response.job.unwrap_or_default();
    if output.is_name() || (!output.is_data() && output.is_tsv() && !args.follow) {
        output.line(&job.id)?;
    } else if !output.is_data() && !args.follow {
        output.line(&format!("job {} · {} v{} · {}", short_id(&job.id), job.name, job.version, job.id))?;
        if !args.wait {
            output.note(&format!("watch it: baton watch {}", short_id(&job.id)));
        }
    }
    if args.follow && !output.is_name() {
        return watch::show(context, &job.id).await;
    }
    if args.wait || args.follow {
        return watch::wait(context, &job.id).await;
    }
    Ok(Exit::Ok)
}
