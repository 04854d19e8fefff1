//! `baton dev`: a scheduler, a runner and a database in one program, for one person on one machine.

use std::{
    fmt,
    fs::DirBuilder,
    io,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use baton_runner::{
    Runner,
    watchdog::{self, Guarded, Restart},
};
use baton_scheduler::{
    Scheduler,
    config::{Config, LogFormat},
    domain::{callback::address::Network, retention, timing::Timing},
    flow::courier,
    store,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    context::Context,
    errors::{Error, Exit, root_cause},
    output::text::{Line, Tone},
    trace,
};

/// How often the runner beats when nothing happens; all times of the protocol follow it.
const BEAT: Duration = Duration::from_secs(10);
/// How long the processes of a task may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// How wide the commands of the greeting are.
const COMMAND_WIDTH: usize = 34;
/// The name of the one runner.
const RUNNER: &str = "local";
/// What its http tasks may ask beside public addresses: everything is on this machine, and so are the services it is tried
/// with.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];
/// The database of the scheduler, below the data directory.
const DATABASE: &str = "baton.db";
/// What the runner keeps, below the data directory.
const RUNNER_STATE: &str = "runner";

/// What `dev` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton dev
  baton dev --data /tmp/try --listen 127.0.0.1:0 --slots 8

Everything is kept in the data directory: started again with the same one, it goes on where it was.
Tasks run in the current directory. Ctrl-C stops in order: tasks that run are ended and run again at
the next start. It asks nobody for credentials, and therefore listens on this machine alone.")]
pub struct Args {
    /// Where to keep everything.
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    data: PathBuf,
    /// Where to listen, on loopback; port 0 is any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// How many tasks run at once; the number of cores when not given, and 4 at least.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
}

impl Args {
    fn slots(&self) -> u32 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.slots.unwrap_or_else(|| u32::try_from(cores).unwrap_or(u32::MAX).max(4))
    }
}

/// Runs everything until Ctrl-C.
pub fn run(context: &Context, args: &Args, verbose: u8) -> Result<Exit, Error> {
    if !args.listen.ip().is_loopback() {
        return Err(Error::Usage(format!(
            "`baton dev` asks nobody for credentials and listens on loopback alone, not on {}",
            args.listen.ip()
        )));
    }
    // The program splits in two here, before it has a second thread: the parent ends every task if this one dies.
    let guarded = watchdog::guard(Restart::Never)
        .map_err(|error| Error::local(format!("cannot start under a watchdog: {}", root_cause(&error))))?;
    trace::dev(verbose);
    let data = prepare(&args.data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(context, args, &data, guarded))
}

/// Makes the data directory, for its owner alone.
fn prepare(data: &Path) -> Result<PathBuf, Error> {
    let refuse = |error: io::Error| {
        let message = format!("cannot use \"{}\" as data directory: {}", data.display(), root_cause(&error));
        Error::with_next(message, "name another one with --data")
    };
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(refuse)?;
    data.canonicalize().map_err(refuse)
}

/// Starts the parts one by one, and stops them in the opposite order.
async fn serve(context: &Context, args: &Args, data: &Path, guarded: Guarded) -> Result<Exit, Error> {
    let mut interrupts = Interrupts::new()?;
    let scheduler = Scheduler::start(Config {
        listen: args.listen,
        database: store::Settings { url: format!("sqlite://{}", data.join(DATABASE).display()) },
        advertise: None,
        public_url: None,
        timing: Timing::from_beat(BEAT, GRACE),
        log_format: LogFormat::default(),
        retention: retention::Policy::default(),
        // It is for one person on this machine, whose webhooks are on it, too.
        courier: courier::Settings {
            allow: LOOPBACK.iter().filter_map(|range| Network::parse(range).ok()).collect(),
            ..courier::Settings::default()
        },
    })
    .await
    .map_err(cannot_start)?;
    let address = scheduler.local_addr();
    let (stop_scheduler, stop_runner) = (CancellationToken::new(), CancellationToken::new());
    let mut scheduling = tokio::spawn(scheduler.run(stop_scheduler.clone().cancelled_owned()));
    let settings = baton_runner::Config {
        slots: args.slots(),
        http_allow: LOOPBACK.iter().filter_map(|network| network.parse().ok()).collect(),
        ..baton_runner::Config::new(RUNNER, address.to_string(), data.join(RUNNER_STATE))
    };
    let runner = Runner::new(settings).guarded(guarded);
    // What it runs is ended at once and without a lost attempt: the next start runs it again.
    let (leave, stop) = (stop_runner.clone().cancelled_owned(), stop_runner.clone().cancelled_owned());
    let mut running = tokio::spawn(runner.run(leave, stop));
    context.output.lines(&greeting(address, &args.data, args.slots()))?;

    let early = tokio::select! {
        () = interrupts.next() => None,
        ended = &mut running => Some(Error::local(format!("the runner ended: {}", told(ended)))),
        ended = &mut scheduling => Some(Error::local(format!("the scheduler ended: {}", told(ended)))),
    };
    context.output.note("stopping; Ctrl-C again stops at once");
    let in_order = async {
        stop_runner.cancel();
        if !running.is_finished() {
            let _said_by_its_log = (&mut running).await;
        }
        stop_scheduler.cancel();
        if scheduling.is_finished() { Ok(Ok(())) } else { (&mut scheduling).await }
    };
    let stopped = tokio::select! {
        stopped = in_order => stopped,
        // The watchdog ends what is left of the tasks, and the database survives any stop.
        () = interrupts.next() => return Ok(Exit::Interrupted),
    };
    match (early, stopped) {
        (Some(error), _) => Err(error),
        (None, Ok(Ok(()))) => Ok(Exit::Ok),
        (None, ended) => Err(Error::local(format!("the scheduler did not stop in order: {}", told(ended)))),
    }
}

/// Where everything is, and what to try first.
fn greeting(address: SocketAddr, data: &Path, slots: u32) -> Vec<Line> {
    let slots = if slots == 1 { "1 slot".to_owned() } else { format!("{slots} slots") };
    let step = |command: &str, what: &str| {
        let mut line = Line::new().with(format!("  {command}"), Tone::Bold);
        line.pad_to(COMMAND_WIDTH.max(line.width() + 2));
        line.with(what, Tone::Dim)
    };
    let mut lines = vec![
        Line::new()
            .with("baton listens on ", Tone::Plain)
            .with(address.to_string(), Tone::Bold)
            .with(format!(" · {slots} · data in {}", data.display()), Tone::Plain),
        Line::new(),
    ];
    if address.port() != baton::DEFAULT_PORT {
        lines.push(step(&format!("export BATON_ADDRESS={address}"), "so that the other commands find it"));
    }
    lines.extend([
        step("baton init hello", "write a commented job file"),
        step("baton apply -f hello.yaml", "store it"),
        step("baton run hello --follow", "run it and watch"),
        Line::new(),
        Line::new().with("Ctrl-C stops everything", Tone::Dim),
    ]);
    lines
}

/// What the scheduler advises of its database goes by another flag here.
fn cannot_start(error: baton_scheduler::Error) -> Error {
    match error {
        baton_scheduler::Error::Store(_) => Error::with_next(error, "keep this one's data elsewhere with --data DIR"),
        _ => Error::local(error),
    }
}

/// How a part ended that should not have.
fn told<E: fmt::Display>(ended: Result<Result<(), E>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "by itself".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic.to_string(),
    }
}

/// Ctrl-C, or the polite signal of a supervisor: both mean to stop.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeted(address: &str) -> String {
        let lines = greeting(address.parse().unwrap(), Path::new(".baton"), 4);
        lines.iter().map(|line| line.render(false)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_newcomer_is_told_the_next_three_commands() {
        let text = greeted("127.0.0.1:7420");
        assert!(text.starts_with("baton listens on 127.0.0.1:7420 · 4 slots · data in .baton\n"), "{text}");
        assert_eq!(text.matches("\n  baton ").count(), 3);
        assert!(!text.contains("BATON_ADDRESS"), "the usual address needs no word");
        assert!(greeted("127.0.0.1:9").contains("export BATON_ADDRESS=127.0.0.1:9"));
    }
}
