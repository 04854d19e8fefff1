//! The log of a request: what was asked and answered goes to standard error, the bodies of responses as they are to standard
//! output.

use std::io;

use tokio::{fs::File, io::AsyncWriteExt as _};

use crate::task::Callback;

/// What stands in the log for what nobody is to read there.
const HIDDEN: &str = "***";

/// Headers of responses whose values open doors.
const SECRET_HEADERS: [&str; 4] = ["set-cookie", "authorization", "proxy-authorization", "www-authenticate"];

/// Writes the log of a request.
pub(super) struct Transcript {
    body: File,
    notes: File,
    token: Option<String>,
    /// The first thing that could not be written. Nobody's request fails over its log.
    failed: Option<io::Error>,
}

impl Transcript {
    pub(super) fn new(body: File, notes: File, callback: Option<&Callback>) -> Self {
        let token = callback.map(|callback| callback.token.clone()).filter(|token| !token.is_empty());
        Self { body, notes, token, failed: None }
    }

    /// A word of our own.
    pub(super) async fn note(&mut self, text: &str) {
        self.line("*", text).await;
    }

    /// What is asked.
    pub(super) async fn asked(&mut self, text: &str) {
        self.line(">", text).await;
    }

    /// What is answered.
    pub(super) async fn answered(&mut self, text: &str) {
        self.line("<", text).await;
    }

    /// A header of the answer.
    pub(super) async fn header(&mut self, name: &str, value: &[u8]) {
        let value = if SECRET_HEADERS.contains(&name) { HIDDEN.into() } else { String::from_utf8_lossy(value) };
        self.line("<", &format!("{name}: {value}")).await;
    }

    /// A piece of a body.
    pub(super) async fn body(&mut self, piece: &[u8]) {
        let written = self.body.write_all(piece).await;
        self.keep(written);
    }

    /// A text without the token that completes the task.
    pub(super) fn without_token(&self, text: &str) -> String {
        match &self.token {
            Some(token) => text.replace(token, HIDDEN),
            None => text.to_owned(),
        }
    }

    /// Writes what is still on its way. Returns what went wrong first.
    pub(super) async fn close(mut self) -> Option<io::Error> {
        let written = self.body.flush().await.and(self.notes.flush().await);
        self.keep(written);
        self.failed
    }

    async fn line(&mut self, mark: &str, text: &str) {
        let line = format!("{mark} {}\n", self.without_token(text));
        let written = self.notes.write_all(line.as_bytes()).await;
        // The line is read while the next one is still far away.
        let written = written.and(self.notes.flush().await);
        self.keep(written);
    }

    fn keep(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }
}
