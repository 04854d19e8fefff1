//! Backfills and how far each is.

use baton::v1::{Backfill, BackfillState, GetBackfillRequest, ListBackfillsRequest, ListBackfillsResponse};
use chrono::Utc;

use super::{Paging, id, note_next_page};
use crate::{commands::backfill::progress, context::Context, errors::Error, output::table::Table};

/// What `get backfills` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get backfills
  baton get backfills --name orders-etl
  baton get backfill 5f0c11d2 -o json")]
pub struct Args {
    /// One backfill, by its id or a unique end or beginning of it.
    #[arg(value_name = "ID", conflicts_with = "name")]
    backfill: Option<String>,
    /// Only those of this job config.
    #[arg(long, value_name = "CONFIG", default_value = "", hide_default_value = true)]
    name: String,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, newest first, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let output = context.output;
    if let Some(backfill_id) = args.backfill {
        let response = client.get_backfill(GetBackfillRequest { backfill_id }).await?;
        if output.is_data() {
            return output.data(&response);
        }
        return table(context, response.backfill.as_slice()).print(output);
    }
    let all: ListBackfillsResponse = args
        .paging
        .read(async |page_size, page_token| {
            let (namespace, job_config) = (context.namespace.clone(), args.name.clone());
            client.list_backfills(ListBackfillsRequest { namespace, job_config, page_size, page_token }).await
        })
        .await?;
    if output.is_data() {
        return output.data(&all);
    }
    table(context, &all.backfills).print(output)?;
    if all.backfills.is_empty() {
        output.note("no backfills; `baton backfill CONFIG --from TIME --to TIME` begins one");
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}

fn table(context: &Context, backfills: &[Backfill]) -> Table {
    let (output, now) = (context.output, Utc::now());
    let mut table = Table::new(&["ID", "CONFIG", "SCHEDULE", "STATE", "FROM", "TO", "PROGRESS", "CREATED"]);
    for backfill in backfills {
        let state = match backfill.state() {
            BackfillState::Running | BackfillState::Unspecified => "RUNNING",
            BackfillState::Done => "DONE",
            BackfillState::Cancelled => "CANCELLED",
        };
        table.row(
            &backfill.id,
            vec![
                id(output, &backfill.id),
                backfill.job_config.as_str().into(),
                backfill.schedule.as_str().into(),
                state.into(),
                output.instant(backfill.from, now).into(),
                output.instant(backfill.to, now).into(),
                progress(backfill).into(),
                output.instant(backfill.create_time, now).into(),
            ],
        );
    }
    table
}
