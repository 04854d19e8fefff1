//! The settings of a scheduler: flags, then the environment, then a TOML file, then defaults.
//!
//! Everything that can be set stands in one table, from which flags, variables, keys of the file and the text of
//! `--print-config` are drawn. All that is wrong is told at once.

mod courier;

use std::{collections::BTreeMap, fmt, fmt::Write as _, fs, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

use crate::{
    domain::{
        definition::{
            did_you_mean,
            http::{Place, check_text},
            span,
        },
        retention::{self, Policy},
        timing::Timing,
    },
    flow, store,
};

/// The longest that a stopping scheduler may ask its runners to hold on.
const HOLD_FOR_MAX: Duration = Duration::from_hours(24);

/// Spans that may be nothing.
const MAY_BE_ZERO: [&str; 5] = ["grace", "hold_for", "retention_age", "retention_logs", "audit_age"];

/// How a scheduler is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where its database is.
    pub database: store::Settings,
    /// Where runners and other schedulers reach it, if that is not where it listens.
    pub advertise: Option<String>,
    /// Where services that were asked find a scheduler for their callbacks, if that is not where runners reach it.
    pub public_url: Option<String>,
    /// The times of the heartbeat protocol.
    pub timing: Timing,
    /// How its log lines look.
    pub log_format: LogFormat,
    /// How long what has ended is kept.
    pub retention: Policy,
    /// How callbacks are carried out.
    pub courier: flow::courier::Settings,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Something that can be set.
struct Setting {
    /// Its key in the file; the flag has dashes, the variable `BATON_` and capitals.
    name: &'static str,
    /// What a value looks like, for the help; empty for a switch.
    value: &'static str,
    help: &'static str,
    heading: &'static str,
}

const fn setting(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, heading: "Options" }
}

const fn time(name: &'static str, help: &'static str) -> Setting {
    Setting { name, value: "TIME", help, heading: "Times of the heartbeat protocol" }
}

const fn callbacks(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, heading: "Callbacks" }
}

const SETTINGS: [Setting; 32] = [
    setting("listen", "ADDRESS:PORT", "Where to listen [default: 127.0.0.1:7420]"),
    setting(
        "database_url",
        "URL",
        "sqlite://PATH for one machine, postgres://… for a cluster [default: sqlite://.baton/baton.db]",
    ),
    setting(
        "advertise",
        "ADDRESS:PORT",
        "Where runners and other schedulers reach this one [default: where it listens]",
    ),
    setting(
        "public_url",
        "URL",
        "Where services that http tasks ask find a scheduler for their callbacks [default: http:// and --advertise]",
    ),
    setting("no_auth", "", "Ask nobody for credentials. On loopback only"),
    setting("log_format", "FORMAT", "How log lines look: text or json [default: text]"),
    setting("log", "FILTER", "What is logged, such as info or baton_scheduler=debug [default: info]"),
    setting(
        "hold_for",
        "TIME",
        "How long a planned stop may last before the runners' tasks are decided without them [default: 10m]",
    ),
    setting(
        "retention_age",
        "TIME",
        "How long an ended job is kept, if its config does not say; 0s: for ever [default: 30d]",
    ),
    setting(
        "retention_logs",
        "TIME",
        "How long the output of an ended job is kept, if its config does not say; 0s: as long as the job [default: 0s]",
    ),
    setting("audit_age", "TIME", "How long it is kept who changed what; 0s: for ever [default: 365d]"),
    callbacks(
        "callback_allow",
        "CIDR,…",
        "Private, loopback and link-local addresses that webhooks may be at, such as 10.1.0.0/16 [default: none]",
    ),
    callbacks(
        "callback_backoff",
        "TIME",
        "The first wait before a callback is tried again; it triples each time [default: 2s]",
    ),
    callbacks("callback_tries", "NUMBER", "How often a callback is tried [default: 10]"),
    callbacks("secrets_dir", "DIR", "Where file:NAME in a definition is looked up [default: none]"),
    callbacks("smtp_host", "HOST", "The mail server [default: no mail is sent]"),
    callbacks("smtp_port", "PORT", "Its port [default: 587 with starttls, 465 with implicit, 25 with none]"),
    callbacks("smtp_tls", "MODE", "How it is talked to: starttls, implicit or none [default: starttls]"),
    callbacks("smtp_from", "ADDRESS", "Whom letters are from"),
    callbacks("smtp_user", "NAME", "Whom the mail server is told that we are [default: nobody]"),
    callbacks("smtp_password", "PLACE", "Where the password is: env:NAME or file:PATH"),
    time("heartbeat_interval", "How often a runner beats; all times below follow it [default: 10s]"),
    time("lost_after", "A runner not heard for this long is lost [default: 6 beats]"),
    time("grace", "How long the processes of a task may take to end after SIGTERM [default: 10s]"),
    time("answer_timeout", "How long a beat may stay without an answer [default: 1/2 beat]"),
    time("accept_timeout", "How long a command may stay without an answer [default: 1 beat]"),
    time("backoff_base", "The first wait before a runner dials again [default: 1/10 beat]"),
    time("backoff_max", "The longest wait before a runner dials again [default: 8/10 beat]"),
    time("seen_interval", "How often signs of life are committed [default: 1/10 beat]"),
    time("sweep_interval", "How often silent runners are looked for [default: 1/2 beat]"),
    time("touch_gap", "Out of touch with the database for longer, nobody is judged for a while [default: 1 beat]"),
    time("safety_margin", "What is left for clocks that differ in rate [default: 1/2 beat]"),
];

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// To run.
    Run {
        /// The settings.
        config: Box<Config>,
        /// What is logged.
        log: String,
    },
    /// To show the settings and end.
    Print(String),
}

/// Everything that is wrong with the settings.
#[derive(Debug, PartialEq, Eq)]
pub struct Problems(Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, problem) in self.0.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The command line.
pub fn command() -> Command {
    let file = Arg::new("config")
        .long("config")
        .env("BATON_CONFIG")
        .value_name("FILE")
        .help("A TOML file with any of these settings, such as listen = \"127.0.0.1:7420\"");
    let print = Arg::new("print_config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Print every setting, where it comes from, and end");
    let settings = SETTINGS.iter().map(|setting| {
        let arg = Arg::new(setting.name)
            .long(setting.name.replace('_', "-"))
            .env(format!("BATON_{}", setting.name.to_uppercase()))
            .hide_env_values(true)
            .help_heading(setting.heading)
            .help(setting.help);
        match setting.value {
            "" => arg.num_args(0..=1).require_equals(true).default_missing_value("true").hide_possible_values(true),
            value => arg.value_name(value),
        }
    });
    Command::new("baton-scheduler")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Decides what runs, when and where. Runners and clients dial to it")
        .args(settings)
        .arg(file)
        .arg(print)
}

/// Reads the settings from what the command line matched.
pub fn read(matches: &ArgMatches) -> Result<Asked, Problems> {
    let mut values = Values::default();
    if let Some(path) = matches.get_one::<String>("config") {
        values.read_file(&PathBuf::from(path));
    }
    for setting in &SETTINGS {
        if let Some(value) = matches.get_one::<String>(setting.name) {
            let origin = match matches.value_source(setting.name) {
                Some(ValueSource::EnvVariable) => Origin::Environment,
                _ => Origin::Flag,
            };
            values.given.insert(setting.name, (value.clone(), origin));
        }
    }
    let config = values.config();
    let log = values.text("log", "info");
    if !values.problems.is_empty() {
        return Err(Problems(values.problems));
    }
    if matches.get_flag("print_config") {
        return Ok(Asked::Print(values.print()));
    }
    Ok(Asked::Run { config: Box::new(config), log })
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

/// Values as they were given, and what they became.
#[derive(Default)]
struct Values {
    given: BTreeMap<&'static str, (String, Origin)>,
    /// Every setting with the value it has and where that comes from, for printing.
    used: BTreeMap<&'static str, (String, Origin)>,
    problems: Vec<String>,
}

impl Values {
    fn read_file(&mut self, path: &PathBuf) {
        let shown = path.display();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.problems.push(format!("--config: cannot read {shown}: {error}")),
        };
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("{shown}: {}", error.to_string().trim_end())),
        };
        for (key, value) in table {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
                let meant = did_you_mean(&key, SETTINGS.iter().map(|setting| setting.name));
                let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
                self.problems.push(format!("{shown}: {key:?} is no setting{meant}"));
                continue;
            };
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Boolean(truth) => truth.to_string(),
                toml::Value::Integer(number) => number.to_string(),
                _ => {
                    self.problems.push(format!("{shown}: {key} takes a text"));
                    continue;
                }
            };
            self.given.insert(setting.name, (value, Origin::File(path.clone())));
        }
    }

    fn config(&mut self) -> Config {
        let timing = self.timing();
        let listen = self.parsed("listen", "127.0.0.1:7420", |text| {
            text.replace("localhost", "127.0.0.1")
                .parse::<SocketAddr>()
                .map_err(|_| format!("{text:?} is no address with a port; write it like 127.0.0.1:7420 or [::1]:7420"))
        });
        let listen = listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], baton::DEFAULT_PORT)));
        // It changes nothing while nobody has credentials; it is taken so that command lines need not change later.
        self.parsed("no_auth", "false", |text| {
            text.parse::<bool>().map_err(|_| format!("{text:?} is neither true nor false"))
        });
        if !listen.ip().is_loopback() {
            self.problems.push(format!(
                "--listen: {listen} can be reached from other machines, and this version cannot ask them for \
                 credentials yet: listen on 127.0.0.1 or [::1], and reach it through SSH or a proxy that does"
            ));
        }
        let log_format = self.parsed("log_format", "text", |text| match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("{text:?} is no format; text or json")),
        });
        let advertise = self.parsed("advertise", "", |text| match text.rsplit_once(':') {
            _ if text.is_empty() => Ok(None),
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Some(text.to_owned())),
            _ => Err(format!("{text:?} is no address with a port; write it like scheduler-1:7420")),
        });
        let retention = Policy {
            age: self.span("retention_age", retention::AGE),
            logs: self.span("retention_logs", Duration::ZERO),
            audit: self.span("audit_age", retention::AUDIT),
        };
        let public_url = self.parsed("public_url", "", |text| match text {
            "" => Ok(None),
            _ if text.ends_with('/') || text.contains(['?', '#']) => {
                Err(format!("{text:?} must end with its host, port or path, without a \"/\" behind it"))
            }
            _ => check_text(Place::Url(0), text).map(|()| Some(text.to_owned())),
        });
        Config {
            listen,
            database: store::Settings { url: self.text("database_url", "sqlite://.baton/baton.db") },
            advertise: advertise.flatten(),
            public_url: public_url.flatten(),
            timing,
            log_format: log_format.unwrap_or_default(),
            retention,
            courier: self.courier(),
        }
    }

    fn timing(&mut self) -> Timing {
        let beat = self.span("heartbeat_interval", Duration::from_secs(10));
        let grace = self.span("grace", Duration::from_secs(10));
        let mut timing = Timing::from_beat(beat, grace);
        let times: [(&'static str, &mut Duration); 10] = [
            ("lost_after", &mut timing.lost_after),
            ("answer_timeout", &mut timing.answer_timeout),
            ("accept_timeout", &mut timing.accept_timeout),
            ("backoff_base", &mut timing.backoff_base),
            ("backoff_max", &mut timing.backoff_max),
            ("seen_interval", &mut timing.seen_interval),
            ("sweep_interval", &mut timing.sweep_interval),
            ("touch_gap", &mut timing.touch_gap),
            ("safety_margin", &mut timing.margin),
            ("hold_for", &mut timing.hold_for),
        ];
        for (name, time) in times {
            *time = self.span(name, *time);
        }
        if timing.hold_for > HOLD_FOR_MAX {
            self.problems.push(format!("--hold-for: at most {}", span::format(HOLD_FOR_MAX)));
        }
        if let Err(unfit) = timing.check() {
            self.problems.push(format!("--heartbeat-interval: {unfit}"));
        }
        timing
    }

    fn span(&mut self, name: &'static str, default: Duration) -> Duration {
        self.parsed(name, &span::format(default), |text| match span::parse(text)? {
            Duration::ZERO if !MAY_BE_ZERO.contains(&name) => Err("must be more than nothing".to_owned()),
            span => Ok(span),
        })
        .unwrap_or(default)
    }

    fn text(&mut self, name: &'static str, default: &str) -> String {
        self.parsed(name, default, |text| Ok(text.to_owned())).unwrap_or_default()
    }

    /// The value of a setting; a problem that names where it was set otherwise.
    fn parsed<T>(&mut self, name: &'static str, default: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let (value, origin) = self.given.get(name).cloned().unwrap_or_else(|| (default.to_owned(), Origin::Default));
        let read = read(&value).map_err(|problem| self.problems.push(format!("{}: {problem}", origin.place(name))));
        self.used.insert(name, (value, origin));
        read.ok()
    }

    /// A file that would set everything as it is, with where each value comes from.
    fn print(&self) -> String {
        let mut text = String::new();
        for Setting { name, .. } in &SETTINGS {
            let Some((value, origin)) = self.used.get(name) else { continue };
            let value = store::without_password(value);
            let line = match (value.is_empty(), value.as_str()) {
                (true, _) => format!("# {name} is not set"),
                (false, "true" | "false") => format!("{name} = {value}"),
                (false, _) => format!("{name} = {}", toml::Value::from(value)),
            };
            let _never_fails = writeln!(text, "{line:<50} # {}", origin.words());
        }
        text
    }
}

impl Origin {
    fn place(&self, name: &str) -> String {
        match self {
            Self::Environment => format!("BATON_{}", name.to_uppercase()),
            Self::File(path) => format!("{}: {name}", path.display()),
            Self::Flag | Self::Default => format!("--{}", name.replace('_', "-")),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Flag => "flag".to_owned(),
            Self::Environment => "environment".to_owned(),
            Self::File(path) => path.display().to_string(),
            Self::Default => "default".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(arguments: &[&str]) -> Result<Asked, Problems> {
        let arguments = std::iter::once(&"baton-scheduler").chain(arguments);
        read(&command().try_get_matches_from(arguments).unwrap())
    }

    pub(super) fn config(arguments: &[&str]) -> Config {
        match asked(arguments).unwrap() {
            Asked::Run { config, .. } => *config,
            Asked::Print(text) => panic!("{text}"),
        }
    }

    pub(super) fn problems(arguments: &[&str]) -> Vec<String> {
        asked(arguments).unwrap_err().0
    }

    #[test]
    fn without_any_setting_a_scheduler_is_for_one_machine() {
        let config = config(&[]);
        assert_eq!(config.listen.to_string(), "127.0.0.1:7420");
        assert_eq!(config.database.url, "sqlite://.baton/baton.db");
        assert_eq!(config.timing, Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10)));
    }

    #[test]
    fn every_time_follows_the_beat_unless_it_is_set() {
        let timing = config(&["--heartbeat-interval", "20s", "--answer-timeout", "3s"]).timing;
        assert_eq!(timing.lost_after, Duration::from_mins(2));
        assert_eq!(timing.answer_timeout, Duration::from_secs(3));
        assert_eq!(timing.accept_timeout, Duration::from_secs(20));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let problems =
            problems(&["--listen", "nowhere", "--grace", "10", "--log-format", "xml", "--lost-after", "20s"]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.starts_with("--listen: \"nowhere\"")));
        assert!(problems.iter().any(|problem| problem.starts_with("--grace: ")));
        assert!(problems.iter().any(|problem| problem.contains("does not fit into lost-after 20s")));
    }

    #[test]
    fn a_listener_that_others_can_reach_is_refused() {
        let problems = problems(&["--listen", "0.0.0.0:7420", "--no-auth"]);
        assert!(problems[0].contains("cannot ask them for credentials yet"), "{problems:?}");
        assert_eq!(config(&["--listen", "localhost:0", "--no-auth"]).listen.to_string(), "127.0.0.1:0");
    }

    #[test]
    fn a_file_stands_behind_flags_and_its_mistakes_are_told_with_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("baton.toml");
        fs::write(&path, "listen = \"127.0.0.1:1\"\ngrace = \"2s\"\nno_auth = true\n").unwrap();
        let file = path.to_str().unwrap();
        let merged = config(&["--config", file, "--listen", "127.0.0.1:2"]);
        assert_eq!((merged.listen.port(), merged.timing.grace), (2, Duration::from_secs(2)));
        fs::write(&path, "lissten = \"127.0.0.1:1\"\ngrace = \"2\"\n").unwrap();
        let problems = problems(&["--config", file]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("\"lissten\" is no setting; did you mean \"listen\"?"), "{problems:?}");
        assert!(problems[1].contains("baton.toml: grace: "), "{problems:?}");
    }

    #[test]
    fn what_is_printed_can_be_read_again_and_tells_no_password() {
        let url = "postgres://baton:hunter2@db/baton";
        let Asked::Print(text) = asked(&["--print-config", "--database-url", url]).unwrap() else {
            panic!("it was asked to print");
        };
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("listen = \"127.0.0.1:7420\"") && line.ends_with("# default"))
        );
    }

    #[test]
    fn a_public_url_is_one_to_which_a_path_can_be_added() {
        assert_eq!(config(&[]).public_url, None);
        let url = "https://baton.example.com/b";
        assert_eq!(config(&["--public-url", url]).public_url.as_deref(), Some(url));
        for wrong in ["baton.example.com", "https://a/", "https://a/?b", "http://me:pw@a", "ftp://a"] {
            assert!(problems(&["--public-url", wrong])[0].starts_with("--public-url: "), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}
