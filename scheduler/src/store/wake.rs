//! Hearing from other schedulers that there is something to look at.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sea_orm::sqlx::postgres::{PgListener, PgPool};
use tracing::debug;

use super::{Store, scheduler::WAKE_CHANNEL};

/// How long to wait before the database is asked again when it cannot be listened to.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// What it takes to listen.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    /// One connection.
    pub(super) pool: PgPool,
    /// The server process behind our own engine. It hears itself, too, and would wake us for what we just did.
    pub(super) own_pid: Arc<AtomicU32>,
}

/// The connection on which other schedulers are heard: PostgreSQL alone has any.
#[derive(Debug)]
pub struct Wakes {
    listening: Listening,
    listener: Option<PgListener>,
}

impl Store {
    /// Begins to listen; nothing where one scheduler is alone with its database.
    pub fn wakes(&self) -> Option<Wakes> {
        self.listening.clone().map(|listening| Wakes { listening, listener: None })
    }
}

impl Wakes {
    /// Returns when another scheduler called, and when calls may have been missed: after each connect.
    pub async fn next(&mut self) {
        loop {
            let Some(listener) = &mut self.listener else {
                match self.connect().await {
                    Ok(listener) => {
                        self.listener = Some(listener);
                        return;
                    }
                    Err(error) => {
                        debug!(%error, "cannot listen to other schedulers");
                        tokio::time::sleep(LISTEN_AGAIN).await;
                        continue;
                    }
                }
            };
            match listener.try_recv().await {
                Ok(Some(call)) if call.process_id() == self.listening.own_pid.load(Ordering::Relaxed) => {}
                Ok(Some(_)) => return,
                Ok(None) | Err(_) => self.listener = None,
            }
        }
    }

    async fn connect(&self) -> Result<PgListener, sea_orm::sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.listening.pool).await?;
        listener.listen(WAKE_CHANNEL).await?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{self, Store, testing};

    /// Calls, and returns once the call is committed.
    async fn call(store: &Store) {
        let tx = store.begin().await.unwrap();
        store::scheduler::wake_others(&tx).await.unwrap();
        tx.commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_scheduler_hears_the_others_and_not_itself() {
        for world in testing::worlds().await {
            let Some(mut wakes) = world.store.wakes() else { continue };
            // The first one tells that calls may have been missed before.
            wakes.next().await;
            let other = Store::open(&world.settings).await.unwrap();
            for _ in 0..3 {
                call(&world.store).await;
            }
            call(&other).await;
            wakes.next().await;
            // Had it heard itself, this would end before the other one calls again.
            let mut again = std::pin::pin!(wakes.next());
            assert!(futures_are_pending(again.as_mut()).await);
            call(&other).await;
            again.await;
        }
    }

    /// Whether a future has nothing to say yet, once everything that is ready was given a turn.
    async fn futures_are_pending(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        tokio::select! {
            biased;
            () = future.as_mut() => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
