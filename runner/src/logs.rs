//! Ships what tasks write to the scheduler, by offset, while they write it.
//!
//! Tasks write to files, so neither a slow scheduler nor a dead one ever holds a task up, and nothing passes through
//! the runner's memory but the chunk under way. What is stored is freed on disk at once, what is beyond the limit is
//! freed as it appears, both by punching holes, so that output cannot fill the disk. Where the file system cannot
//! punch holes, output beyond the limit stays on disk until its task has ended.
//!
//! A change is told by inotify (one watch for the directory), not polled for. Chunks are sent when 1 KiB is there, or
//! after a twentieth of a second: a connection is killed over masses of tiny unread frames (h2), and a reader does not
//! notice the difference. The little that an ended task leaves to send waits a hundredth for that of others, so that one
//! wake-up at either end serves all of them. They travel on a connection of their own and are windowed by what the scheduler says it has
//! stored; a new connection goes on from there. A result never waits for its log.

mod files;
mod output;
mod shipper;
mod spares;

use std::{path::PathBuf, time::Duration};

pub(crate) use files::Files;
use spares::Spares;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tonic::transport::Endpoint;

use crate::task::TaskRef;

/// What the shipper is told.
enum Message {
    Opened(TaskRef, Files),
    /// With so many bytes in each output.
    Ended(TaskRef, [u64; 2]),
    /// Say when nothing of an ended task is left to ship.
    Empty(oneshot::Sender<()>),
}

/// Speaks to the shipper.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    dir: PathBuf,
    spares: Spares,
    messages: mpsc::UnboundedSender<Message>,
}

impl Handle {
    /// The output files of an attempt, of which `limit` bytes are kept in all; 0 means the default.
    pub(crate) fn files(&self, task: TaskRef, limit: u64) -> Files {
        Files::of(&self.dir, task, limit, &self.spares)
    }

    /// A task writes to these files.
    pub(crate) fn opened(&self, task: TaskRef, files: Files) {
        // It is gone only when the runner is.
        let _ = self.messages.send(Message::Opened(task, files));
    }

    /// A task writes no more; it has written so many bytes to each output.
    pub(crate) fn ended(&self, task: TaskRef, sizes: [u64; 2]) {
        let _ = self.messages.send(Message::Ended(task, sizes));
    }

    /// Waits, but not for long, until what has ended is shipped. What is not waits on disk for the next boot.
    pub(crate) async fn empty(&self, at_most: Duration) {
        let (sender, empty) = oneshot::channel();
        if self.messages.send(Message::Empty(sender)).is_ok() {
            let _ = timeout(at_most, empty).await;
        }
    }
}

/// Starts with what an earlier boot left in `dir` and ships to the endpoint of the moment, until dropped.
pub(crate) fn start(
    dir: PathBuf,
    endpoint: watch::Receiver<Option<Endpoint>>,
) -> (Handle, impl Future<Output = ()> + Send) {
    let (sender, messages) = mpsc::unbounded_channel();
    let spares = Spares::default();
    let shipper = shipper::Shipper::new(dir.clone(), spares.clone(), messages);
    (Handle { dir, spares, messages: sender }, shipper.run(endpoint))
}
