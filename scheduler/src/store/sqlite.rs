//! SQLite, called where the work is: a statement of a transaction is a call of a function, not a message.
//!
//! The driver that asks questions runs each connection on a thread of its own and passes it every statement. A turn is ten to
//! twenty statements of some microseconds each, so that most of what it took was the threads waking each other. Whoever
//! writes calls SQLite itself instead, on the thread that he is on; see [`super::Carrier`] for which that should be.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{
    CachedStatement, Connection,
    config::DbConfig,
    types::{FromSql, ToSqlOutput, Value, ValueRef},
};
use sea_orm::{Statement, Value as Bound};
use tokio::sync::OwnedMutexGuard;

use super::Error;

/// How long SQLite waits for the lock of another connection: that of one who folds the log of the database back.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How many statements are kept prepared: about twice as many as there are.
const STATEMENTS_KEPT: usize = 512;

/// The connection that writes to a file. Clones share it, and wait for one another.
#[derive(Debug, Clone)]
pub(super) struct Writer(Arc<tokio::sync::Mutex<Option<Connection>>>);

impl Writer {
    /// Opens a file that is there.
    ///
    /// Of its pages `cache_kib` KiB are kept in memory; its log gathers `checkpoint_pages` pages before they are folded back.
    pub(super) fn open(path: &Path, cache_kib: u32, checkpoint_pages: u32) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        // Otherwise each value that is bound to what a partial index is about has its statement compiled anew.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Every commit is on the disk before anybody hears of it.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
        connection.pragma_update(None, "wal_autocheckpoint", checkpoint_pages)?;
        Ok(Self(Arc::new(tokio::sync::Mutex::new(Some(connection)))))
    }

    /// Begins a transaction that has the write lock from its first moment: one that begins to read and then wants to write
    /// would be refused when another wrote in between.
    pub(super) async fn begin(&self) -> Result<Transaction, Error> {
        let held = self.0.clone().lock_owned().await;
        let transaction = Transaction(Mutex::new(held));
        transaction.with(|connection| run(connection, "BEGIN IMMEDIATE"))?;
        Ok(transaction)
    }

    /// Runs a statement that is a transaction by itself.
    pub(super) async fn execute(&self, statement: &Statement) -> Result<u64, Error> {
        let held = self.0.clone().lock_owned().await;
        // Without a transaction there is nothing to take back.
        Transaction(Mutex::new(held)).execute(statement)
    }

    /// Closes the file, once the transaction under way is over. None begins afterwards.
    pub(super) async fn close(&self) {
        let connection = self.0.lock().await.take();
        if let Some(Err((_, error))) = connection.map(Connection::close) {
            tracing::warn!(%error, "the database could not be closed");
        }
    }
}

/// A transaction that writes. Dropped without a commit, it has changed nothing.
///
/// The lock is never waited for: it makes a connection, which is for one thread at a time, into something that a future may
/// hold.
#[derive(Debug)]
pub(super) struct Transaction(Mutex<OwnedMutexGuard<Option<Connection>>>);

impl Transaction {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>) -> Result<T, Error> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = held.as_ref().ok_or(Error::Stopped)?;
        Ok(work(connection)?)
    }

    /// Runs a statement and says how many rows it changed.
    pub(super) fn execute(&self, statement: &Statement) -> Result<u64, Error> {
        self.with(|connection| {
            let mut prepared = prepare(connection, statement)?;
            let mut rows = prepared.raw_query();
            while rows.next()?.is_some() {}
            drop(rows);
            Ok(connection.changes())
        })
    }

    /// Runs a statement and gives the rows it returns.
    pub(super) fn query(&self, statement: &Statement) -> Result<Vec<Record>, Error> {
        self.with(|connection| {
            let mut prepared = prepare(connection, statement)?;
            let columns: Arc<[Box<str>]> = prepared.column_names().into_iter().map(Into::into).collect();
            let mut rows = prepared.raw_query();
            let mut records = Vec::new();
            while let Some(row) = rows.next()? {
                let values = (0..columns.len()).map(|at| row.get::<_, Value>(at)).collect::<Result<_, _>>()?;
                records.push(Record { columns: columns.clone(), values });
            }
            Ok(records)
        })
    }

    /// Makes everything it did true at once.
    pub(super) fn commit(self) -> Result<(), Error> {
        self.with(|connection| run(connection, "COMMIT"))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SQLite ends a transaction by itself when the disk is full; then there is nothing to roll back.
        let rolled_back =
            self.with(|connection| if connection.is_autocommit() { Ok(()) } else { run(connection, "ROLLBACK") });
        if let Err(error) = rolled_back {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, cause, "a transaction could not be rolled back");
        }
    }
}

fn run(connection: &Connection, text: &str) -> Result<(), rusqlite::Error> {
    connection.prepare_cached(text)?.raw_execute().map(drop)
}

fn prepare<'c>(connection: &'c Connection, statement: &Statement) -> Result<CachedStatement<'c>, rusqlite::Error> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    for (at, value) in statement.values.iter().flat_map(|values| &values.0).enumerate() {
        prepared.raw_bind_parameter(at + 1, bound(value))?;
    }
    Ok(prepared)
}

/// A value as SQLite takes it. One of another type is a fault of the statement, hence the panic.
fn bound(value: &Bound) -> ToSqlOutput<'_> {
    let value = match value {
        Bound::Bool(value) => value.map(|value| ValueRef::Integer(value.into())),
        Bound::Int(value) => value.map(|value| ValueRef::Integer(value.into())),
        Bound::BigInt(value) => value.map(ValueRef::Integer),
        Bound::String(value) => value.as_ref().map(|value| ValueRef::Text(value.as_bytes())),
        Bound::Bytes(value) => value.as_ref().map(|value| ValueRef::Blob(value)),
        Bound::Uuid(value) => value.as_ref().map(|value| ValueRef::Blob(value.as_bytes())),
        other => panic!("no statement binds {other:?}"),
    };
    ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null))
}

/// A row.
#[derive(Debug)]
pub(crate) struct Record {
    columns: Arc<[Box<str>]>,
    values: Vec<Value>,
}

impl Record {
    /// A column by name.
    pub(super) fn column<T: FromSql>(&self, name: &str) -> Result<T, rusqlite::Error> {
        let at = self.columns.iter().position(|column| **column == *name);
        let at = at.ok_or_else(|| rusqlite::Error::InvalidColumnName(name.to_owned()))?;
        let value = &self.values[at];
        T::column_result(value.into())
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(at, value.data_type(), Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::DbBackend;

    use crate::store::testing;

    use super::*;

    fn said(text: &str) -> Statement {
        Statement::from_string(DbBackend::Sqlite, text)
    }

    /// What is committed after a full disk is committed, and not a part of what the disk had no room for.
    #[tokio::test]
    async fn what_is_committed_after_sqlite_ended_a_transaction_by_itself_is_seen_by_others() {
        use sea_orm::ConnectionTrait as _;

        let world = testing::sqlite().await;
        let store = &world.store;
        let tx = store.begin().await.unwrap();
        // As SQLite does when a commit finds no room.
        tx.execute(said("ROLLBACK")).await.unwrap();
        drop(tx);
        // A turn that fails for another reason, and one that does not.
        drop(store.begin().await.unwrap());
        let tx = store.begin().await.unwrap();
        tx.execute(said("INSERT INTO meta (key, value) VALUES ('kept', '')")).await.unwrap();
        tx.commit().await.unwrap();
        let rows = store.reader().query_all_raw(said("SELECT key FROM meta WHERE key = 'kept'")).await.unwrap();
        assert_eq!(rows.len(), 1, "what was committed is there for all");
    }

    #[tokio::test]
    async fn a_transaction_that_is_dropped_has_changed_nothing_and_the_next_goes_on() {
        let world = testing::sqlite().await;
        let tx = world.store.begin().await.unwrap();
        tx.execute(said("INSERT INTO meta (key, value) VALUES ('gone', '')")).await.unwrap();
        drop(tx);
        let tx = world.store.begin().await.unwrap();
        assert!(tx.query(said("SELECT key FROM meta WHERE key = 'gone'")).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn no_transaction_begins_in_a_file_that_was_closed() {
        let world = testing::sqlite().await;
        world.store.close().await.unwrap();
        assert!(matches!(world.store.begin().await, Err(Error::Stopped)));
    }

    #[tokio::test]
    async fn a_statement_that_sqlite_refuses_is_told_apart_from_a_row_that_is_there() {
        let world = testing::sqlite().await;
        let tx = world.store.begin().await.unwrap();
        let insert = || said("INSERT INTO meta (key, value) VALUES ('once', '')");
        tx.execute(insert()).await.unwrap();
        assert!(matches!(tx.execute(insert()).await, Err(Error::Duplicate(_))));
        assert!(matches!(tx.execute(said("INSERT INTO nothing VALUES (1)")).await, Err(Error::Refused(_))));
        // What went before stands.
        tx.commit().await.unwrap();
    }
}
