//! A small parent process that outlives the runner, so that nothing the runner started ever does.
//!
//! It is the same binary. `guard` splits the program in two before it does anything else: the parent stays and
//! watches, the child (the same program with the same arguments) goes on as the runner, told apart by an environment
//! variable and holding a socket to the parent as its standard input. Over that socket the parent learns which
//! processes run and how long they may do so without a sign of life from the scheduler.
//!
//! - The runner dies: being a sub-reaper, the watchdog now has every process of every task as a child. It kills them
//!   all, without grace, and starts the runner again, whose hello names them as ended.
//! - The runner is frozen while a task's self-stop comes due: the watchdog stops it at the very time at which the
//!   runner would have had to be done with it.
//! - The watchdog dies: the runner reads the end of the socket and stops its tasks.

mod ledger;
mod parent;

use std::{
    io,
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};
use tracing::warn;

use crate::clock::Instant;

/// Names the watchdog to its child.
const PARENT_VARIABLE: &str = "BATON_WATCHDOG_PID";

/// Lines that may wait for a watchdog that does not read. What is dropped is checked by pid and start time there, so
/// it can only make the watchdog do less.
const LINES_MAX: usize = 65_536;

/// Whether a runner that died is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The watchdog ends what it left and then itself.
    Never,
    /// The watchdog ends what it left and starts it again.
    Always,
}

/// What the child has of its watchdog. To be handed to the runner.
#[derive(Debug)]
pub struct Guarded {
    socket: UnixStream,
}

/// Splits the program into a watchdog and the rest. Call it first in `main`, before any thread or runtime exists.
///
/// In the parent it does not return: the parent becomes the watchdog and exits with the child's code. In the child it
/// returns the handle for [`crate::Runner`].
///
/// # Errors
/// When the child cannot be started.
pub fn guard(restart: Restart) -> io::Result<Guarded> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    let ours = std::env::var(PARENT_VARIABLE).ok().filter(|named| Some(named) == parent.as_ref());
    if ours.is_none() {
        let code = parent::watch(restart)?;
        std::process::exit(code);
    }
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Nothing here reads standard input, and nothing is to inherit the socket by accident.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(Guarded { socket })
}

/// Speaks to the watchdog, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog(Option<mpsc::Sender<String>>);

impl Watchdog {
    /// Nobody watches.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Speaks to whoever holds the other end. The future resolves when that one is gone.
    pub(crate) fn of(guarded: Guarded) -> io::Result<(Self, impl Future<Output = ()> + Send)> {
        guarded.socket.set_nonblocking(true)?;
        let mut socket = tokio::net::UnixStream::from_std(guarded.socket)?;
        let (sender, mut lines) = mpsc::channel::<String>(LINES_MAX);
        let gone = async move {
            let (mut read, mut write) = socket.split();
            let speak = async {
                while let Some(line) = lines.recv().await {
                    if write.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                }
                // The runner is done speaking, not the watchdog gone.
                std::future::pending::<()>().await;
            };
            let listen = async {
                let mut byte = [0];
                while matches!(read.read(&mut byte).await, Ok(1)) {}
            };
            tokio::select! { () = speak => {}, () = listen => {} }
        };
        Ok((Self(Some(sender)), gone))
    }

    /// A slot runs this process.
    pub(crate) fn runs(
        &self,
        slot: u32,
        pid: i32,
        started: u64,
        key: &str,
        self_stop_after: Option<Duration>,
        grace: Duration,
    ) {
        let after = self_stop_after.map_or("-".to_owned(), |after| after.as_millis().to_string());
        self.say(format!("runs {slot} {pid} {started} {key} {after} {}\n", grace.as_millis()));
    }

    /// It is being stopped already.
    pub(crate) fn stops(&self, slot: u32) {
        self.say(format!("stops {slot}\n"));
    }

    /// It is gone.
    pub(crate) fn gone(&self, slot: u32) {
        self.say(format!("gone {slot}\n"));
    }

    /// Self-stop counts from here.
    pub(crate) fn lifeline(&self, at: Instant) {
        self.say(format!("lifeline {}\n", at.since_boot().as_millis()));
    }

    fn say(&self, line: String) {
        let Some(sender) = &self.0 else { return };
        if let Err(mpsc::error::TrySendError::Full(line)) = sender.try_send(line) {
            warn!(line = line.trim(), "the watchdog does not read what it is told");
        }
    }
}
