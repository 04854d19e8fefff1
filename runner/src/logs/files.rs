//! The two output files of an attempt. Their names say whose they are and how much is kept, so that a later boot can
//! ship what an earlier one could not.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::spares::{Held, Spares};
use crate::task::TaskRef;

/// How much of a task's output is kept when its spec does not say.
const LIMIT_DEFAULT: u64 = 64 * 1024 * 1024;

const STDOUT: &str = "out";
const STDERR: &str = "err";

/// The output files of one attempt.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    base: PathBuf,
    pub(super) limit: u64,
    spares: Spares,
    /// The runner's own openings of them, once they are made.
    held: Arc<OnceLock<[Option<Held>; 2]>>,
}

impl Files {
    /// Those of an attempt in a directory, of which `limit` bytes are kept; 0 means the default.
    pub(super) fn of(dir: &Path, task: TaskRef, limit: u64, spares: &Spares) -> Self {
        let limit = if limit == 0 { LIMIT_DEFAULT } else { limit };
        let base = dir.join(format!("{}_{}_{}_{limit}", task.id, task.attempt, task.lease));
        Self { base, limit, spares: spares.clone(), held: Arc::default() }
    }

    /// Every attempt that has files in a directory.
    pub(super) fn all_in(dir: &Path, spares: &Spares) -> Vec<(TaskRef, Self)> {
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let mut found: Vec<_> = entries.filter_map(|entry| parse(&entry.ok()?.path(), spares)).collect();
        found.sort_by_key(|(task, _)| *task);
        found.dedup_by_key(|(task, _)| *task);
        found
    }

    /// Whose output a file is, by its name.
    pub(super) fn whose(name: &str) -> Option<(TaskRef, usize)> {
        let (stem, kind) = name.rsplit_once('.')?;
        let stream = [STDOUT, STDERR].iter().position(|known| *known == kind)?;
        let mut words = stem.split('_');
        let id = words.next()?.parse().ok()?;
        let task = TaskRef { id, attempt: words.next()?.parse().ok()?, lease: words.next()?.parse().ok()? };
        Some((task, stream))
    }

    /// The path of standard output (0) or standard error (1).
    pub(super) fn path(&self, stream: usize) -> PathBuf {
        // Not `with_extension`: the base has no dot, and is to keep what it has.
        let mut path = self.base.clone().into_os_string();
        path.push(".");
        path.push([STDOUT, STDERR][stream]);
        path.into()
    }

    /// Makes both, empty, and opens them for the attempt: to append, so that processes that share one never overwrite each
    /// other.
    pub(crate) fn create(&self) -> io::Result<(File, File)> {
        let create = |stream| {
            let path = self.path(stream);
            let held = self.spares.make(&path)?;
            let file = OpenOptions::new().append(true).open(path)?;
            Spares::mark(&file);
            Ok::<_, io::Error>((file, held))
        };
        let ((stdout, held_stdout), (stderr, held_stderr)) = (create(0)?, create(1)?);
        let _made_once = self.held.set([held_stdout, held_stderr]);
        Ok((stdout, stderr))
    }

    /// The runner's own opening of one, if it has one.
    pub(super) fn held(&self, stream: usize) -> Option<&File> {
        Some(self.held.get()?[stream].as_ref()?.file())
    }

    /// How many bytes were written to one.
    pub(super) fn size(&self, stream: usize) -> io::Result<u64> {
        let meta = match self.held(stream) {
            Some(file) => file.metadata(),
            None => fs::metadata(self.path(stream)),
        };
        Ok(meta?.len())
    }

    /// How many bytes were written to each.
    pub(crate) fn sizes(&self) -> [u64; 2] {
        [0, 1].map(|stream| self.size(stream).unwrap_or(0))
    }

    /// Removes both, or keeps them for another attempt, if nobody else holds on to what was opened here.
    pub(crate) fn remove(mut self) {
        let held = Arc::get_mut(&mut self.held).and_then(OnceLock::take).unwrap_or_default();
        for (stream, held) in held.into_iter().enumerate() {
            self.spares.keep(self.path(stream), held);
        }
    }
}

fn parse(path: &Path, spares: &Spares) -> Option<(TaskRef, Files)> {
    let name = path.file_name()?.to_str()?;
    let (task, _) = Files::whose(name)?;
    let stem = name.rsplit_once('.')?.0;
    let limit = stem.rsplit_once('_')?.1.parse().ok()?;
    Some((task, Files { base: path.with_file_name(stem), limit, spares: spares.clone(), held: Arc::default() }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn task(id: u128) -> TaskRef {
        TaskRef { id: uuid::Uuid::from_u128(id), attempt: 2, lease: 77 }
    }

    #[test]
    fn a_later_boot_knows_whose_files_it_finds() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path(), task(9), 1000, &Spares::default());
        files.create().unwrap();
        let found = Files::all_in(dir.path(), &Spares::default());
        assert_eq!((found.len(), found[0].0, found[0].1.limit), (1, task(9), 1000));
        assert_eq!(found[0].1.path(1), files.path(1));
    }

    #[test]
    fn files_that_nobody_writes_to_any_more_serve_the_next_attempt_empty() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::default();
        let (first, second) = (Files::of(dir.path(), task(1), 0, &spares), Files::of(dir.path(), task(2), 0, &spares));
        let (mut stdout, stderr) = first.create().unwrap();
        stdout.write_all(b"of the first").unwrap();
        drop((stdout, stderr));
        first.remove();
        second.create().unwrap();
        assert_eq!(second.sizes(), [0, 0]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the same two, under their new names");
    }

    #[test]
    fn a_writer_that_was_left_behind_cannot_write_into_the_next_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let spares = Spares::default();
        let (first, second) = (Files::of(dir.path(), task(1), 0, &spares), Files::of(dir.path(), task(2), 0, &spares));
        let (stdout, stderr) = first.create().unwrap();
        let mut left_behind = stdout.try_clone().unwrap();
        drop((stdout, stderr));
        first.remove();
        second.create().unwrap();
        left_behind.write_all(b"of the first").unwrap();
        assert_eq!(second.sizes(), [0, 0]);
    }
}
