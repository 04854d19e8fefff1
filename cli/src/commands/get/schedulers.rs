//! Schedulers.

use baton::v1::{ListSchedulersRequest, ListSchedulersResponse};
use chrono::Utc;

use super::{Paging, id, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{glyphs, table::Table},
};

/// What `get schedulers` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  baton get schedulers -o wide")]
pub struct Args {
    #[command(flatten)]
    paging: Paging,
}

/// Lists them.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let all: ListSchedulersResponse = args
        .paging
        .read(async |page_size, page_token| {
            client.list_schedulers(ListSchedulersRequest { page_size, page_token }).await
        })
        .await?;
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        return output.data(&all);
    }
    let mut table = Table::new(&["ID", "ADDRESS", "STATE", "RUNNERS", "STARTED", "LAST SEEN", "VERSION"]);
    for scheduler in &all.schedulers {
        table.row(
            &scheduler.id,
            vec![
                id(output, &scheduler.id),
                or_dash(&scheduler.address),
                glyphs::scheduler(scheduler.state()).span(),
                scheduler.runners.to_string().into(),
                output.instant(scheduler.start_time, now).into(),
                output.instant(scheduler.last_seen_time, now).into(),
                or_dash(&scheduler.version),
            ],
        );
    }
    table.print(output)?;
    note_next_page(output, &all.next_page_token);
    Ok(())
}
