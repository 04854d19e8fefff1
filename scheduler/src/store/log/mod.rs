//! The output of tasks: taken in by offset, given out in the order of arrival.
//!
//! Output lies apart from everything else, in a file of its own on SQLite and behind a connection of its own on
//! PostgreSQL, so that it never waits for a turn of the engine nor holds one up. What is asked for is read page by page:
//! a log of gigabytes costs no more memory than a short one.

mod append;
mod given;
mod read;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use sea_orm::DbBackend;
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::{append::Order, given::Given};
pub use self::{
    append::Pending,
    read::{Chunk, Selection},
};
use super::{Carrier, Error, reader::Reader, tx::Writer};
use crate::domain::time::Timestamp;

/// How many chunks may wait for the writer; whoever brings one more waits.
const QUEUE_MAX: usize = 256;
/// How many commits a follower may sleep through before it is woken in any case.
const WAKE_UPS_MAX: usize = 256;
/// A follower looks again after this long, because another scheduler may have stored something.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The largest piece of output that is taken in at once.
pub const CHUNK_BYTES_MAX: usize = 256 << 10;

/// Which of a task's two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    fn number(self) -> i32 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
        }
    }

    fn from_number(number: i32) -> Self {
        if number == 2 { Self::Stderr } else { Self::Stdout }
    }
}

/// One output of one dispatch of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Output {
    /// The task.
    pub task_id: Uuid,
    /// Its lease.
    pub lease: u64,
    /// Which output.
    pub stream: Stream,
}

/// A piece of output on its way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Whose.
    pub output: Output,
    /// The job of the task.
    pub job_id: Uuid,
    /// The attempt.
    pub attempt: u32,
    /// Where in the output the data begin.
    pub offset: u64,
    /// The bytes, at most [`CHUNK_BYTES_MAX`].
    pub data: Bytes,
}

/// The log store. Clones share it.
#[derive(Debug, Clone)]
pub struct Logs {
    backend: DbBackend,
    reader: Reader,
    orders: mpsc::Sender<Order>,
    /// The jobs that a commit brought output of.
    stored: broadcast::Sender<Arc<[Uuid]>>,
    stop: CancellationToken,
    given: Given,
    writing: Arc<Mutex<Option<Writing>>>,
}

/// The task that writes, and its connection.
type Writing = (JoinHandle<()>, Writer);

/// Wakes up when there may be more output of a job.
#[derive(Debug)]
pub struct Arrivals {
    job: Uuid,
    stored: broadcast::Receiver<Arc<[Uuid]>>,
}

impl Logs {
    /// A store on these connections, with the task that writes it.
    pub(super) fn start(backend: DbBackend, writer: Writer, reader: Reader) -> Self {
        let (orders, queue) = mpsc::channel(QUEUE_MAX);
        let (stored, _) = broadcast::channel(WAKE_UPS_MAX);
        let stop = CancellationToken::new();
        let given = Given::default();
        let outlet = append::Outlet { writer: writer.clone(), backend, given: given.clone() };
        let writing = append::write(outlet, queue, stored.clone(), stop.clone());
        let writing = Arc::new(Mutex::new(Some((Carrier::of(backend).spawn(writing), writer))));
        Self { backend, reader, orders, stored, stop, given, writing }
    }

    /// Stores what was taken in, takes in nothing more, and closes its connections.
    pub(super) async fn close(&self) -> Result<(), Error> {
        self.stop.cancel();
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((writing, writer)) = writing {
            let _panicked = writing.await;
            writer.close().await?;
        }
        Ok(self.reader.close().await?)
    }

    /// Takes a piece in, to be stored in the order in which pieces were taken in. Waits while the queue is full.
    ///
    /// What is stored already is left as it is, so a piece may be sent again, and pieces may overlap. A piece that
    /// begins beyond the end is taken with a note of what is missing before it.
    pub async fn append(&self, piece: Piece) -> Result<Pending, Error> {
        append::order(&self.orders, piece).await
    }

    /// Removes pieces of output of these jobs, at most so many in all, between two batches of what comes in. Returns how
    /// many.
    pub async fn remove(&self, jobs: &[Uuid], limit: u32) -> Result<u64, Error> {
        let writer =
            self.writing.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, writer)| writer.clone());
        for job in jobs {
            self.given.forget(*job);
        }
        let (writer, jobs) = (writer.ok_or(Error::Stopped)?, jobs.to_vec());
        let removed = Carrier::of(self.backend).spawn(async move { append::remove(&writer, &jobs, limit).await });
        removed.await.unwrap_or(Err(Error::Stopped))
    }

    /// A task was given out here under a new lease: so far there is no output under it, and this is its job.
    pub fn expect(&self, task: Uuid, lease: u64, job: Uuid) {
        self.given.note(task, lease, job);
    }

    /// The job of a task that was given out here, unless that was long ago.
    pub fn job_of(&self, task: Uuid) -> Option<Uuid> {
        self.given.job(task)
    }

    /// Tells of output of this job from now on.
    pub fn arrivals(&self, job: Uuid) -> Arrivals {
        Arrivals { job, stored: self.stored.subscribe() }
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }
}

impl Arrivals {
    /// Returns when output of the job was stored here, or after a second, because another scheduler may have stored
    /// some.
    pub async fn next(&mut self) {
        let stored_here = async {
            loop {
                match self.stored.recv().await {
                    Ok(jobs) if !jobs.contains(&self.job) => {}
                    // Having slept through some is as good as having seen ours.
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        let _second_over = tokio::time::timeout(LOOK_AGAIN, stored_here).await;
    }
}

pub(super) fn wall_clock() -> Timestamp {
    Timestamp(chrono::Utc::now().timestamp_micros())
}
