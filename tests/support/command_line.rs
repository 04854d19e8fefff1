//! Programs that run to their end: what they wrote and how they left.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{process::Command as Async, time::timeout};

use crate::PATIENCE;

/// How a program ended and what it wrote.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its exit code; 128 and the signal when one ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Fails the test unless the program ended with this code.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails the test unless standard error holds each of these texts.
    #[track_caller]
    pub fn complains(&self, texts: &[&str]) -> &Self {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is missing from what it complained:\n{}", self.stderr);
        }
        self
    }

    /// Standard output without the white space around it.
    pub fn line(&self) -> &str {
        self.stdout.trim()
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("no JSON ({error}):\n{}", self.stdout))
    }
}

/// Runs a program to its end; one that does not end in time fails the test.
pub async fn run_program(command: Command) -> Output {
    run_within(command, PATIENCE).await
}

pub(crate) async fn run_within(command: Command, limit: Duration) -> Output {
    use std::os::unix::process::ExitStatusExt as _;

    let shown = format!("{command:?}");
    let mut command = Async::from(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let running = command.spawn().unwrap_or_else(|error| panic!("{shown} does not start: {error}"));
    let output = timeout(limit, running.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("{shown} did not end within {limit:?}"))
        .expect("a child can be waited for");
    Output {
        code: output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or_default()),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
