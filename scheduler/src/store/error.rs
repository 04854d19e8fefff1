//! What can go wrong with the database, in words that say what to do.

use std::{path::PathBuf, sync::Arc};

use sea_orm::{DbErr, RuntimeErr, sqlx};

/// Why a question or a change did not come about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the database makes no sense.
    #[error("the database url {url:?} {problem}")]
    Url {
        /// As it was given, without its password.
        url: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The file of the database, or its directory, cannot be used.
    #[error("cannot open the database file {}: {problem}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// Another scheduler has the database.
    #[error(
        "another scheduler ({holder}) has {} open, and a SQLite database serves one scheduler at a time: stop that one, \
         or give --database-url another file or a PostgreSQL database",
        path.display()
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// The server of the database cannot be reached or refuses us.
    #[error("cannot connect to the database at {address}: {problem}")]
    Connect {
        /// Where it should be.
        address: String,
        /// What happened and what to look at.
        problem: String,
    },
    /// The database belongs to a newer Baton.
    #[error(
        "the database was upgraded by a newer Baton and needs at least version {needed}, but this is {ours}: install \
         the newer version"
    )]
    TooOld {
        /// The oldest version that may use it.
        needed: String,
        /// This version.
        ours: String,
    },
    /// The tables could not be brought to the present version.
    #[error("cannot bring the tables of the database up to date")]
    Migrate(#[source] Cause),
    /// Another transaction was in the way; doing the same again may work.
    #[error("another transaction was in the way")]
    Contended(#[source] Cause),
    /// The database does not answer.
    #[error("the database is out of reach")]
    Unreachable(#[source] Cause),
    /// The database has no room to write.
    #[error(
        "the disk of the database is full: make room; nothing that was accepted is lost, and work goes on by itself"
    )]
    Full(#[source] Cause),
    /// A piece of output comes behind one that could not be stored.
    #[error("what comes before this piece of output could not be stored; send it again from there")]
    Torn,
    /// The database took too long to answer.
    #[error("the database has not answered for {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// A question was given up because it takes too long.
    #[error("the question takes longer than {} s and was given up: ask for less at once, such as one job or a filter", .0.as_secs())]
    Slow(std::time::Duration),
    /// There is such a row already.
    #[error("there is such a row already")]
    Duplicate(#[source] Cause),
    /// Anything else: the disk is full, a constraint is violated, a statement is wrong.
    #[error("the database refused a statement")]
    Refused(#[source] Cause),
    /// A guarded change did not find every row as it was seen; doing the same again may work.
    #[error("of {asked} rows {written} were still as they had been seen")]
    Missed {
        /// How many rows were to be changed.
        asked: u64,
        /// How many were.
        written: u64,
    },
    /// The store is closed, or being closed.
    #[error("the scheduler is stopping")]
    Stopped,
    /// What went wrong for everything that was written together.
    #[error(transparent)]
    Shared(Arc<Self>),
    /// A row holds what this version cannot read.
    #[error("{table} {row} holds what this version cannot read: {problem}")]
    Unreadable {
        /// Which table.
        table: &'static str,
        /// Which row.
        row: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Whether the same transaction may work when it is tried again at once.
    pub fn is_contended(&self) -> bool {
        match self {
            Self::Contended(_) | Self::Missed { .. } => true,
            Self::Shared(inner) => inner.is_contended(),
            _ => false,
        }
    }

    /// Whether the database is away, so that it is worth trying again later and nothing is wrong with the request.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Full(_) | Self::Torn | Self::Silent(_) | Self::Stopped => true,
            Self::Shared(inner) => inner.is_unreachable(),
            _ => false,
        }
    }
}

/// What a driver said.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What sort of error a driver's code stands for: an SQLSTATE of PostgreSQL, or an extended result code of SQLite in digits.
fn sort(code: &str) -> fn(Cause) -> Error {
    match code {
        // A unique key of PostgreSQL; of SQLite, a unique and a primary key.
        "23505" | "2067" | "1555" => Error::Duplicate,
        // Serialization failure, deadlock, lock not available; and SQLITE_BUSY and SQLITE_LOCKED with what extends them.
        "40001" | "40P01" | "55P03" | "5" | "6" | "261" | "262" | "517" | "518" => Error::Contended,
        // The disk is full; SQLite says so in several ways, of which failed writes, syncs and truncations are some.
        "53100" | "13" | "778" | "1034" | "1290" | "1546" | "4618" | "4874" | "5386" => Error::Full,
        // Ended by the server after `statement_timeout`, by SQLite after its own.
        "57014" | "9" => |_| Error::Slow(super::reader::QUESTION_MAX),
        // The server is shutting down, starting up, has no room, was lost, or ended a transaction that stood still.
        code if ["57P", "08", "53300", "25P03"].iter().any(|class| code.starts_with(class)) => Error::Unreachable,
        _ => Error::Refused,
    }
}

impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        let sort = match sqlx_error(&error) {
            Some(sqlx::Error::Database(inner)) => sort(inner.code().as_deref().unwrap_or_default()),
            Some(
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
                | sqlx::Error::Protocol(_),
            ) => Self::Unreachable,
            _ if matches!(error, DbErr::ConnectionAcquire(_) | DbErr::Conn(_)) => Self::Unreachable,
            _ => Self::Refused,
        };
        sort(error.into())
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error().map(|inner| inner.extended_code.to_string());
        sort(code.as_deref().unwrap_or_default())(error.into())
    }
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(inner))
        | DbErr::Exec(RuntimeErr::SqlxError(inner))
        | DbErr::Query(RuntimeErr::SqlxError(inner)) => Some(inner),
        _ => None,
    }
}
