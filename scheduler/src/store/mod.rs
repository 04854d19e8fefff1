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
mod postgres;
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
mod sqlite;
pub mod sub_job;
pub mod task;
#[cfg(test)]
pub(crate) mod testing;
mod tx;
pub mod uses;
mod wake;

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sea_orm::{ConnectionTrait as _, DbBackend};

pub(crate) use self::open::without_password;
pub use self::{carrier::Carrier, error::Error, open::Settings, tx::Tx, wake::Wakes};
use self::{reader::Reader, tx::Writer};

/// The database of a scheduler, open. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    backend: DbBackend,
    /// The turns of the engine. One connection, so that turns queue up here and not at the locks.
    writer: Writer,
    /// Signs of life: a connection of its own on PostgreSQL, the writer on SQLite.
    beats: Writer,
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
    /// What a test moves its turns by.
    #[cfg(test)]
    pub(crate) levers: Levers,
}

/// What a test moves turns by. Clones share it.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Levers {
    /// How far the clock of the database is set, in microseconds.
    pub(crate) clock_set: Arc<std::sync::atomic::AtomicI64>,
    /// Where a turn is cut off.
    pub(crate) fuse: Arc<testing::Fuse>,
}

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

    /// Begins a transaction that writes. On SQLite its statements block the thread, see [`Carrier`].
    pub async fn begin(&self) -> Result<Tx, Error> {
        let tx = self.writer.begin().await?;
        #[cfg(test)]
        let tx = tx.with(self.levers.clone());
        Ok(tx)
    }

    /// Begins the transaction that records signs of life, which must not wait for a long turn on PostgreSQL.
    pub async fn begin_beats(&self) -> Result<Tx, Error> {
        self.beats.begin().await
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
        self.beats.close().await?;
        self.writer.close().await
    }
}
