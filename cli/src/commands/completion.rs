//! `baton completion`: a script that completes commands in a shell.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::{
    args::Cli,
    context::Context,
    errors::{Error, Exit},
};

/// What `completion` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(baton completion bash)
  baton completion zsh > \"${fpath[1]}/_baton\"
  baton completion fish > ~/.config/fish/completions/baton.fish")]
pub struct Args {
    /// For which shell.
    shell: Shell,
}

/// Prints the script.
pub fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "baton", &mut script);
    context.output.raw(&script)?;
    Ok(Exit::Ok)
}
