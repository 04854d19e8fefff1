//! What tasks leave on disk, so that a test knows what really ran, and doors that hold a task until a test opens them.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Mutex,
};

use crate::soon;

/// A file to which tasks add a line as they begin and as they end.
#[derive(Debug, Clone)]
pub struct Marks {
    file: PathBuf,
}

impl Marks {
    pub(crate) fn in_directory(directory: &Path, name: &str) -> Self {
        Self { file: directory.join(format!("{name}.marks")) }
    }

    /// A shell script that marks its begin, does `body`, and marks its end. Short lines added to a file are never
    /// torn, whoever writes at the same time.
    pub fn around(&self, body: &str) -> String {
        format!("{}\n{body}\n{}", self.line("begin"), self.line("end"))
    }

    /// A shell command that adds one line: this word, the task, the attempt and the process.
    pub fn line(&self, word: &str) -> String {
        format!(r#"echo "{word} $BATON_TASK_ID $BATON_ATTEMPT $$" >> "{}""#, self.file.display())
    }

    /// Every line so far.
    pub fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.file).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// How many lines begin with this word.
    pub fn count(&self, word: &str) -> usize {
        self.lines().iter().filter(|line| line.split(' ').next() == Some(word)).count()
    }

    /// Waits until at least `count` lines begin with this word.
    pub async fn reach(&self, word: &str, count: usize) {
        soon(&format!("{count} x {word:?} in {}", self.file.display()), || self.count(word) >= count).await;
    }

    /// The process of the latest line that begins with this word.
    pub fn pid(&self, word: &str) -> i32 {
        let lines = self.lines();
        let line = lines.iter().rev().find(|line| line.starts_with(word)).expect("the mark is there");
        line.rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a mark ends with its process")
    }

    /// Fails the test when a task began again before its earlier copy had ended.
    #[track_caller]
    pub fn assert_one_at_a_time(&self) {
        let mut running = BTreeMap::new();
        for line in self.lines() {
            let mut words = line.split(' ');
            let (Some(word), Some(task), Some(attempt)) = (words.next(), words.next(), words.next()) else { continue };
            if word == "begin" {
                let before = running.insert(task.to_owned(), attempt.to_owned());
                assert_eq!(before, None, "task {task} ran twice at once:\n{}", self.lines().join("\n"));
            } else if word == "end" {
                running.remove(task);
            }
        }
    }
}

/// A door that holds tasks until the test opens it.
#[derive(Debug, Clone)]
pub struct Gate {
    file: PathBuf,
}

impl Gate {
    pub(crate) fn in_directory(directory: &Path, name: &str) -> Self {
        Self { file: directory.join(format!("{name}.open")) }
    }

    /// A shell command that waits until the gate is open.
    pub fn wait(&self) -> String {
        format!(r#"until [ -e "{}" ]; do sleep 0.02; done"#, self.file.display())
    }

    /// Opens it for good.
    pub fn open(&self) {
        fs::write(&self.file, "").expect("the gate can be opened");
    }
}

/// A door that holds any number of tasks at no cost: a named pipe that this process holds open until it opens the door.
#[derive(Debug)]
pub struct Latch {
    path: PathBuf,
    held: Mutex<Option<File>>,
}

impl Latch {
    /// A closed door of this name.
    pub fn in_directory(directory: &Path, name: &str) -> Self {
        let path = directory.join(format!("{name}.latch"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe can be made");
        // Open for both: whoever opens it to read does not wait for a writer, but reads until this one is gone.
        let held = File::options().read(true).write(true).open(&path).expect("the pipe can be opened");
        Self { path, held: Mutex::new(Some(held)) }
    }

    /// A shell command that takes hold of the door; to be done before [`Latch::wait`], and before the test is told.
    pub fn take(&self) -> String {
        format!("exec 8< \"{}\"", self.path.display())
    }

    /// A shell command that waits until the door is open.
    pub fn wait(&self) -> String {
        "read -r opened <&8 || true\nexec 8<&-".to_owned()
    }

    /// Opens it for good.
    pub fn open(&self) {
        drop(self.held.lock().expect("nobody panics here").take());
    }
}
