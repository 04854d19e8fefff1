//! The `baton` command: everything a user does with Baton.

// Nothing outside of a program can reach into it: `pub` here says that other modules of it may.
#![allow(unreachable_pub)]

mod args;
mod backoff;
mod client;
mod commands;
mod context;
mod errors;
mod files;
mod follow;
mod output;
mod problem;
mod selector;
mod trace;
mod view;

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;

use args::{Cli, Command};
use context::Context;
use errors::{Error, Exit};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = Context::new(&cli.global);
    match start(cli, &context) {
        Ok(exit) => exit.into(),
        Err(error) => {
            report(&error, &context);
            error.exit().into()
        }
    }
}

fn start(cli: Cli, context: &Context) -> Result<Exit, Error> {
    let verbose = cli.global.verbose;
    if let Command::Dev(args) = &cli.command {
        return commands::dev::run(context, args, verbose);
    }
    trace::client(verbose);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let exit = runtime.block_on(dispatch(cli.command, context));
    // A question that was never answered still waits for the terminal, and nobody waits for it.
    runtime.shutdown_background();
    exit
}

async fn dispatch(command: Command, context: &Context) -> Result<Exit, Error> {
    match command {
        Command::Dev(_) => unreachable!("it has a runtime of its own"),
        Command::Init(args) => commands::init::run(context, &args),
        Command::Validate(args) => commands::validate::run(context, &args),
        Command::Apply(args) => commands::apply::run(context, &args).await,
        Command::Diff(args) => commands::apply::diff(context, &args).await,
        Command::Run(args) => commands::run::run(context, args).await,
        Command::Get(args) => commands::get::run(context, args).await,
        Command::Describe(args) => commands::describe::run(context, args).await,
        Command::Watch(args) => commands::watch::run(context, &args).await,
        Command::Logs(args) => commands::logs::run(context, args).await,
        Command::Explain(args) => commands::explain::run(context, args).await,
        Command::Terminate(args) => commands::terminate::run(context, args).await,
        Command::Complete(args) => commands::complete::run(context, args).await,
        Command::TestEndpoint(args) => commands::test_endpoint::run(context, args).await,
        Command::Rerun(args) => commands::rerun::run(context, args).await,
        Command::Mark(args) => commands::mark::run(context, args).await,
        Command::Skip(args) => commands::mark::skip(context, args).await,
        Command::Next(args) => commands::next::run(context, args).await,
        Command::Schedule(args) => commands::schedule::run(context, args).await,
        Command::Enable(args) => commands::switch::enable(context, args).await,
        Command::Disable(args) => commands::switch::disable(context, args).await,
        Command::Backfill(args) => commands::backfill::run(context, args).await,
        Command::Import(args) => commands::import::run(context, args),
        Command::Calendar(args) => commands::calendar::run(context, args).await,
        Command::Drain(args) => commands::drain::run(context, args).await,
        Command::Resume(args) => commands::resume::run(context, args).await,
        Command::Callback(args) => commands::callback::run(context, args).await,
        Command::Delete(args) => commands::delete::run(context, args).await,
        Command::Restore(args) => commands::restore::run(context, args).await,
        Command::Errors(args) => commands::errors::run(context, &args),
        Command::Schema => commands::schema::run(context),
        Command::Completion(args) => commands::completion::run(context, &args),
        Command::Version => commands::version::run(context),
    }
}

/// Says on standard error what went wrong: as JSON when the answer was to be JSON.
fn report(error: &Error, context: &Context) {
    if matches!(error, Error::PipeClosed) {
        return;
    }
    let text = if context.output.is_data() {
        format!("{:#}", error.to_json())
    } else {
        error.to_text(context.output.error_color)
    };
    // When standard error is gone too, the exit code is all that is left.
    let _ = writeln!(std::io::stderr(), "{text}");
}
