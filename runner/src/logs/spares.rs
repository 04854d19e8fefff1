//! Output files that were stored and are kept, empty, for the next attempt.
//!
//! To make an inode and to give it back costs a file system more than it costs to start a small process: with two
//! output files for each attempt, a third of the runner's time went there. A file is kept only when nobody has it open
//! any more but the runner. Each output carries a shared lock (`flock`) from its making on; the lock belongs to the opening,
//! which all processes of the attempt share by inheritance, however well they hide, and which is not the runner's own. So an
//! exclusive lock is granted to the runner exactly when the last of them is gone, and a file with a writer left behind is
//! removed instead.
//!
//! A spare keeps its name until it is taken. To a later boot it is the empty output of an attempt long stored.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::fs::{FlockOperation, flock};

/// How many files are kept at most: both of 64 slots.
const SPARES_MAX: usize = 128;

/// How many files the runner has open at most, spares included. Output that waits for a scheduler must not take the
/// descriptors that tasks need, so what is beyond is opened when it is looked at.
const HELD_MAX: usize = 256;

/// The files that are kept. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spares {
    kept: Arc<Mutex<Vec<(PathBuf, Held)>>>,
    held: Arc<AtomicUsize>,
}

/// The runner's own opening of an output, to read and to free.
#[derive(Debug)]
pub(super) struct Held {
    file: File,
    count: Arc<AtomicUsize>,
}

impl Held {
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spares {
    /// Makes an empty file of this name, or gives a spare this name; with the runner's own opening of it, if there is room
    /// for one more.
    pub(super) fn make(&self, path: &Path) -> io::Result<Option<Held>> {
        let spare = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some((spare, held)) = spare
            && fs::rename(spare, path).is_ok()
        {
            return Ok(Some(held));
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let held = Held { file, count: self.held.clone() };
        // Counted before it is looked at, since to drop it counts down.
        let others = self.held.fetch_add(1, Ordering::Relaxed);
        Ok((others < HELD_MAX).then_some(held))
    }

    /// Marks a file as in use for as long as any process has this opening of it.
    pub(super) fn mark(file: &File) {
        // Where locks are not to be had, none is granted later either, and every file is removed.
        let _ = flock(file, FlockOperation::NonBlockingLockShared);
    }

    /// Keeps a file that nobody else has open, and removes any other.
    pub(super) fn keep(&self, path: PathBuf, held: Option<Held>) {
        let room = self.kept.lock().unwrap_or_else(PoisonError::into_inner).len() < SPARES_MAX;
        match held {
            Some(held) if room && emptied(&held.file) => {
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).push((path, held));
            }
            _ => {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Whether a file is ours alone and has been emptied.
fn emptied(file: &File) -> bool {
    if flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    let emptied = match file.metadata() {
        // Most attempts write nothing to one of the two.
        Ok(meta) if meta.len() == 0 && meta.blocks() == 0 => true,
        Ok(_) => file.set_len(0).is_ok(),
        Err(_) => false,
    };
    // The next attempt marks it anew.
    emptied && flock(file, FlockOperation::Unlock).is_ok()
}
