//! A transaction that writes, on either database, and the connection that it runs on.

use sea_orm::{DbBackend, Statement};

use super::{Error, postgres, row::Record, sqlite};
#[cfg(test)]
use super::{Levers, testing::CutOff};

/// A connection for those who write. One writes at a time; the others wait for it here, and not at the locks.
#[derive(Debug, Clone)]
pub(super) enum Writer {
    Postgres(postgres::Writer),
    Sqlite(sqlite::Writer),
}

impl Writer {
    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<Tx, Error> {
        let inner = match self {
            Self::Postgres(writer) => Inner::Postgres(writer.begin().await?),
            Self::Sqlite(writer) => Inner::Sqlite(writer.begin().await?),
        };
        Ok(Tx {
            inner,
            #[cfg(test)]
            levers: Levers::default(),
            #[cfg(test)]
            statements: std::sync::atomic::AtomicUsize::new(0),
        })
    }

    /// Runs a statement that is a transaction by itself.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        match self {
            Self::Postgres(writer) => writer.execute(statement).await,
            Self::Sqlite(writer) => writer.execute(&statement).await,
        }
    }

    /// Closes the connection, once what it does is done.
    pub(super) async fn close(&self) -> Result<(), Error> {
        match self {
            Self::Postgres(writer) => writer.close().await,
            Self::Sqlite(writer) => writer.close().await,
        }
        Ok(())
    }
}

/// A transaction that writes. Dropped without a commit, it has changed nothing.
#[derive(Debug)]
pub struct Tx {
    inner: Inner,
    #[cfg(test)]
    levers: Levers,
    /// How many statements it has run.
    #[cfg(test)]
    statements: std::sync::atomic::AtomicUsize,
}

#[derive(Debug)]
enum Inner {
    Postgres(postgres::Transaction),
    Sqlite(sqlite::Transaction),
}

impl Tx {
    /// Which database it is.
    pub(crate) fn backend(&self) -> DbBackend {
        match self.inner {
            Inner::Postgres(_) => DbBackend::Postgres,
            Inner::Sqlite(_) => DbBackend::Sqlite,
        }
    }

    /// How far a test has set the clock of the database, in microseconds.
    #[cfg(test)]
    pub(crate) fn clock_set(&self) -> i64 {
        self.levers.clock_set.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Nobody sets the clock of the database but the machine that it runs on.
    #[cfg(not(test))]
    #[allow(clippy::unused_self, reason = "tests have a clock of their own")]
    pub(crate) const fn clock_set(&self) -> i64 {
        0
    }

    /// Runs a statement and says how many rows it changed.
    pub(crate) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        #[cfg(test)]
        self.burn_before(&statement)?;
        match &self.inner {
            Inner::Postgres(tx) => tx.execute(statement).await,
            Inner::Sqlite(tx) => tx.execute(&statement),
        }
    }

    /// Runs a statement and gives the rows it returns.
    pub(crate) async fn query(&self, statement: Statement) -> Result<Vec<Record>, Error> {
        #[cfg(test)]
        self.burn_before(&statement)?;
        let rows: Vec<Record> = match &self.inner {
            Inner::Postgres(tx) => tx.query(statement).await?.into_iter().map(Record::Postgres).collect(),
            Inner::Sqlite(tx) => tx.query(&statement)?.into_iter().map(Record::Sqlite).collect(),
        };
        #[cfg(test)]
        self.levers.fuse.count(rows.len());
        Ok(rows)
    }

    /// Makes everything it did true at once.
    pub async fn commit(self) -> Result<(), Error> {
        #[cfg(test)]
        self.levers.fuse.burn(CutOff::BeforeCommit)?;
        // Before anybody can see what was committed.
        #[cfg(test)]
        let unheard = self.levers.fuse.burn(CutOff::AfterCommit);
        match self.inner {
            Inner::Postgres(tx) => tx.commit().await?,
            Inner::Sqlite(tx) => tx.commit()?,
        }
        #[cfg(test)]
        unheard?;
        Ok(())
    }

    /// The same transaction, moved by these levers.
    #[cfg(test)]
    pub(super) fn with(self, levers: Levers) -> Self {
        Self { levers, ..self }
    }

    #[cfg(test)]
    fn burn_before(&self, statement: &Statement) -> Result<(), Error> {
        self.levers.fuse.keep(statement);
        let nth = self.statements.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.levers.fuse.burn(CutOff::Before(nth))
    }
}
