//! The process of a scheduler: its settings, its log, its signals.

use std::{env, future::Future, io::IsTerminal as _, process::ExitCode};

use baton_scheduler::{
    Scheduler,
    config::{self, Asked, Config, LogFormat},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

/// What says too much at the level of everything else.
const QUIET: [&str; 2] = ["sqlx=warn", "sea_orm_migration=warn"];

/// It could not run.
const FAILED: u8 = 1;
/// It was called wrongly.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let matches = config::command().get_matches();
    match config::read(&matches) {
        Ok(Asked::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Asked::Run { config, log }) => run(*config, &log),
        Err(problems) => {
            eprintln!("baton-scheduler: the settings are wrong");
            for line in problems.to_string().lines() {
                eprintln!("  {line}");
            }
            ExitCode::from(USAGE)
        }
    }
}

fn run(config: Config, log: &str) -> ExitCode {
    if let Err(problem) = start_log(config.log_format, log) {
        eprintln!("baton-scheduler: --log: {problem}");
        return ExitCode::from(USAGE);
    }
    raise_file_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    runtime.block_on(async {
        let shutdown = match stop_signal() {
            Ok(shutdown) => shutdown,
            Err(error) => return failed(&error),
        };
        let scheduler = match Scheduler::start(config).await {
            Ok(scheduler) => scheduler,
            Err(error) => return failed(&error),
        };
        match scheduler.run(shutdown).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        }
    })
}

fn start_log(format: LogFormat, filter: &str) -> Result<(), String> {
    let mut filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    let given = filter.to_string();
    for quiet in QUIET {
        // What was asked for by name is told.
        if !given.contains(quiet.split('=').next().unwrap_or_default()) {
            filter = filter.add_directive(quiet.parse().expect("our own directives parse"));
        }
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            let colour = std::io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
            log.with_ansi(colour).with_target(false).init();
        }
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Each runner and each client takes a file: allow as many as the system lets us have.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        warn!(%error, "cannot raise the limit of open files");
    }
}

/// Ends at the first SIGTERM or SIGINT; the second one ends the process at once.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "asked to stop; a second time stops at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(i32::from(FAILED));
        });
    })
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("baton-scheduler: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        eprintln!("  because: {cause}");
        source = cause.source();
    }
    ExitCode::from(FAILED)
}
