//! `baton apply` and `baton diff`: job files become versions, or would.

use baton::v1::{
    AppliedJobConfig, ApplyChange, ApplyRequest, ApplyResponse, Difference, StoredSchedule, apply_request::Definition,
};

use super::{next, validate};
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    files::{self, JobFile},
    output::text::{Line, Span, Tone},
};

/// How many columns of a value are shown in a difference.
const VALUE_WIDTH_MAX: usize = 60;

/// What `apply` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton apply -f hello.yaml
  baton apply -f jobs/                every job file of a directory
  baton apply -f - < hello.yaml
  baton apply -f hello.yaml --dry-run

Each file is applied as a whole or not at all. Nothing is applied unless every file is sound.")]
pub struct Args {
    /// A job file, a directory of job files, or - for standard input.
    #[arg(short, long, value_name = "FILE|DIR|-", required = true)]
    file: Vec<String>,
    /// Check and compare only; nothing is stored.
    #[arg(long)]
    dry_run: bool,
    /// Repeating the command with the same id does nothing more; for a single file.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// What `diff` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton diff -f orders-etl.yaml
  baton diff -f jobs/ && echo nothing to do

Exit code 0 when nothing would change, 10 when something would.")]
pub struct DiffArgs {
    /// A job file, a directory of job files, or - for standard input.
    #[arg(short, long, value_name = "FILE|DIR|-", required = true)]
    file: Vec<String>,
}

/// Stores the files.
pub async fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let files = read(&args.file)?;
    if args.request_id.is_some() && files.len() > 1 {
        return Err(Error::Usage("--request-id goes with a single file".to_owned()));
    }
    let response = send(context, files, args.dry_run, args.request_id.as_deref()).await?;
    if context.output.is_data() {
        context.output.data(&response)?;
    } else {
        print(context, &response, args.dry_run)?;
    }
    Ok(Exit::Ok)
}

/// Shows what storing the files would change.
pub async fn diff(context: &Context, args: &DiffArgs) -> Result<Exit, Error> {
    let response = send(context, read(&args.file)?, true, None).await?;
    let output = context.output;
    let changed: Vec<_> =
        response.job_configs.iter().filter(|applied| applied.change() != ApplyChange::Unchanged).collect();
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.names(&changed.iter().map(|applied| name(applied)).collect::<Vec<_>>())?;
    } else {
        for applied in &changed {
            output.lines(&diff_lines(applied))?;
        }
        if changed.is_empty() {
            output.note("nothing would change");
        }
    }
    Ok(if changed.is_empty() { Exit::Ok } else { Exit::Differences })
}

fn read(paths: &[String]) -> Result<Vec<JobFile>, Error> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(files::read(path)?);
    }
    Ok(files)
}

/// Checks every file on this side, which points at the place of each problem, then sends them one by one.
async fn send(context: &Context, files: Vec<JobFile>, dry_run: bool, id: Option<&str>) -> Result<ApplyResponse, Error> {
    validate::check(&files, &context.namespace)?;
    let client = context.client().await?;
    let mut all = ApplyResponse::default();
    for file in files {
        let request = ApplyRequest {
            definition: Some(Definition::Source(file.text.clone())),
            namespace: context.namespace.clone(),
            dry_run,
            request_id: request_id(id),
            language: context.language.into(),
        };
        match client.apply(request).await {
            Ok(response) => all.job_configs.extend(response.job_configs),
            Err(error) => {
                // What was stored before is said before what was not.
                if !dry_run && !all.job_configs.is_empty() && !context.output.is_data() {
                    print(context, &all, false)?;
                }
                return Err(validate::locate(&file, error));
            }
        }
    }
    Ok(all)
}

/// One line a job config.
pub fn print(context: &Context, response: &ApplyResponse, dry_run: bool) -> Result<(), Error> {
    let output = context.output;
    if output.is_name() {
        return output.names(&response.job_configs.iter().map(name).collect::<Vec<_>>());
    }
    let mut lines = Vec::new();
    for applied in &response.job_configs {
        lines.push(outcome(applied, dry_run));
        lines.extend(applied.schedules.iter().flat_map(schedule_lines));
    }
    output.lines(&lines)?;
    if !dry_run && let Some(first) = response.job_configs.first() {
        output.note(&format!("run it: baton run {}{} --follow", bare_name(first), in_namespace(first)));
    }
    Ok(())
}

fn outcome(applied: &AppliedJobConfig, dry_run: bool) -> Line {
    let would = if dry_run { "would be " } else { "" };
    let tasks = applied.job_config.as_ref().map_or(0, |stored| stored.task_count);
    let tasks = if tasks == 1 { "1 task".to_owned() } else { format!("{tasks} tasks") };
    let line = Line::new();
    let mut line = match applied.change() {
        ApplyChange::Created => {
            line.with("+", Tone::Good).with(format!(" {} {would}created · {tasks}", heading(applied)), Tone::Plain)
        }
        ApplyChange::Updated => line.with("~", Tone::Warn).with(
            format!(" {} {would}updated · {}", heading(applied), changes(applied.differences.len())),
            Tone::Plain,
        ),
        ApplyChange::Unchanged | ApplyChange::Unspecified => {
            line.with("=", Tone::Dim).with(format!(" {} unchanged", heading(applied)), Tone::Plain)
        }
    };
    line.push(Span::from(on_earlier(applied)));
    line
}

/// What a schedule means, and when it fires next.
fn schedule_lines(schedule: &StoredSchedule) -> Vec<Line> {
    let zone = next::zone(schedule);
    let mut lines = vec![Line::from(format!("  {}: {} ({zone})", schedule.key, schedule.description))];
    if !schedule.reason.is_empty() {
        lines.push(Line::new().with(format!("    {}", schedule.reason), Tone::Warn));
    }
    if !schedule.fires.is_empty() {
        let fires: Vec<&str> = schedule.fires.iter().map(|fire| fire.local.as_str()).collect();
        lines.push(Line::new().with(format!("    next: {}", fires.join(", ")), Tone::Dim));
    }
    lines
}

/// A job config with all that differs, one line a field.
fn diff_lines(applied: &AppliedJobConfig) -> Vec<Line> {
    let mut lines = vec![Line::new().with(heading(applied), Tone::Bold)];
    if applied.change() == ApplyChange::Created {
        let tasks = applied.job_config.as_ref().map_or(0, |stored| stored.task_count);
        lines.push(Line::new().with(format!("  + new, {tasks} tasks"), Tone::Good));
        return lines;
    }
    let width = applied.differences.iter().map(|one| one.path.chars().count()).max().unwrap_or(0);
    lines.extend(applied.differences.iter().map(|one| difference(one, width)));
    lines.push(Line::from(format!("{}{}", changes(applied.differences.len()), on_earlier(applied))));
    lines
}

fn difference(one: &Difference, width: usize) -> Line {
    let short = |value: &str| Line::from(value).cut(VALUE_WIDTH_MAX).render(false);
    let (sign, tone, value) = match (one.before.is_empty(), one.after.is_empty()) {
        (true, _) => ("+", Tone::Good, short(&one.after)),
        (false, true) => ("-", Tone::Bad, short(&one.before)),
        (false, false) => ("~", Tone::Warn, format!("{} → {}", short(&one.before), short(&one.after))),
    };
    let mut line = Line::new().with(format!("  {sign} "), tone).with(&one.path, Tone::Plain);
    line.pad_to(width + 6);
    line.with(value, Tone::Plain)
}

/// "orders-etl  v6 → v7".
fn heading(applied: &AppliedJobConfig) -> String {
    let version = applied.job_config.as_ref().map_or(0, |stored| stored.version);
    match applied.change() {
        ApplyChange::Updated => format!("{} v{} → v{version}", name(applied), version.saturating_sub(1)),
        _ => format!("{} v{version}", name(applied)),
    }
}

fn on_earlier(applied: &AppliedJobConfig) -> String {
    match applied.jobs_on_earlier_versions {
        0 => String::new(),
        1 => " · 1 job is live and stays on its version".to_owned(),
        n => format!(" · {n} jobs are live and stay on their versions"),
    }
}

fn changes(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}

/// The name as it is unique: with its namespace unless that is the default one.
fn name(applied: &AppliedJobConfig) -> String {
    match namespace(applied) {
        "" | "default" => bare_name(applied).to_owned(),
        namespace => format!("{namespace}/{}", bare_name(applied)),
    }
}

fn in_namespace(applied: &AppliedJobConfig) -> String {
    match namespace(applied) {
        "" | "default" => String::new(),
        namespace => format!(" -n {namespace}"),
    }
}

fn bare_name(applied: &AppliedJobConfig) -> &str {
    config(applied).map_or("", |config| config.name.as_str())
}

fn namespace(applied: &AppliedJobConfig) -> &str {
    config(applied).map_or("", |config| config.namespace.as_str())
}

fn config(applied: &AppliedJobConfig) -> Option<&baton::v1::JobConfig> {
    applied.job_config.as_ref()?.config.as_ref()
}

#[cfg(test)]
mod tests {
    use baton::v1::{JobConfig, StoredJobConfig};

    use super::*;

    fn applied(change: ApplyChange, version: u32) -> AppliedJobConfig {
        let config = JobConfig { name: "orders-etl".into(), namespace: "data".into(), ..JobConfig::default() };
        AppliedJobConfig {
            job_config: Some(StoredJobConfig {
                version,
                task_count: 5,
                config: Some(config),
                ..StoredJobConfig::default()
            }),
            change: change.into(),
            jobs_on_earlier_versions: 1,
            schedules: Vec::new(),
            differences: vec![
                Difference { path: "timeout".into(), before: "1h".into(), after: "2h".into() },
                Difference { path: "tasks[notify]".into(), before: String::new(), after: "command: [notify]".into() },
            ],
        }
    }

    #[test]
    fn an_apply_says_what_became_of_each_config() {
        let line = |change, dry_run| outcome(&applied(change, 8), dry_run).render(false);
        assert_eq!(
            line(ApplyChange::Updated, false),
            "~ data/orders-etl v7 → v8 updated · 2 changes · 1 job is live and stays on its version"
        );
        assert!(line(ApplyChange::Created, true).starts_with("+ data/orders-etl v8 would be created · 5 tasks"));
        assert!(line(ApplyChange::Unchanged, false).starts_with("= data/orders-etl v8 unchanged"));
    }

    #[test]
    fn a_diff_shows_every_field_that_moves() {
        let lines: Vec<_> =
            diff_lines(&applied(ApplyChange::Updated, 8)).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            lines,
            [
                "data/orders-etl v7 → v8",
                "  ~ timeout        1h → 2h",
                "  + tasks[notify]  command: [notify]",
                "2 changes · 1 job is live and stays on its version",
            ]
        );
    }
}
