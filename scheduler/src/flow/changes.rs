//! Who watches a job hears when it changed.

use std::sync::Arc;

use tokio::sync::broadcast;
use uuid::Uuid;

/// How many turns a slow watcher may be behind before it is told that anything may have changed.
const TURNS_MAX: usize = 256;

/// A job that a turn changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The job.
    pub job: Uuid,
    /// It has ended.
    pub ended: bool,
}

/// The changes of jobs, turn by turn.
#[derive(Debug, Clone)]
pub(super) struct Changes(broadcast::Sender<Arc<[Change]>>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(TURNS_MAX).0)
    }
}

impl Changes {
    /// Tells that these jobs changed.
    pub(super) fn publish(&self, jobs: Vec<Change>) {
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
    changes: broadcast::Receiver<Arc<[Change]>>,
}

impl Subscription {
    /// Waits until the job may have changed, and says whether it may have ended. Returns at once when the engine has
    /// ended.
    pub async fn changed(&mut self) -> bool {
        self.hear(|_| true).await
    }

    /// Waits until the job may have ended. Returns at once when the engine has ended.
    pub async fn ended(&mut self) {
        self.hear(|change| change.ended).await;
    }

    async fn hear(&mut self, wanted: impl Fn(&Change) -> bool) -> bool {
        loop {
            match self.changes.recv().await {
                Ok(changes) => {
                    let ours = changes.iter().find(|change| change.job == self.job && wanted(change));
                    if let Some(change) = ours {
                        return change.ended;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn has_ended(watch: &mut Subscription) -> bool {
        tokio::select! {
            biased;
            () = watch.ended() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn whoever_waits_for_the_end_of_a_job_hears_of_nothing_else() {
        let (job, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let changes = Changes::default();
        let mut watch = changes.subscribe(job);
        changes.publish(vec![Change { job, ended: false }, Change { job: other, ended: true }]);
        assert!(!has_ended(&mut watch).await);
        changes.publish(vec![Change { job: other, ended: false }, Change { job, ended: true }]);
        assert!(has_ended(&mut watch).await);
    }

    #[tokio::test]
    async fn a_change_tells_whether_it_was_the_end() {
        let job = Uuid::from_u128(1);
        let changes = Changes::default();
        let mut watch = changes.subscribe(job);
        changes.publish(vec![Change { job, ended: false }]);
        assert!(!watch.changed().await);
        changes.publish(vec![Change { job, ended: true }]);
        assert!(watch.changed().await);
    }
}
