//! What was changed by request.

use std::time::Duration;

use baton::v1::{ListAuditEventsRequest, ListAuditEventsResponse};
use chrono::Utc;

use super::{Paging, note_next_page, or_dash};
use crate::{
    context::Context,
    errors::Error,
    output::{table::Table, time::timestamp},
    selector::{self, short_id},
};

/// What `get audit` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get audit
  baton get audit --job 7be0d21c
  baton get audit --action Apply --since 7d
  baton get audit --object orders-etl -o json

A run leaves no event of its own: `baton get jobs` lists them.")]
pub struct Args {
    /// Only what was done to this job and its tasks.
    #[arg(long, value_name = "JOB", default_value = "", hide_default_value = true)]
    job: String,
    /// Only this object: a job config, a runner, a job's whole id, JOB/TASK.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    object: String,
    /// Only this method, such as Rerun.
    #[arg(long, value_name = "METHOD", default_value = "", hide_default_value = true)]
    action: String,
    /// Only what this actor did.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    actor: String,
    /// Only the last so much time.
    #[arg(long, value_name = "SPAN", value_parser = selector::span)]
    since: Option<Duration>,
    #[command(flatten)]
    paging: Paging,
}

/// Lists it, newest first.
pub async fn run(context: &Context, args: Args) -> Result<(), Error> {
    let client = context.client().await?;
    let (output, now) = (context.output, Utc::now());
    let since = args.since.and_then(|since| chrono::TimeDelta::from_std(since).ok());
    let since = since.and_then(|since| now.checked_sub_signed(since)).map(timestamp);
    let all: ListAuditEventsResponse = args
        .paging
        .read(async |page_size, page_token| {
            let request = ListAuditEventsRequest {
                namespace: context.namespace.clone(),
                job_id: args.job.clone(),
                kind: String::new(),
                object: args.object.clone(),
                action: args.action.clone(),
                actor: args.actor.clone(),
                since,
                before: None,
                page_size,
                page_token,
            };
            client.list_audit_events(request).await
        })
        .await?;
    if output.is_data() {
        return output.data(&all);
    }
    let short = !output.is_wide() && !output.is_tsv();
    let mut table = Table::new(&["TIME", "ACTOR", "ACTION", "KIND", "OBJECT", "BEFORE", "AFTER", "REASON"]);
    for event in &all.events {
        let object = match event.object.strip_prefix(&event.job_id) {
            Some(rest) if short && !event.job_id.is_empty() => format!("{}{rest}", short_id(&event.job_id)),
            _ => event.object.clone(),
        };
        table.row(
            &event.id,
            vec![
                output.instant(event.time, now).into(),
                event.actor.as_str().into(),
                event.action.as_str().into(),
                event.kind.as_str().into(),
                object.into(),
                or_dash(&event.before),
                or_dash(&event.after),
                or_dash(&event.reason),
            ],
        );
    }
    table.print(output)?;
    if all.events.is_empty() {
        output.note("nothing of this kind was changed");
    }
    note_next_page(output, &all.next_page_token);
    Ok(())
}
