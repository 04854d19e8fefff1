//! What is written. Each question and each transition has a named function; rows turn into domain values at the door.

pub mod after_jobs;
pub mod alarm;
pub mod attempt;
pub mod audit;
pub mod backfill;
pub mod calendar;
pub mod callback;
mod carrier;
pub mod completion;
pub mod concurrency;
pub mod config;
mod entity;
mod error;
#[cfg(test)]
mod index_use;
#[cfg(test)]
mod interleaving;
pub mod job;
pub mod log;
mod open;
pub mod place;
pub mod read;
mod reader;
pub mod repair;
pub mod request;
pub mod retention;
mod row;
pub mod runner;
pub mod schedule;
pub mod scheduler;
#[cfg(test)]
mod schema_page;
pub(crate) mod sql;
pub mod sub_job;
pub mod task;
#[cfg(test)]
pub(crate) mod testing;
pub mod uses;
mod wake;

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend, QueryResult, SqliteTransactionMode,
    Statement, TransactionOptions, TransactionTrait as _,
};

pub(crate) use self::open::without_password;
use self::reader::Reader;
pub use self::{carrier::Carrier, error::Error, open::Settings, wake::Wakes};

/// The database of a scheduler, open. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    backend: DbBackend,
    /// The turns of the engine. One connection, so that turns queue up here and not at the locks.
    writer: DatabaseConnection,
    /// Signs of life: a connection of its own on PostgreSQL, the writer on SQLite.
    beats: DatabaseConnection,
    /// Everything that only reads.
    reader: Reader,
    /// Where other schedulers are heard, on PostgreSQL.
    listening: Option<wake::Listening>,
    /// Raised when the engine's, and the beats', connection is not to be used again.
    distrusted: [Arc<AtomicBool>; 2],
    /// The output of tasks.
    logs: log::Logs,
    /// The versions of job configs used last.
    definitions: Arc<read::Definitions>,
    /// Held for as long as the store is open; keeps a second scheduler away from a SQLite file.
    _lock: Option<Arc<File>>,
    /// How far a test has set the clock of the database.
    #[cfg_attr(not(test), allow(dead_code, reason = "tests alone set the clock"))]
    pub(crate) clock_set: ClockSet,
    /// Where a test cuts a turn off.
    #[cfg(test)]
    pub(crate) fuse: Arc<testing::Fuse>,
}

/// Microseconds that a test has set the clock of the database by; nothing outside of tests.
#[cfg(test)]
pub(crate) type ClockSet = Arc<std::sync::atomic::AtomicI64>;
#[cfg(not(test))]
pub(crate) type ClockSet = ();

impl Store {
    /// Opens the database, makes it if there is none (SQLite), and brings its tables up to date.
    pub async fn open(settings: &Settings) -> Result<Self, Error> {
        open::open(settings).await
    }

    /// Which database it is.
    pub(crate) fn backend(&self) -> DbBackend {
        self.backend
    }

    /// Whether other schedulers may share the database.
    pub fn is_clustered(&self) -> bool {
        self.backend == DbBackend::Postgres
    }

    /// Where work best runs that asks this database one question after the other.
    pub fn carrier(&self) -> Carrier {
        Carrier::of(self.backend)
    }

    /// Begins a transaction that writes. On SQLite it has the write lock from its first moment: one that begins to
    /// read and then wants to write would be refused when another wrote in between.
    pub async fn begin(&self) -> Result<Tx, Error> {
        let tx = Tx::begin(&self.writer, self.backend).await?;
        #[cfg(test)]
        let tx = Tx { clock_set: self.clock_set.clone(), fuse: self.fuse.clone(), ..tx };
        Ok(tx)
    }

    /// Begins the transaction that records signs of life, which must not wait for a long turn on PostgreSQL.
    pub async fn begin_beats(&self) -> Result<Tx, Error> {
        Tx::begin(&self.beats, self.backend).await
    }

    /// The transaction under way on the engine's connection waits in vain: once it is dropped, its connection is closed
    /// and not asked whether it is well, for it would not answer. To be called before it is dropped.
    pub fn distrust_writer(&self) {
        self.distrusted[0].store(true, Ordering::Release);
    }

    /// The same for the connection of signs of life.
    pub fn distrust_beats(&self) {
        self.distrusted[1].store(true, Ordering::Release);
    }

    /// The connections for single questions, each its own short transaction.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The output of tasks.
    pub fn logs(&self) -> &log::Logs {
        &self.logs
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), Error> {
        self.reader.query_one_raw(sql::statement(self.backend, "SELECT 1", &[])).await?;
        Ok(())
    }

    /// Closes every connection, once what they do is done. Output that was taken in is stored first.
    pub async fn close(&self) -> Result<(), Error> {
        self.logs.close().await?;
        if let Some(listening) = &self.listening {
            listening.pool.close().await;
        }
        self.reader.close().await?;
        for connection in [&self.beats, &self.writer] {
            connection.clone().close().await?;
        }
        Ok(())
    }
}

/// A transaction that writes. Dropped without a commit, it has changed nothing.
#[derive(Debug)]
pub struct Tx {
    inner: DatabaseTransaction,
    backend: DbBackend,
    /// How far a test has set the clock of the database.
    #[cfg(test)]
    clock_set: Arc<std::sync::atomic::AtomicI64>,
    /// Where a test cuts it off.
    #[cfg(test)]
    fuse: Arc<testing::Fuse>,
    /// How many statements it has run.
    #[cfg(test)]
    statements: std::sync::atomic::AtomicUsize,
}

impl Tx {
    async fn begin(connection: &DatabaseConnection, backend: DbBackend) -> Result<Self, Error> {
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        Ok(Self {
            inner: connection.begin_with_options(options).await?,
            backend,
            #[cfg(test)]
            clock_set: Arc::default(),
            #[cfg(test)]
            fuse: Arc::default(),
            #[cfg(test)]
            statements: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    /// Which database it is.
    pub(crate) fn backend(&self) -> DbBackend {
        self.backend
    }

    /// How far a test has set the clock of the database, in microseconds.
    #[cfg(test)]
    pub(crate) fn clock_set(&self) -> i64 {
        self.clock_set.load(Ordering::Relaxed)
    }

    /// Nobody sets the clock of the database but the machine that it runs on.
    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "tests have a clock of their own")]
    pub(crate) const fn clock_set(&self) -> i64 {
        0
    }

    /// The connection, for entities.
    pub(crate) fn connection(&self) -> &DatabaseTransaction {
        &self.inner
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        #[cfg(test)]
        self.fuse.burn(testing::CutOff::Before(self.statements.fetch_add(1, Ordering::Relaxed)))?;
        Ok(self.inner.execute_raw(statement).await?.rows_affected())
    }

    /// Runs a statement and gives the rows it returns.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<QueryResult>, Error> {
        #[cfg(test)]
        self.fuse.burn(testing::CutOff::Before(self.statements.fetch_add(1, Ordering::Relaxed)))?;
        let rows = self.inner.query_all_raw(statement).await?;
        #[cfg(test)]
        self.fuse.count(rows.len());
        Ok(rows)
    }

    /// Makes everything it did true at once.
    pub async fn commit(self) -> Result<(), Error> {
        #[cfg(test)]
        self.fuse.burn(testing::CutOff::BeforeCommit)?;
        self.inner.commit().await?;
        #[cfg(test)]
        self.fuse.burn(testing::CutOff::AfterCommit)?;
        Ok(())
    }
}
