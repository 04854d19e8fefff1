//! `baton schedule`: what a schedule means, before anything is stored. It needs no scheduler.

use std::time::Duration;

use baton::{
    json::to_value,
    v1::{self, PreviewRequest, PreviewResponse, PreviewedFire, ScheduleLanguage, schedule::Rule as rule},
};
use baton_scheduler::domain::{
    schedule::{After, COUNT_MAX, Language, Next, Preview, RuleSpec, Schedule, Spec},
    time::Timestamp,
};
use chrono::{DateTime, SecondsFormat, Utc};
use clap::Subcommand;

use crate::{
    context::Context,
    errors::{Error, Exit},
    output::{Output, table::Table},
    selector,
};

/// What `schedule` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton schedule preview --cron '30 2 * * MON-FRI' --time-zone Europe/Berlin
  baton schedule preview --help")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the next fires of a schedule, and what it means in words.
    Preview(Box<PreviewArgs>),
}

/// What `schedule preview` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton schedule preview --cron '30 2 * * MON-FRI' --time-zone Europe/Berlin
  baton schedule preview --text 'last day of the month at 23:30' --count 12
  baton schedule preview --text '每个工作日 09:00' --time-zone Asia/Shanghai --lang zh
  baton schedule preview --cron '0 9 * * *' --time-zone Europe/Berlin --calendar holidays-de
  baton schedule preview --every 90m --start 2026-12-01T00:00:00Z -o json

The exit code is not 0 when it never fires or cannot be read.")]
pub struct PreviewArgs {
    #[command(flatten)]
    rule: Rule,
    /// The IANA name of its zone; UTC when not given.
    #[arg(long, default_value = "", value_name = "ZONE", hide_default_value = true)]
    time_zone: String,
    /// Show fires after this instant instead of now.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    from: Option<DateTime<Utc>>,
    /// How many fires to show.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(COUNT_MAX)))]
    count: u32,
    /// Nothing fires before it; intervals are counted from it.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    start: Option<DateTime<Utc>>,
    /// Nothing fires at or after it.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    end: Option<DateTime<Utc>>,
    /// A calendar on whose dates nothing fires; may be repeated. It is asked of the scheduler.
    #[arg(long = "calendar", value_name = "NAME")]
    calendars: Vec<String>,
}

/// When it fires.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Rule {
    /// A cron expression of five (Unix), six or seven (Quartz) fields.
    #[arg(long, value_name = "EXPRESSION")]
    cron: Option<String>,
    /// Words, in English or Chinese.
    #[arg(long, value_name = "WORDS")]
    text: Option<String>,
    /// An interval such as 90s, 15m or 6h.
    #[arg(long, value_name = "SPAN", value_parser = selector::span)]
    every: Option<Duration>,
    /// Once, at this instant.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    at: Option<DateTime<Utc>>,
}

/// An instant as RFC 3339.
pub fn instant(text: &str) -> Result<DateTime<Utc>, String> {
    let how = "write an instant with its offset, like 2026-12-01T09:00:00+08:00 or 2026-12-01T01:00:00Z";
    DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).map_err(|_| how.to_owned())
}

/// Runs a command about schedules.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Preview(args) if args.calendars.is_empty() => preview(context, &args),
        Command::Preview(args) => ask(context, &args).await,
    }
}

fn preview(context: &Context, args: &PreviewArgs) -> Result<Exit, Error> {
    let from = Timestamp(args.from.unwrap_or_else(Utc::now).timestamp_micros());
    let language = match context.language {
        ScheduleLanguage::Chinese => Language::Chinese,
        _ => Language::English,
    };
    let shown = shown(&args.spec(), from, args.count, language).map_err(Error::Usage)?;
    let output = context.output;
    print(output, &response(&shown))?;
    match &shown.end {
        Some(end) if shown.fires.is_empty() => Err(Error::Local { message: why_none(end).to_owned(), next: None }),
        Some(_) => {
            output.note("it fires no more after that");
            Ok(Exit::Ok)
        }
        None => Ok(Exit::Ok),
    }
}

/// Asks the scheduler, which has the calendars.
async fn ask(context: &Context, args: &PreviewArgs) -> Result<Exit, Error> {
    let timestamp = |at: DateTime<Utc>| prost_types::Timestamp {
        seconds: at.timestamp(),
        nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or_default(),
    };
    let rule = match args.spec().rule {
        RuleSpec::Cron(cron) => rule::Cron(cron),
        RuleSpec::Text(text) => rule::Text(text),
        RuleSpec::Every { period, .. } => rule::Every(
            period
                .try_into()
                .map_err(|_| Error::Usage("--every: an interval is from 1 second to 10 years".to_owned()))?,
        ),
        RuleSpec::At(at) => rule::At(timestamp(at)),
    };
    let request = PreviewRequest {
        schedule: Some(v1::Schedule {
            rule: Some(rule),
            time_zone: args.time_zone.clone(),
            start_time: args.start.map(timestamp),
            end_time: args.end.map(timestamp),
            calendars: args.calendars.clone(),
            ..v1::Schedule::default()
        }),
        from: args.from.map(timestamp),
        count: args.count,
        language: context.language.into(),
        namespace: context.namespace.clone(),
    };
    print(context.output, &context.client().await?.preview(request).await?)?;
    Ok(Exit::Ok)
}

/// The answer as JSON, with what scripts read from it always there: a fire without a note has an empty one.
fn whole(preview: &PreviewResponse) -> serde_json::Value {
    let mut value = to_value(preview);
    for field in ["cron", "description"] {
        value[field] = value[field].as_str().unwrap_or_default().into();
    }
    value["fires"] = value["fires"].as_array().cloned().unwrap_or_default().into();
    for fire in value["fires"].as_array_mut().into_iter().flatten() {
        fire["note"] = fire["note"].as_str().unwrap_or_default().into();
    }
    value
}

fn print(output: Output, preview: &PreviewResponse) -> Result<(), Error> {
    if output.is_data() {
        return output.value(&whole(preview));
    }
    if !output.is_tsv() && !output.is_name() {
        output.line(&preview.description)?;
        if !preview.cron.is_empty() {
            output.line(&format!("cron: {}", preview.cron))?;
        }
    }
    let mut table = Table::new(&["LOCAL", "UTC", "NOTE"]);
    for fire in &preview.fires {
        let note = if fire.note.is_empty() { "-" } else { fire.note.as_str() };
        let utc = fire.time.and_then(|time| DateTime::from_timestamp(time.seconds, time.nanos.unsigned_abs()));
        let utc = utc.unwrap_or_default().to_rfc3339_opts(SecondsFormat::AutoSi, true);
        table.row(&utc, vec![fire.local.as_str().into(), utc.as_str().into(), note.into()]);
    }
    table.print(output)
}

impl PreviewArgs {
    fn spec(&self) -> Spec {
        let Rule { cron, text, every, at } = &self.rule;
        let rule = match (cron, text, every, at) {
            (Some(cron), ..) => RuleSpec::Cron(cron.clone()),
            (_, Some(text), ..) => RuleSpec::Text(text.clone()),
            (_, _, Some(period), _) => RuleSpec::Every { period: *period, after: After::default() },
            (_, _, _, at) => RuleSpec::At(at.unwrap_or_default()),
        };
        Spec { time_zone: self.time_zone.clone(), start_time: self.start, end_time: self.end, ..rule.into() }
    }
}

fn shown(spec: &Spec, from: Timestamp, count: u32, language: Language) -> Result<Preview, String> {
    let schedule = Schedule::new(spec, "preview", from, &[]).map_err(|problems| {
        problems
            .iter()
            .map(|problem| format!("--{}: {}", problem.field.replace('_', "-"), problem.message))
            .collect::<Vec<_>>()
            .join("\n")
    })?;
    schedule.preview(from, count, language).map_err(|fault| fault.to_string())
}

fn why_none(end: &Next) -> &'static str {
    match end {
        Next::Over => "it fires no more: its last fire has passed",
        Next::Beyond2100 => "its next fire lies after the year 2100, where schedules end",
        Next::Never | Next::At(_) => "it never fires: check its days and its window",
    }
}

fn response(preview: &Preview) -> PreviewResponse {
    let timestamp = |time: Timestamp| prost_types::Timestamp {
        seconds: time.0.div_euclid(1_000_000),
        nanos: i32::try_from(time.0.rem_euclid(1_000_000) * 1_000).unwrap_or_default(),
    };
    PreviewResponse {
        fires: preview
            .fires
            .iter()
            .map(|fire| PreviewedFire {
                time: Some(timestamp(fire.time)),
                local: fire.local.clone(),
                note: fire.note.clone(),
            })
            .collect(),
        cron: preview.cron.clone().unwrap_or_default(),
        description: preview.description.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from(text: &str) -> Timestamp {
        Timestamp(instant(text).unwrap().timestamp_micros())
    }

    #[test]
    fn a_preview_tells_what_a_change_of_the_clock_does() {
        let spec = Spec::cron("30 2 * * *", "Europe/Berlin");
        let preview = shown(&spec, from("2026-03-28T12:00:00Z"), 2, Language::English).unwrap();
        let local: Vec<&str> = preview.fires.iter().map(|fire| fire.local.as_str()).collect();
        assert_eq!(local, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
        assert!(!preview.fires[0].note.is_empty());
        assert_eq!(response(&preview).fires[1].note, "");
    }

    #[test]
    fn what_a_script_reads_is_always_there() {
        let preview = shown(&Spec::cron("0 9 * * *", ""), from("2026-12-01T10:00:00Z"), 1, Language::English).unwrap();
        let fire = json!({"time": "2026-12-02T09:00:00Z", "local": "2026-12-02T09:00:00+00:00", "note": ""});
        let expected = json!({"fires": [fire], "cron": "0 9 * * *", "description": "every day at 09:00"});
        assert_eq!(whole(&response(&preview)), expected);
        let nothing = json!({"fires": [], "cron": "", "description": ""});
        assert_eq!(whole(&PreviewResponse::default()), nothing);
    }

    #[test]
    fn what_never_fires_and_what_cannot_be_read_is_refused() {
        let never = shown(&Spec::cron("0 0 30 2 *", ""), from("2026-01-01T00:00:00Z"), 5, Language::English);
        assert!(never.unwrap_err().contains("never"));
        let refused =
            shown(&Spec::cron("0 25 * * *", "Mars/Olympus"), from("2026-01-01T00:00:00Z"), 5, Language::English);
        let refused = refused.unwrap_err();
        assert!(refused.contains("--cron: ") && refused.contains("--time-zone: "), "{refused}");
    }
}
