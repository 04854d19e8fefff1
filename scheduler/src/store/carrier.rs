//! Where work runs that asks the database one question after the other.
//!
//! A connection to SQLite is a thread of its own, and each answer of it wakes who asked. A task of the runtime is woken by
//! way of a queue, and the worker that takes it from there wakes another one to look for more: a turn of ten statements then
//! costs dozens of switches between threads, which is most of what it costs. A thread that waits for its answer by itself is
//! woken alone. The answers of PostgreSQL come in by the runtime's own poll and wake nobody but the task.

use sea_orm::DbBackend;
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking},
};

/// Runs work where the answers of a database reach it with the least effort.
#[derive(Debug, Clone, Copy)]
pub struct Carrier {
    own_thread: bool,
}

impl Carrier {
    pub(super) fn of(backend: DbBackend) -> Self {
        Self { own_thread: backend == DbBackend::Sqlite }
    }

    /// Starts work, which must come to an end soon: a runtime waits for it before it is gone.
    pub fn spawn<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        if !self.own_thread {
            return tokio::spawn(work);
        }
        let runtime = Handle::current();
        spawn_blocking(move || runtime.block_on(work))
    }
}
