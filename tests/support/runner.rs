//! A runner of a test: what it is to be, and the running one with its watchdog.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rustix::process::Signal;

use crate::{PATIENCE, Part, processes, soon};

/// A runner that a test wants.
#[derive(Debug, Clone)]
#[must_use]
pub struct RunnerSpec {
    /// Its id.
    pub id: String,
    /// How many tasks it can run at once.
    pub slots: u32,
    /// Its labels, each `key=value`.
    pub labels: Vec<String>,
    /// Where it dials; unset means every scheduler of the cluster.
    pub dials: Option<String>,
    /// Its state directory; unset means one named for its id.
    pub state_dir: Option<PathBuf>,
    /// Where tasks run; unset means an empty directory of the test.
    pub work_dir: Option<PathBuf>,
    /// What else is in its environment.
    pub env: Vec<(String, String)>,
}

impl RunnerSpec {
    /// A runner with this id, four slots and no labels.
    pub fn named(id: &str) -> Self {
        let env = Vec::new();
        Self { id: id.to_owned(), slots: 4, labels: Vec::new(), dials: None, state_dir: None, work_dir: None, env }
    }

    /// With so many slots.
    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    /// With one more label.
    pub fn label(mut self, label: &str) -> Self {
        self.labels.push(label.to_owned());
        self
    }

    /// That may ask services on this machine.
    pub fn asks_this_machine(self) -> Self {
        self.env("BATON_HTTP_ALLOW", "127.0.0.0/8")
    }

    /// That dials this address, such as a proxy's, instead of the schedulers.
    pub fn through(mut self, address: SocketAddr) -> Self {
        self.dials = Some(format!("http://{address}"));
        self
    }

    /// With a state directory of the test's choice.
    pub fn state_dir(mut self, path: &Path) -> Self {
        self.state_dir = Some(path.to_owned());
        self
    }

    /// With one more variable in its environment.
    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.env.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Whose tasks run there.
    pub fn work_dir(mut self, path: &Path) -> Self {
        self.work_dir = Some(path.to_owned());
        self
    }
}

/// A running runner: the watchdog that was started, with the runner itself below it.
#[derive(Debug)]
pub struct Runner {
    /// The watchdog, parent of the runner.
    pub part: Part,
    /// What it was started with.
    pub spec: RunnerSpec,
}

impl Runner {
    /// The process that runs tasks and holds the stream. It is the watchdog's child and the same program.
    pub fn pid(&self) -> i32 {
        let program = processes::program(self.part.pid());
        processes::children(self.part.pid())
            .into_iter()
            .find(|child| program.is_some() && processes::program(*child) == program)
            .unwrap_or_else(|| self.part.pid())
    }

    /// Kills the runner itself, not its watchdog (kill -9).
    pub fn kill(&self) {
        processes::signal(self.pid(), Signal::KILL);
    }

    /// Kills watchdog and runner at once (kill -9), so that nobody is left to end the tasks. Returns once both are gone, and
    /// with the runner its lock on the state directory.
    pub async fn kill_with_watchdog(&mut self) {
        let inner = self.pid();
        processes::signal(self.part.pid(), Signal::KILL);
        processes::signal(inner, Signal::KILL);
        self.part.end(PATIENCE).await;
        soon("the runner is gone too, and its lock with it", || !processes::is_alive(inner)).await;
    }

    /// Stops the time of the runner itself, not of its watchdog.
    pub fn freeze(&self) {
        processes::signal(self.pid(), Signal::STOP);
    }

    /// Lets the time of the runner go on.
    pub fn thaw(&self) {
        processes::signal(self.pid(), Signal::CONT);
    }
}
