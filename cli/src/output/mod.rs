//! What a command prints: tables for people, tab-separated text for pipes, the protocol's own JSON for scripts.

pub mod callbacks;
pub mod escape;
pub mod facts;
pub mod glyphs;
pub mod json;
pub mod origin;
pub mod table;
pub mod text;
pub mod time;
pub mod yaml;

use std::io::{self, IsTerminal as _, Write as _};

use baton::json::to_value;
use chrono::{DateTime, Utc};
use clap::ValueEnum;
use prost::{Message, Name};

use crate::errors::Error;
use text::Line;
use time::TimeMode;

/// The width that is assumed where no terminal tells one.
pub const WIDTH_DEFAULT: usize = 100;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns.
    Table,
    /// Aligned columns, more of them, full ids.
    Wide,
    /// The response of the scheduler as proto JSON, as grpcurl prints it.
    Json,
    /// The same data as YAML.
    Yaml,
    /// Names or ids only, one a line.
    Name,
}

/// What standard output is and how it is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// What was asked for; unset means a table on a terminal and tab-separated text elsewhere.
    pub format: Option<Format>,
    /// Whether standard output is a terminal.
    pub terminal: bool,
    /// Whether standard output may carry colours.
    pub color: bool,
    /// Whether standard error may carry colours.
    pub error_color: bool,
    /// How times are written.
    pub time: TimeMode,
    /// Say only what was asked for.
    pub quiet: bool,
}

impl Output {
    /// Looks at what standard output is.
    pub fn new(format: Option<Format>, no_color: bool, time: Option<TimeMode>, quiet: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = no_color
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        // A pipe is read by programs, and RFC 3339 is what they read without a guess.
        let default = if terminal || format.is_some() { TimeMode::Local } else { TimeMode::Rfc3339 };
        Self {
            format,
            terminal,
            color: terminal && !plain,
            error_color: io::stderr().is_terminal() && !plain,
            time: time.unwrap_or(default),
            quiet,
        }
    }

    /// Whether the response itself is wanted rather than words about it.
    pub fn is_data(self) -> bool {
        matches!(self.format, Some(Format::Json | Format::Yaml))
    }

    /// Whether only names or ids are wanted.
    pub fn is_name(self) -> bool {
        self.format == Some(Format::Name)
    }

    /// Whether every column and full ids are wanted.
    pub fn is_wide(self) -> bool {
        self.format == Some(Format::Wide)
    }

    /// Whether rows are separated by tabs instead of aligned.
    pub fn is_tsv(self) -> bool {
        self.format.is_none() && !self.terminal
    }

    /// The width of the terminal.
    pub fn width(self) -> usize {
        if !self.terminal {
            return WIDTH_DEFAULT;
        }
        crossterm::terminal::size().map_or(WIDTH_DEFAULT, |(columns, _)| usize::from(columns).max(20))
    }

    /// Prints a message of the protocol as it is. Only for `is_data`.
    pub fn data<M: Message + Name>(self, message: &M) -> Result<(), Error> {
        self.value(&to_value(message))
    }

    /// Prints a value as JSON or YAML.
    pub fn value(self, value: &serde_json::Value) -> Result<(), Error> {
        match self.format {
            Some(Format::Yaml) => self.raw(yaml::document(value).as_bytes()),
            _ => self.raw(json::document(value).as_bytes()),
        }
    }

    /// Prints lines with what colour is allowed.
    pub fn lines(self, lines: &[Line]) -> Result<(), Error> {
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.render(self.color));
            text.push('\n');
        }
        self.raw(text.as_bytes())
    }

    /// Prints one line of text as it is.
    pub fn line(self, text: &str) -> Result<(), Error> {
        self.raw(format!("{text}\n").as_bytes())
    }

    /// Prints names, one a line.
    pub fn names(self, names: &[String]) -> Result<(), Error> {
        let mut text = names.join("\n");
        if !names.is_empty() {
            text.push('\n');
        }
        self.raw(text.as_bytes())
    }

    /// Writes bytes as they are, at once. The one door to standard output.
    #[allow(clippy::unused_self)]
    pub fn raw(self, bytes: &[u8]) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Says something beside the answer, such as a next step: on standard error, and not when quiet.
    pub fn note(self, text: &str) {
        if !self.quiet {
            // Nobody listening to notes is no reason to stop.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// An instant as this output writes it; "-" when there is none.
    pub fn instant(self, time: Option<prost_types::Timestamp>, now: DateTime<Utc>) -> String {
        time::instant(time, self.time, now)
    }
}
