//! PostgreSQL for those who write: one connection, kept from one transaction to the next.
//!
//! A pool asks a connection that is given back whether it is well, and whoever comes next waits for the answer as well: one
//! round trip more for each turn. After a commit the answer is known. So the connection goes back to the pool only where
//! something went wrong, or when it was not needed for long; then the pool finds out what has become of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sea_orm::{
    DbErr, QueryResult, RuntimeErr, Statement, Value,
    sea_query::ArrayType,
    sqlx::{
        self, Arguments as _, AssertSqlSafe, Executor as _, PgPool, Postgres,
        encode::Encode,
        pool::PoolConnection,
        postgres::{PgArguments, PgConnection},
        types::Type,
    },
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Error;

/// A connection that lay idle for this long is asked for a sign of life before it is used.
pub(super) const PING_AFTER: Duration = Duration::from_secs(30);

/// The connection that writes. Clones share it, and wait for one another.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    /// A pool of one.
    pool: PgPool,
    kept: Arc<Mutex<Kept>>,
}

/// A connection that is well, since the last commit on it.
type Kept = Option<(PoolConnection<Postgres>, Instant)>;

impl Writer {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { pool, kept: Arc::default() }
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<Transaction, Error> {
        let mut held = self.take().await?;
        held.run("BEGIN").await?;
        Ok(Transaction(Mutex::new(held)))
    }

    /// Runs a statement that is a transaction by itself.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        let mut held = self.take().await?;
        let changed = held.execute(statement).await?;
        held.keep();
        Ok(changed)
    }

    /// Closes the connection, once what it does is done.
    pub(super) async fn close(&self) {
        drop(self.kept.lock().await.take());
        self.pool.close().await;
    }

    async fn take(&self) -> Result<Held, Error> {
        let mut kept = self.kept.clone().lock_owned().await;
        let well = kept.take().filter(|(_, since)| since.elapsed() < PING_AFTER);
        let connection = match well {
            Some((connection, _)) => connection,
            None => self.pool.acquire().await.map_err(failed)?,
        };
        Ok(Held { kept, connection: Some(connection) })
    }
}

/// The connection, in the hands of one transaction. Dropped, it goes back to the pool, see [`take_back`].
#[derive(Debug)]
struct Held {
    kept: OwnedMutexGuard<Kept>,
    connection: Option<PoolConnection<Postgres>>,
}

impl Held {
    fn connection(&mut self) -> &mut PoolConnection<Postgres> {
        self.connection.as_mut().expect("a connection is held until it is kept")
    }

    async fn run(&mut self, text: &'static str) -> Result<(), Error> {
        self.connection().execute(text).await.map_err(failed)?;
        Ok(())
    }

    async fn execute(&mut self, statement: Statement) -> Result<u64, Error> {
        let done = query(statement).execute(&mut **self.connection()).await;
        Ok(done.map_err(failed)?.rows_affected())
    }

    /// Keeps the connection for who comes next.
    fn keep(mut self) {
        *self.kept = self.connection.take().map(|connection| (connection, Instant::now()));
    }
}

/// Takes back what was begun on a connection that comes back to its pool: what was committed did not come back.
pub(super) async fn take_back(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.execute("ROLLBACK").await.map(drop)
}

/// A transaction that writes. Dropped without a commit, it has changed nothing.
#[derive(Debug)]
pub(super) struct Transaction(Mutex<Held>);

impl Transaction {
    /// Runs a statement and says how many rows it changed.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64, Error> {
        self.0.lock().await.execute(statement).await
    }

    /// Runs a statement and gives the rows it returns.
    pub(super) async fn query(&self, statement: Statement) -> Result<Vec<QueryResult>, Error> {
        let mut held = self.0.lock().await;
        let rows = query(statement).fetch_all(&mut **held.connection()).await.map_err(failed)?;
        Ok(rows.into_iter().map(QueryResult::from).collect())
    }

    /// Makes everything it did true at once.
    pub(super) async fn commit(self) -> Result<(), Error> {
        let mut held = self.0.into_inner();
        held.run("COMMIT").await?;
        held.keep();
        Ok(())
    }
}

fn failed(error: sqlx::Error) -> Error {
    DbErr::Exec(RuntimeErr::SqlxError(error.into())).into()
}

fn query(statement: Statement) -> sqlx::query::Query<'static, Postgres, PgArguments> {
    let mut arguments = PgArguments::default();
    for value in statement.values.map(|values| values.0).unwrap_or_default() {
        bind(&mut arguments, value);
    }
    sqlx::query_with(AssertSqlSafe(statement.sql), arguments)
}

/// Binds a value of one of the types that our statements have. Another is a fault of the statement, not of its data, hence the
/// panics.
fn bind(arguments: &mut PgArguments, value: Value) {
    match value {
        Value::Bool(value) => add(arguments, value),
        Value::Int(value) => add(arguments, value),
        Value::BigInt(value) => add(arguments, value),
        Value::String(value) => add(arguments, value),
        Value::Bytes(value) => add(arguments, value),
        Value::Uuid(value) => add(arguments, value),
        Value::Array(kind, Some(values)) => bind_array(arguments, &kind, *values),
        other => panic!("a statement cannot bind {other:?}"),
    }
}

fn bind_array(arguments: &mut PgArguments, kind: &ArrayType, values: Vec<Value>) {
    /// The values as their own type; one of another type is no value of this array.
    macro_rules! all {
        ($variant:ident) => {{
            let of = |value| match value {
                Value::$variant(value) => value,
                other => panic!("an array of {kind:?} cannot hold {other:?}"),
            };
            values.into_iter().map(of).collect::<Vec<_>>()
        }};
    }
    match kind {
        ArrayType::Bool => add(arguments, all!(Bool)),
        ArrayType::Int => add(arguments, all!(Int)),
        ArrayType::BigInt => add(arguments, all!(BigInt)),
        ArrayType::String => add(arguments, all!(String)),
        ArrayType::Bytes => add(arguments, all!(Bytes)),
        ArrayType::Uuid => add(arguments, all!(Uuid)),
        other => panic!("a statement cannot bind an array of {other:?}"),
    }
}

fn add<T: Encode<'static, Postgres> + Type<Postgres> + 'static>(arguments: &mut PgArguments, value: T) {
    arguments.add(value).expect("values of these types can always be encoded");
}
