//! Runners.

use baton::v1::{GetRunnerRequest, ListRunnersRequest, ListRunnersResponse, Runner};
use chrono::Utc;

use super::{Labels, Paging, id, labels, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{facts, glyphs, table::Table},
};

/// What `get runners` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get runners -l pool=etl
  baton get runner etl-2")]
pub struct Args {
    /// One runner.
    #[arg(value_name = "RUNNER", conflicts_with_all = ["labels", "limit", "page"])]
    runner: Option<String>,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    if let Some(runner_id) = args.runner {
        let response = client.get_runner(GetRunnerRequest { runner_id }).await?;
        if context.output.is_data() {
            return context.output.data(&response);
        }
        return table(context, &[response.runner.unwrap_or_default()]).print(context.output);
    }
    let all: ListRunnersResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListRunnersRequest { labels: labels(&args.labels.labels), page_size, page_token };
            client.list_runners(request).await
        })
        .await?;
    if context.output.is_data() {
        return context.output.data(&all);
    }
    table(context, &all.runners).print(context.output)?;
    if all.runners.is_empty() {
        context
            .output
            .note(&format!("no runners; start one with `baton-runner --scheduler http://{}`", context.address));
    }
    note_next_page(context.output, &all.next_page_token);
    Ok(())
}

fn table(context: &Context, runners: &[Runner]) -> Table {
    let (output, now) = (context.output, Utc::now());
    let mut headers = vec!["NAME", "STATE", "SLOTS", "LABELS", "LAST SEEN", "VERSION"];
    if output.is_wide() {
        headers.extend(["RUNS", "SCHEDULER", "SINCE", "REASON"]);
    }
    let mut table = Table::new(&headers);
    for runner in runners {
        let mut cells = vec![
            runner.id.as_str().into(),
            glyphs::runner(runner.state()).span(),
            format!("{}/{} busy", runner.slots_busy, runner.slots).into(),
            facts::pairs(&runner.labels).into(),
            output.instant(runner.last_seen_time, now).into(),
            or_dash(&runner.version),
        ];
        if output.is_wide() {
            cells.extend([
                or_dash(&runner.capabilities.join(",")),
                id(output, &runner.scheduler_id),
                output.instant(runner.create_time, now).into(),
                or_dash(&runner.reason),
            ]);
        }
        table.row(&runner.id, cells);
    }
    table
}
