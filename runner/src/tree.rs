//! Which processes belong to a task, as `/proc` tells it, and how they are ended without ever hitting another's.
//!
//! A task's processes are known by their group (the pid of its main process) and by a random `BATON_TASK_KEY` in
//! their environment. The runner and its watchdog are sub-reapers, so whatever loses its parent becomes a child of
//! theirs and cannot get away. A process that leaves the group *and* drops the key from its environment is outside
//! the promise while its runner lives. (When the runner dies, even that is ended: the watchdog ends all its children.)
//! Cgroups would close this gap where they are writable; they are left out for now.

use std::{
    collections::HashSet,
    fs,
    io::{self, Read as _},
    os::unix::fs::FileExt as _,
    sync::LazyLock,
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::clock::Instant;

/// The environment variable that marks a task's processes.
pub(crate) const KEY_VARIABLE: &str = "BATON_TASK_KEY";

/// Looks in a row that must find nothing: a process in the middle of an exec shows no environment for a moment.
const QUIET_ROUNDS: u32 = 2;

/// The pause between two looks at processes that were killed and are not gone yet.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Longer than any `/proc/PID/stat`: fifty numbers and a name of at most 64 bytes.
const STAT_BYTES: usize = 2048;

/// How much of a list of children is read in one go: there are rarely any.
const CHILDREN_BYTES: usize = 1024;

/// The longest pid, with the space after it.
const PID_BYTES: usize = 11;

/// In what the kernel counts the times of processes towards programs: a hundredth on every architecture that Baton runs on.
const TICK: Duration = Duration::from_millis(10);

/// When a process started, in clock ticks since the machine did: with its pid, its identity.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// When a process started, as [`start_time`] has it, that is known to have started between two instants. They mostly fall into
/// one tick of the clock in which the kernel counts, and then nobody needs to ask it: a file of `/proc` is dear.
pub(crate) fn start_between(after: Instant, before: Instant) -> Option<u64> {
    let tick = |at: Instant| at.since_boot().as_nanos() / TICK.as_nanos();
    let (first, last) = (tick(after), tick(before));
    if first == last { u64::try_from(first).ok() } else { None }
}

/// The group of a process.
pub(crate) fn group_of(pid: i32) -> Option<i32> {
    stat_field(pid, 5)?.parse().ok()
}

fn parent_of(pid: i32) -> Option<i32> {
    stat_field(pid, 4)?.parse().ok()
}

/// A field of `/proc/PID/stat` by its number in proc(5). The command's name may hold anything, so what follows the last
/// parenthesis is counted.
fn stat_field(pid: i32, number: usize) -> Option<String> {
    // It is made in one piece, and read in one: no question for its length, no second one for its end.
    let mut stat = [0; STAT_BYTES];
    let length = fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut stat)).ok()?;
    let stat = &stat[..length];
    let rest = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
    let rest = String::from_utf8_lossy(rest);
    rest.split_ascii_whitespace().nth(number - 3).map(str::to_owned)
}

/// A boot of this machine: pids and start times mean nothing beyond it.
pub(crate) fn machine_boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Whether a process carries the key. One that is gone, or another user's, does not.
pub(crate) fn has_key(pid: i32, key: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("{KEY_VARIABLE}={key}");
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
}

/// Sends SIGKILL to a process if `is_it` holds of it. The pidfd pins it: it cannot be another one by the time of the
/// signal.
fn kill_if(pid: i32, is_it: impl FnOnce() -> bool) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return false };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    is_it() && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

/// Kills every process on this machine that carries the key and says how many there were.
pub(crate) fn kill_keyed(key: &str) -> usize {
    processes().into_iter().filter(|pid| has_key(*pid, key) && kill_if(*pid, || has_key(*pid, key))).count()
}

/// Kills one process if it carries the key.
pub(crate) fn kill_if_keyed(pid: i32, key: &str) -> bool {
    kill_if(pid, || has_key(pid, key))
}

/// Sends a signal to a group. Only for groups whose leader is known to be there: alive, or not reaped.
pub(crate) fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group).filter(|_| group > 1) {
        // The one error that can come is that nobody is left.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Sends a signal to the group that a process leads, if it is still that process.
pub(crate) fn signal_group_of(pid: i32, started: u64, signal: Signal) -> bool {
    let is_it = start_time(pid) == Some(started) && group_of(pid) == Some(pid);
    if is_it {
        signal_group(pid, signal);
    }
    is_it
}

/// Ends what an earlier boot of the runner left of a task, and returns once it is gone. Identity is pid and start time,
/// and the key; a foreign process that came to have the pid is left alone.
pub(crate) fn end_leftovers(process: Option<(i32, u64)>, key: &str) -> usize {
    let mut ended = HashSet::new();
    let mut quiet = 0;
    loop {
        let mut found = false;
        if let Some((pid, started)) = process
            && start_time(pid) == Some(started)
            && !is_zombie(pid)
        {
            if !signal_group_of(pid, started, Signal::KILL) {
                kill_if(pid, || start_time(pid) == Some(started));
            }
            found = true;
            ended.insert(pid);
        }
        for pid in processes().into_iter().filter(|pid| has_key(*pid, key)) {
            kill_if_keyed(pid, key);
            found = true;
            ended.insert(pid);
        }
        quiet = if found { 0 } else { quiet + 1 };
        if quiet == QUIET_ROUNDS {
            return ended.len();
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn is_zombie(pid: i32) -> bool {
    stat_field(pid, 3).is_some_and(|state| state == "Z" || state == "X")
}

/// Every process there is.
fn processes() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The children of this process that it did not spawn: what lost its parent and came to the sub-reaper.
///
/// The kernel gives orphans to the first living thread of the sub-reaper, which is the main one, while a spawned child
/// is listed under the thread that spawned it (or under the main one, once that thread has ended). So one small file
/// lists every orphan, and reading it costs microseconds; `known` takes out what was spawned.
pub(crate) fn orphans(known: impl Fn(i32) -> bool) -> Vec<i32> {
    let children: Vec<i32> = if let Some(text) = listed_children() {
        text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    } else {
        // A kernel without that file: look at everyone.
        let me = Some(rustix::process::getpid().as_raw_nonzero().get());
        processes().into_iter().filter(|pid| parent_of(*pid) == me).collect()
    };
    children.into_iter().filter(|pid| !known(*pid)).collect()
}

/// What the kernel lists as children of the main thread. The file is kept open, for it is read at the end of each task and to
/// find it in `/proc` takes longer than to read it.
fn listed_children() -> Option<String> {
    static LIST: LazyLock<Option<fs::File>> = LazyLock::new(|| {
        let me = rustix::process::getpid().as_raw_nonzero();
        fs::File::open(format!("/proc/self/task/{me}/children")).ok()
    });
    whole(LIST.as_ref()?)
}

/// Such a list from its beginning to its end.
fn whole(file: &fs::File) -> Option<String> {
    let (mut text, mut piece) = (Vec::new(), [0; CHILDREN_BYTES]);
    loop {
        let length = file.read_at(&mut piece, text.len() as u64).ok()?;
        text.extend_from_slice(&piece[..length]);
        // The kernel fills the piece as long as one more pid fits into it.
        if length + PID_BYTES < piece.len() {
            return String::from_utf8(text).ok();
        }
    }
}

/// Kills every child of this process and every descendant that becomes one, until none is left. For the watchdog, whose
/// children are the runner and, once that is dead, everything it ran.
pub(crate) fn end_all_children() -> io::Result<usize> {
    let mut ended = HashSet::new();
    loop {
        while let Some((pid, _)) = reap_any()? {
            ended.insert(pid);
        }
        let children = orphans(|_| false);
        if children.is_empty() {
            return Ok(ended.len());
        }
        for pid in children {
            // A child cannot be reaped by anyone else, so its pid is its own until we do.
            if let Some(group) = group_of(pid).filter(|group| *group == pid) {
                signal_group(group, Signal::KILL);
            }
            if let Some(pid) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Reaps one dead child of whatever group, if there is one.
fn reap_any() -> io::Result<Option<(i32, rustix::process::WaitStatus)>> {
    match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
        Ok(found) => Ok(found.map(|(pid, status)| (pid.as_raw_nonzero().get(), status))),
        Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::CommandExt as _, process::Command};

    use super::*;

    #[test]
    fn a_pid_that_now_belongs_to_another_process_is_left_alone() {
        let mut bystander = Command::new("/bin/sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = bystander.id() as i32;
        let started = start_time(pid).unwrap();
        assert_eq!(end_leftovers(Some((pid, started + 1)), "a-key-nobody-has"), 0);
        assert!(bystander.try_wait().unwrap().is_none(), "it lives");
        assert_eq!(end_leftovers(Some((pid, started)), "a-key-nobody-has"), 1);
        bystander.wait().unwrap();
    }

    #[test]
    fn when_a_process_started_is_known_from_the_instants_around_its_start() {
        let known = (0..20).filter(|_| {
            let after = Instant::now();
            let mut child = Command::new("/bin/true").spawn().unwrap();
            let between = start_between(after, Instant::now());
            let told = start_time(child.id() as i32);
            child.wait().unwrap();
            assert!(between.is_none() || between == told, "{between:?} is not {told:?}");
            between.is_some()
        });
        assert!(known.count() > 0, "a tick is longer than most starts take");
        let apart = Instant::from_boot(Duration::from_secs(1));
        assert_eq!(start_between(apart, apart + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_list_of_children_is_read_to_its_end_however_long_it_is() {
        for count in [0, 1, 100, 1000] {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = "4194304 ".repeat(count);
            fs::write(file.path(), &text).unwrap();
            assert_eq!(whole(&fs::File::open(file.path()).unwrap()).as_deref(), Some(&*text), "{count}");
        }
    }

    #[test]
    fn a_process_is_found_by_its_key_in_whatever_group_it_hides() {
        let key = "tree-test-key";
        let mut child = Command::new("/bin/sleep").arg("60").env(KEY_VARIABLE, key).process_group(0).spawn().unwrap();
        // The kernel lets a vfork go on a moment before the environment of the new program can be seen.
        while !has_key(child.id() as i32, key) {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert_eq!(kill_keyed(key), 1);
        child.wait().unwrap();
        assert_eq!(kill_keyed(key), 0);
    }
}
