//! Reading the columns of a row.

use std::fmt::Display;

use rusqlite::types::FromSql;
use sea_orm::{QueryResult, TryGetable};

use super::{Error, sqlite};
use crate::domain::time::Timestamp;

/// What a column can be read as, from either database.
pub(crate) trait Readable: TryGetable + FromSql {}

impl<T: TryGetable + FromSql> Readable for T {}

/// The columns of a row by name, as the values we use.
pub(crate) trait Row {
    /// A column as it is.
    fn column<T: Readable>(&self, name: &str) -> Result<T, Error>;

    /// A column that counts.
    fn number(&self, name: &str) -> Result<u32, Error> {
        Ok(self.column::<i32>(name)?.cast_unsigned())
    }

    /// A column that counts, or holds nothing.
    fn maybe_number(&self, name: &str) -> Result<Option<u32>, Error> {
        Ok(self.column::<Option<i32>>(name)?.map(i32::cast_unsigned))
    }

    /// What a question counted.
    fn count(&self, name: &str) -> Result<u32, Error> {
        Ok(u32::try_from(self.column::<i64>(name)?).unwrap_or(u32::MAX))
    }

    /// A column that holds an instant, or nothing.
    fn time(&self, name: &str) -> Result<Option<Timestamp>, Error> {
        Ok(self.column::<Option<i64>>(name)?.map(Timestamp))
    }
}

/// A row that a transaction read.
#[derive(Debug)]
pub(crate) enum Record {
    Postgres(QueryResult),
    Sqlite(sqlite::Record),
}

impl Row for Record {
    fn column<T: Readable>(&self, name: &str) -> Result<T, Error> {
        match self {
            Self::Postgres(row) => row.column(name),
            Self::Sqlite(row) => Ok(row.column(name)?),
        }
    }
}

/// A row that a question read.
impl Row for QueryResult {
    fn column<T: Readable>(&self, name: &str) -> Result<T, Error> {
        Ok(self.try_get("", name)?)
    }
}

/// A row that holds what this version cannot read.
pub(crate) fn unreadable(table: &'static str, row: impl Display, problem: &str) -> Error {
    Error::Unreadable { table, row: format!("{row}"), problem: problem.to_owned() }
}
