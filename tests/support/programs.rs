//! Where the programs under test are, and which port to give them.

use std::{
    env,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Ports are taken from below the range that the kernel gives to outgoing connections: a runner that dials a
/// scheduler which is down for a moment would otherwise sometimes get the scheduler's own port.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

static NEXT_PORT: LazyLock<AtomicU32> = LazyLock::new(|| {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    AtomicU32::new(random % (PORTS.end - PORTS.start))
});

/// The path of one of our programs, built beside this test.
pub fn path(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    // target/<profile>/deps/<test> or target/<profile>/<program>
    let directory = test.ancestors().skip(1).find(|directory| !directory.ends_with("deps")).expect("it lies in one");
    let program = directory.join(name);
    assert!(
        program.exists(),
        "{} is missing: the whole-system tests start the real programs, so run them with `make test`",
        program.display()
    );
    program
}

/// A command that starts one of our programs, without what this process has in its environment for Baton.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(path(name));
    for (key, _) in env::vars_os() {
        if key.to_string_lossy().starts_with("BATON_") {
            command.env_remove(key);
        }
    }
    command.env("NO_COLOR", "1").env("LANG", "C.UTF-8");
    command
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a member of the workspace")
}

/// A loopback address that nothing listens on now and that no other test of this process is given.
pub fn free_address() -> SocketAddr {
    loop {
        let step = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + step % (PORTS.end - PORTS.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).expect("the range fits")));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Where a program that other software brings is found: in PATH, or in one of `elsewhere`.
pub fn find(name: &str, elsewhere: &[PathBuf]) -> Option<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&paths).chain(elsewhere.iter().cloned()).map(|path| path.join(name)).find(|path| path.is_file())
}
