//! Fires that made no job.

use baton::v1::{ListFiresRequest, ListFiresResponse};
use chrono::Utc;

use super::{Paging, note_next_page};
use crate::{context::Context, errors::Error, output::table::Table};

/// What `get fires` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get fires orders-etl
  baton get fires orders-etl -o json

A fire that made its job is that job: `baton get jobs --name orders-etl` lists them.")]
pub struct Args {
    /// The job config.
    #[arg(value_name = "CONFIG")]
    name: String,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, newest first: one row for those that follow each other for the same reason.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let all: ListFiresResponse = args
        .paging
        .read(async |page_size, page_token| {
            let (namespace, job_config) = (context.namespace.clone(), args.name.clone());
            client.list_fires(ListFiresRequest { namespace, job_config, page_size, page_token }).await
        })
        .await?;
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        return output.data(&all);
    }
    let mut table = Table::new(&["SCHEDULE", "FIRST", "LAST", "COUNT", "REASON"]);
    for fires in &all.fires {
        table.row(
            &fires.schedule,
            vec![
                fires.schedule.as_str().into(),
                output.instant(fires.first_time, now).into(),
                output.instant(fires.last_time, now).into(),
                fires.count.to_string().into(),
                fires.reason.as_str().into(),
            ],
        );
    }
    table.print(output)?;
    if all.fires.is_empty() {
        output.note("every fire made its job");
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}
