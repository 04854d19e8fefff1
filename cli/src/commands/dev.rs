//! `baton dev`.

use std::{net::SocketAddr, path::PathBuf};

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// What `dev` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton dev
  baton dev --data /tmp/try --listen 127.0.0.1:0 --slots 8")]
pub struct Args {
    /// Where to keep everything.
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    data: PathBuf,
    /// Where to listen; loopback only.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// How many tasks the runner runs at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
}

/// Runs.
pub fn run(context: &Context, args: Args, verbose: u8) -> Result<Exit, Error> {
    let _ = (context, args.data, args.listen, args.slots, verbose);
    Ok(Exit::Ok)
}
