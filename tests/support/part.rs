//! One process of ours that a test started: its signals, its end and what it wrote.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use crate::processes;

/// How much of what a part wrote is shown when a test fails.
const SHOWN_LINES: usize = 120;

/// A process that a test started. It is killed, with everything below it, when it goes out of scope.
#[derive(Debug)]
pub struct Part {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Part {
    /// Starts a program in a process group of its own. What it writes is added to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> Self {
        let out = File::options().create(true).append(true).open(log).expect("the log can be written");
        let err = out.try_clone().expect("a file can be shared");
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process that was started.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Everything it has written.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of what it wrote, for the reader of a failed test.
    pub fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<_> = output.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        format!("--- {} (pid {})\n{}\n", self.name, self.pid(), shown.join("\n"))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.pid(), signal);
    }

    /// Sends a signal to its process group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.pid()) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Asks it to end in order (SIGTERM).
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Stops its time (SIGSTOP).
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets its time go on (SIGCONT).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it at once (kill -9) and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it ended; none while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for it to end by itself.
    pub async fn end(&mut self, limit: Duration) -> ExitStatus {
        let ended = self.ended().is_some() || timeout(limit, gone(self.pid())).await.is_ok();
        assert!(ended, "waited {limit:?} in vain: {} ends", self.name);
        self.ended().expect("its end was seen")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A frozen process dies of SIGKILL all the same. What is below is noted first: once its parent is gone nothing
        // tells whose it was.
        let below = processes::descendants(self.pid());
        if self.ended().is_none() {
            self.signal_group(Signal::KILL);
        }
        for pid in below {
            processes::signal(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Returns when a child that was not yet asked how it ended has ended.
#[expect(deprecated, reason = "what takes its place is unsafe, and an owned descriptor keeps what it asks for")]
async fn gone(pid: i32) {
    let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let pidfd = AsyncFd::with_interest(pidfd.expect("the child is there"), Interest::READABLE);
    pidfd.expect("a pidfd can be watched").readable().await.map(drop).expect("a pidfd can be watched");
}
