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
mod words;

use std::{
    io,
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
    time::timeout,
};
use tracing::warn;

use self::words::{Entry, Told, Word};
use crate::clock::Instant;

/// Names the watchdog to its child.
const PARENT_VARIABLE: &str = "BATON_WATCHDOG_PID";

/// How long the word that a process is gone waits for another to go with. What starts is told at once: a runner may be frozen
/// in the next moment.
const GONE_PATIENCE: Duration = Duration::from_millis(10);

/// Words that may wait for a watchdog that does not read. What is dropped is checked by pid and start time there, so
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
pub(crate) struct Watchdog(Option<mpsc::Sender<Word>>);

impl Watchdog {
    /// Nobody watches.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Speaks to whoever holds the other end. The future resolves when that one is gone.
    pub(crate) fn of(guarded: Guarded) -> io::Result<(Self, impl Future<Output = ()> + Send)> {
        guarded.socket.set_nonblocking(true)?;
        let mut socket = tokio::net::UnixStream::from_std(guarded.socket)?;
        let (sender, mut lines) = mpsc::channel::<Word>(LINES_MAX);
        let gone = async move {
            let (mut read, mut write) = socket.split();
            let speak = async {
                let mut told = Told::default();
                let mut waiting = Vec::new();
                while lines.recv_many(&mut waiting, LINES_MAX).await > 0 {
                    while waiting.iter().all(Word::can_wait) {
                        let more = timeout(GONE_PATIENCE, lines.recv_many(&mut waiting, LINES_MAX)).await;
                        if !more.is_ok_and(|count| count > 0) {
                            break;
                        }
                    }
                    let text = told.put(waiting.drain(..));
                    if write.write_all(text.as_bytes()).await.is_err() {
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
        let entry = Entry { pid, started, key: key.to_owned(), self_stop_after, grace };
        self.say(Word::Runs(slot, entry));
    }

    /// It is being stopped already.
    pub(crate) fn stops(&self, slot: u32) {
        self.say(Word::Stops(slot));
    }

    /// It is gone.
    pub(crate) fn gone(&self, slot: u32) {
        self.say(Word::Gone(slot));
    }

    /// Self-stop counts from here.
    pub(crate) fn lifeline(&self, at: Instant) {
        self.say(Word::Lifeline(at));
    }

    fn say(&self, word: Word) {
        let Some(sender) = &self.0 else { return };
        if let Err(mpsc::error::TrySendError::Full(word)) = sender.try_send(word) {
            warn!(?word, "the watchdog does not read what it is told");
        }
    }
}
