//! The command line.

use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};

use crate::{
    commands::{
        apply, backfill, calendar, callback, complete, completion, delete, describe, dev, drain, errors, explain, get,
        import, init, logs, mark, next, rerun, restore, resume, run, schedule, switch, terminate, test_endpoint,
        validate, watch,
    },
    output::{Format, time::TimeMode},
    selector,
};

const EXAMPLES: &str = "\
First steps:
  baton dev                      start a scheduler and a runner on this machine
  baton init hello               write a commented job file
  baton apply -f hello.yaml      store it
  baton run hello --follow       run it and watch

Exit codes:
  0 ok · 1 error · 2 usage · 3 not found · 4 denied · 5 conflict · 6 unreachable
  7 job failed · 8 job terminated · 9 job skipped · 10 differences · 130 interrupted";

/// Baton schedules jobs: graphs of tasks that run on machines near and far.
#[derive(Debug, Parser)]
#[command(name = "baton", version, after_help = EXAMPLES, max_term_width = 110, propagate_version = false)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = false)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The scheduler to talk to, HOST[:PORT].
    #[arg(long, global = true, env = "BATON_ADDRESS", default_value = "127.0.0.1:7420", value_name = "ADDR")]
    pub address: String,
    /// The namespace; in listings all of them when not given.
    #[arg(short, long, global = true, env = "BATON_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// table, wide, json (the scheduler's answer as grpcurl prints it), yaml or name; when not given, a table on a
    /// terminal and tab-separated text in a pipe.
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub output: Option<Format>,
    /// No colours; `NO_COLOR` says the same.
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Say only what was asked for, no notes on standard error.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more about what happens; twice for all of it.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Times in tables: local, utc, relative or rfc3339; when not given, local on a terminal and rfc3339 in a pipe.
    #[arg(long, global = true, value_enum, value_name = "HOW", hide_possible_values = true)]
    pub time: Option<TimeMode>,
    /// The language in which schedules are put into words: en or zh; that of `LANG` when not given.
    #[arg(long, global = true, value_enum, value_name = "LANG", hide_possible_values = true)]
    pub lang: Option<Words>,
    /// How long the scheduler may take to answer.
    #[arg(long, global = true, default_value = "30s", value_parser = selector::span, value_name = "SPAN")]
    pub timeout: Duration,
}

/// A language of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Words {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a scheduler and a runner on this machine, with nothing to install.
    Dev(dev::Args),
    /// Write a commented job file to start from.
    Init(init::Args),
    /// Check job files without a scheduler.
    Validate(validate::Args),
    /// Store job files; what changed becomes a new version.
    Apply(apply::Args),
    /// Show what an apply would change; exit code 10 when something would.
    Diff(apply::DiffArgs),
    /// Run a job config.
    Run(run::Args),
    /// List configs, jobs, tasks, runners, schedulers or versions, or read one.
    Get(get::Args),
    /// Show everything about one config, job, task or runner.
    Describe(describe::Args),
    /// Watch a job until it ends.
    Watch(watch::Args),
    /// Read what tasks wrote.
    Logs(logs::Args),
    /// Say why a task waits, was skipped, failed or got lost, and what would free it.
    Explain(explain::Args),
    /// End a job, a task or a shard, with all its processes.
    Terminate(terminate::Args),
    /// Complete a task that waits for its callback.
    Complete(complete::Args),
    /// Ask a service from a runner, as an http task would, and show what comes of it.
    TestEndpoint(test_endpoint::Args),
    /// Run again what failed, or one task of a job.
    Rerun(rerun::Args),
    /// Say how a task ended, or that nothing is left of it.
    Mark(mark::Args),
    /// Skip a task that waits.
    Skip(mark::SkipArgs),
    /// List what is scheduled, by when it fires next.
    Next(next::Args),
    /// Show when a schedule fires, without a scheduler.
    Schedule(schedule::Args),
    /// Switch schedules of a job config off, for a while or until they are enabled.
    Disable(switch::DisableArgs),
    /// Switch schedules of a job config on again.
    Enable(switch::EnableArgs),
    /// Make jobs for the fires of a schedule that lie in the past.
    Backfill(backfill::Args),
    /// Turn what other schedulers have into job files.
    Import(import::Args),
    /// Store, read and delete calendars: lists of dates on which schedules do not fire.
    Calendar(calendar::Args),
    /// Let a runner or a scheduler finish what it has and take nothing new.
    Drain(drain::Args),
    /// Give a drained runner or scheduler work again.
    Resume(resume::Args),
    /// Send again what was told to others.
    Callback(callback::Args),
    /// Delete a job config; its jobs go on and stay readable.
    Delete(delete::Args),
    /// Make an earlier version of a job config the newest again.
    Restore(restore::Args),
    /// Explain the reasons that errors carry.
    Errors(errors::Args),
    /// Print the JSON Schema of job files, for editors.
    Schema,
    /// Print a completion script for a shell.
    Completion(completion::Args),
    /// Print the version.
    Version,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_may_stand_anywhere() {
        let parse = |words: &[&str]| Cli::try_parse_from(words).unwrap().global;
        assert_eq!(parse(&["baton", "-o", "json", "get", "jobs"]).output, Some(Format::Json));
        assert_eq!(parse(&["baton", "get", "jobs", "-o", "name", "--timeout", "5s"]).timeout, Duration::from_secs(5));
    }

    #[test]
    fn kinds_are_known_in_singular_and_plural() {
        for kind in
            ["config", "configs", "job", "jobs", "task", "tasks", "runner", "runners", "scheduler", "schedulers"]
        {
            assert!(Cli::try_parse_from(["baton", "get", kind]).is_ok(), "{kind}");
        }
    }

    #[test]
    fn every_command_shows_how_it_is_used() {
        for command in
            Cli::command().get_subcommands().filter(|command| !["schema", "version"].contains(&command.get_name()))
        {
            assert!(command.get_after_help().is_some(), "{}", command.get_name());
        }
    }
}
