//! Schedules with what they wait for, and whether they are late.

use baton::v1::{ListSchedulesRequest, ListSchedulesResponse};
use chrono::Utc;

use super::{Paging, note_next_page};
use crate::{
    commands::next::{is_there, when, words, zone},
    context::Context,
    errors::Error,
    output::{
        table::Table,
        time::{self, proto_span},
    },
};

/// What `get schedules` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get schedules
  baton get schedules orders-etl
  baton get schedules --overdue          what should have fired and has not

A schedule is late when its fire is due and no scheduler has decided it yet.")]
pub struct Args {
    /// Only those of this job config.
    #[arg(value_name = "CONFIG")]
    name: Option<String>,
    /// Only those that are late.
    #[arg(long)]
    overdue: bool,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them by their next fire.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let job_config = args.name.unwrap_or_default();
    let all: ListSchedulesResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListSchedulesRequest {
                namespace: context.namespace.clone(),
                job_config: job_config.clone(),
                page_size,
                page_token,
                overdue: args.overdue,
                language: context.language.into(),
            };
            client.list_schedules(request).await
        })
        .await?;
    if all.schedules.is_empty() {
        is_there(context, &job_config).await?;
    }
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        return output.data(&all);
    }
    let mut table = Table::new(&["CONFIG", "SCHEDULE", "MEANS", "ZONE", "NEXT", "LATE", "LAST"]);
    for schedule in &all.schedules {
        let late = proto_span(schedule.late).map_or_else(|| "-".to_owned(), time::span);
        table.row(
            format!("{}/{}", schedule.job_config, schedule.key),
            vec![
                schedule.job_config.as_str().into(),
                schedule.key.as_str().into(),
                words(schedule),
                zone(schedule).into(),
                when(output, schedule, now).into(),
                late.into(),
                output.instant(schedule.last_fire_time, now).into(),
            ],
        );
    }
    table.print(output)?;
    if all.schedules.is_empty() {
        output.note(if args.overdue { "no schedule is late" } else { "nothing is scheduled" });
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}
