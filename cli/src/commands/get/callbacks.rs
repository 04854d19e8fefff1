//! What is told to others, and whether it arrived.

use baton::v1::{CallbackDelivery, CallbackState, GetCallbackRequest, ListCallbacksRequest, ListCallbacksResponse};
use chrono::Utc;

use super::{Paging, id, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{callbacks, facts::Facts, table::Table},
    selector::{Selector, callback_state, short_id},
};

/// What `get callbacks` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get callbacks                          of all jobs, newest first
  baton get callbacks 7be0d21c                 of one job
  baton get callbacks --config orders-etl --state failed
  baton get callbacks --id 3f9a01c2            one of them, with what it tells

One that was given up is sent again with: baton callback resend ID")]
pub struct Args {
    /// Only those of this job, by its id or a unique end or beginning of it.
    #[arg(value_name = "JOB")]
    job: Option<Selector>,
    /// One of them, by its id or a unique end or beginning of it.
    #[arg(long, value_name = "ID", conflicts_with_all = ["job", "config", "state", "limit", "page"])]
    id: Option<String>,
    /// Only those of this job config.
    #[arg(long, value_name = "CONFIG", default_value = "", hide_default_value = true)]
    config: String,
    /// Only those in this state: pending, delivered or failed (given up).
    #[arg(long, value_name = "STATE", value_parser = callback_state)]
    state: Option<CallbackState>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists them, or reads one.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let output = context.output;
    if let Some(callback_id) = args.id {
        let response = client.get_callback(GetCallbackRequest { callback_id }).await?;
        if output.is_data() {
            return output.data(&response);
        }
        let delivery = response.callback.unwrap_or_default();
        if output.is_name() {
            return output.line(&delivery.id);
        }
        return output.lines(&facts(context, &delivery).into_lines());
    }
    if let Some(job) = args.job.as_ref().filter(|job| !job.task.is_empty()) {
        return Err(Error::Usage(format!("callbacks are listed by job: baton get callbacks {}", job.job)));
    }
    let all: ListCallbacksResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListCallbacksRequest {
                namespace: context.namespace.clone(),
                job_config: args.config.clone(),
                job_id: args.job.as_ref().map(|job| job.job.clone()).unwrap_or_default(),
                state: args.state.unwrap_or_default().into(),
                page_size,
                page_token,
            };
            client.list_callbacks(request).await
        })
        .await?;
    if output.is_data() {
        return output.data(&all);
    }
    let now = Utc::now();
    let mut headers = vec!["ID", "STATE", "EVENT", "OF", "TO", "TRIES", "CODE", "NEXT TRY", "CREATED", "ERROR"];
    if output.is_wide() {
        headers.extend(["JOB", "NAMESPACE", "STARTED JOB"]);
    }
    let mut table = Table::new(&headers);
    for delivery in &all.callbacks {
        let code = delivery.response_code.map(|code| code.to_string()).unwrap_or_default();
        let mut cells = vec![
            id(output, &delivery.id),
            callbacks::state(delivery.state()).span(),
            event(delivery).into(),
            about(delivery).into(),
            receiver(delivery).into(),
            delivery.tries.to_string().into(),
            or_dash(&code),
            output.instant(delivery.next_try_time, now).into(),
            output.instant(delivery.create_time, now).into(),
            or_dash(&delivery.last_error),
        ];
        if output.is_wide() {
            cells.extend([
                or_dash(&delivery.job_id),
                delivery.namespace.as_str().into(),
                or_dash(&delivery.started_job_id),
            ]);
        }
        table.row(&delivery.id, cells);
    }
    table.print(output)?;
    if all.callbacks.is_empty() {
        output.note("nothing was told to anybody; see `callbacks` in `baton schema`");
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}

fn event(delivery: &CallbackDelivery) -> String {
    delivery.event().as_str_name().trim_start_matches("CALLBACK_EVENT_").to_lowercase()
}

/// What it tells of.
fn about(delivery: &CallbackDelivery) -> String {
    let job = short_id(&delivery.job_id);
    match (delivery.job_id.is_empty(), delivery.task.is_empty()) {
        (true, _) => delivery.job_config.clone(),
        (false, true) => format!("{} {job}", delivery.job_config),
        (false, false) => format!("{} {job}/{}", delivery.job_config, delivery.task),
    }
}

fn receiver(delivery: &CallbackDelivery) -> String {
    delivery.callback.as_ref().map(callbacks::receiver).unwrap_or_default()
}

/// Everything about one of them.
fn facts(context: &Context, delivery: &CallbackDelivery) -> Facts {
    let (output, now) = (context.output, Utc::now());
    let mut facts = Facts::default();
    facts.add("callback", &delivery.id);
    facts.span("state", callbacks::state(delivery.state()).span());
    facts.add("event", event(delivery));
    facts.add("of", about(delivery));
    facts.add("to", receiver(delivery));
    let blocking = delivery.callback.as_ref().is_some_and(|callback| callback.blocking);
    facts.add("blocking", if blocking { "yes: it holds its task until it is delivered or given up" } else { "" });
    facts.add("tries", delivery.tries.to_string());
    facts.add("code", delivery.response_code.map(|code| code.to_string()).unwrap_or_default());
    facts.add("error", &delivery.last_error);
    facts.add("next try", output.instant(delivery.next_try_time, now));
    facts.add("created", output.instant(delivery.create_time, now));
    facts.add("ended", output.instant(delivery.end_time, now));
    facts.add("started job", &delivery.started_job_id);
    facts.add("tells", &delivery.payload);
    facts
}
