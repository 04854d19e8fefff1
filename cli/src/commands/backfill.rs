//! `baton backfill`: jobs for the fires of a schedule that lie in the past.

use std::{fmt::Write as _, time::Duration};

use baton::v1::{
    Backfill, BackfillState, CancelBackfillRequest, CreateBackfillRequest, CreateBackfillResponse, GetBackfillRequest,
};
use chrono::{DateTime, Utc};

use super::schedule::instant;
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    output::table::Table,
    selector::short_id,
};

/// How often a backfill that is waited for is asked how far it is.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What `backfill` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton backfill orders-etl --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --dry-run
  baton backfill orders-etl --schedule nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --wait
  baton backfill orders-etl --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z --max-parallel 4 --again
  baton get backfills                       how far each is
  baton backfill --cancel 5f0c11d2          make no more jobs

One job for each fire from --from on, before --to; a fire that has a job gets none unless --again. They do not count for
overlap, and are never held back by it.")]
pub struct Args {
    /// The job config.
    #[arg(value_name = "CONFIG", required_unless_present = "cancel", conflicts_with = "cancel")]
    name: Option<String>,
    /// The schedule, by its name, else its position; needed when there are several.
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    schedule: String,
    /// The first instant of the range.
    #[arg(long, value_name = "TIME", value_parser = instant, required_unless_present = "cancel")]
    from: Option<DateTime<Utc>>,
    /// The first instant after the range; not later than now.
    #[arg(long, value_name = "TIME", value_parser = instant, required_unless_present = "cancel")]
    to: Option<DateTime<Utc>>,
    /// How many of its jobs live at once at most.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    max_parallel: u32,
    /// Only show what it would do.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Make another job for fires that have one already.
    #[arg(long)]
    again: bool,
    /// Wait until it is done, and say how far it is.
    #[arg(long)]
    wait: bool,
    /// Let a backfill make no more jobs, by its id or a unique end or beginning of it.
    #[arg(long, value_name = "ID", conflicts_with_all = ["schedule", "from", "to", "max_parallel", "dry_run", "again", "wait"])]
    cancel: Option<String>,
    /// Why it is cancelled, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, requires = "cancel")]
    reason: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Begins, shows or cancels one.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    if let Some(id) = args.cancel {
        return cancel(context, id, args.reason, args.request_id.as_deref()).await;
    }
    let timestamp = |at: DateTime<Utc>| prost_types::Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or_default(),
    };
    let request = CreateBackfillRequest {
        namespace: context.namespace.clone(),
        job_config: args.name.unwrap_or_default(),
        schedule: args.schedule,
        from: args.from.map(timestamp),
        to: args.to.map(timestamp),
        max_parallel: args.max_parallel,
        again: args.again,
        dry_run: args.dry_run,
        request_id: request_id(args.request_id.as_deref()),
    };
    let response = context.client().await?.create_backfill(request).await?;
    let output = context.output;
    let backfill = response.backfill.clone().unwrap_or_default();
    if args.dry_run {
        show(context, &response)?;
        return Ok(Exit::Ok);
    }
    if args.wait {
        return wait(context, &backfill).await;
    }
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&backfill.id)?;
    } else {
        let short = short_id(&backfill.id);
        output.line(&format!("backfill {short} of {} began: {}", backfill.job_config, fires(backfill.fires)))?;
        output.note(&format!("how far it is: baton get backfill {short}"));
        output.note(&format!("make no more jobs: baton backfill --cancel {short}"));
    }
    Ok(Exit::Ok)
}

fn fires(count: u64) -> String {
    if count == 1 { "1 fire".to_owned() } else { format!("{count} fires") }
}

/// What it would do.
fn show(context: &Context, response: &CreateBackfillResponse) -> Result<(), Error> {
    let output = context.output;
    if output.is_data() {
        return output.data(response);
    }
    let backfill = response.backfill.clone().unwrap_or_default();
    let mut table = Table::new(&["LOCAL", "NOTE"]);
    for fire in &response.fires {
        let note = if fire.note.is_empty() { "-" } else { fire.note.as_str() };
        table.row(&fire.local, vec![fire.local.as_str().into(), note.into()]);
    }
    table.print(output)?;
    if (response.fires.len() as u64) < backfill.fires {
        output.note(&format!("these are the first {} of {}", response.fires.len(), fires(backfill.fires)));
    }
    let jobs = backfill.fires.saturating_sub(backfill.passed_over);
    output.note(&format!("{jobs} jobs would be made, {} at once at most; nothing was made", backfill.max_parallel));
    Ok(())
}

/// Waits for its end, and tells how far it is as it goes.
async fn wait(context: &Context, begun: &Backfill) -> Result<Exit, Error> {
    let client = context.client().await?;
    let output = context.output;
    let mut told = String::new();
    loop {
        let response = client.get_backfill(GetBackfillRequest { backfill_id: begun.id.clone() }).await?;
        let backfill = response.backfill.clone().unwrap_or_default();
        if backfill.state() != BackfillState::Running {
            if output.is_data() {
                output.data(&response)?;
            } else {
                output.line(&format!("backfill {} {}", short_id(&backfill.id), progress(&backfill)))?;
            }
            return Ok(match backfill.state() {
                BackfillState::Done if backfill.failed == 0 => Exit::Ok,
                BackfillState::Cancelled => Exit::JobTerminated,
                _ => Exit::JobFailed,
            });
        }
        let now = progress(&backfill);
        if now != told {
            output.note(&now);
            told = now;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// How far a backfill is, in words.
pub fn progress(backfill: &Backfill) -> String {
    let state = match backfill.state() {
        BackfillState::Done => "is done",
        BackfillState::Cancelled => "was cancelled",
        _ => "runs",
    };
    let looked_at = backfill.jobs + backfill.passed_over;
    let mut text = format!("{state}: {looked_at} of {}, {} jobs", fires(backfill.fires), backfill.jobs);
    for (count, word) in [
        (backfill.live, "live"),
        (backfill.finished, "finished"),
        (backfill.failed, "failed"),
        (backfill.passed_over, "had a job already"),
    ] {
        if count > 0 {
            let _ = write!(text, " · {count} {word}");
        }
    }
    if !backfill.reason.is_empty() {
        let _ = write!(text, " · {}", backfill.reason);
    }
    text
}

async fn cancel(context: &Context, id: String, reason: String, request: Option<&str>) -> Result<Exit, Error> {
    let asked = CancelBackfillRequest { backfill_id: id, reason, request_id: request_id(request) };
    let response = context.client().await?.cancel_backfill(asked).await?;
    let output = context.output;
    let backfill = response.backfill.clone().unwrap_or_default();
    if output.is_data() {
        output.data(&response)?;
    } else if output.is_name() {
        output.line(&backfill.id)?;
    } else {
        output.line(&format!("backfill {} {}", short_id(&backfill.id), progress(&backfill)))?;
        if backfill.live > 0 {
            let name = &backfill.job_config;
            output.note(&format!("what it made goes on: baton get jobs --name {name}; baton terminate JOB ends one"));
        }
    }
    Ok(Exit::Ok)
}
