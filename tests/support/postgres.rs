//! A PostgreSQL server of this test process alone, started from the programs that the system brings.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::Signal;

use crate::{processes, programs};

/// Set to `required` where a missing server must fail the tests instead of being told.
const SETTING: &str = "BATON_TEST_POSTGRES";

/// Whether the server syncs its commits to disk.
static DURABLE: AtomicBool = AtomicBool::new(false);

/// Has the private PostgreSQL of this process sync its commits to disk, as one that is measured must and one that is
/// tested need not. Only before it is started, by whoever asks for it first.
pub fn durable() {
    DURABLE.store(true, Ordering::Relaxed);
}

/// Starts the server, waits for the end of its standard input (this process is gone, however it ended), then takes
/// server and data away. PostgreSQL refuses to run as root, so root starts it as somebody else.
const KEEPER: &str = r#"
set -eu
dir=$1 bin=$2 port=$3 fsync=$4
as=
if [ "$(id -u)" = 0 ]; then
  user=nobody
  if id postgres > /dev/null 2>&1; then user=postgres; fi
  chown "$user" "$dir"
  as="setpriv --reuid=$(id -u "$user") --regid=$(id -g "$user") --clear-groups --"
fi
cd "$dir"
export LC_ALL=C
if ! $as "$bin/initdb" -D "$dir/data" -U baton -A trust -E UTF8 --no-sync > "$dir/log" 2>&1; then
  cat "$dir/log" >&2
  rm -rf "$dir"
  exit 1
fi
start() {
  $as "$bin/postgres" -D "$dir/data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
    -c fsync=$fsync -c max_connections=300 -c shared_buffers=64MB >> "$dir/log" 2>&1 < /dev/null &
  server=$!
  tries=0
  until $as "$bin/pg_isready" -q -h 127.0.0.1 -p "$port"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ] || ! kill -0 $server 2> /dev/null; then cat "$dir/log" >&2; exit 1; fi
    sleep 0.1
  done
  echo "ready $server"
}
server=
trap 'kill -CONT $server 2> /dev/null; kill -QUIT $server 2> /dev/null; wait $server 2> /dev/null; cd /; rm -rf "$dir"' EXIT
start
# A line names the signal by which the server is ended; then it is started again.
while read -r signal; do
  kill -"$signal" $server
  wait $server || true
  start
done
"#;

/// The server.
#[derive(Debug)]
pub(crate) struct Postgres {
    programs: PathBuf,
    port: u16,
    // Its standard input is the server's life line.
    keeper: Mutex<Keeper>,
}

/// The shell that keeps the server.
#[derive(Debug)]
struct Keeper {
    orders: ChildStdin,
    said: BufReader<ChildStdout>,
    server: i32,
    _child: Child,
}

impl Keeper {
    /// Waits until the server answers.
    fn ready(&mut self) {
        let mut said = String::new();
        self.said.read_line(&mut said).expect("the keeper speaks");
        let pid = said.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
        self.server = pid.expect("PostgreSQL did not start; what it said is above");
    }
}

impl Postgres {
    /// The server of this process, started by whoever asks first; none where PostgreSQL is not installed.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    /// A server of its own; none where PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = Self::installed() else {
            assert!(
                env::var(SETTING).as_deref() != Ok("required"),
                "{SETTING}=required, but PostgreSQL's server programs (initdb, postgres) are not installed"
            );
            eprintln!(
                "PostgreSQL's server programs are not installed: its tests do nothing here (Debian: apt-get install postgresql)"
            );
            return None;
        };
        let port = programs::free_address().port();
        let directory = tempfile::Builder::new().prefix("baton-postgres-").tempdir().expect("a directory can be made");
        // The keeper takes the directory away, since nothing of this process may be left to do it.
        let directory = directory.keep();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&directory)
            .arg(&programs)
            .arg(port.to_string())
            .arg(if DURABLE.load(Ordering::Relaxed) { "on" } else { "off" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let (orders, said) = (keeper.stdin.take().expect("it is piped"), keeper.stdout.take().expect("it is piped"));
        let mut keeper = Keeper { orders, said: BufReader::new(said), server: 0, _child: keeper };
        keeper.ready();
        Some(Self { programs, port, keeper: Mutex::new(keeper) })
    }

    /// Ends the server by this signal and starts it again; returns once it answers.
    pub(crate) fn restart(&self, signal: &str) {
        let mut keeper = self.keeper.lock().expect("nobody panics here");
        writeln!(keeper.orders, "{signal}").expect("the keeper listens");
        keeper.ready();
    }

    /// The parent of all of its processes.
    pub(crate) fn pid(&self) -> i32 {
        self.keeper.lock().expect("nobody panics here").server
    }

    /// Sends a signal to every process of the server.
    pub(crate) fn signal_all(&self, signal: Signal) {
        let server = self.pid();
        // The parent first, so that it starts no more of them.
        processes::signal(server, signal);
        for process in processes::descendants(server) {
            processes::signal(process, signal);
        }
    }

    fn installed() -> Option<PathBuf> {
        let mut elsewhere: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .filter_map(|version| Some(version.ok()?.path().join("bin")))
            .collect();
        // The newest version first.
        elsewhere.sort();
        elsewhere.reverse();
        let server = programs::find("postgres", &elsewhere)?;
        let bin = fs::canonicalize(server).ok()?.parent()?.to_owned();
        ["initdb", "pg_isready", "psql"].iter().all(|name| bin.join(name).is_file()).then_some(bin)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The URL of one of its databases.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://baton@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs a statement and gives its rows, one a line, fields parted by tabs.
    pub(crate) fn sql(&self, database: &str, statement: &str) -> Vec<String> {
        self.try_sql(database, statement).unwrap_or_else(|refusal| panic!("{statement}: {refusal}"))
    }

    /// [`Postgres::sql`], or what the server had against it.
    pub(crate) fn try_sql(&self, database: &str, statement: &str) -> Result<Vec<String>, String> {
        let output = Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.url(database))
            .args(["-c", statement])
            .output()
            .expect("psql starts");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}
