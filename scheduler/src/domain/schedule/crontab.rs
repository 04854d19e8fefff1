//! Reading a crontab into what Baton can carry, and an honest list of what it cannot.
//!
//! A line that would do something else here than it did under cron is not carried at all: half a job is worse than none.

use std::{collections::BTreeMap, time::Duration};

use super::{cron::Expression, zone::Zone};

/// The longest crontab that is read, in bytes.
pub const LENGTH_MAX: usize = 1 << 20;
/// The most lines.
pub const LINES_MAX: usize = 10_000;
/// The longest name made from a command.
const NAME_MAX: usize = 48;

/// What a crontab holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Crontab {
    /// The lines that can be carried, in order.
    pub entries: Vec<Entry>,
    /// What cannot be, in order.
    pub lost: Vec<Lost>,
}

/// A line that becomes a job config.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its line, counted from 1.
    pub line: usize,
    /// A name made from its command, unique within the crontab.
    pub name: String,
    /// The line as it is.
    pub source: String,
    /// The comment right above it.
    pub comment: String,
    /// When it runs.
    pub expression: Expression,
    /// The zone it is meant in.
    pub time_zone: String,
    /// Up to how much later it starts (`RANDOM_DELAY`).
    pub jitter: Duration,
    /// The script for the shell.
    pub command: String,
    /// The variables set above it.
    pub env: BTreeMap<String, String>,
}

/// Something that could not be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Its line, counted from 1.
    pub line: usize,
    /// The line as it is.
    pub text: String,
    /// Why, and what to do instead.
    pub why: String,
}

/// Which kind of crontab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of one user: the command follows the time.
    User,
    /// Of the system (`/etc/crontab`, `/etc/cron.d`): a user name stands between time and command.
    System,
}

/// Which kind a crontab is, by where it lies and what stands in it: in one of the system every command is preceded by the
/// name of a user, and `root` is among them.
pub fn guess(path: &str, text: &str) -> Kind {
    if path == "/etc/crontab" || path.starts_with("/etc/cron.d/") {
        return Kind::System;
    }
    let mut jobs = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && assignment(line).is_none());
    let user = |line: &str| {
        let (_, rest) = split_fields(line, if line.starts_with('@') { 1 } else { 5 })?;
        split_fields(rest, 1).map(|(user, _)| user.to_owned())
    };
    let users: Vec<Option<String>> = jobs.by_ref().take(LINES_MAX).map(user).collect();
    let plain = |user: &Option<String>| {
        user.as_ref().is_some_and(|user| {
            user.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_')
        })
    };
    let system = users.iter().flatten().any(|user| user == "root") && users.iter().all(plain);
    if system { Kind::System } else { Kind::User }
}

/// Why a crontab was not read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a crontab has at most {LENGTH_MAX} bytes and {LINES_MAX} lines; split it")]
pub struct TooLong;

/// Reads a crontab. Cron takes the zone of its host; here it is named: lines without `CRON_TZ` get `time_zone`.
pub fn parse(text: &str, kind: Kind, time_zone: &str) -> Result<Crontab, TooLong> {
    if text.len() > LENGTH_MAX || text.lines().count() > LINES_MAX {
        return Err(TooLong);
    }
    let mut reader = Reader {
        kind,
        time_zone: time_zone.to_owned(),
        jitter: Duration::ZERO,
        env: BTreeMap::new(),
        comment: String::new(),
        names: BTreeMap::new(),
        found: Crontab::default(),
    };
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line.trim());
    }
    Ok(reader.found)
}

struct Reader {
    kind: Kind,
    time_zone: String,
    jitter: Duration,
    env: BTreeMap<String, String>,
    comment: String,
    names: BTreeMap<String, u32>,
    found: Crontab,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() {
            self.comment.clear();
        } else if let Some(comment) = line.strip_prefix('#') {
            if !self.comment.is_empty() {
                self.comment.push('\n');
            }
            self.comment += comment.trim();
        } else if let Some((name, value)) = assignment(line) {
            self.comment.clear();
            if let Err(why) = self.set(name, value) {
                self.lose(number, line, why);
            }
        } else {
            let comment = std::mem::take(&mut self.comment);
            match self.entry(number, line, comment) {
                Ok(entry) => self.found.entries.push(entry),
                Err(why) => self.lose(number, line, why),
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "CRON_TZ" | "TZ" => {
                let zone = Zone::parse(value).map_err(|error| error.to_string())?;
                zone.name().clone_into(&mut self.time_zone);
                // For cron TZ is also what the command sees.
                if name == "TZ" {
                    self.env.insert(name.to_owned(), value.to_owned());
                }
                Ok(())
            }
            "RANDOM_DELAY" => {
                let minutes = value.parse::<u16>().map_err(|_| "RANDOM_DELAY is a number of minutes".to_owned())?;
                self.jitter = Duration::from_mins(minutes.into());
                Ok(())
            }
            "MAILTO" | "MAILFROM" if value.is_empty() => Ok(()),
            "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                Err("output is not mailed: it is kept, see `baton logs`; callbacks tell of failures".to_owned())
            }
            "SHELL" if value == "/bin/sh" => Ok(()),
            "SHELL" => Err(format!("scripts run in /bin/sh -e; use command: [{value}, -c, ...] where it matters")),
            "START_HOURS_RANGE" => Err("it belongs to anacron; name the hours in the schedule".to_owned()),
            _ => {
                self.env.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
        }
    }

    fn entry(&mut self, number: usize, line: &str, comment: String) -> Result<Entry, String> {
        let source = line;
        // A leading minus only keeps cron from writing to the system's log.
        let line = line.strip_prefix('-').unwrap_or(line);
        let fields = if line.starts_with('@') { 1 } else { 5 };
        let (time, mut rest) = split_fields(line, fields).ok_or("a time of five fields and a command are needed")?;
        if self.kind == Kind::System {
            let (user, command) = split_fields(rest, 1).ok_or("a user name and a command are needed")?;
            if user != "root" {
                return Err(format!("it runs as {user}; start a runner as that user and select it by a label"));
            }
            rest = command;
        }
        let expression = Expression::parse(time).map_err(|error| error.to_string())?;
        let command = unescaped(rest)
            .ok_or("an unescaped % starts the command's input, which a task does not have; use a here-document")?;
        let name = self.name(&command);
        Ok(Entry {
            line: number,
            source: source.to_owned(),
            name,
            comment,
            expression,
            time_zone: self.time_zone.clone(),
            jitter: self.jitter,
            command,
            env: self.env.clone(),
        })
    }

    /// A name from the program of a command, with a number when it is taken.
    fn name(&mut self, command: &str) -> String {
        let program = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or("cron");
        let program = program.rsplit('/').next().unwrap_or(program);
        let stem = program.split('.').next().unwrap_or(program);
        let clean: String =
            stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
        let clean: String = clean.trim_matches('-').chars().take(NAME_MAX).collect();
        let base = if clean.is_empty() { "cron".to_owned() } else { clean };
        loop {
            let taken = self.names.entry(base.clone()).or_insert(0);
            *taken += 1;
            let name = if *taken == 1 { base.clone() } else { format!("{base}-{taken}") };
            if self.found.entries.iter().all(|entry| entry.name != name) {
                return name;
            }
        }
    }

    fn lose(&mut self, line: usize, text: &str, why: String) {
        self.found.lost.push(Lost { line, text: text.to_owned(), why });
    }
}

/// `NAME = value`, with quotes around the value taken off; nothing when the line is not one.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let first = name.bytes().next()?;
    let plain = (first.is_ascii_alphabetic() || first == b'_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain {
        return None;
    }
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    Some((name, quoted('"').or_else(|| quoted('\'')).unwrap_or(value)))
}

/// The first so many words, as one text, and what follows them.
fn split_fields(line: &str, count: usize) -> Option<(&str, &str)> {
    let mut end = 0;
    for _ in 0..count {
        let start = end + line[end..].find(|c: char| !c.is_whitespace())?;
        end = start + line[start..].find(char::is_whitespace)?;
    }
    let rest = line[end..].trim();
    (!rest.is_empty()).then_some((&line[..end], rest))
}

/// The command with `\%` as `%`; nothing when a bare `%` gives it input.
fn unescaped(command: &str) -> Option<String> {
    let mut text = String::with_capacity(command.len());
    let mut chars = command.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'%') => {
                text.push('%');
                chars.next();
            }
            '%' => return None,
            c => text.push(c),
        }
    }
    Some(text)
}
