//! `baton delete`: a job config goes, its jobs stay.

use baton::v1::DeleteRequest;
use clap::Subcommand;

use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
};

/// What `delete` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton delete config orders-etl
  baton delete config orders-etl -n data")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Delete a job config with all its versions.
    #[command(visible_alias = "configs", after_help = "Examples:\n  baton delete config orders-etl")]
    Config {
        /// Its name.
        name: String,
        /// Although other job configs name it.
        #[arg(long)]
        force: bool,
        /// Repeating the command with the same id does nothing more.
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
    },
}

/// Deletes it.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let Kind::Config { name, force, request_id: id } = args.kind;
    let request = DeleteRequest {
        namespace: context.namespace.clone(),
        name: name.clone(),
        request_id: request_id(id.as_deref()),
        force,
    };
    let response = context.client().await?.delete(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&name)?;
    } else {
        let jobs = match response.live_jobs {
            0 => String::new(),
            1 => "; 1 job is live and goes on".to_owned(),
            n => format!("; {n} jobs are live and go on"),
        };
        output.line(&format!("config {name} is deleted{jobs}"))?;
        output.note(&format!("its jobs stay readable: baton get jobs --name {name}"));
    }
    Ok(Exit::Ok)
}
