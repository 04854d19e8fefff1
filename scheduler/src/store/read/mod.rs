//! What is asked. Each answer is one page in its own short transaction, as plain values.

mod audit;
mod backfill;
mod calendar;
mod callback;
mod config;
mod definition;
mod explain;
mod family;
mod id;
mod job;
mod runner;
mod schedule;
mod scheduler;
mod task;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Display};

use sea_orm::{
    ColumnTrait, Condition, DbBackend, Value,
    sea_query::{Expr, ExprTrait as _},
};

pub use self::{
    audit::AuditFilter,
    backfill::Backfill,
    calendar::{Calendar, CalendarKey},
    callback::{Callback, CallbackFilter},
    config::{Config, ConfigKey, ConfigVersion, ListedConfig},
    definition::{Definition, Definitions},
    explain::Place,
    family::{Child, Led, Source},
    id::{CANDIDATES_MAX, Found},
    job::{Job, JobFilter},
    runner::Runner,
    schedule::{FireKey, MissedFires, Schedule, ScheduleKey},
    scheduler::Scheduler,
    task::{Attempt, Task, TaskCursor, TaskFilter},
};
use super::Error;

/// How many names are looked at to find the one that was meant.
pub(super) const NAMES_MAX: u64 = 1000;

/// A page of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The rows, in order.
    pub rows: Vec<T>,
    /// Whether more rows follow.
    pub more: bool,
}

impl<T> Page<T> {
    /// A page of at most `limit` rows out of an answer that was asked for one more.
    fn cut(mut rows: Vec<T>, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        Self { rows, more }
    }
}

/// Holds for rows whose labels include all of these.
///
/// Labels lie in their column as the JSON of a sorted map. Inside of a JSON text every quotation mark is escaped, so
/// `"key":"value"` occurs in it where that pair is and nowhere else: no row has to be parsed.
fn has_labels(backend: DbBackend, column: impl ColumnTrait, labels: &BTreeMap<String, String>) -> Condition {
    labels.iter().fold(Condition::all(), |condition, (key, value)| {
        let (key, value) = (serde_json::Value::from(key.as_str()), serde_json::Value::from(value.as_str()));
        let position = match backend {
            DbBackend::Postgres => "strpos",
            _ => "instr",
        };
        let column = Expr::col(column.as_column_ref());
        let pair = Expr::val(Value::from(format!("{key}:{value}")));
        let found = sea_orm::sea_query::Func::cust(position).arg(column).arg(pair);
        condition.add(Expr::expr(found).gt(0))
    })
}

/// A map that lies in its column as JSON.
fn map(table: &'static str, row: impl Display, json: &str) -> Result<BTreeMap<String, String>, Error> {
    parse(table, row, json)
}

/// A value that lies in its column as JSON.
fn parse<T: serde::de::DeserializeOwned>(table: &'static str, row: impl Display, json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| Error::Unreadable {
        table,
        row: format!("{row}"),
        problem: error.to_string(),
    })
}

/// A word of a closed list.
fn word<T>(table: &'static str, row: impl Display, word: &str, read: fn(&str) -> Option<T>) -> Result<T, Error> {
    read(word).ok_or_else(|| Error::Unreadable {
        table,
        row: format!("{row}"),
        problem: format!("{word:?} is no word of this version"),
    })
}
