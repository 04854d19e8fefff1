//! Job configs.

use baton::v1::{GetRequest, ListRequest, ListResponse, ListedJobConfig};
use chrono::Utc;

use super::{Labels, Paging, labels, note_next_page};
use crate::{
    context::Context,
    errors::Error,
    output::{facts, table::Table},
};

/// What `get configs` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get configs -l team=data
  baton get config orders-etl -o yaml")]
pub struct Args {
    /// One job config.
    #[arg(conflicts_with_all = ["labels", "limit", "page"])]
    name: Option<String>,
    /// This version instead of the newest.
    #[arg(long, value_name = "N", requires = "name", value_parser = clap::value_parser!(u32).range(1..))]
    version: Option<u32>,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    match args.name {
        Some(name) => one(context, name, args.version).await,
        None => list(context, &args).await,
    }
}

async fn one(context: &Context, name: String, version: Option<u32>) -> Result<(), Error> {
    let request = GetRequest { namespace: context.namespace.clone(), name, version: version.unwrap_or(0) };
    let response = context.client().await?.get(request).await?;
    if context.output.is_data() {
        return context.output.data(&response);
    }
    let stored = response.job_config.unwrap_or_default();
    let config = stored.config.unwrap_or_default();
    let listed = ListedJobConfig {
        namespace: config.namespace,
        name: config.name,
        version: stored.version,
        task_count: stored.task_count,
        labels: config.labels,
        update_time: stored.create_time,
    };
    table(context, &[listed]).print(context.output)
}

async fn list(context: &Context, args: &Args) -> Result<(), Error> {
    let client = context.client().await?;
    let all: ListResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListRequest {
                namespace: context.namespace.clone(),
                labels: labels(&args.labels.labels),
                page_size,
                page_token,
            };
            client.list(request).await
        })
        .await?;
    if context.output.is_data() {
        return context.output.data(&all);
    }
    table(context, &all.job_configs).print(context.output)?;
    if all.job_configs.is_empty() {
        context.output.note("no job configs; write one with `baton init` and store it with `baton apply -f FILE`");
    }
    note_next_page(context.output, &all.next_page_token);
    Ok(())
}

fn table(context: &Context, configs: &[ListedJobConfig]) -> Table {
    let now = Utc::now();
    let mut table = Table::new(&["NAME", "NAMESPACE", "VERSION", "TASKS", "UPDATED", "LABELS"]);
    for config in configs {
        table.row(
            &config.name,
            vec![
                config.name.as_str().into(),
                config.namespace.as_str().into(),
                format!("v{}", config.version).into(),
                config.task_count.to_string().into(),
                context.output.instant(config.update_time, now).into(),
                facts::pairs(&config.labels).into(),
            ],
        );
    }
    table
}
