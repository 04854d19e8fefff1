//! Output files that were stored and are kept, empty, for the next attempt.
//!
//! To make an inode and to give it back costs a file system more than it costs to start a small process: with two
//! output files for each attempt, a third of the runner's time went there. A file is kept only when nobody has it open
//! any more. Each output carries a shared lock (`flock`) from its making on; the lock belongs to the opening, which all
//! processes of the attempt share by inheritance, however well they hide. So an exclusive lock is granted exactly when
//! the last of them is gone, and a file with a writer left behind is removed instead.
//!
//! A spare keeps its name until it is taken. To a later boot it is the empty output of an attempt long stored.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::fs::{FlockOperation, flock};

/// How many files are kept at most: both of 64 slots.
const SPARES_MAX: usize = 128;

/// The files that are kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spares(Arc<Mutex<Vec<PathBuf>>>);

impl Spares {
    /// Gives a spare this name, if there is one.
    pub(super) fn take(&self, path: &Path) {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(spare) = spare {
            // Without it a fresh one is made.
            let _ = fs::rename(spare, path);
        }
    }

    /// Marks a file as in use for as long as any process has this opening of it.
    pub(super) fn mark(file: &File) {
        // Where locks are not to be had, none is granted later either, and every file is removed.
        let _ = flock(file, FlockOperation::NonBlockingLockShared);
    }

    /// Keeps a file that nobody has open, and removes any other.
    pub(super) fn keep(&self, path: PathBuf) {
        let room = self.0.lock().unwrap_or_else(PoisonError::into_inner).len() < SPARES_MAX;
        if room && emptied(&path) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        } else {
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a file is ours alone and has been emptied.
fn emptied(path: &Path) -> bool {
    let Ok(file) = OpenOptions::new().write(true).open(path) else { return false };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    match file.metadata() {
        // Most attempts write nothing to one of the two.
        Ok(meta) if meta.len() == 0 && meta.blocks() == 0 => true,
        Ok(_) => file.set_len(0).is_ok(),
        Err(_) => false,
    }
}
