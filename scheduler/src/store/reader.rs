//! The connections for questions, each its own short transaction, and how long a question may take.
//!
//! One that asks for too much must not hold a connection that others wait for, nor, on SQLite, keep the log of the
//! database from being folded back. PostgreSQL ends it itself; a server that does not even do that is left.

use std::time::{Duration, Instant};

use sea_orm::{
    ConnAcquireErr, ConnectionTrait, DatabaseConnection, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    prelude::async_trait::async_trait,
    sqlx::{self, sqlite::SqliteConnection},
};

/// How long a question may take before it is given up.
pub(super) const QUESTION_MAX: Duration = Duration::from_secs(10);
/// How long a server may take, beyond that, to say that it gave the question up.
const SERVER_GRACE: Duration = Duration::from_secs(2);
/// How many steps of its machine SQLite does between two looks at the clock: well under a millisecond.
const STEPS_A_LOOK: i32 = 10_000;

/// The connections for questions.
#[derive(Debug, Clone)]
pub(crate) struct Reader(DatabaseConnection);

impl Reader {
    pub(super) fn new(connection: DatabaseConnection) -> Self {
        Self(connection)
    }

    pub(super) async fn close(&self) -> Result<(), DbErr> {
        self.0.clone().close().await
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        let answered = tokio::time::timeout(QUESTION_MAX + SERVER_GRACE, work).await;
        answered.unwrap_or(Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)))
    }
}

#[async_trait]
impl ConnectionTrait for Reader {
    fn get_database_backend(&self) -> DbBackend {
        self.0.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.within(self.0.execute_raw(statement)).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.within(self.0.execute_unprepared(sql)).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.within(self.0.query_one_raw(statement)).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.within(self.0.query_all_raw(statement)).await
    }
}

/// Gives the next question on this SQLite connection its time, counted from now.
pub(super) async fn limit(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let until = Instant::now() + QUESTION_MAX;
    connection.lock_handle().await?.set_progress_handler(STEPS_A_LOOK, move || Instant::now() < until);
    Ok(())
}

#[cfg(test)]
mod tests {
    use sea_orm::ConnectionTrait as _;

    use super::*;
    use crate::store::{self, sql, testing};

    #[tokio::test]
    async fn a_question_that_never_ends_is_given_up_and_others_are_answered() {
        let asked: Vec<_> = testing::worlds()
            .await
            .into_iter()
            .map(|world| {
                tokio::spawn(async move {
                    // As a whole: its directory goes with it.
                    let world = &world;
                    let reader = world.store.reader();
                    let text = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 0 OR i > 0)
                                SELECT max(length(CAST(i AS text))) AS longest FROM n";
                    let endless = sql::statement(world.store.backend(), text, &[]);
                    let asked_at = Instant::now();
                    let error: store::Error = reader.query_one_raw(endless).await.unwrap_err().into();
                    assert!(matches!(error, store::Error::Slow(QUESTION_MAX)), "{error:?}");
                    assert!(asked_at.elapsed() >= QUESTION_MAX);
                    world.store.ping().await.unwrap();
                })
            })
            .collect();
        for asked in asked {
            asked.await.unwrap();
        }
    }
}
