//! The state directory: who the runner is, what its slots hold, and what they still have to say.
//!
//! ```text
//! lock           held while a runner lives
//! install_id     tells two hosts with one runner id apart
//! boots          how often a runner has started here, so that a late word of an older one is known as such
//! slots/N        what slot N holds: a task and its processes, or its result
//! logs/          output, until it is stored by the scheduler
//! tmp/           BATON_TMPDIR and BATON_OUTPUT of what runs
//! ```
//!
//! Nothing here is synced to disk. A record must survive the death of the runner, and what is written survives that in
//! the page cache. A loss of power takes the processes with it; then the hello of the new boot comes without them and
//! the scheduler decides them as lost, which is what they are. Only an *acknowledged* result must survive more, and
//! that one is the scheduler's. The number of boots alone is synced: a number given twice would make two processes look
//! like one.
//!
//! A slot's record is overwritten in place. That costs a tenth of a fresh file on the way to a task's first
//! instruction, and once a slot has been used it needs no room on a full disk. A record torn by a kill in the middle
//! of its writing fails its checksum and counts as none.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::{info, warn};
use uuid::Uuid;

use crate::{
    machine::Leftovers,
    task::{TaskRef, TaskResult},
    tmp::Tmps,
    tree,
};

/// The highest slot number that is read back; a runner has at most 10,000 slots.
const SLOT_MAX: u32 = 9_999;

/// A runner that was killed and started again at once may find the lock still held: the kernel lets go of it only when
/// the last thread of the dead one is gone. So it is asked for again for this long.
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// How often it is asked for.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// How many records stay open. A runner may have more slots than a process may have files.
const RECORDS_OPEN_MAX: usize = 128;

const MAGIC: &str = "baton1";

/// Why a state directory cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// Another runner has it.
    #[error(
        "the state directory {dir} is in use by another runner{pid}; give each runner on a host its own --state-dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// ` (pid N)`, if known.
        pid: String,
    },
    /// It cannot be read or written.
    #[error("cannot use the state directory {dir} ({what}); choose a writable one with --state-dir")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// What is written down about a slot.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    task: TaskRef,
    /// The boot of the machine in which the processes run.
    machine: String,
    key: String,
    process: Option<Process>,
    result: Option<TaskResult>,
}

/// A process, by pid and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) started: u64,
}

/// A state directory that is ours.
#[derive(Debug)]
pub(crate) struct State {
    dir: PathBuf,
    install_id: Uuid,
    boot_number: u64,
    machine: String,
    tmps: Tmps,
    /// The records of slots that were used, open, as far as there is room.
    records: Mutex<HashMap<u32, Arc<File>>>,
    /// Locked as long as it is open.
    _lock: File,
}

impl State {
    /// Takes the directory, ends what an earlier boot left running, and says what it left to tell.
    pub(crate) fn open(dir: &Path) -> Result<(Self, Leftovers), Error> {
        let failed = |what: &'static str| {
            let dir = dir.to_owned();
            move |source: io::Error| Error::Io { dir, what, source }
        };
        // Output and results are nobody else's business.
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir).map_err(failed("creating it"))?;
        let dir = dir.canonicalize().map_err(failed("finding it"))?;
        let lock = lock(&dir)?;
        for part in ["slots", "logs", "tmp"] {
            builder.create(dir.join(part)).map_err(failed("creating its parts"))?;
        }
        let install_id = install_id(&dir).map_err(failed("keeping the install id"))?;
        let boot_number = count_boot(&dir).unwrap_or_else(|error| {
            warn!(%error, "the starts of this runner cannot be counted; a late word of an older one may be taken for new");
            0
        });
        let state = Self {
            tmps: Tmps::within(dir.join("tmp")),
            dir,
            install_id,
            boot_number,
            machine: tree::machine_boot(),
            records: Mutex::default(),
            _lock: lock,
        };
        let leftovers = state.recover().map_err(failed("reading what an earlier boot left"))?;
        Ok((state, leftovers))
    }

    pub(crate) fn install_id(&self) -> Uuid {
        self.install_id
    }

    /// Which start of this installation it is, from 1; 0 when that could not be written down.
    pub(crate) fn boot_number(&self) -> u64 {
        self.boot_number
    }

    /// Where output files are.
    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The file of a script that is too long for an argument.
    pub(crate) fn script(&self, task: TaskRef) -> PathBuf {
        self.dir.join("tmp").join(format!("{task}.sh"))
    }

    /// The directories of attempts.
    pub(crate) fn tmps(&self) -> &Tmps {
        &self.tmps
    }

    /// The file that becomes its `BATON_OUTPUT`.
    pub(crate) fn output(&self, task: TaskRef) -> PathBuf {
        self.dir.join("tmp").join(format!("{task}.output"))
    }

    /// Writes down that a slot is about to run a task, then that it runs as this process. Before a task is spawned its
    /// key is known here, so that a later boot finds whatever came of it.
    pub(crate) fn hold(&self, slot: u32, task: TaskRef, key: &str, process: Option<Process>) -> io::Result<()> {
        self.write(slot, &Record { task, machine: self.machine.clone(), key: key.to_owned(), process, result: None })
    }

    /// Writes a result down in place of its task.
    pub(crate) fn keep(&self, slot: u32, task: TaskRef, result: TaskResult) -> io::Result<()> {
        self.write(
            slot,
            &Record { task, machine: self.machine.clone(), key: String::new(), process: None, result: Some(result) },
        )
    }

    /// Forgets what a slot held.
    pub(crate) fn forget(&self, slot: u32) -> io::Result<()> {
        // The room stays, for the next record.
        self.record(slot)?.write_all_at(b"none  \n", 0)
    }

    /// The file of a slot's record, made if there is none.
    fn record(&self, slot: u32) -> io::Result<Arc<File>> {
        if let Some(file) = self.records.lock().unwrap_or_else(PoisonError::into_inner).get(&slot) {
            return Ok(file.clone());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(self.slot(slot))?;
        let file = Arc::new(file);
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() < RECORDS_OPEN_MAX {
            records.insert(slot, file.clone());
        }
        Ok(file)
    }

    fn slot(&self, slot: u32) -> PathBuf {
        self.dir.join("slots").join(slot.to_string())
    }

    fn write(&self, slot: u32, record: &Record) -> io::Result<()> {
        let json = serde_json::to_vec(record)?;
        let output = record.result.as_ref().map_or(&[][..], |result| &result.output);
        let sum = checksum(&[&json, output]);
        let mut bytes = format!("{MAGIC} {} {} {sum:016x}\n", json.len(), output.len()).into_bytes();
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(output);
        self.record(slot)?.write_all_at(&bytes, 0)
    }

    fn recover(&self) -> io::Result<Leftovers> {
        let mut leftovers = Leftovers::default();
        for entry in fs::read_dir(self.dir.join("slots"))? {
            let entry = entry?;
            let slot = entry.file_name().to_str().and_then(|name| name.parse().ok()).filter(|slot| *slot <= SLOT_MAX);
            let Some(slot) = slot else { continue };
            let mut bytes = Vec::new();
            File::open(entry.path())?.read_to_end(&mut bytes)?;
            let Some(record) = read(&bytes) else { continue };
            if let Some(result) = record.result {
                leftovers.results.push((slot, record.task, result));
                continue;
            }
            // After a restart of the machine there is nothing left to end.
            if record.machine == self.machine {
                let process = record.process.map(|process| (process.pid, process.started));
                let processes = tree::end_leftovers(process, &record.key);
                info!(task = %record.task, processes, "an earlier boot of this runner left a task; it is ended");
            }
            leftovers.ended.push((slot, record.task));
        }
        clear(&self.dir.join("tmp"));
        Ok(leftovers)
    }
}

fn lock(dir: &Path) -> Result<File, Error> {
    let path = dir.join("lock");
    let failed = |source| Error::Io { dir: dir.to_owned(), what: "locking it", source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let mut file = file.map_err(failed)?;
    let asked_at = Instant::now();
    let mut taken = flock(&file, FlockOperation::NonBlockingLockExclusive);
    while taken == Err(rustix::io::Errno::WOULDBLOCK) && asked_at.elapsed() < LOCK_WAIT {
        std::thread::sleep(LOCK_LOOK);
        taken = flock(&file, FlockOperation::NonBlockingLockExclusive);
    }
    match taken {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = pid.trim();
            let pid = if pid.is_empty() { String::new() } else { format!(" (pid {pid})") };
            return Err(Error::InUse { dir: dir.to_owned(), pid });
        }
        Err(error) => return Err(failed(error.into())),
    }
    // Only a courtesy to whoever finds it locked, so a full disk is no reason to stop.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

fn install_id(dir: &Path) -> io::Result<Uuid> {
    let path = dir.join("install_id");
    if let Some(id) = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(id);
    }
    let id = Uuid::new_v4();
    let fresh = dir.join("install_id.new");
    fs::write(&fresh, format!("{id}\n"))?;
    fs::rename(fresh, path)?;
    Ok(id)
}

/// Counts one more start. The number is overwritten in place, which needs no room on a full disk, and is on the disk
/// before anybody hears of it.
fn count_boot(dir: &Path) -> io::Result<u64> {
    let path = dir.join("boots");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let mut text = String::new();
    let before = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u64>().ok()).unwrap_or(0);
    let number = before.saturating_add(1);
    file.write_all_at(format!("{number:020}\n").as_bytes(), 0)?;
    file.sync_data()?;
    Ok(number)
}

fn read(bytes: &[u8]) -> Option<Record> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut words = header.split(' ');
    if words.next() != Some(MAGIC) {
        return None;
    }
    let (json, output): (usize, usize) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let sum = u64::from_str_radix(words.next()?, 16).ok()?;
    let body = &bytes[end + 1..];
    let (json, output) = (body.get(..json)?, body.get(json..json.checked_add(output)?)?);
    if checksum(&[json, output]) != sum {
        warn!("a slot's record is damaged and counts as none");
        return None;
    }
    let mut record: Record = serde_json::from_slice(json).ok()?;
    if let Some(result) = &mut record.result {
        result.output = output.to_vec();
    }
    Some(record)
}

/// FNV-1a: it only has to notice a write that was cut short.
fn checksum(parts: &[&[u8]]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for byte in parts.iter().copied().flatten() {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    sum
}

/// Removes what is in a directory, as far as that goes.
fn clear(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if let Err(error) = removed {
            warn!(path = %path.display(), %error, "what an earlier task left cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{End, Exit};

    fn task(lease: u64) -> TaskRef {
        TaskRef { id: Uuid::from_u128(7), attempt: 1, lease }
    }

    #[test]
    fn a_second_runner_on_one_state_directory_is_refused_with_the_pid_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let _first = State::open(dir.path()).unwrap();
        let error = State::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    }

    #[test]
    fn an_install_keeps_its_id() {
        let dir = tempfile::tempdir().unwrap();
        let first = State::open(dir.path()).unwrap().0.install_id();
        assert_eq!(State::open(dir.path()).unwrap().0.install_id(), first);
    }

    #[test]
    fn each_start_has_a_higher_number() {
        let dir = tempfile::tempdir().unwrap();
        let numbers: Vec<u64> = (0..3).map(|_| State::open(dir.path()).unwrap().0.boot_number()).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn a_result_is_found_again_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let end = End { exit: Exit::Code(0), output: vec![0, 255, b'\n'], ..End::not_started("") };
        let result = end.into_result(None);
        {
            let (state, _) = State::open(dir.path()).unwrap();
            state.hold(3, task(1), "key", None).unwrap();
            state.keep(3, task(1), result.clone()).unwrap();
        }
        let (state, leftovers) = State::open(dir.path()).unwrap();
        assert_eq!(leftovers.results, [(3, task(1), result)]);
        state.forget(3).unwrap();
        drop(state);
        assert!(State::open(dir.path()).unwrap().1.results.is_empty());
    }

    #[test]
    fn a_record_cut_short_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _) = State::open(dir.path()).unwrap();
        state.hold(0, task(1), "key", None).unwrap();
        let path = state.slot(0);
        drop(state);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        assert!(State::open(dir.path()).unwrap().1.ended.is_empty());
    }

    #[test]
    fn a_task_without_a_result_is_ended_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let (state, _) = State::open(dir.path()).unwrap();
        let key = "state-test-leftover";
        let mut child =
            std::process::Command::new("/bin/sleep").arg("60").env(tree::KEY_VARIABLE, key).spawn().unwrap();
        state.hold(0, task(1), key, None).unwrap();
        drop(state);
        assert_eq!(State::open(dir.path()).unwrap().1.ended, [(0, task(1))]);
        assert!(!child.wait().unwrap().success());
    }
}
