//! Stands in for the engine until it comes.

use uuid::Uuid;

use super::request::{Applied, Apply, Delete, Error, Run, Terminate};

/// The engine, as its callers see it.
#[derive(Debug, Clone, Default)]
pub struct Engine;

/// Wakes up when a job may have changed.
#[derive(Debug)]
pub struct Changes;

fn refused<T>() -> Result<T, Error> {
    Err(Error::Unavailable("there is no engine".to_owned()))
}

#[allow(clippy::unused_async, missing_docs)]
impl Engine {
    pub async fn apply(&self, _: Apply) -> Result<Vec<Applied>, Error> {
        refused()
    }
    pub async fn run(&self, _: Run) -> Result<Uuid, Error> {
        refused()
    }
    pub async fn terminate(&self, _: Terminate) -> Result<u32, Error> {
        refused()
    }
    pub async fn delete(&self, _: Delete) -> Result<u32, Error> {
        refused()
    }
    pub async fn drain_runner(&self, _: String, _: bool, _: String) -> Result<(), Error> {
        refused()
    }
    pub async fn drain_scheduler(&self, _: Uuid, _: bool) -> Result<(), Error> {
        refused()
    }
    pub fn subscribe(&self, _: Uuid) -> Changes {
        Changes
    }
}

impl Changes {
    /// Returns when the job may have changed.
    pub async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }
}
