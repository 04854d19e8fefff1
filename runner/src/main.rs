//! `baton-runner`: reads its settings, puts a watchdog above itself, and runs.

use std::{io::IsTerminal as _, process::ExitCode};

use baton_runner::{
    Runner,
    config::{Flags, LogFormat, Settings},
    watchdog::{self, Guarded, Restart},
};
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Wrong usage, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let print = flags.print_config;
    let settings = match Settings::read(flags) {
        Ok(settings) => settings,
        Err(problems) => {
            eprintln!("baton-runner: the settings cannot be used:");
            for problem in &problems.0 {
                eprintln!("  {problem}");
            }
            eprintln!("see baton-runner --help");
            return ExitCode::from(USAGE);
        }
    };
    if print {
        print!("{}", settings.to_toml());
        return ExitCode::SUCCESS;
    }
    // Before any thread exists: above this line the program is about to become two.
    let guarded = match settings.watchdog.then(|| watchdog::guard(Restart::Always)).transpose() {
        Ok(guarded) => guarded,
        Err(error) => {
            eprintln!("baton-runner: cannot start under a watchdog: {error}; --no-watchdog runs without one");
            return ExitCode::FAILURE;
        }
    };
    log(settings.log_format);
    match run(settings, guarded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton-runner: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// On one thread: what a runner does itself is small and follows one from the other, and threads that hand such work to each
/// other spend more on waking than on working. Processes are spawned beside it, and requests have threads of their own.
fn run(settings: Settings, guarded: Option<Guarded>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // The first signal of either kind means leave, the second means now.
        let (leave, stop) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let listen = async {
            for told in [&leave, &stop] {
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                told.notify_one();
            }
            std::future::pending::<()>().await;
        };
        let mut runner = Runner::new(settings.runner).requests_apart();
        if let Some(guarded) = guarded {
            runner = runner.guarded(guarded);
        }
        tokio::select! {
            ended = runner.run(leave.notified(), stop.notified()) => Ok(ended?),
            () = listen => Ok(()),
        }
    })
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("BATON_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().init(),
    }
}
