//! `baton restore`: an earlier version becomes the newest again.

use baton::v1::{ApplyResponse, RestoreRequest};
use clap::Subcommand;

use super::apply;
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
};

/// What `restore` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get versions orders-etl
  baton restore config orders-etl --version 6")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Restore a job config; running jobs stay on their version.
    #[command(visible_alias = "configs", after_help = "Examples:\n  baton restore config orders-etl --version 6")]
    Config {
        /// Its name.
        name: String,
        /// The version to bring back.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        version: u32,
        /// Repeating the command with the same id does nothing more.
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
    },
}

/// Restores it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let Kind::Config { name, version, request_id: id } = args.kind;
    let request =
        RestoreRequest { namespace: context.namespace.clone(), name, version, request_id: request_id(id.as_deref()) };
    let response = context.client().await?.restore(request).await?;
    if context.output.is_data() {
        context.output.data(&response)?;
    } else {
        let applied = ApplyResponse { job_configs: response.job_config.into_iter().collect() };
        apply::print(context, &applied, false)?;
    }
    Ok(Exit::Ok)
}
