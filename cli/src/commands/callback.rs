//! `baton callback`: what was told to others is told again.

use baton::v1::ResendCallbackRequest;
use clap::Subcommand;

use crate::{
    context::Context,
    errors::{Error, Exit},
    selector::short_id,
};

/// What `callback` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get callbacks --state failed
  baton callback resend 3f9a01c2")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Send one again that arrived or was given up, with the same id; one that waits for its next try is tried now.
    #[command(after_help = "\
Examples:
  baton get callbacks --state failed
  baton callback resend 3f9a01c2")]
    Resend {
        /// The callback, by its id or a unique end or beginning of it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Sends it again.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let Kind::Resend { id } = args.kind;
    let response = context.client().await?.resend_callback(ResendCallbackRequest { callback_id: id }).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
        return Ok(Exit::Ok);
    }
    let id = response.callback.unwrap_or_default().id;
    if output.is_name() {
        output.line(&id)?;
    } else {
        let short = short_id(&id);
        output.line(&format!("callback {short} is sent again; see it with: baton get callbacks --id {short}"))?;
    }
    Ok(Exit::Ok)
}
