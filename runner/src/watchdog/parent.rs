//! The watchdog itself: one thread that waits for a death, a line, a signal or a time.

use std::{
    io,
    os::unix::{net::UnixStream, process::CommandExt as _, process::ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::{
    PARENT_VARIABLE, Restart,
    ledger::{Act, Ledger},
};
use crate::{
    clock::{self, Alarm},
    tree,
};

/// The pause before a runner that died is started again, doubled with each death.
const RESTART_MIN: Duration = Duration::from_millis(100);

/// The longest such pause.
const RESTART_MAX: Duration = Duration::from_secs(10);

/// A runner that lived for so long was healthy: the next pause is a short one again.
const HEALTHY_AFTER: Duration = Duration::from_secs(30);

/// How long one task is chased, and the pause between two rounds.
const KILL_WITHIN: Duration = Duration::from_secs(1);
const KILL_AGAIN: Duration = Duration::from_millis(5);

/// The pause after something was heard. A busy runner speaks at the beginning of each task, and waking up costs more than what is
/// said; until it is heard it waits in the socket, whatever becomes of the runner. Self-stop is counted in seconds.
const LISTEN_AGAIN: Duration = Duration::from_millis(20);

/// How much is read at once.
const PIECE_BYTES: usize = 16 * 1024;

/// What Rust exits with after a panic in `main`: a death, not a decision.
const PANICKED: i32 = 101;

/// Runs the program as a child until it exits by its own decision, and says with which code.
pub(super) fn watch(restart: Restart) -> io::Result<i32> {
    set_child_subreaper(Some(getpid()))?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut pause = RESTART_MIN;
        loop {
            let begun = Instant::now();
            let (mut child, socket) = start()?;
            let status = attend(&mut child, socket, &mut signals).await?;
            // Everything that is a child of ours now was a descendant of the runner.
            let ended = tree::end_all_children()?;
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            let decided = status.code().is_some_and(|code| code != PANICKED);
            if decided || restart == Restart::Never || signals.leaving {
                return Ok(code);
            }
            say(&format!("the runner died ({}); {ended} processes of its tasks were ended", describe(status)));
            if begun.elapsed() > HEALTHY_AFTER {
                pause = RESTART_MIN;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = signals.told_to_leave() => return Ok(code),
            }
            pause = (pause * 2).min(RESTART_MAX);
        }
    })
}

fn start() -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    // After an upgrade the file may be gone or another; then the program that runs is started again as it is.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let mut command = Command::new(program.unwrap_or_else(|| "/proc/self/exe".into()));
    let mut arguments = std::env::args_os();
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(PARENT_VARIABLE, std::process::id().to_string());
    // A group of its own: Ctrl-C reaches the watchdog alone, which passes it on once. Two would mean "at once".
    let child = command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).process_group(0).spawn()?;
    ours.set_nonblocking(true)?;
    Ok((child, ours))
}

/// Sees a runner through to its end.
async fn attend(child: &mut Child, socket: UnixStream, signals: &mut Signals) -> io::Result<ExitStatus> {
    let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::NotFound)?;
    let mut said = Some(Said::by(socket)?);
    let mut ledger = Ledger::default();
    let mut alarm = Alarm::new()?;
    loop {
        alarm.set(ledger.next())?;
        tokio::select! {
            _ = signals.child.recv() => if let Some(status) = child.try_wait()? {
                return Ok(status);
            },
            open = hear(&mut said, &mut ledger) => if open {
                // The thread sleeps, not the task: what is said meanwhile does not even wake it.
                std::thread::sleep(LISTEN_AGAIN);
            } else {
                said = None;
            },
            rung = alarm.ring() => {
                rung?;
                for act in ledger.act(clock::Instant::now()) {
                    carry_out(act);
                }
            }
            _ = signals.terminate.recv() => forward(pid, Signal::TERM, signals),
            _ = signals.interrupt.recv() => forward(pid, Signal::INT, signals),
        }
    }
}

/// Waits until something is said, and takes it in; false at the end of it. Cancel safe.
async fn hear(said: &mut Option<Said>, ledger: &mut Ledger) -> bool {
    let Some(said) = said else { return std::future::pending().await };
    if said.socket.readable().await.is_err() {
        return false;
    }
    let mut piece = [0; PIECE_BYTES];
    loop {
        match said.socket.try_read(&mut piece) {
            Ok(0) => return false,
            Ok(length) => said.take(&piece[..length], ledger),
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// What a runner says, a line at a time.
struct Said {
    socket: tokio::net::UnixStream,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
}

impl Said {
    fn by(socket: UnixStream) -> io::Result<Self> {
        Ok(Self { socket: tokio::net::UnixStream::from_std(socket)?, begun: Vec::new() })
    }

    fn take(&mut self, piece: &[u8], ledger: &mut Ledger) {
        self.begun.extend_from_slice(piece);
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else { return };
        String::from_utf8_lossy(&self.begun[..end]).lines().for_each(|line| ledger.read(line));
        self.begun.drain(..=end);
    }
}

fn forward(runner: Pid, which: Signal, signals: &mut Signals) {
    signals.leaving = true;
    // The runner is our child and not reaped, so the pid is its own.
    let _ = kill_process(runner, which);
}

fn carry_out(act: Act) {
    match act {
        Act::Terminate(entry) => {
            say(&format!("process {} outlived its time while the runner was silent; it is asked to end", entry.pid));
            tree::signal_group_of(entry.pid, entry.started, Signal::TERM);
        }
        Act::Kill(entry) => {
            tree::signal_group_of(entry.pid, entry.started, Signal::KILL);
            // What the dead leave behind is found in the next round.
            let until = std::time::Instant::now() + KILL_WITHIN;
            while tree::kill_keyed(&entry.key) > 0 && std::time::Instant::now() < until {
                std::thread::sleep(KILL_AGAIN);
            }
        }
    }
}

struct Signals {
    child: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    leaving: bool,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            leaving: false,
        })
    }

    async fn told_to_leave(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "unknown".to_owned(),
    }
}

/// The watchdog has no log of its own; what it has to say is rare and goes to standard error.
fn say(what: &str) {
    eprintln!("baton watchdog: {what}");
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[tokio::test]
    async fn a_line_that_comes_in_pieces_is_taken_in_once_it_is_whole() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (mut said, mut ledger) = (Some(Said::by(ours).unwrap()), Ledger::default());
        theirs.write_all(b"lifeline 1000000\nruns 0 100 5 key 45000 8").unwrap();
        assert!(hear(&mut said, &mut ledger).await);
        assert_eq!(ledger.next(), None, "half a line says nothing");
        theirs.write_all(b"000\n").unwrap();
        assert!(hear(&mut said, &mut ledger).await);
        assert_eq!(ledger.next(), Some(clock::Instant::from_boot(Duration::from_secs(1047))));
    }

    #[tokio::test]
    async fn what_was_said_before_the_end_is_heard_after_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (mut said, mut ledger) = (Some(Said::by(ours).unwrap()), Ledger::default());
        theirs.write_all(b"lifeline 1000000\nruns 0 100 5 key 45000 8000\n").unwrap();
        drop(theirs);
        assert!(!hear(&mut said, &mut ledger).await, "that was the end");
        assert!(ledger.next().is_some());
    }
}
