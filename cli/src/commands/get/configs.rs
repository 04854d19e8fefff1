//! Job configs.

use baton::v1::{GetRequest, ListRequest, ListResponse, ListSchedulesRequest, ListedJobConfig, StoredSchedule};
use chrono::Utc;

use super::{Labels, Paging, labels, note_next_page};
use crate::{
    commands::next,
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
    let client = context.client().await?;
    let response = client.get(request).await?;
    if context.output.is_data() {
        return context.output.data(&response);
    }
    let stored = response.job_config.unwrap_or_default();
    let config = stored.config.unwrap_or_default();
    let schedules = ListSchedulesRequest {
        namespace: config.namespace.clone(),
        job_config: config.name.clone(),
        ..ListSchedulesRequest::default()
    };
    let listed = ListedJobConfig {
        namespace: config.namespace,
        name: config.name,
        version: stored.version,
        task_count: stored.task_count,
        labels: config.labels,
        update_time: stored.create_time,
        schedules: client.list_schedules(schedules).await?.schedules,
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

/// The schedule that fires first; one that fires no more stands in when there is no other.
fn soonest(schedules: &[StoredSchedule]) -> Option<&StoredSchedule> {
    schedules.iter().min_by_key(|schedule| {
        let time = schedule.next_fire_time.map(|time| (time.seconds, time.nanos));
        (time.is_none(), time)
    })
}

fn table(context: &Context, configs: &[ListedJobConfig]) -> Table {
    let now = Utc::now();
    let mut table =
        Table::new(&["NAME", "NAMESPACE", "VERSION", "TASKS", "SCHEDULE", "ZONE", "NEXT", "UPDATED", "LABELS"]);
    for config in configs {
        let first = soonest(&config.schedules);
        table.row(
            &config.name,
            vec![
                config.name.as_str().into(),
                config.namespace.as_str().into(),
                format!("v{}", config.version).into(),
                config.task_count.to_string().into(),
                first.map_or("-".into(), next::words),
                first.map_or("-", next::zone).into(),
                first.map_or_else(|| "-".to_owned(), |first| next::when(context.output, first, now)).into(),
                context.output.instant(config.update_time, now).into(),
                facts::pairs(&config.labels).into(),
            ],
        );
    }
    table
}
