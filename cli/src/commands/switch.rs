//! `baton disable` and `baton enable`: schedules are switched off, and on again.

use baton::v1::{DisableRequest, EnableRequest, StoredSchedule};
use chrono::{DateTime, Utc};

use super::{next, schedule::instant};
use crate::{
    client::request_id,
    context::Context,
    errors::{Error, Exit},
    output::table::Table,
    selector,
};

/// What `disable` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton disable orders-etl --reason \"the source is being moved\"
  baton disable orders-etl --schedule nightly
  baton disable orders-etl --until 2026-12-01T06:00:00+01:00
  baton disable orders-etl --until 2h

Jobs that run go on, and `baton run` still makes one. Time spent disabled is not made up for.")]
pub struct DisableArgs {
    #[command(flatten)]
    which: Which,
    /// When they go on by themselves: an instant, or a span from now.
    #[arg(long, value_name = "TIME|SPAN", value_parser = later)]
    until: Option<DateTime<Utc>>,
    /// Why, for those who wonder later.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

/// What `enable` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton enable orders-etl
  baton enable orders-etl --schedule nightly

Nothing fires early or twice because of it; `baton get fires` tells what was left out.")]
pub struct EnableArgs {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The job config.
    #[arg(value_name = "CONFIG")]
    name: String,
    /// The one schedule, by its name, else its position; all of them when not given.
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    schedule: String,
    /// Repeating the command with the same id does nothing more.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

fn later(text: &str) -> Result<DateTime<Utc>, String> {
    if let Ok(span) = selector::span(text) {
        let span = chrono::TimeDelta::from_std(span).map_err(|_| "it is too long".to_owned())?;
        return Utc::now().checked_add_signed(span).ok_or_else(|| "it is too long".to_owned());
    }
    instant(text).map_err(|how| format!("{how}, or a span from now like 2h"))
}

/// Switches schedules off.
pub async fn disable(context: &Context, args: DisableArgs) -> Result<Exit, Error> {
    let Which { name, schedule, request_id: id } = args.which;
    let until = args.until.map(|at| prost_types::Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or_default(),
    });
    let request = DisableRequest {
        namespace: context.namespace.clone(),
        name: name.clone(),
        schedule,
        until,
        reason: args.reason,
        request_id: request_id(id.as_deref()),
    };
    let response = context.client().await?.disable(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
        return Ok(Exit::Ok);
    }
    show(context, &name, &response.schedules)?;
    if response.schedules.is_empty() {
        output.note("it has no schedules; those that it will have stay off until it is enabled");
    } else {
        output.note(&format!("undo with: baton enable {name}"));
    }
    Ok(Exit::Ok)
}

/// Switches schedules on.
pub async fn enable(context: &Context, args: EnableArgs) -> Result<Exit, Error> {
    let Which { name, schedule, request_id: id } = args.which;
    let request = EnableRequest {
        namespace: context.namespace.clone(),
        name: name.clone(),
        schedule,
        request_id: request_id(id.as_deref()),
    };
    let response = context.client().await?.enable(request).await?;
    let output = context.output;
    if output.is_data() {
        output.data(&response)?;
        return Ok(Exit::Ok);
    }
    show(context, &name, &response.schedules)?;
    if response.changed == 0 {
        output.note("nothing was off");
    } else {
        output.note(&format!("what was left out meanwhile: baton get fires {name}"));
    }
    Ok(Exit::Ok)
}

fn show(context: &Context, name: &str, schedules: &[StoredSchedule]) -> Result<(), Error> {
    let (output, now) = (context.output, Utc::now());
    if output.is_name() {
        return output.line(name);
    }
    let mut table = Table::new(&["SCHEDULE", "MEANS", "ZONE", "NEXT"]);
    for schedule in schedules {
        table.row(
            &schedule.key,
            vec![
                schedule.key.as_str().into(),
                next::words(schedule),
                next::zone(schedule).into(),
                next::when(output, schedule, now).into(),
            ],
        );
    }
    table.print(output)
}
