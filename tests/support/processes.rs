//! What runs on this machine, read from `/proc`.

use std::{collections::HashSet, fs, path::PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, eventually};

/// Every process of this machine.
fn all() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").expect("/proc can be read").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The state letter and the parent of a process; none when it is gone.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from its end.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Whether a process runs, a zombie counting as gone.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Whether a process has ended and nobody has asked for its result.
pub fn is_zombie(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state == 'Z')
}

/// The living processes that have exactly this `KEY=value` in the environment they were started with.
pub fn with_environment(pair: &str) -> Vec<i32> {
    all()
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == pair.as_bytes()) && is_alive(*pid)
        })
        .collect()
}

/// The children of a process, zombies included.
pub fn children(parent: i32) -> Vec<i32> {
    all().filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// Everything below a process.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut seen = HashSet::from([ancestor]);
    let mut open = vec![ancestor];
    while let Some(pid) = open.pop() {
        for child in children(pid) {
            if seen.insert(child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

/// The program that a process runs.
pub fn program(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// How much memory a process has that is its own, or shared, and in RAM.
pub fn resident_bytes(pid: i32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// The most that [`resident_bytes`] ever was.
pub fn resident_bytes_max(pid: i32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// A TCP socket of a process, by its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// The port at this end.
    pub local: u16,
    /// The port at the other end; none for one that listens.
    pub remote: Option<u16>,
}

/// The TCP sockets of a process that listen or are connected.
pub fn sockets(pid: i32) -> Vec<Socket> {
    const ESTABLISHED: &str = "01";
    const LISTENS: &str = "0A";
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let inodes: HashSet<String> = links
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default());
    let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, remote) = (port(words.get(1)?)?, port(words.get(2)?)?);
        let remote = match *words.get(3)? {
            ESTABLISHED => Some(remote),
            LISTENS => None,
            _ => return None,
        };
        inodes.contains(*words.get(9)?).then_some(Socket { local, remote })
    };
    tables.iter().flat_map(|table| table.lines()).filter_map(socket).collect()
}

/// Waits until no process with this `KEY=value` in its environment lives.
pub async fn gone(pair: &str) {
    let what = format!("every process with {pair} in its environment ends");
    eventually(&what, PATIENCE, || std::future::ready(with_environment(pair).is_empty().then_some(()))).await;
}

/// Sends a signal; one to a process that is gone is no error.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}
