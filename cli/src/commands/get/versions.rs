//! The versions of a job config.

use baton::v1::{ListVersionsRequest, ListVersionsResponse};
use chrono::Utc;

use super::{Paging, note_next_page};
use crate::{context::Context, errors::Error, output::table::Table};

/// What `get versions` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get versions orders-etl
  baton get config orders-etl --version 6 -o yaml
  baton restore config orders-etl --version 6")]
pub struct Args {
    /// The job config.
    #[arg(value_name = "CONFIG")]
    name: String,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let all: ListVersionsResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListVersionsRequest {
                namespace: context.namespace.clone(),
                name: args.name.clone(),
                page_size,
                page_token,
            };
            client.list_versions(request).await
        })
        .await?;
    let (output, now) = (context.output, Utc::now());
    if output.is_data() {
        return output.data(&all);
    }
    let mut table = Table::new(&["VERSION", "APPLIED", "TASKS", "JOBS"]);
    for version in &all.versions {
        table.row(
            version.version.to_string(),
            vec![
                format!("v{}", version.version).into(),
                output.instant(version.create_time, now).into(),
                version.task_count.to_string().into(),
                version.job_count.to_string().into(),
            ],
        );
    }
    table.print(output)?;
    note_next_page(output, &all.next_page_token);
    Ok(())
}
