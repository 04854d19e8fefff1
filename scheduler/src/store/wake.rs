//! Hearing from other schedulers that there is something to look at.

use std::time::Duration;

use sea_orm::sqlx::postgres::{PgListener, PgPool};
use tracing::debug;

use super::{Store, scheduler::WAKE_CHANNEL};

/// How long to wait before the database is asked again when it cannot be listened to.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// The connection on which other schedulers are heard: PostgreSQL alone has any.
#[derive(Debug)]
pub struct Wakes {
    pool: PgPool,
    listener: Option<PgListener>,
}

impl Store {
    /// Begins to listen; nothing where one scheduler is alone with its database.
    pub fn wakes(&self) -> Option<Wakes> {
        self.listening.clone().map(|pool| Wakes { pool, listener: None })
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
                Ok(Some(_)) => return,
                Ok(None) | Err(_) => self.listener = None,
            }
        }
    }

    async fn connect(&self) -> Result<PgListener, sea_orm::sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(WAKE_CHANNEL).await?;
        Ok(listener)
    }
}
