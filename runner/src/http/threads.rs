//! The threads on which requests run.
//!
//! The program `baton-runner` does its own work on one thread. Requests are other work: they are many at once, their encryption
//! takes a processor, and nothing of one follows from another. They get as many threads as the machine runs at once, made with
//! the first request, since most runners never make one.

use std::{io, sync::OnceLock};

use tokio::runtime::{Builder, Handle, Runtime};

/// Where requests run.
pub(super) enum Threads {
    /// In the runtime around the runner.
    Around,
    /// In one of their own.
    Apart(OnceLock<Runtime>),
}

impl Threads {
    pub(super) fn around() -> Self {
        Self::Around
    }

    pub(super) fn apart() -> Self {
        Self::Apart(OnceLock::new())
    }

    /// The runtime to spawn on. To be asked on the thread of the runner alone.
    pub(super) fn runtime(&self) -> io::Result<Handle> {
        let Self::Apart(own) = self else { return Ok(Handle::current()) };
        if let Some(own) = own.get() {
            return Ok(own.handle().clone());
        }
        let made = Builder::new_multi_thread().thread_name("baton-http").enable_all().build()?;
        Ok(own.get_or_init(|| made).handle().clone())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // To wait for threads is not allowed in a runtime, and nothing runs here any more that is worth it.
        if let Self::Apart(own) = self
            && let Some(own) = own.take()
        {
            own.shutdown_background();
        }
    }
}
