//! The directory of an attempt, its `BATON_TMPDIR`: empty when the attempt begins, and nobody else's.
//!
//! Most attempts leave theirs as they found it, and making a directory is among the dearest things on the way to a task's
//! first instruction; to give it another name costs nearly as much. So they are numbered, and one that is still empty, ours and
//! as it was made serves the next attempt under the name it has.

use std::{
    collections::HashMap,
    fs::{self, Metadata},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// How many directories are kept at most.
const SPARES_MAX: usize = 64;

/// Who may do what with one: its task everything, others nothing.
const MODE: u32 = 0o700;

/// Whatever is put into a directory changes its time, but file systems count time in steps of up to this. One that was changed
/// longer than this before it was looked at, and still has that time, is as it was.
const STEP: Duration = Duration::from_millis(50);

/// Directories of attempts: those that run, and those that others left empty.
#[derive(Debug)]
pub(crate) struct Tmps {
    within: PathBuf,
    dirs: Mutex<Dirs>,
}

#[derive(Debug, Default)]
struct Dirs {
    /// How many were made.
    made: u64,
    given: HashMap<PathBuf, Seen>,
    spare: Vec<(PathBuf, Seen)>,
}

/// A directory as it was when it was known to be empty.
#[derive(Debug, Clone, Copy)]
struct Seen {
    inode: u64,
    changed: SystemTime,
    at: SystemTime,
}

impl Tmps {
    /// Those of a directory in which nobody else makes any.
    pub(crate) fn within(dir: PathBuf) -> Self {
        Self { within: dir, dirs: Mutex::default() }
    }

    /// An empty directory.
    pub(crate) fn make(&self) -> io::Result<PathBuf> {
        let spare = self.lock().spare.pop();
        if let Some((spare, seen)) = spare {
            // Looked at again: what hides from us may have written into it since.
            if let Some(seen) = untouched(&spare, Some(seen)) {
                self.lock().given.insert(spare.clone(), seen);
                return Ok(spare);
            }
            // Whatever came to be in it is nobody's.
            let _ = fs::remove_dir_all(spare);
        }
        loop {
            let dir = self.within.join(self.number().to_string());
            match fs::DirBuilder::new().mode(MODE).create(&dir) {
                // An earlier boot left it and could not remove it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| dir),
            }
        }
    }

    fn number(&self) -> u64 {
        let mut dirs = self.lock();
        dirs.made += 1;
        dirs.made
    }

    /// Keeps a directory for another attempt, if it is fit for that; otherwise it is to be removed.
    pub(crate) fn keep(&self, dir: &Path) -> bool {
        let seen = self.lock().given.remove(dir);
        let Some(seen) = untouched(dir, seen) else { return false };
        let spares = &mut self.lock().spare;
        let room = spares.len() < SPARES_MAX;
        if room {
            spares.push((dir.to_owned(), seen));
        }
        room
    }

    fn lock(&self) -> MutexGuard<'_, Dirs> {
        self.dirs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory as it is, if it is one as `make` makes them, and empty. `before` is how it was seen empty earlier: one that
/// was not changed since need not be read.
fn untouched(dir: &Path, before: Option<Seen>) -> Option<Seen> {
    let at = SystemTime::now();
    let meta = fs::symlink_metadata(dir).ok()?;
    let plain = meta.is_dir() && meta.mode() & 0o7777 == MODE && meta.uid() == rustix::process::geteuid().as_raw();
    let seen = Seen { inode: meta.ino(), changed: changed(&meta)?, at };
    let same = before.is_some_and(|before| {
        let settled = before.at.duration_since(before.changed).is_ok_and(|since| since >= STEP);
        settled && before.inode == seen.inode && before.changed == seen.changed
    });
    let empty = || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    (plain && (same || empty())).then_some(seen)
}

fn changed(meta: &Metadata) -> Option<SystemTime> {
    meta.modified().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn an_empty_directory_serves_the_next_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let tmps = Tmps::within(dir.path().to_owned());
        let (first, other) = (tmps.make().unwrap(), tmps.make().unwrap());
        assert_ne!(first, other, "two that run at once have one each");
        assert!(tmps.keep(&first));
        assert_eq!(tmps.make().unwrap(), first);
    }

    #[test]
    fn one_that_an_earlier_boot_left_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("1")).unwrap();
        assert_eq!(Tmps::within(dir.path().to_owned()).make().unwrap(), dir.path().join("2"));
    }

    #[test]
    fn one_that_was_used_closed_or_replaced_serves_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let tmps = Tmps::within(dir.path().to_owned());
        for change in ["used", "closed", "replaced", "gone"] {
            let path = tmps.make().unwrap();
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
    fn one_that_was_used_long_after_it_was_made_serves_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let tmps = Tmps::within(dir.path().to_owned());
        let path = tmps.make().unwrap();
        // As if it were made long ago, which lets its time alone be looked at.
        fs::File::open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert!(tmps.keep(&path));
        assert_eq!(tmps.make().unwrap(), path);
        fs::write(path.join("file"), "").unwrap();
        fs::remove_file(path.join("file")).unwrap();
        assert!(tmps.keep(&path), "it is empty again");
        assert_eq!(tmps.make().unwrap(), path);
        fs::write(path.join("file"), "").unwrap();
        assert!(!tmps.keep(&path));
    }

    #[test]
    fn one_that_is_written_to_while_it_is_kept_is_not_given_out() {
        let dir = tempfile::tempdir().unwrap();
        let tmps = Tmps::within(dir.path().to_owned());
        let first = tmps.make().unwrap();
        assert!(tmps.keep(&first));
        fs::write(first.join("late"), "").unwrap();
        let second = tmps.make().unwrap();
        assert_eq!(fs::read_dir(&second).unwrap().count(), 0);
        assert!(!first.exists(), "and it is gone");
    }
}
