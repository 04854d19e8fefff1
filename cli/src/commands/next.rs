//! `baton next`: what will run, and when.

use baton::v1::{GetRequest, ListSchedulesRequest, ListSchedulesResponse, ScheduleState, StoredSchedule};
use chrono::Utc;

use super::get::{Paging, note_next_page};
use crate::{
    context::Context,
    errors::{Error, Exit},
    output::{Output, table::Table, text::Span},
};

/// What `next` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton next
  baton next orders-etl
  baton next -o json")]
pub struct Args {
    /// Only this job config.
    #[arg(value_name = "CONFIG")]
    name: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists schedules by their next fire.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let client = context.client().await?;
    let job_config = args.name.unwrap_or_default();
    let all: ListSchedulesResponse = args
        .paging
        .read(async |page_size, page_token| {
            let (namespace, job_config) = (context.namespace.clone(), job_config.clone());
            let language = context.language.into();
            let request =
                ListSchedulesRequest { namespace, job_config, page_size, page_token, overdue: false, language };
            client.list_schedules(request).await
        })
        .await?;
    if all.schedules.is_empty() {
        is_there(context, &job_config).await?;
    }
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        output.data(&all)?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&["NEXT", "CONFIG", "SCHEDULE", "MEANS", "ZONE"]);
    for schedule in &all.schedules {
        table.row(
            &schedule.job_config,
            vec![
                when(output, schedule, now).into(),
                schedule.job_config.as_str().into(),
                schedule.key.as_str().into(),
                words(schedule),
                zone(schedule).into(),
            ],
        );
    }
    table.print(output)?;
    if all.schedules.is_empty() {
        output.note("nothing is scheduled; `schedules` is a key of the job file");
    }
    note_next_page(output, &all.next_page_token);
    Ok(Exit::Ok)
}

/// Fails unless there is such a job config, or none is named: one that does not exist has no schedules either, and whoever
/// mistyped its name is to be told.
pub async fn is_there(context: &Context, job_config: &str) -> Result<(), Error> {
    if !job_config.is_empty() {
        let request =
            GetRequest { namespace: context.namespace.clone(), name: job_config.to_owned(), ..GetRequest::default() };
        context.client().await?.get(request).await?;
    }
    Ok(())
}

/// The next fire, or what it waits for instead.
pub fn when(output: Output, schedule: &StoredSchedule, now: chrono::DateTime<Utc>) -> String {
    match schedule.state() {
        ScheduleState::Due | ScheduleState::Unspecified => output.instant(schedule.next_fire_time, now),
        ScheduleState::Turn => "when its jobs end".to_owned(),
        ScheduleState::End => "after its job".to_owned(),
        ScheduleState::Over => "over".to_owned(),
        ScheduleState::Parked => format!("parked: {}", schedule.reason),
        ScheduleState::Paused => {
            let mut text = "off".to_owned();
            if schedule.due_time.is_some() {
                text = format!("off until {}", output.instant(schedule.due_time, now));
            }
            if schedule.reason.is_empty() { text } else { format!("{text}: {}", schedule.reason) }
        }
    }
}

/// What it means, in words.
pub fn words(schedule: &StoredSchedule) -> Span {
    if schedule.description.is_empty() { "-".into() } else { schedule.description.as_str().into() }
}

/// Its zone, by name.
pub fn zone(schedule: &StoredSchedule) -> &str {
    match schedule.schedule.as_ref().map(|schedule| schedule.time_zone.as_str()) {
        None | Some("") => "UTC",
        Some(zone) => zone,
    }
}
