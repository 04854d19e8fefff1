//! What stamped children left: who began and ended when, by the clock that only goes forward.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use baton_tests::{eventually, programs};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A moment of `CLOCK_MONOTONIC`, in nanoseconds. Every process of a machine reads the same clock.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The milliseconds between two moments.
pub(crate) fn ms(from: i64, to: i64) -> f64 {
    (to - from) as f64 / 1e6
}

/// One line of a child.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) name: String,
    /// Its first instruction.
    pub(crate) first: i64,
    /// Just before its exit.
    pub(crate) last: i64,
}

/// A file to which children add their stamps.
#[derive(Debug, Clone)]
pub(crate) struct Stamps {
    file: PathBuf,
}

impl Stamps {
    /// An empty file in a directory.
    pub(crate) fn fresh(directory: &Path, name: &str) -> Self {
        let file = directory.join(format!("{name}.stamps"));
        fs::write(&file, "").expect("a file can be made");
        Self { file }
    }

    /// The program and arguments of a child that stamps.
    pub(crate) fn command(&self, name: &str) -> Vec<String> {
        let program = programs::path("baton-stamp");
        vec![program.display().to_string(), self.file.display().to_string(), name.to_owned()]
    }

    /// The same for a job file.
    pub(crate) fn target(&self, name: &str) -> Value {
        json!(self.command(name))
    }

    /// Every stamp so far, in the order they were written.
    pub(crate) fn read(&self) -> Vec<Stamp> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().filter_map(parse).collect()
    }

    /// Waits until there are so many.
    pub(crate) async fn count(&self, count: usize, limit: Duration) -> Vec<Stamp> {
        let what = format!("{count} children have stamped");
        eventually(&what, limit, || {
            let stamps = self.read();
            std::future::ready((stamps.len() >= count).then_some(stamps))
        })
        .await
    }
}

/// A line as a child leaves it.
pub(crate) fn parse(line: &str) -> Option<Stamp> {
    let mut words = line.split(' ');
    let (name, first, last) = (words.next()?, words.next()?, words.next()?);
    Some(Stamp { name: name.to_owned(), first: first.parse().ok()?, last: last.parse().ok()? })
}
