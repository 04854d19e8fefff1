//! `baton calendar`: named lists of dates on which schedules do not fire.

use std::sync::Arc;

use baton::v1::{
    ApplyCalendarsRequest, ApplyCalendarsResponse, CalendarChange, DeleteCalendarRequest, GetCalendarRequest,
    ListCalendarsRequest, ListCalendarsResponse, StoredCalendar, apply_calendars_request::Definition,
};
use baton_scheduler::domain::definition;
use chrono::Utc;
use clap::Subcommand;

use super::get::{Paging, note_next_page};
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    files::{self, JobFile},
    output::{facts::Facts, table::Table},
    problem::Located,
};

/// How many dates of a calendar a table shows.
const DATES_SHOWN_MAX: usize = 3;

/// What `calendar` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton calendar apply holidays.yaml
  baton calendar get
  baton calendar get holidays-de
  baton calendar delete holidays-de

A calendar file:
  name: holidays-de
  description: public holidays
  exclude:
    - 2026-12-25..2026-12-26
    - 2027-01-01

A schedule names it, and fires on none of its dates in the schedule's own zone:
  schedules:
    - {cron: \"30 2 * * *\", time_zone: Europe/Berlin, calendars: [holidays-de]}")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Store calendar files; schedules that name a changed one are planned anew.
    #[command(after_help = "Examples:\n  baton calendar apply holidays.yaml\n  baton calendar apply - < holidays.yaml")]
    Apply {
        /// A calendar file, or - for standard input.
        #[arg(value_name = "FILE|-", required = true)]
        file: Vec<String>,
        /// Repeating the command with the same id does nothing more; for a single file.
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
    },
    /// List calendars, or show one with all its dates.
    #[command(after_help = "Examples:\n  baton calendar get\n  baton calendar get holidays-de -o yaml")]
    Get {
        /// One calendar.
        name: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Delete a calendar that no schedule names.
    #[command(after_help = "Examples:\n  baton calendar delete holidays-de")]
    Delete {
        /// Its name.
        name: String,
        /// Repeating the command with the same id does nothing more.
        #[arg(long, value_name = "ID")]
        request_id: Option<String>,
    },
}

/// Runs a command about calendars.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Apply { file, request_id } => apply(context, &file, request_id.as_deref()).await,
        Command::Get { name: Some(name), .. } => one(context, name).await,
        Command::Get { name: None, paging } => list(context, &paging).await,
        Command::Delete { name, request_id } => delete(context, name, request_id.as_deref()).await,
    }?;
    Ok(Exit::Ok)
}

async fn apply(context: &Context, paths: &[String], id: Option<&str>) -> Result<(), Error> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(files::read(path)?);
    }
    if id.is_some() && files.len() > 1 {
        return Err(Error::Usage("--request-id goes with a single file".to_owned()));
    }
    check(&files, &context.namespace)?;
    let client = context.client().await?;
    let mut all = ApplyCalendarsResponse::default();
    for file in files {
        let request = ApplyCalendarsRequest {
            definition: Some(Definition::Source(file.text)),
            namespace: context.namespace.clone(),
            request_id: request_id(id),
        };
        all.calendars.extend(client.apply_calendars(request).await?.calendars);
    }
    let output = context.output;
    if output.is_data() {
        return output.data(&all);
    }
    for applied in &all.calendars {
        let stored = applied.calendar.clone().unwrap_or_default();
        let name = stored.calendar.as_ref().map_or("", |calendar| calendar.name.as_str());
        if output.is_name() {
            output.line(name)?;
            continue;
        }
        let schedules = match stored.schedules {
            0 => "no schedule names it yet".to_owned(),
            1 => "1 schedule names it".to_owned(),
            n => format!("{n} schedules name it"),
        };
        output.line(&match applied.change() {
            CalendarChange::Created => format!("+ calendar {name} created · {schedules}"),
            CalendarChange::Updated => format!("~ calendar {name} updated · {schedules}"),
            CalendarChange::Unchanged | CalendarChange::Unspecified => format!("= calendar {name} unchanged"),
        })?;
    }
    Ok(())
}

/// Checks every file on this side, which points at the place of each problem.
fn check(files: &[JobFile], namespace: &str) -> Result<(), Error> {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let mut problems = Vec::new();
    for file in files {
        if let Err(found) = definition::read_calendars(&file.text, namespace) {
            let text: Arc<str> = file.text.as_str().into();
            let located = |problem| Located { file: file.name.clone(), text: text.clone(), problem };
            problems.extend(found.into_iter().map(located));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Invalid(problems)) }
}

async fn one(context: &Context, name: String) -> Result<(), Error> {
    let request = GetCalendarRequest { namespace: context.namespace.clone(), name };
    let response = context.client().await?.get_calendar(request).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    let stored = response.calendar.unwrap_or_default();
    let calendar = stored.calendar.clone().unwrap_or_default();
    if output.is_name() {
        return output.line(&calendar.name);
    }
    let now = Utc::now();
    let mut facts = Facts::default();
    facts.add("calendar", calendar.name.as_str());
    facts.add("namespace", calendar.namespace.as_str());
    facts.add("for", calendar.description.as_str());
    facts.add("schedules", stored.schedules.to_string());
    facts.add("changed", output.instant(stored.update_time, now));
    let mut dates = calendar.exclude.iter();
    facts.add("excludes", dates.next().map_or("no date", String::as_str));
    dates.for_each(|date| facts.more(date.as_str()));
    output.lines(&facts.into_lines())
}

async fn list(context: &Context, paging: &Paging) -> Result<(), Error> {
    let client = context.client().await?;
    let all: ListCalendarsResponse = paging
        .read(async |page_size, page_token| {
            let namespace = context.namespace.clone();
            client.list_calendars(ListCalendarsRequest { namespace, page_size, page_token }).await
        })
        .await?;
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        return output.data(&all);
    }
    let mut table = Table::new(&["NAME", "NAMESPACE", "DATES", "SCHEDULES", "CHANGED", "DESCRIPTION"]);
    for stored in &all.calendars {
        let calendar = stored.calendar.clone().unwrap_or_default();
        let description = if calendar.description.is_empty() { "-" } else { calendar.description.as_str() };
        table.row(
            &calendar.name,
            vec![
                calendar.name.as_str().into(),
                calendar.namespace.as_str().into(),
                dates(stored).into(),
                stored.schedules.to_string().into(),
                output.instant(stored.update_time, now).into(),
                description.into(),
            ],
        );
    }
    table.print(output)?;
    if all.calendars.is_empty() {
        output.note("no calendars; `baton calendar --help` shows a file of one");
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}

/// The first of its dates.
fn dates(stored: &StoredCalendar) -> String {
    let dates = stored.calendar.as_ref().map(|calendar| calendar.exclude.as_slice()).unwrap_or_default();
    let shown = dates[..dates.len().min(DATES_SHOWN_MAX)].join(", ");
    match dates.len() {
        0 => "-".to_owned(),
        n if n > DATES_SHOWN_MAX => format!("{shown}, … ({n})"),
        _ => shown,
    }
}

async fn delete(context: &Context, name: String, id: Option<&str>) -> Result<(), Error> {
    let request =
        DeleteCalendarRequest { namespace: context.namespace.clone(), name: name.clone(), request_id: request_id(id) };
    let response = context.client().await?.delete_calendar(request).await?;
    let output = context.output;
    if output.is_data() {
        return output.data(&response);
    }
    output.line(&if output.is_name() { name } else { format!("calendar {name} is deleted") })
}
