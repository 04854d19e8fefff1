//! Jobs.

use std::{collections::HashMap, time::Duration};

use baton::v1::{GetJobRequest, Job, JobState, ListJobsRequest, ListJobsResponse, TriggerKind};
use chrono::Utc;

use super::{Labels, Paging, id, labels, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{
        facts, glyphs, origin,
        table::Table,
        time::{self, timestamp},
    },
    selector::{Selector, job_state, short_id, span, trigger_kind},
    view::screen::Screen,
};

/// How often a watched list is read.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// What `get jobs` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get jobs --name orders-etl --state failed --since 24h
  baton get jobs --parent 7be0d21c     the jobs that one led to
  baton get jobs --trigger schedule
  baton get jobs --watch
  baton get job 7be0d21c -o json       with its tasks")]
pub struct Args {
    /// One job, by its id or a unique end or beginning of it.
    #[arg(value_name = "JOB", conflicts_with_all = ["name", "state", "parent", "trigger", "labels", "since", "limit", "page", "watch"])]
    job: Option<Selector>,
    /// Only those of this job config.
    #[arg(long, value_name = "CONFIG", default_value = "", hide_default_value = true)]
    name: String,
    /// Only those in this state; may be repeated.
    #[arg(long, value_name = "STATE", value_parser = job_state, value_delimiter = ',')]
    state: Vec<JobState>,
    /// Only those that this job led to, by its `job` tasks or callbacks.
    #[arg(long, value_name = "JOB")]
    parent: Option<Selector>,
    /// Only those that this made; may be repeated.
    #[arg(long, value_name = "TRIGGER", value_parser = trigger_kind, value_delimiter = ',')]
    trigger: Vec<TriggerKind>,
    /// Only those made within this time.
    #[arg(long, value_name = "SPAN", value_parser = span)]
    since: Option<Duration>,
    /// Look again every 2 s: the whole list on a terminal, what changed elsewhere.
    #[arg(long, short)]
    watch: bool,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    match &args.job {
        Some(job) => one(context, job).await,
        None if args.watch => watch(context, &args).await,
        None => {
            let page = list(context, &args).await?;
            if context.output.is_data() {
                return context.output.data(&page);
            }
            table(context, &page.jobs).print(context.output)?;
            if page.jobs.is_empty() {
                context.output.note("no jobs; make one with `baton run CONFIG`");
            }
            note_next_page(context.output, &page.next_page_token);
            Ok(())
        }
    }
}

async fn one(context: &Context, job: &Selector) -> Result<(), Error> {
    if !job.task.is_empty() {
        return Err(Error::Usage(format!("a task is read with: baton get task {job}")));
    }
    let response = context.client().await?.get_job(GetJobRequest { job_id: job.job.clone() }).await?;
    if context.output.is_data() {
        return context.output.data(&response);
    }
    let job = response.job.unwrap_or_default();
    let short = short_id(&job.id).to_owned();
    table(context, &[job]).print(context.output)?;
    context.output.note(&format!("its tasks: baton get tasks {short}"));
    Ok(())
}

async fn list(context: &Context, args: &Args) -> Result<ListJobsResponse, Error> {
    let client = context.client().await?;
    let since = args.since.and_then(|since| chrono::TimeDelta::from_std(since).ok());
    let created_since = since.and_then(|since| Utc::now().checked_sub_signed(since)).map(timestamp);
    args.paging
        .read(async |page_size, page_token| {
            let request = ListJobsRequest {
                namespace: context.namespace.clone(),
                name: args.name.clone(),
                parent_job_id: args.parent.as_ref().map(|parent| parent.job.clone()).unwrap_or_default(),
                triggers: args.trigger.iter().map(|trigger| (*trigger).into()).collect(),
                states: args.state.iter().map(|state| (*state).into()).collect(),
                labels: labels(&args.labels.labels),
                created_since,
                created_before: None,
                page_size,
                page_token,
            };
            client.list_jobs(request).await
        })
        .await
}

/// Reads the list again and again until Ctrl-C.
async fn watch(context: &Context, args: &Args) -> Result<(), Error> {
    let output = context.output;
    let redraws = output.terminal && !output.is_data() && !output.is_name();
    let mut screen = redraws.then(|| Screen::new(output.color));
    let mut seen: HashMap<String, u64> = HashMap::new();
    loop {
        let page = tokio::select! {
            page = list(context, args) => page?,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        if let Some(screen) = &mut screen {
            let size = Screen::size();
            let mut lines = table(context, &page.jobs).aligned(size.width);
            lines.truncate(size.height.saturating_sub(1));
            screen.draw(&lines, size.width)?;
        } else {
            // Oldest first, as they would have come one by one.
            let changed: Vec<_> = page
                .jobs
                .into_iter()
                .rev()
                .filter(|job| seen.insert(job.id.clone(), job.seq) != Some(job.seq))
                .collect();
            if output.is_data() && !changed.is_empty() {
                output.data(&ListJobsResponse { jobs: changed, ..ListJobsResponse::default() })?;
            } else if !changed.is_empty() {
                table(context, &changed).print(output)?;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// One line a job.
pub fn table(context: &Context, jobs: &[Job]) -> Table {
    let (output, now) = (context.output, Utc::now());
    let wide = output.is_wide();
    let mut headers = vec!["ID", "NAME", "STATE", "TASKS", "CREATED", "TOOK", "REASON"];
    if wide {
        headers.extend(["NAMESPACE", "VERSION", "TRIGGER", "LABELS", "PARAMS"]);
    }
    let mut table = Table::new(&headers);
    for job in jobs {
        let failed = if job.tasks_failed > 0 { format!(" ({} failed)", job.tasks_failed) } else { String::new() };
        let mut cells = vec![
            id(output, &job.id),
            job.name.as_str().into(),
            glyphs::job(job.state()).span(),
            format!("{}/{}{failed}", job.tasks_ended, job.tasks_total).into(),
            output.instant(job.create_time, now).into(),
            time::elapsed(job.start_time, job.end_time, now).into(),
            or_dash(&job.reason),
        ];
        if wide {
            cells.extend([
                job.namespace.as_str().into(),
                format!("v{}", job.version).into(),
                origin::words(job).into(),
                facts::pairs(&job.labels).into(),
                facts::pairs(&job.params).into(),
            ]);
        }
        table.row(&job.id, cells);
    }
    table
}
