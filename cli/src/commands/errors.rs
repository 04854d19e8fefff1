//! `baton errors`: what the stable reasons of errors mean.

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// What `errors` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton errors
  baton errors AMBIGUOUS_ID")]
pub struct Args {
    /// The reason, as an error named it; all of them when not given.
    reason: Option<String>,
}

/// A reason with what it means and what to do.
struct Entry {
    reason: &'static str,
    meaning: &'static str,
    action: &'static str,
}

const ENTRIES: &[Entry] = &[];

/// Whether `baton errors` has something to say about a reason.
pub fn known(reason: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.reason == reason)
}

/// Explains one reason, or lists all.
pub fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let _ = (context, args, ENTRIES.first().map(|e| (e.meaning, e.action)));
    Ok(Exit::Ok)
}
