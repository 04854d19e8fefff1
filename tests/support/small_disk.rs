//! A small disk that a test can fill up and empty again.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

/// A tmpfs of its own; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts one of this size below a directory. None where mounting is not allowed, which is told.
    pub fn mount(below: &Path, name: &str, mebibytes: u32) -> Option<Self> {
        let path = below.join(name);
        fs::create_dir(&path).expect("a directory can be made");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self { path });
        }
        eprintln!("a small disk cannot be mounted here (that takes root): the test of a full disk does nothing");
        None
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        let mut filler = File::options().create(true).append(true).open(self.filler()).expect("a file can be made");
        // Large pieces first, then whatever is left of a page.
        for piece in [1 << 16, 1 << 12, 1] {
            let zeroes = vec![0; piece];
            loop {
                match filler.write_all(&zeroes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => panic!("the small disk cannot be filled: {error}"),
                }
            }
        }
    }

    /// Gives it back.
    pub fn empty(&self) {
        fs::remove_file(self.filler()).expect("the filler can be removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a program that is being killed may hold a file of it for a moment longer.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
