//! Databases for tests: a SQLite file in a directory of its own, and a database on a private PostgreSQL server.
//!
//! The server is started once for a test process from the binaries of the system and ends with it. Where there are
//! none, tests run on SQLite alone and say so, unless `BATON_TEST_POSTGRES=required`.

pub(crate) mod rows;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use sea_orm::Statement;
use tempfile::TempDir;

pub(crate) use super::row::{Readable, Row};
use super::{Error, Settings, Store};

/// Where a transaction is cut off, as it is when its scheduler dies or loses its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// Before the statement with this number, counted from 0.
    Before(usize),
    /// After the last statement.
    BeforeCommit,
    /// It is committed, and nobody hears of it.
    AfterCommit,
}

/// Cuts the first transaction off that comes to one place, that one alone; counts what transactions read, and keeps what they
/// ask.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    at: Mutex<Option<CutOff>>,
    rows: AtomicUsize,
    statements: Mutex<BTreeMap<String, Statement>>,
}

impl Fuse {
    pub(crate) fn at(place: CutOff) -> Self {
        Self { at: Mutex::new(Some(place)), ..Self::default() }
    }

    /// How many rows were read since this was asked before.
    pub(crate) fn rows_read(&self) -> usize {
        self.rows.swap(0, Ordering::Relaxed)
    }

    /// Each statement that was run, once.
    pub(crate) fn statements(&self) -> Vec<Statement> {
        self.statements.lock().expect("nobody panics here").values().cloned().collect()
    }

    pub(super) fn keep(&self, statement: &Statement) {
        let mut statements = self.statements.lock().expect("nobody panics here");
        statements.entry(statement.sql.clone()).or_insert_with(|| statement.clone());
    }

    pub(super) fn count(&self, rows: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Whether a transaction has been cut off. None is from now on.
    pub(crate) fn has_blown(&self) -> bool {
        self.at.lock().expect("nobody panics here").take().is_none()
    }

    pub(super) fn burn(&self, place: CutOff) -> Result<(), Error> {
        let cut_off = self.at.lock().expect("nobody panics here").take_if(|at| *at == place).is_some();
        if cut_off { Err(Error::Unreachable("a test has cut it off".into())) } else { Ok(()) }
    }
}

/// A store of its own for one test.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    _directory: Option<TempDir>,
}

impl World {
    /// The same store, whose transactions may be cut off.
    pub(crate) fn with(&self, fuse: &Arc<Fuse>) -> Store {
        let mut store = self.store.clone();
        store.levers.fuse = fuse.clone();
        store
    }

    /// The same store, for a second scene on it.
    pub(crate) fn shared(&self) -> Self {
        Self { store: self.store.clone(), settings: self.settings.clone(), _directory: None }
    }

    /// The same database, opened once more: another scheduler's.
    pub(crate) async fn again(&self) -> Self {
        let mut store = Store::open(&self.settings).await.expect("the database opens once more");
        // There is one clock of the database, whoever asks it.
        store.levers.clock_set = self.store.levers.clock_set.clone();
        Self { store, settings: self.settings.clone(), _directory: None }
    }
}

/// An empty store on each database.
pub(crate) async fn worlds() -> Vec<World> {
    let mut worlds = vec![sqlite().await];
    if let Some(server) = server() {
        let settings = Settings { url: server.create_database() };
        let store = Store::open(&settings).await.expect("a fresh PostgreSQL database opens");
        worlds.push(World { store, settings, _directory: None });
    }
    worlds
}

/// An empty store on SQLite.
pub(crate) async fn sqlite() -> World {
    let directory = TempDir::new().expect("a temporary directory");
    let settings = Settings { url: format!("sqlite://{}", directory.path().join("baton.db").display()) };
    let store = Store::open(&settings).await.expect("a fresh SQLite database opens");
    World { store, settings, _directory: Some(directory) }
}

/// A private PostgreSQL server. It listens on a socket in its own directory alone, so no port can be taken.
struct Server {
    binaries: PathBuf,
    directory: String,
    databases: AtomicU32,
    /// Reads its input, which we hold: when this process ends, however, it reads the end and stops the server.
    _keeper: Child,
}

impl Server {
    fn create_database(&self) -> String {
        let name = format!("t{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made = Command::new(self.binaries.join("createdb"))
            .args(["--host", &self.directory, "--username", "baton", &name])
            .status()
            .expect("createdb starts");
        assert!(made.success(), "createdb {name} failed");
        format!("postgres://baton@localhost/{name}?host={}", self.directory)
    }
}

/// The server of this test process, or nothing where there are no binaries.
fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    SERVER
        .get_or_init(|| {
            let required = std::env::var("BATON_TEST_POSTGRES").is_ok_and(|value| value == "required");
            match find_binaries() {
                Some(binaries) => Some(start(binaries)),
                None if required => panic!("BATON_TEST_POSTGRES=required, but there is no PostgreSQL on this machine"),
                None => {
                    eprintln!("no PostgreSQL on this machine: tested on SQLite alone");
                    None
                }
            }
        })
        .as_ref()
}

/// The directory of `initdb`: on the path, or where Debian puts it (the newest version).
fn find_binaries() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    debian.sort();
    let found =
        std::env::split_paths(&path).chain(debian.into_iter().rev()).find(|bin| bin.join("initdb").is_file())?;
    // A link on the path leads to the directory that holds the rest.
    let initdb = fs::canonicalize(found.join("initdb")).ok()?;
    initdb.parent().map(Path::to_owned)
}

/// Makes a cluster and starts it, then says where its socket is and waits for the end of its input.
const KEEPER: &str = r#"
set -e
directory=$(mktemp -d)
trap 'kill -INT $server; wait $server; rm -rf "$directory"' EXIT
trap '' INT TERM HUP
"$1/initdb" --pgdata "$directory/data" --username baton --auth trust --encoding UTF8 --no-locale --no-sync >/dev/null
setsid "$1/postgres" -D "$directory/data" -k "$directory" -c listen_addresses= -c fsync=off -c max_connections=400 \
    >"$directory/log" 2>&1 </dev/null &
server=$!
until "$1/pg_isready" --quiet --host "$directory"; do kill -0 $server; sleep 0.05; done
echo "$directory"
read -r _ || true
"#;

fn start(binaries: PathBuf) -> Server {
    // PostgreSQL refuses to run as root.
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    let mut keeper = command
        .args(["-c", KEEPER, "keeper"])
        .arg(&binaries)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let mut directory = String::new();
    BufReader::new(keeper.stdout.take().expect("its output is a pipe")).read_line(&mut directory).expect("it answers");
    let directory = directory.trim().to_owned();
    assert!(!directory.is_empty(), "PostgreSQL did not start");
    Server { binaries, directory, databases: AtomicU32::new(0), _keeper: keeper }
}
