//! One text of SQL for both databases, with a batch of rows as its input.
//!
//! A set-based statement costs one round trip for any number of rows. The two databases differ only in how a batch
//! gets in: PostgreSQL unfolds arrays, SQLite a JSON document. So a statement is written once, with marks that are
//! filled in here:
//!
//! | written | PostgreSQL | SQLite |
//! |---|---|---|
//! | `{input}` | `input AS (SELECT … FROM unnest($1, $2, …))` | `input AS (SELECT … FROM jsonb_each(?1))` |
//! | `:name` | `$n` | `?n` |
//! | `{for_update}` | `FOR UPDATE` | |
//! | `{skip_locked}` | `FOR UPDATE SKIP LOCKED` | |
//! | `{for_share}` | `FOR SHARE` | |
//! | `{now}` | the clock of the database in microseconds | the same |
//!
//! What both must understand: `RETURNING` names columns of the changed table alone, an `INSERT … SELECT` with
//! `ON CONFLICT` needs a `WHERE`, and there are no casts with `::`.

use sea_orm::{DbBackend, Statement, Value, sea_query::ArrayType};
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::domain::hex::hex;

/// A column of an [`Input`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    kind: Kind,
    nullable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uuid,
    BigInt,
    Int,
    Text,
    Bool,
    Bytes,
}

/// A column of ids.
pub(crate) const fn uuid(name: &'static str) -> Column {
    Column { name, kind: Kind::Uuid, nullable: false }
}

/// A column of numbers of 64 bits.
pub(crate) const fn bigint(name: &'static str) -> Column {
    Column { name, kind: Kind::BigInt, nullable: false }
}

/// A column of numbers of 32 bits.
pub(crate) const fn int(name: &'static str) -> Column {
    Column { name, kind: Kind::Int, nullable: false }
}

/// A column of texts.
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, kind: Kind::Text, nullable: false }
}

/// A column of truths.
pub(crate) const fn boolean(name: &'static str) -> Column {
    Column { name, kind: Kind::Bool, nullable: false }
}

/// A column of bytes.
pub(crate) const fn bytes(name: &'static str) -> Column {
    Column { name, kind: Kind::Bytes, nullable: false }
}

impl Column {
    /// The same column, which may also hold nothing.
    pub(crate) const fn nullable(self) -> Self {
        Self { nullable: true, ..self }
    }
}

/// One value of one row of an [`Input`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Uuid(Uuid),
    BigInt(i64),
    Int(i32),
    Text(String),
    Bool(bool),
    Bytes(Vec<u8>),
}

impl From<&[u8]> for Cell {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.to_owned())
    }
}

impl From<Uuid> for Cell {
    fn from(value: Uuid) -> Self {
        Self::Uuid(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::BigInt(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(value)
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A batch of rows that a statement reads as the table `input`. One with nulls in it is for who writes: the driver of who only
/// asks cannot bind them.
#[derive(Debug, Clone)]
pub(crate) struct Input<const N: usize> {
    columns: [Column; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Input<N> {
    /// An empty batch with these columns.
    pub(crate) fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row, its values in the order of the columns.
    pub(crate) fn push(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The statement that reads this batch as `input`, see the head of this module.
    pub(crate) fn statement(self, backend: DbBackend, text: &str, params: &[(&str, Value)]) -> Statement {
        let (input, values) = match backend {
            DbBackend::Postgres => self.unnest(),
            _ => self.json_each(),
        };
        render(backend, text, Some(&input), values, params)
    }

    /// An array a column.
    fn unnest(self) -> (String, Vec<Value>) {
        let (mut arrays, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows: Vec<_> = self.rows.into_iter().map(IntoIterator::into_iter).collect();
        for Column { name, kind, nullable } in self.columns {
            let cells: Vec<Cell> =
                rows.iter_mut().map(|row| row.next().expect("a row has as many cells as columns")).collect();
            let (array_type, sql_type) = match kind {
                Kind::Uuid => (ArrayType::Uuid, "uuid"),
                Kind::BigInt => (ArrayType::BigInt, "bigint"),
                Kind::Int => (ArrayType::Int, "integer"),
                Kind::Text => (ArrayType::String, "text"),
                Kind::Bool => (ArrayType::Bool, "boolean"),
                Kind::Bytes => (ArrayType::Bytes, "bytea"),
            };
            let cells = cells.into_iter().map(|cell| cell.into_value(name, kind, nullable)).collect();
            values.push(Value::Array(array_type, Some(Box::new(cells))));
            arrays.push(format!("${}::{sql_type}[]", values.len()));
            names.push(name);
        }
        let (arrays, names) = (arrays.join(", "), names.join(", "));
        (format!("input AS (SELECT {names} FROM unnest({arrays}) AS rows ({names}))"), values)
    }

    /// One JSON document: a list of rows, each a list of values. The rows come in SQLite's binary form of JSON: as text, each
    /// column would have its row parsed anew, which was three quarters of the cost of a wide row.
    fn json_each(self) -> (String, Vec<Value>) {
        let selected: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .map(|(position, Column { name, kind, .. })| match kind {
                Kind::Uuid | Kind::Bytes => format!("unhex(value ->> {position}) AS {name}"),
                _ => format!("value ->> {position} AS {name}"),
            })
            .collect();
        let rows: Vec<&[Cell]> = self.rows.iter().map(|row| &row[..]).collect();
        let document = serde_json::to_string(&rows).expect("cells have a JSON form");
        (format!("input AS (SELECT {} FROM jsonb_each(?1))", selected.join(", ")), vec![document.into()])
    }
}

impl Cell {
    fn into_value(self, column: &str, kind: Kind, nullable: bool) -> Value {
        match (self, kind) {
            (Self::Uuid(value), Kind::Uuid) => value.into(),
            (Self::BigInt(value), Kind::BigInt) => value.into(),
            (Self::Int(value), Kind::Int) => value.into(),
            (Self::Text(value), Kind::Text) => value.into(),
            (Self::Bool(value), Kind::Bool) => value.into(),
            (Self::Bytes(value), Kind::Bytes) => value.into(),
            (Self::Null, Kind::Uuid) if nullable => Value::Uuid(None),
            (Self::Null, Kind::BigInt) if nullable => Value::BigInt(None),
            (Self::Null, Kind::Int) if nullable => Value::Int(None),
            (Self::Null, Kind::Text) if nullable => Value::String(None),
            (Self::Null, Kind::Bool) if nullable => Value::Bool(None),
            (Self::Null, Kind::Bytes) if nullable => Value::Bytes(None),
            (cell, _) => panic!("column {column} is {kind:?}, nullable {nullable}, and cannot hold {cell:?}"),
        }
    }
}

/// As [`Input::json_each`] reads it.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Uuid(value) => serializer.serialize_str(value.simple().encode_lower(&mut Uuid::encode_buffer())),
            Self::BigInt(value) => serializer.serialize_i64(*value),
            Self::Int(value) => serializer.serialize_i32(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Bytes(value) => serializer.serialize_str(&hex(value)),
        }
    }
}

/// A statement without a batch, see the head of this module for what its text may hold.
pub(crate) fn statement(backend: DbBackend, text: &str, params: &[(&str, Value)]) -> Statement {
    render(backend, text, None, Vec::new(), params)
}

/// Fills the marks in. A mark without a meaning is a fault of the statement, not of its data, hence the panics.
fn render(
    backend: DbBackend,
    text: &str,
    input: Option<&str>,
    mut values: Vec<Value>,
    params: &[(&str, Value)],
) -> Statement {
    let postgres = backend == DbBackend::Postgres;
    let mut numbers = vec![0; params.len()];
    let mut sql = String::with_capacity(text.len() + input.map_or(0, str::len));
    let mut rest = text;
    while let Some(at) = rest.find(['{', ':', '\'']) {
        let (before, mark) = rest.split_at(at);
        sql.push_str(before);
        match mark.as_bytes()[0] {
            b'{' => {
                let end = mark.find('}').expect("a mark in braces ends");
                sql.push_str(match &mark[1..end] {
                    "input" => input.expect("a statement that reads an input is given one"),
                    "for_update" if postgres => "FOR UPDATE",
                    "skip_locked" if postgres => "FOR UPDATE SKIP LOCKED",
                    "for_share" if postgres => "FOR SHARE",
                    "for_update" | "skip_locked" | "for_share" => "",
                    "now" if postgres => "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)",
                    "now" => "CAST(unixepoch('subsec') * 1000000 AS integer)",
                    unknown => panic!("{{{unknown}}} means nothing in a statement"),
                });
                rest = &mark[end + 1..];
            }
            b':' => {
                let name = &mark[1..];
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
                let name = &name[..end];
                let position = params
                    .iter()
                    .position(|(param, _)| *param == name)
                    .unwrap_or_else(|| panic!("the statement is given no :{name}"));
                if numbers[position] == 0 {
                    values.push(params[position].1.clone());
                    numbers[position] = values.len();
                }
                sql.push(if postgres { '$' } else { '?' });
                sql.push_str(&numbers[position].to_string());
                rest = &mark[end + 1..];
            }
            _ => {
                let end = mark[1..].find('\'').expect("a quoted text ends") + 2;
                sql.push_str(&mark[..end]);
                rest = &mark[end..];
            }
        }
    }
    sql.push_str(rest);
    Statement::from_sql_and_values(backend, sql, values)
}

#[cfg(test)]
mod tests {
    use sea_orm::ConnectionTrait;

    use super::*;
    use crate::store::{row::Row as _, testing};

    const COLUMNS: [Column; 6] = [
        uuid("id"),
        bigint("lease"),
        int("slot").nullable(),
        text("reason").nullable(),
        boolean("gone"),
        uuid("session").nullable(),
    ];

    type Row = (Uuid, i64, Option<i32>, Option<String>, bool, Option<Uuid>, String, i64);

    #[tokio::test]
    async fn a_batch_reads_the_same_on_both_databases() {
        for world in testing::worlds().await {
            let store = &world.store;
            let (one, two, session) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
            let mut input = Input::new(COLUMNS);
            input.push([
                one.into(),
                i64::MAX.into(),
                7.into(),
                "it's {said}: \"so\"\n☕".into(),
                true.into(),
                session.into(),
            ]);
            input.push([two.into(), 0_i64.into(), Cell::Null, Cell::Null, false.into(), Cell::Null]);
            let statement = input.statement(
                store.backend(),
                "WITH {input} SELECT id, lease, slot, reason, gone, session, 'a:b{c}' AS quoted, :more + lease * 0 AS more
                 FROM input WHERE lease <> :other ORDER BY lease DESC",
                &[("more", 5_i64.into()), ("other", (-1_i64).into())],
            );
            let tx = store.begin().await.unwrap();
            let rows = tx.query(statement).await.unwrap();
            let read: Vec<Row> = rows
                .iter()
                .map(|row| {
                    (
                        row.column("id").unwrap(),
                        row.column("lease").unwrap(),
                        row.column("slot").unwrap(),
                        row.column("reason").unwrap(),
                        row.column("gone").unwrap(),
                        row.column("session").unwrap(),
                        row.column("quoted").unwrap(),
                        row.column("more").unwrap(),
                    )
                })
                .collect();
            let said = Some("it's {said}: \"so\"\n☕".to_owned());
            assert_eq!(
                read,
                [
                    (one, i64::MAX, Some(7), said, true, Some(session), "a:b{c}".to_owned(), 5),
                    (two, 0, None, None, false, None, "a:b{c}".to_owned(), 5),
                ]
            );
        }
    }

    #[tokio::test]
    async fn an_empty_batch_changes_nothing() {
        for world in testing::worlds().await {
            let store = &world.store;
            let tx = store.begin().await.unwrap();
            let input = Input::new([text("key"), text("value")]);
            assert!(input.is_empty());
            let statement = input.statement(
                store.backend(),
                "WITH {input} UPDATE meta SET value = input.value FROM input WHERE meta.key = input.key",
                &[],
            );
            assert_eq!(tx.execute(statement).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn one_statement_changes_many_rows_each_to_its_own_value() {
        for world in testing::worlds().await {
            let store = &world.store;
            let tx = store.begin().await.unwrap();
            let mut input = Input::new([text("key"), text("value")]);
            input.push(["a".into(), "1".into()]);
            input.push(["b".into(), "2".into()]);
            let insert = "WITH {input} INSERT INTO meta (key, value) SELECT key, value FROM input WHERE true
                          ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            assert_eq!(tx.execute(input.clone().statement(store.backend(), insert, &[])).await.unwrap(), 2);
            let update = "WITH {input} UPDATE meta SET value = input.value || :more FROM input
                          WHERE meta.key = input.key RETURNING meta.key, meta.value";
            let rows = tx.query(input.statement(store.backend(), update, &[("more", "!".into())])).await.unwrap();
            let mut values: Vec<String> = rows.iter().map(|row| row.column("value").unwrap()).collect();
            values.sort();
            assert_eq!(values, ["1!", "2!"]);
            tx.commit().await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_clock_of_the_database_counts_microseconds() {
        for world in testing::worlds().await {
            let statement = statement(world.store.backend(), "SELECT {now} AS now", &[]);
            let row = world.store.reader().query_one_raw(statement).await.unwrap().unwrap();
            let now: i64 = row.column("now").unwrap();
            let here = chrono::Utc::now().timestamp_micros();
            assert!((now - here).abs() < 60_000_000, "{now} is far from {here}");
        }
    }
}
