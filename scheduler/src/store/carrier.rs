//! Where work runs that asks the database one question after the other.
//!
//! A statement of a transaction on SQLite is a call that blocks the thread it is on, for as long as the disk takes to have a
//! commit. That must not be a thread of the runtime, which serves streams. The answers of PostgreSQL come in by the runtime's
//! own poll and block nobody.

use sea_orm::DbBackend;
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking},
};

/// Runs work where its questions to a database hold nobody up.
#[derive(Debug, Clone, Copy)]
pub struct Carrier {
    own_thread: bool,
}

impl Carrier {
    pub(super) fn of(backend: DbBackend) -> Self {
        Self { own_thread: backend == DbBackend::Sqlite }
    }

    /// Starts work, which must end when nobody wants it any more: a runtime waits for it before it is gone.
    pub fn spawn<T: Send + 'static>(self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        if !self.own_thread {
            return tokio::spawn(work);
        }
        let runtime = Handle::current();
        spawn_blocking(move || runtime.block_on(work))
    }
}
