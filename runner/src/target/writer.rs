//! What a handler writes: the output of its task, shipped as that of a process is.
//!
//! The files are made with the first byte, so a handler that writes nothing costs nothing.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{logs, task::TaskRef};

/// Writes to one output of a task, for as long as the task runs. Clones write to the same.
///
/// What is written is in a file of the state directory when `write` returns, and goes to the scheduler from there while the
/// task goes on: neither a slow scheduler nor a dead one holds it up. Nothing is buffered here, so a line is best written in
/// one piece.
#[derive(Debug, Clone)]
pub struct Writer {
    outputs: Arc<Outputs>,
    stream: usize,
}

impl Writer {
    pub(super) fn new(outputs: Arc<Outputs>, stream: usize) -> Self {
        Self { outputs, stream }
    }
}

impl Write for Writer {
    /// # Errors
    /// When the task has ended, or the state directory takes no more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outputs.write(self.stream, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Both outputs of a task.
#[derive(Debug)]
pub(super) struct Outputs {
    logs: logs::Handle,
    task: TaskRef,
    limit: u64,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    /// Nothing was written.
    Untouched,
    Open {
        files: logs::Files,
        streams: [File; 2],
    },
    Ended,
}

impl Outputs {
    /// Those of a task, of which `limit` bytes are kept in all; 0 means the default.
    pub(super) fn of(logs: logs::Handle, task: TaskRef, limit: u64) -> Arc<Self> {
        Arc::new(Self { logs, task, limit, stage: Mutex::new(Stage::Untouched) })
    }

    fn write(&self, stream: usize, bytes: &[u8]) -> io::Result<usize> {
        let mut stage = self.stage();
        if let Stage::Untouched = *stage {
            let files = self.logs.files(self.task, self.limit);
            let (stdout, stderr) = match files.create() {
                Ok(made) => made,
                Err(error) => {
                    files.remove();
                    return Err(error);
                }
            };
            self.logs.opened(self.task, files.clone());
            *stage = Stage::Open { files, streams: [stdout, stderr] };
        }
        match &*stage {
            Stage::Open { streams, .. } => (&streams[stream]).write(bytes),
            Stage::Untouched | Stage::Ended => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the task has ended")),
        }
    }

    /// The task has ended: what comes now is refused. How many bytes were written to each.
    pub(super) fn end(&self) -> [u64; 2] {
        let Stage::Open { files, streams } = std::mem::replace(&mut *self.stage(), Stage::Ended) else { return [0, 0] };
        // They serve another attempt only once nobody holds on to them.
        drop(streams);
        let sizes = files.sizes();
        drop(files);
        self.logs.ended(self.task, sizes);
        sizes
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
