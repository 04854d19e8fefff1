//! Who watches a job hears when it changed.

use std::sync::Arc;

use tokio::sync::broadcast;
use uuid::Uuid;

/// How many turns a slow watcher may be behind before it is told that anything may have changed.
const TURNS_MAX: usize = 256;

/// The changes of jobs, turn by turn.
#[derive(Debug, Clone)]
pub(super) struct Changes(broadcast::Sender<Arc<[Uuid]>>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(TURNS_MAX).0)
    }
}

impl Changes {
    /// Tells that these jobs changed.
    pub(super) fn publish(&self, jobs: Vec<Uuid>) {
        if !jobs.is_empty() {
            // Nobody may be listening.
            let _ = self.0.send(jobs.into());
        }
    }

    /// Watches one job.
    pub(super) fn subscribe(&self, job: Uuid) -> Subscription {
        Subscription { job, changes: self.0.subscribe() }
    }
}

/// A watch over one job.
#[derive(Debug)]
pub struct Subscription {
    job: Uuid,
    changes: broadcast::Receiver<Arc<[Uuid]>>,
}

impl Subscription {
    /// Waits until the job may have changed. Ends at once when the engine has ended.
    pub async fn changed(&mut self) {
        loop {
            match self.changes.recv().await {
                Ok(jobs) if jobs.contains(&self.job) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => return,
            }
        }
    }
}
