//! `baton import`: what other schedulers have, as commented job files.

use std::{fmt::Write as _, fs, io::Read as _, path::PathBuf};

use baton_scheduler::domain::{
    definition,
    schedule::crontab::{self, Crontab, Entry, Kind},
};
use clap::{Subcommand, ValueEnum};
use serde_json::json;

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// What `import` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  crontab -l | baton import crontab > jobs.yaml
  baton import crontab /etc/crontab --time-zone Europe/Berlin --into jobs/
  baton import crontab --help")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Turn a crontab into commented job files, and tell what it holds that they cannot.
    Crontab(CrontabArgs),
}

/// What `import crontab` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  crontab -l | baton import crontab > jobs.yaml
  baton import crontab /etc/crontab --time-zone Europe/Berlin --into jobs/
  baton import crontab /etc/cron.d/backup --kind system

A line that would do something else here than under cron is not carried, and told on standard error with what to do
instead: `%`, MAILTO, @reboot, another user than root. Cron runs in the zone of its host; here the zone is named.")]
pub struct CrontabArgs {
    /// The crontab; standard input when not given or -.
    #[arg(value_name = "FILE|-", default_value = "-", hide_default_value = true)]
    file: String,
    /// The IANA name of the zone of the host it comes from; UTC when not given.
    #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true)]
    time_zone: String,
    /// Whether a user name stands before each command: user (no) or system (yes). Told from the file when not given.
    #[arg(long, value_enum, value_name = "KIND", hide_possible_values = true)]
    kind: Option<Form>,
    /// Write one file for each job into this directory instead of all to standard output.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    User,
    System,
}

/// Runs an import.
pub fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let Command::Crontab(args) = args.command;
    let text = read(&args.file)?;
    let kind = match args.kind {
        Some(Form::User) => Kind::User,
        Some(Form::System) => Kind::System,
        None => crontab::guess(&args.file, &text),
    };
    let zone = if args.time_zone.is_empty() { "UTC" } else { args.time_zone.as_str() };
    let known = baton_scheduler::domain::schedule::Zone::parse(zone);
    known.map_err(|error| Error::Usage(format!("--time-zone: {error}")))?;
    let found = crontab::parse(&text, kind, zone).map_err(|error| Error::local(error.to_string()))?;
    let files: Vec<(String, String)> =
        found.entries.iter().map(|entry| (format!("{}.yaml", entry.name), job_file(entry, &args.file))).collect();
    for (name, text) in &files {
        // What is handed out is what `baton validate` takes.
        if let Err(problems) = definition::read(text, "default") {
            return Err(Error::local(format!("{name} would not be sound, report this: {}", problems[0].message)));
        }
    }
    put(context, &args, &files)?;
    tell(context, kind, &found);
    Ok(Exit::Ok)
}

fn read(path: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let limit = crontab::LENGTH_MAX as u64 + 1;
    let failed = |error: std::io::Error| Error::local(format!("cannot read \"{path}\": {error}"));
    if path == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        fs::File::open(path).map_err(failed)?.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::local(format!("\"{path}\" is not UTF-8; convert it first, see iconv(1)")))
}

fn put(context: &Context, args: &CrontabArgs, files: &[(String, String)]) -> Result<(), Error> {
    let output = context.output;
    let Some(directory) = &args.into else {
        if output.is_data() {
            let jobs: Vec<_> = files.iter().map(|(name, text)| json!({"file": name, "text": text})).collect();
            return output.value(&json!({ "files": jobs }));
        }
        let all: Vec<&str> = files.iter().map(|(_, text)| text.as_str()).collect();
        return output.raw(all.join("---\n").as_bytes());
    };
    fs::create_dir_all(directory)
        .map_err(|error| Error::local(format!("cannot make \"{}\": {error}", directory.display())))?;
    for (name, text) in files {
        let path = directory.join(name);
        let shown = path.display().to_string();
        let made = fs::OpenOptions::new().write(true).create_new(true).open(&path);
        made.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes())).map_err(|error| {
            let next = "nothing is overwritten: choose an empty directory, or remove it first";
            Error::with_next(format!("cannot write \"{shown}\": {error}"), next)
        })?;
        output.line(&shown)?;
    }
    Ok(())
}

/// What was carried, and what was not.
fn tell(context: &Context, kind: Kind, found: &Crontab) {
    let output = context.output;
    let jobs = if found.entries.len() == 1 { "1 job".to_owned() } else { format!("{} jobs", found.entries.len()) };
    let form = match kind {
        Kind::User => "read as the crontab of one user (a system crontab: --kind system)",
        Kind::System => "read as a system crontab, with a user before each command (otherwise: --kind user)",
    };
    output.note(&format!("{jobs} carried; {form}"));
    for lost in &found.lost {
        output.note(&format!("line {}: {}", lost.line, lost.text));
        output.note(&format!("    not carried: {}", lost.why));
    }
    if !found.lost.is_empty() {
        output.note(&format!("{} lines were not carried; nothing of them runs until you see to it", found.lost.len()));
    }
}

/// A job file with a comment that says where it comes from.
fn job_file(entry: &Entry, from: &str) -> String {
    let mut file = String::new();
    let from = if from == "-" { "a crontab" } else { from };
    let _ = writeln!(file, "# From line {} of {}:", entry.line, single_line(from));
    let _ = writeln!(file, "#   {}", single_line(&entry.source));
    for line in entry.comment.lines() {
        let _ = writeln!(file, "# {}", single_line(line));
    }
    let _ = writeln!(file, "name: {}", entry.name);
    // Cron starts a command whether or not the one before is still running.
    let _ = writeln!(file, "overlap: allow                    # as cron does; skip is often better");
    let fields: Vec<&str> = entry.expression.text().split_whitespace().collect();
    let _ = writeln!(file, "schedules:");
    let _ = writeln!(file, "  - cron: {}", quoted(&fields.join(" ")));
    let _ = writeln!(file, "    time_zone: {}", quoted(&entry.time_zone));
    let _ = writeln!(file, "    misfire: skip                 # as cron does: what was missed is not made up for");
    if !entry.jitter.is_zero() {
        let _ = writeln!(file, "    jitter: {}m", entry.jitter.as_secs() / 60);
    }
    let _ = writeln!(file, "tasks:");
    let _ = writeln!(file, "  - name: {}", entry.name);
    // `sh -c` and not `shell`, which runs with -e: under cron a failing line does not end the command.
    let _ = writeln!(file, "    command: [/bin/sh, -c, {}]", quoted(&literal(&entry.command)));
    if !entry.env.is_empty() {
        let _ = writeln!(file, "    env:");
        for (name, value) in &entry.env {
            let _ = writeln!(file, "      {}: {}", quoted(name), quoted(&literal(value)));
        }
    }
    file
}

/// A text on one line of a comment.
fn single_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text that is no template, whatever it looks like.
fn literal(text: &str) -> String {
    if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("{{{{ '{escaped}' }}}}")
}

/// A text in double quotes, which is JSON and so is YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "SHELL=/bin/sh\nPATH=/usr/sbin:/usr/bin\n\n\
        17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly\n\
        25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }\n\
        */5 * * * * root echo \"it's {{ not }} a 'template' $(date +\\%F) \\\\\"\n";

    fn files(text: &str) -> Vec<definition::Document> {
        let found = crontab::parse(text, crontab::guess("-", text), "Europe/Berlin").unwrap();
        let all: Vec<String> = found.entries.iter().map(|entry| job_file(entry, "-")).collect();
        definition::read(&all.join("---\n"), "default").unwrap()
    }

    #[test]
    fn what_is_written_is_sound_and_runs_what_cron_ran() {
        let documents = files(SYSTEM);
        let names: Vec<&str> = documents.iter().map(|document| document.config.name.as_str()).collect();
        assert_eq!(names, ["cd", "test", "echo"]);
        let last = &documents[2].config;
        assert!(documents[2].source.contains("# From line 6 of a crontab"), "{}", documents[2].source);
        let definition::Target::Command(argv) = &last.tasks[0].target else { panic!("{last:?}") };
        // A template that gives the very text: braces mean nothing to cron.
        assert!(argv[2].starts_with("{{ '") && argv[2].contains("{{ not }}"), "{argv:?}");
        assert_eq!(last.tasks[0].env["PATH"], "/usr/sbin:/usr/bin");
    }
}
