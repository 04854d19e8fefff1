//! The settings of `baton-runner`: flags, then `BATON_*` variables, then a TOML file, then defaults. Read once, checked
//! together.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::{
    http::Network,
    link,
    runner::{self, cores},
    units::{format_duration, parse_duration},
};

/// The most slots of one runner.
const SLOTS_MAX: u32 = 10_000;

/// The longest runner id.
const ID_MAX: usize = 100;

/// The most labels, and the longest key or value.
const LABELS_MAX: usize = 64;
const LABEL_MAX: usize = 63;

/// Runs tasks for a Baton scheduler.
#[derive(Debug, Parser)]
#[command(name = "baton-runner", version, about = "Runs tasks for a Baton scheduler", max_term_width = 110)]
pub struct Flags {
    /// Schedulers to dial, as host:port or http://host:port [default: localhost:7420]
    #[arg(long, env = "BATON_SCHEDULER", value_name = "URL", value_delimiter = ',')]
    pub scheduler: Vec<String>,
    /// The name of this runner, unique among all [default: the host's name]
    #[arg(long, env = "BATON_ID", value_name = "NAME")]
    pub id: Option<String>,
    /// How many tasks to run at once, 1 to 10,000 [default: the number of cores]
    #[arg(long, env = "BATON_SLOTS", value_name = "N")]
    pub slots: Option<String>,
    /// Labels that tasks may ask for; may be repeated
    #[arg(long, env = "BATON_LABEL", value_name = "KEY=VALUE", value_delimiter = ',')]
    pub label: Vec<String>,
    /// What this runner keeps; no other may use it [default: /var/lib/baton/runner/ID, or below ~/.local/state]
    #[arg(long, env = "BATON_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where tasks run, or below it [default: the current directory]
    #[arg(long, env = "BATON_WORK_DIR", value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Variables of this environment that tasks get beside PATH, HOME, LANG and TZ; may be repeated
    #[arg(long, env = "BATON_PASS_ENV", value_name = "NAME", value_delimiter = ',', num_args = 1..)]
    pub pass_env: Vec<String>,
    /// Networks that http tasks may ask beside public addresses, such as 10.0.0.0/8 or 127.0.0.1; may be repeated
    #[arg(long, env = "BATON_HTTP_ALLOW", value_name = "NETWORK", value_delimiter = ',')]
    pub http_allow: Vec<String>,
    /// How long a task's processes may take to end after SIGTERM [default: 10s]
    #[arg(long, env = "BATON_GRACE", value_name = "DURATION")]
    pub grace: Option<String>,
    /// How long a runner told to leave (SIGTERM) waits for its tasks before it stops them [default: 1h]
    #[arg(long, env = "BATON_DRAIN_TIMEOUT", value_name = "DURATION")]
    pub drain_timeout: Option<String>,
    /// Run without the watchdog process that ends every task when the runner dies
    #[arg(long, env = "BATON_NO_WATCHDOG")]
    pub no_watchdog: bool,
    /// How to write the log [default: text]
    #[arg(long, env = "BATON_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// A TOML file with these settings; --print-config shows what one looks like
    #[arg(long, env = "BATON_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the settings as they would be used, as TOML, and exit
    #[arg(long)]
    pub print_config: bool,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// What a file may say. Its keys are the flags' names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    scheduler: OneOrMany,
    id: Option<String>,
    slots: Option<u32>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    state_dir: Option<PathBuf>,
    work_dir: Option<PathBuf>,
    #[serde(default)]
    pass_env: Vec<String>,
    #[serde(default)]
    http_allow: Vec<String>,
    grace: Option<String>,
    drain_timeout: Option<String>,
    watchdog: Option<bool>,
    log_format: Option<LogFormat>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(one) => one.split(',').map(str::to_owned).collect(),
            Self::Many(many) => many,
        }
    }
}

/// The settings, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the runner is.
    pub runner: runner::Config,
    /// Whether a watchdog is put above it.
    pub watchdog: bool,
    /// How the log is written.
    pub log_format: LogFormat,
}

/// Everything that is wrong with the settings, one a line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Problems(pub Vec<String>);

impl Settings {
    /// Settings from flags (with the environment in them) and the file they name.
    ///
    /// # Errors
    /// Everything that is wrong at once.
    pub fn read(flags: Flags) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let file = flags.config.as_deref().map_or_else(|| Ok(File::default()), read_file);
        let file = file.unwrap_or_else(|problem| {
            problems.push(problem);
            File::default()
        });

        let mut schedulers = flags.scheduler;
        if schedulers.is_empty() {
            schedulers = file.scheduler.into_vec();
        }
        if schedulers.is_empty() {
            schedulers.push(format!("localhost:{}", baton::DEFAULT_PORT));
        }
        let mut endpoints = Vec::new();
        for text in schedulers {
            match link::address(&text) {
                Ok(address) => endpoints.push(address),
                Err(problem) => problems.push(format!("--scheduler: {problem}")),
            }
        }

        let id = flags.id.or(file.id).unwrap_or_else(host_name);
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if id.is_empty() || id.len() > ID_MAX || !id.chars().all(fine) {
            problems.push(format!("--id: `{id}` is not 1 to {ID_MAX} of a-z, A-Z, 0-9, \"-\", \"_\" and \".\""));
        }

        let slots = match flags.slots {
            Some(text) => text.trim().parse().map_err(|_| text),
            None => Ok(file.slots.unwrap_or(cores() as u32)),
        };
        let slots = match slots {
            Ok(slots @ 1..=SLOTS_MAX) => slots,
            other => {
                let text = other.map_or_else(|text| text, |number| number.to_string());
                problems.push(format!("--slots: `{text}` is not a number from 1 to {SLOTS_MAX}"));
                1
            }
        };

        let mut labels = file.labels;
        if !flags.label.is_empty() {
            labels.clear();
        }
        for text in &flags.label {
            match text.split_once('=') {
                Some((key, value)) => drop(labels.insert(key.trim().to_owned(), value.trim().to_owned())),
                None => problems.push(format!("--label: `{text}` is not KEY=VALUE, such as pool=etl")),
            }
        }
        check_labels(&labels, &mut problems);

        let state_dir = flags.state_dir.or(file.state_dir).or_else(|| state_dir_default(&id)).unwrap_or_else(|| {
            problems.push("--state-dir: there is no home directory to put it in; name a directory".to_owned());
            PathBuf::new()
        });
        let work_dir = flags.work_dir.or(file.work_dir).unwrap_or_else(|| PathBuf::from("."));
        if !work_dir.is_dir() {
            problems.push(format!("--work-dir: {} is not a directory; create it", work_dir.display()));
        }

        let pass_env = if flags.pass_env.is_empty() { file.pass_env } else { flags.pass_env };
        for name in &pass_env {
            if name.is_empty() || name.contains('=') {
                problems.push(format!("--pass-env: `{name}` is not the name of a variable; values are not given here"));
            }
        }

        let http_allow = if flags.http_allow.is_empty() { file.http_allow } else { flags.http_allow };
        let http_allow = http_allow.iter().filter_map(|text| {
            text.trim().parse().map_err(|problem: String| problems.push(format!("--http-allow: {problem}"))).ok()
        });
        let http_allow: Vec<Network> = http_allow.collect();

        let mut duration = |flag: &str, given: Option<String>, default: Duration| match given {
            None => default,
            Some(text) => parse_duration(&text).unwrap_or_else(|problem| {
                problems.push(format!("--{flag}: {problem}"));
                default
            }),
        };
        let defaults = runner::Config::new("", "", "");
        let grace = duration("grace", flags.grace.or(file.grace), defaults.grace);
        let drain_timeout =
            duration("drain-timeout", flags.drain_timeout.or(file.drain_timeout), defaults.drain_timeout);

        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let runner = runner::Config {
            id,
            endpoints,
            slots,
            labels,
            state_dir,
            work_dir,
            http_allow,
            pass_env,
            grace,
            drain_timeout,
            ..defaults
        };
        Ok(Self {
            runner,
            watchdog: !flags.no_watchdog && file.watchdog.unwrap_or(true),
            log_format: flags.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
        })
    }

    /// The settings as a file that would give them.
    pub fn to_toml(&self) -> String {
        #[derive(Serialize)]
        struct Shown<'a> {
            scheduler: &'a [String],
            id: &'a str,
            slots: u32,
            state_dir: &'a Path,
            work_dir: &'a Path,
            pass_env: &'a [String],
            http_allow: Vec<String>,
            grace: String,
            drain_timeout: String,
            watchdog: bool,
            log_format: LogFormat,
            labels: &'a BTreeMap<String, String>,
        }
        let runner = &self.runner;
        let shown = Shown {
            scheduler: &runner.endpoints,
            id: &runner.id,
            slots: runner.slots,
            state_dir: &runner.state_dir,
            work_dir: &runner.work_dir,
            pass_env: &runner.pass_env,
            http_allow: runner.http_allow.iter().map(ToString::to_string).collect(),
            grace: format_duration(runner.grace),
            drain_timeout: format_duration(runner.drain_timeout),
            watchdog: self.watchdog,
            log_format: self.log_format,
            labels: &runner.labels,
        };
        toml::to_string(&shown).unwrap_or_else(|error| format!("# cannot be written as TOML: {error}\n"))
    }
}

fn read_file(path: &Path) -> Result<File, String> {
    let text =
        fs::read_to_string(path).map_err(|error| format!("--config: cannot read {}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("--config: {}: {error}", path.display()))
}

fn check_labels(labels: &BTreeMap<String, String>, problems: &mut Vec<String>) {
    if labels.len() > LABELS_MAX {
        problems.push(format!("--label: {} labels are more than the {LABELS_MAX} a runner may have", labels.len()));
    }
    for (key, value) in labels {
        if key.is_empty() || key.len() > LABEL_MAX || value.len() > LABEL_MAX {
            problems.push(format!("--label: `{key}={value}` has an empty key, or one side longer than {LABEL_MAX}"));
        }
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' });
    name.take(ID_MAX).collect()
}

fn state_dir_default(id: &str) -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(Path::new("/var/lib/baton/runner").join(id));
    }
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/state")))?;
    Some(state.join("baton/runner").join(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Settings, Problems> {
        Settings::read(Flags::parse_from(["baton-runner"].iter().chain(arguments)))
    }

    #[test]
    fn what_is_wrong_is_said_at_once() {
        let wrong = [
            "--id",
            "a b",
            "--slots",
            "0",
            "--label",
            "pool",
            "--grace",
            "10",
            "--scheduler",
            "https://x",
            "--http-allow",
            "10.0.0.1/8",
        ];
        let problems = read(&wrong).unwrap_err().0;
        for flag in ["--id", "--slots", "--label", "--grace", "--scheduler", "--http-allow"] {
            assert!(problems.iter().any(|problem| problem.starts_with(flag)), "{flag} in {problems:?}");
        }
    }

    #[test]
    fn flags_are_stronger_than_the_file_which_is_stronger_than_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runner.toml");
        fs::write(&path, "slots = 3\ngrace = \"2s\"\nscheduler = \"a:1,b:2\"\nlabels = {pool = \"etl\"}\n").unwrap();
        let path = path.to_str().unwrap();
        let settings = read(&["--config", path, "--grace", "1s", "--id", "r"]).unwrap();
        let runner = settings.runner;
        assert_eq!((runner.slots, runner.grace), (3, Duration::from_secs(1)));
        assert_eq!(runner.endpoints, ["http://a:1", "http://b:2"]);
        assert_eq!(runner.labels["pool"], "etl");
        assert_eq!(runner.drain_timeout, Duration::from_hours(1));
    }

    #[test]
    fn an_unknown_key_in_the_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runner.toml");
        fs::write(&path, "slotz = 3\n").unwrap();
        let problems = read(&["--config", path.to_str().unwrap()]).unwrap_err();
        assert!(problems.to_string().contains("slotz"), "{problems}");
    }

    #[test]
    fn printed_settings_read_back_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("runner.toml");
        let settings = read(&[
            "--id",
            "r",
            "--label",
            "a=b,c=d",
            "--slots",
            "7",
            "--pass-env",
            "X",
            "Y",
            "--http-allow",
            "::1,10.0.0.0/8",
        ])
        .unwrap();
        fs::write(&path, settings.to_toml()).unwrap();
        let again = read(&["--config", path.to_str().unwrap()]).unwrap();
        assert_eq!(again.to_toml(), settings.to_toml());
    }
}
