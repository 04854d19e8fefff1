//! The directory of an attempt, its `BATON_TMPDIR`: empty when the attempt begins, and nobody else's.
//!
//! Most attempts leave theirs as they found it, and making a directory is among the dearest things on the way to a task's
//! first instruction. So one that is still empty, ours and as it was made gets the name of the next attempt.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// How many directories are kept at most.
const SPARES_MAX: usize = 64;

/// Who may do what with one: its task everything, others nothing.
const MODE: u32 = 0o700;

/// Directories that attempts left empty.
#[derive(Debug, Default)]
pub(crate) struct Tmps(Mutex<Vec<PathBuf>>);

impl Tmps {
    /// Makes an empty directory of this name.
    pub(crate) fn make(&self, dir: &Path) -> io::Result<()> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // Looked at again: what hides from us may have written into it since.
        if let Some(spare) = spare.filter(|spare| is_untouched(spare))
            && fs::rename(spare, dir).is_ok()
        {
            return Ok(());
        }
        fs::DirBuilder::new().mode(MODE).create(dir)
    }

    /// Keeps a directory for another attempt, if it is fit for that; otherwise it is to be removed.
    pub(crate) fn keep(&self, dir: &Path) -> bool {
        if !is_untouched(dir) {
            return false;
        }
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = spares.len() < SPARES_MAX;
        if room {
            spares.push(dir.to_owned());
        }
        room
    }
}

/// Whether it is a directory as `make` makes them.
fn is_untouched(dir: &Path) -> bool {
    let plain = fs::symlink_metadata(dir).is_ok_and(|meta| {
        meta.is_dir() && meta.mode() & 0o7777 == MODE && meta.uid() == rustix::process::geteuid().as_raw()
    });
    plain && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_empty_directory_serves_the_next_attempt_under_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let tmps = Tmps::default();
        tmps.make(&first).unwrap();
        let inode = fs::metadata(&first).unwrap().ino();
        assert!(tmps.keep(&first));
        tmps.make(&second).unwrap();
        assert_eq!(fs::metadata(&second).unwrap().ino(), inode);
        assert!(!first.exists());
    }

    #[test]
    fn one_that_was_used_closed_or_replaced_serves_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let tmps = Tmps::default();
        for change in ["used", "closed", "replaced", "gone"] {
            let path = dir.path().join(change);
            tmps.make(&path).unwrap();
            match change {
                "used" => fs::write(path.join("file"), "").unwrap(),
                "closed" => fs::set_permissions(&path, fs::Permissions::from_mode(0o500)).unwrap(),
                "replaced" => fs::remove_dir(&path).and_then(|()| fs::write(&path, "")).unwrap(),
                _ => fs::remove_dir(&path).unwrap(),
            }
            assert!(!tmps.keep(&path), "{change}");
        }
    }

    #[test]
    fn one_that_is_written_to_while_it_is_kept_is_not_given_out() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let tmps = Tmps::default();
        tmps.make(&first).unwrap();
        assert!(tmps.keep(&first));
        fs::write(first.join("late"), "").unwrap();
        tmps.make(&second).unwrap();
        assert_eq!(fs::read_dir(&second).unwrap().count(), 0);
    }
}
