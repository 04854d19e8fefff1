//! Opening the database: what it is, who may have it, and which tables it must hold.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    str::FromStr as _,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use baton_migrations::{LogMigrator, Migrator, sea_orm_migration::MigratorTrait};
use rustix::fs::FlockOperation;
use sea_orm::{
    ConnectionTrait as _, DatabaseConnection, DatabaseTransaction, DbBackend, SqliteTransactionMode, Statement,
    TransactionOptions, TransactionTrait as _,
    sqlx::{
        self, ConnectOptions as _, Connection as _,
        postgres::{PgConnectOptions, PgPoolOptions},
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
    },
};

use super::{
    Error, Store,
    log::Logs,
    postgres::{self, PING_AFTER},
    reader::{self, QUESTION_MAX, Reader},
    sql, sqlite,
    tx::Writer,
    wake::Listening,
};

/// How many connections read. Questions wait for one of them, never the engine.
const READERS: u32 = 8;
/// How many connections read output on SQLite, where it lies in a file of its own.
const LOG_READERS: u32 = 4;
/// How long a question waits for a free connection before it is answered with "try again".
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of the database the SQLite connection that writes keeps in memory, in KiB: the tasks of a few large jobs. It
/// takes what it comes to need.
const WRITER_CACHE_KIB: u32 = 32 * 1024;
/// How many pages SQLite's log gathers before they are folded back: a page that many turns change is folded once. 16 MiB.
const CHECKPOINT_PAGES: u32 = 4_096;
/// The same for the connection that writes output, which looks at little of what it wrote: SQLite's own measures.
const LOG_WRITER_CACHE_KIB: u32 = 2_000;
const LOG_CHECKPOINT_PAGES: u32 = 1_000;
/// How long PostgreSQL may take to answer at the start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a transaction may stand still before PostgreSQL ends it, whatever has become of the scheduler that began it.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);
/// How PostgreSQL is to find rows for those who write: along indexes, from the few rows in hand to those they name.
///
/// Its planner goes by statistics, and of a table that has just filled they say that it is empty: it then reads all of it,
/// or all that waits, for every few rows of a turn, until they are gathered anew. What a turn asks is always answered
/// best by an index, so what could take its place is switched off, and with it what plans anew at each execution.
const BY_INDEX: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];
/// How PostgreSQL is to pack output: to less than a tenth more than by its own measure, in a third of the time, which was half
/// of what a piece cost it.
const PACKED_FAST: (&str, &str) = ("default_toast_compression", "lz4");
/// How PostgreSQL is to pass output on to the disk: as it comes. What lies in the memory of the system is written there all at once
/// every few seconds, and a commit that comes then waits for all of it, 70 ms for five seconds of 20 MB each.
const PASSED_ON: (&str, &str) = ("backend_flush_after", "256kB");
/// How many statements a connection to PostgreSQL keeps prepared: more than there are.
const STATEMENTS_KEPT: usize = 512;
/// How long a connection may take to say that it is well when it is given back.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a change of the tables may wait for work that is in its way, and how often it is tried.
const MIGRATION_PATIENCE: Duration = Duration::from_secs(2);
const MIGRATION_TRIES: u32 = 30;
const MIGRATION_PAUSE: Duration = Duration::from_millis(300);
/// The advisory lock under which one scheduler migrates and the others wait: "baton" in ASCII.
const MIGRATION_LOCK: i64 = 0x62_6174_6f6e;

/// Which database to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `postgres://…`, `sqlite://PATH`, or the path of a SQLite file.
    pub url: String,
}

/// Opens what the url names.
pub(super) async fn open(settings: &Settings) -> Result<Store, Error> {
    match Address::parse(&settings.url)? {
        Address::Postgres(url) => open_postgres(&url).await,
        Address::Sqlite(path) => open_sqlite(&path).await,
    }
}

/// What a database url names.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    Postgres(String),
    Sqlite(PathBuf),
}

impl Address {
    fn parse(url: &str) -> Result<Self, Error> {
        let wrong = |problem: &str| Err(Error::Url { url: without_password(url), problem: problem.to_owned() });
        let path = match url.split_once(':') {
            Some(("postgres" | "postgresql", _)) => return Ok(Self::Postgres(url.to_owned())),
            Some(("sqlite", path)) => path.strip_prefix("//").unwrap_or(path),
            _ if url.contains("://") => {
                return wrong("names a database that Baton cannot use: give postgres://… or sqlite://PATH");
            }
            _ => url,
        };
        if path.is_empty() {
            return wrong("names no file: give sqlite://PATH, such as sqlite://.baton/baton.db");
        }
        if path == ":memory:" {
            return wrong("would forget everything at the end: give sqlite://PATH");
        }
        if path.contains('?') {
            return wrong("has options after a \"?\", which a SQLite file does not take: give sqlite://PATH alone");
        }
        Ok(Self::Sqlite(PathBuf::from(path)))
    }
}

/// A url as it may be shown.
pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((user, host)) = rest.rsplit_once('@') else { return url.to_owned() };
    match user.split_once(':') {
        Some((user, _)) => format!("{scheme}://{user}:…@{host}"),
        None => url.to_owned(),
    }
}

async fn open_sqlite(path: &Path) -> Result<Store, Error> {
    let failed = |problem: String| Error::File { path: path.to_owned(), problem };
    if path.is_dir() {
        return Err(failed("it is a directory: name a file in it, such as baton.db".to_owned()));
    }
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory)
            .map_err(|error| failed(format!("its directory cannot be made: {}", in_words(&error))))?;
    }
    let lock = lock(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(sqlite::BUSY_TIMEOUT)
        .disable_statement_logging();
    let pool = |path: &Path, options: &SqliteConnectOptions, size: u32| {
        let (path, options) = (path.to_owned(), options.clone().filename(path));
        // A connection to a file does not age, and the lock of a half-open pool must not move.
        let pool = SqlitePoolOptions::new()
            .max_connections(size)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        (pool, path, options)
    };
    let connect = |(pool, path, options): (SqlitePoolOptions, PathBuf, SqliteConnectOptions)| async move {
        let pool = pool.connect_with(options).await;
        pool.map(DatabaseConnection::from).map_err(|error| cannot_open(&path, &error))
    };
    let logs = logs_beside(path);
    let builder = connect(pool(path, &options, 1)).await?;
    migrate::<Migrator>(&builder, DbBackend::Sqlite).await?;
    builder.close().await?;
    let builder = connect(pool(&logs, &options, 1)).await?;
    migrate::<LogMigrator>(&builder, DbBackend::Sqlite).await?;
    builder.close().await?;
    let writer = Writer::Sqlite(sqlite::Writer::open(path, WRITER_CACHE_KIB, CHECKPOINT_PAGES)?);
    let log_writer = Writer::Sqlite(sqlite::Writer::open(&logs, LOG_WRITER_CACHE_KIB, LOG_CHECKPOINT_PAGES)?);
    let read_only = options.pragma("query_only", "on");
    let reader = Reader::new(connect(limited(pool(path, &read_only, READERS))).await?);
    let log_reader = Reader::new(connect(limited(pool(&logs, &read_only, LOG_READERS))).await?);
    let logs = Logs::start(DbBackend::Sqlite, log_writer, log_reader);
    Ok(Store {
        backend: DbBackend::Sqlite,
        beats: writer.clone(),
        writer,
        reader,
        listening: None,
        distrusted: Default::default(),
        logs,
        definitions: Arc::default(),
        _lock: Some(Arc::new(lock)),
        #[cfg(test)]
        levers: super::Levers::default(),
    })
}

/// Gives each question its time, from when its connection is taken.
fn limited(
    (pool, path, options): (SqlitePoolOptions, PathBuf, SqliteConnectOptions),
) -> (SqlitePoolOptions, PathBuf, SqliteConnectOptions) {
    let pool = pool
        .after_connect(|connection, _| Box::pin(reader::limit(connection)))
        .before_acquire(|connection, _| Box::pin(async move { reader::limit(connection).await.map(|()| true) }));
    (pool, path, options)
}

/// The path of the log store: `baton-logs.db` for `baton.db`.
fn logs_beside(database: &Path) -> PathBuf {
    let mut name = database.file_stem().unwrap_or_default().to_owned();
    name.push("-logs");
    if let Some(extension) = database.extension() {
        name.push(".");
        name.push(extension);
    }
    database.with_file_name(name)
}

/// Takes the file beside the database that says who has it. The lock ends with the process, however it ends.
fn lock(database: &Path) -> Result<File, Error> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let failed = |error: std::io::Error| Error::File { path: path.clone(), problem: in_words(&error) };
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    if let Err(error) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(failed(error.into()));
        }
        let mut pid = String::new();
        let _unreadable_is_unknown = file.read_to_string(&mut pid);
        let holder = match pid.trim() {
            "" => "of unknown pid".to_owned(),
            pid => format!("pid {pid}"),
        };
        return Err(Error::Locked { path: database.to_owned(), holder });
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
    Ok(file)
}

fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "permission denied: let the scheduler's user write there, or give --database-url another path".to_owned()
        }
        _ => error.to_string(),
    }
}

fn cannot_open(path: &Path, error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let problem = match code.as_deref() {
        Some("26") => "it is not a SQLite database: move it away, or give --database-url another path".to_owned(),
        Some("14") => "it cannot be opened: look at the permissions of the file and its directory".to_owned(),
        Some("8" | "1544" | "776" | "1032") => "it can only be read: let the scheduler's user write there".to_owned(),
        _ => error.to_string(),
    };
    Error::File { path: path.to_owned(), problem }
}

async fn open_postgres(url: &str) -> Result<Store, Error> {
    let address = without_password(url);
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Url { url: address.clone(), problem: format!("cannot be read: {error}") })?
        .application_name("baton-scheduler")
        // A scheduler that is frozen in the middle of a turn must not hold up the others with its locks.
        .options([("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION.as_millis().to_string())])
        .statement_cache_capacity(STATEMENTS_KEPT)
        .disable_statement_logging();
    let own_pid = Arc::new(AtomicU32::new(0));
    let pool = |size: u32| {
        let (options, address) = (options.clone(), address.clone());
        let pool = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(CONNECT_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for >= PING_AFTER {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            });
        (pool, options, address)
    };
    let open = |(pool, options, address): (PgPoolOptions, PgConnectOptions, String)| async move {
        pool.connect_with(options).await.map_err(|error| cannot_connect(&address, &error))
    };
    let connect = |pool| async move { open(pool).await.map(DatabaseConnection::from) };
    let write = |pool| async move { open(pool).await.map(|pool| Writer::Postgres(postgres::Writer::new(pool))) };
    // The listener holds its connection for ever, so it has one of its own.
    let listening = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
    let listening = listening.connect_lazy_with(options.clone());
    let distrusted: [Arc<AtomicBool>; 2] = Default::default();
    // Tables are changed by what the planner thinks best.
    let builder = connect(pool(1)).await?;
    migrate::<Migrator>(&builder, DbBackend::Postgres).await?;
    migrate::<LogMigrator>(&builder, DbBackend::Postgres).await?;
    let compression = packs_fast(&builder).await?.then_some(PACKED_FAST);
    builder.close().await?;
    let writing = |size: u32| {
        let (pool, options, address) = pool(size);
        (pool, options.options(BY_INDEX), address)
    };
    let (writer, options, address) = writing(1);
    let writer = closing_distrusted(remembering_pid(writer, own_pid.clone()), &distrusted[0]);
    let writer = write((writer, options, address)).await?;
    let (reader, options, address) = pool(READERS);
    let options = options.options([("statement_timeout", QUESTION_MAX.as_millis().to_string())]);
    let reader = Reader::new(connect((closing_silent(reader), options, address)).await?);
    let (beats, options, address) = writing(1);
    let beats = write((closing_distrusted(beats, &distrusted[1]), options, address)).await?;
    let (log_writer, options, address) = writing(1);
    let log_writer = closing_distrusted(log_writer, &Arc::default());
    let log_writer = write((log_writer, options.options(compression).options([PASSED_ON]), address)).await?;
    let logs = Logs::start(DbBackend::Postgres, log_writer, reader.clone());
    Ok(Store {
        backend: DbBackend::Postgres,
        writer,
        beats,
        reader,
        distrusted,
        listening: Some(Listening { pool: listening, own_pid }),
        logs,
        definitions: Arc::default(),
        _lock: None,
        #[cfg(test)]
        levers: super::Levers::default(),
    })
}

/// Whether this PostgreSQL knows [`PACKED_FAST`]: from version 14 on, where it was built so.
async fn packs_fast(builder: &DatabaseConnection) -> Result<bool, Error> {
    let (name, value) = PACKED_FAST;
    let text = "SELECT 1 FROM pg_settings WHERE name = :name AND :value = ANY (enumvals)";
    let question = sql::statement(DbBackend::Postgres, text, &[("name", name.into()), ("value", value.into())]);
    Ok(builder.query_one_raw(question).await?.is_some())
}

/// Takes back what was begun on a connection that is given back; closes one that does not answer instead of waiting for it: the
/// pool has no other.
fn closing_distrusted(pool: PgPoolOptions, distrusted: &Arc<AtomicBool>) -> PgPoolOptions {
    let distrusted = distrusted.clone();
    pool.after_release(move |connection, _| {
        let gone = distrusted.swap(false, Ordering::AcqRel);
        Box::pin(async move {
            if gone {
                return Err(sqlx::Error::WorkerCrashed);
            }
            let taken_back = tokio::time::timeout(RELEASE_TIMEOUT, postgres::take_back(connection)).await;
            taken_back.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
        })
    })
}

/// Closes a connection that does not answer in time instead of waiting for it when it is given back: a question whose
/// asker went away may have been put to a server that is gone.
fn closing_silent(pool: PgPoolOptions) -> PgPoolOptions {
    pool.after_release(|connection, _| {
        Box::pin(async move {
            let answered = tokio::time::timeout(RELEASE_TIMEOUT, connection.ping()).await;
            answered.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map(|()| true)
        })
    })
}

/// Keeps the pid of the server process behind the engine's connection: what it calls out, we need not hear.
fn remembering_pid(pool: PgPoolOptions, own_pid: Arc<AtomicU32>) -> PgPoolOptions {
    pool.after_connect(move |connection, _| {
        let own_pid = own_pid.clone();
        Box::pin(async move {
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(connection).await?;
            own_pid.store(pid.cast_unsigned(), Ordering::Relaxed);
            Ok(())
        })
    })
}

fn cannot_connect(address: &str, error: &sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    let advice = match code.as_deref() {
        Some("28P01" | "28000") => "; look at the user and password of --database-url and at pg_hba.conf",
        Some("3D000") => "; make the database first: createdb NAME",
        Some("53300") => "; raise max_connections of the server, a scheduler uses twelve",
        Some(_) => "",
        None => "; is the server running, and are host and port of --database-url right?",
    };
    let problem = match error {
        sqlx::Error::PoolTimedOut => format!("no answer for {} s", CONNECT_TIMEOUT.as_secs()),
        other => other.to_string(),
    };
    Error::Connect { address: address.to_owned(), problem: problem + advice }
}

/// Brings the tables up to date in one transaction, one scheduler at a time, unless a newer Baton did already. Others work
/// meanwhile: a change that would wait for them for long, and hold up what comes behind it, gives way and is tried again.
pub(super) async fn migrate<M: MigratorTrait>(writer: &DatabaseConnection, backend: DbBackend) -> Result<(), Error> {
    let mut tries = 1;
    loop {
        match migrate_once::<M>(writer, backend).await {
            Err(Error::Contended(cause)) if tries == MIGRATION_TRIES => return Err(Error::Migrate(cause)),
            Err(Error::Contended(_)) => tokio::time::sleep(MIGRATION_PAUSE).await,
            other => return other,
        }
        tries += 1;
    }
}

async fn migrate_once<M: MigratorTrait>(writer: &DatabaseConnection, backend: DbBackend) -> Result<(), Error> {
    let tx = writer
        .begin_with_options(TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        })
        .await?;
    if backend == DbBackend::Postgres {
        let lock = sql::statement(backend, "SELECT pg_advisory_xact_lock(:lock)", &[("lock", MIGRATION_LOCK.into())]);
        tx.execute_raw(lock).await?;
    }
    refuse_newer(&tx, backend).await?;
    let known = M::get_migration_files();
    let table = M::migration_table_name().to_string();
    let applied = if has_table(&tx, backend, &table).await? {
        let names = format!("SELECT version FROM {table}");
        let rows = tx.query_all_raw(Statement::from_string(backend, names)).await?;
        rows.iter().map(|row| row.try_get("", "version")).collect::<Result<Vec<String>, _>>()?
    } else {
        Vec::new()
    };
    // A newer Baton may have added tables that we do not know and need not know: the migrator would refuse them.
    if !known.iter().all(|migration| applied.iter().any(|name| name == migration.name())) {
        if backend == DbBackend::Postgres {
            let patience = format!("SET LOCAL lock_timeout = {}", MIGRATION_PATIENCE.as_millis());
            tx.execute_raw(Statement::from_string(backend, patience)).await?;
        }
        M::up(&tx, None).await.map_err(|error| match Error::from(error) {
            Error::Refused(cause) => Error::Migrate(cause),
            other => other,
        })?;
    }
    Ok(tx.commit().await?)
}

/// Refuses a database whose `min_binary` is above our own version.
async fn refuse_newer(tx: &DatabaseTransaction, backend: DbBackend) -> Result<(), Error> {
    if !has_table(tx, backend, "meta").await? {
        return Ok(());
    }
    let question = sql::statement(backend, "SELECT value FROM meta WHERE key = 'min_binary'", &[]);
    let Some(row) = tx.query_one_raw(question).await? else { return Ok(()) };
    let needed: String = row.try_get("", "value")?;
    let ours = env!("CARGO_PKG_VERSION");
    if version(&needed) > version(ours) {
        return Err(Error::TooOld { needed, ours: ours.to_owned() });
    }
    Ok(())
}

async fn has_table(tx: &DatabaseTransaction, backend: DbBackend, name: &str) -> Result<bool, Error> {
    let text = match backend {
        DbBackend::Postgres => "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = :name",
        _ => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name",
    };
    Ok(tx.query_one_raw(sql::statement(backend, text, &[("name", name.into())])).await?.is_some())
}

/// The numbers of a version, for comparison; what is no number counts as 0.
fn version(text: &str) -> Vec<u32> {
    text.split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap_or(0)).collect()
}
