//! `baton get`: lists of things, or one of them.

mod audit;
mod backfills;
mod callbacks;
mod configs;
mod fires;
mod jobs;
mod runners;
mod schedulers;
mod schedules;
mod tasks;
mod versions;

pub use tasks::{exit as task_exit, table as task_table};

use std::collections::HashMap;

use clap::Subcommand;

use crate::{
    context::Context,
    errors::{Error, Exit},
    output::{Output, text::Span},
    selector::{pair, short_id},
};

/// The largest page a scheduler gives out.
const PAGE_MAX: u32 = 1_000;

/// What `get` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton get configs
  baton get jobs --state running --since 1h
  baton get job 7be0d21c -o json
  baton get tasks 7be0d21c/resize
  baton get runners -l pool=etl
  baton get audit --job 7be0d21c
  baton get config orders-etl --version 6 -o yaml")]
pub struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Backfills, newest first, or one.
    #[command(visible_alias = "backfill")]
    Backfills(backfills::Args),
    /// Job configs by namespace and name, or one.
    #[command(visible_alias = "config")]
    Configs(configs::Args),
    /// What is told to others, newest first, and whether it arrived.
    #[command(visible_alias = "callback")]
    Callbacks(callbacks::Args),
    /// What was changed by request, newest first.
    #[command(visible_alias = "audits")]
    Audit(audit::Args),
    /// Fires of a job config that made no job, newest first.
    #[command(visible_alias = "fire")]
    Fires(fires::Args),
    /// Jobs, newest first, or one.
    #[command(visible_alias = "job")]
    Jobs(jobs::Args),
    /// Tasks of one job or of all, or one.
    #[command(visible_alias = "task")]
    Tasks(tasks::Args),
    /// Runners by name, or one.
    #[command(visible_alias = "runner")]
    Runners(runners::Args),
    /// The schedulers of the cluster, newest first.
    #[command(visible_alias = "scheduler")]
    Schedulers(schedulers::Args),
    /// Schedules by their next fire, and which of them are late.
    #[command(visible_alias = "schedule")]
    Schedules(schedules::Args),
    /// The versions of a job config, newest first.
    #[command(visible_alias = "version")]
    Versions(versions::Args),
}

/// Reads and prints.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    match args.kind {
        Kind::Backfills(args) => backfills::run(context, args).await,
        Kind::Callbacks(args) => callbacks::run(context, args).await,
        Kind::Configs(args) => configs::run(context, args).await,
        Kind::Audit(args) => audit::run(context, args).await,
        Kind::Fires(args) => fires::run(context, args).await,
        Kind::Jobs(args) => jobs::run(context, args).await,
        Kind::Tasks(args) => tasks::run(context, args).await,
        Kind::Runners(args) => runners::run(context, args).await,
        Kind::Schedulers(args) => schedulers::run(context, args).await,
        Kind::Schedules(args) => schedules::run(context, args).await,
        Kind::Versions(args) => versions::run(context, args).await,
    }?;
    Ok(Exit::Ok)
}

/// How much of a list is wanted.
#[derive(Debug, Clone, clap::Args)]
pub struct Paging {
    /// At most so many.
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Go on where another page ended.
    #[arg(long, default_value = "", value_name = "TOKEN", hide_default_value = true)]
    page: String,
}

impl Paging {
    /// Reads pages until there are enough, or no more, into one answer with the token of what comes next. `read` is
    /// given a size and a token.
    pub async fn read<P: Page>(&self, mut read: impl AsyncFnMut(u32, String) -> Result<P, Error>) -> Result<P, Error> {
        let mut all = P::default();
        let mut left = self.limit;
        let mut token = self.page.clone();
        loop {
            let page = read(left.min(PAGE_MAX), token).await?;
            left = left.saturating_sub(u32::try_from(page.count()).unwrap_or(u32::MAX));
            token = String::from(page.token());
            all.append(page);
            // A page may be short without being the last one.
            if token.is_empty() || left == 0 {
                return Ok(all);
            }
        }
    }
}

/// An answer that holds a part of a list.
pub trait Page: Default {
    /// How many are in it.
    fn count(&self) -> usize;
    /// Where the next one begins; empty when this is the last.
    fn token(&self) -> &str;
    /// Takes in the page that comes after this one.
    fn append(&mut self, next: Self);
}

macro_rules! pages {
    ($($response:ident: $items:ident;)*) => {
        $(
            impl Page for baton::v1::$response {
                fn count(&self) -> usize {
                    self.$items.len()
                }

                fn token(&self) -> &str {
                    &self.next_page_token
                }

                fn append(&mut self, mut next: Self) {
                    self.$items.append(&mut next.$items);
                    self.next_page_token = next.next_page_token;
                }
            }
        )*
    };
}

pages! {
    ListCallbacksResponse: callbacks;
    ListResponse: job_configs;
    ListAuditEventsResponse: events;
    ListFiresResponse: fires;
    ListJobsResponse: jobs;
    ListSchedulesResponse: schedules;
    ListBackfillsResponse: backfills;
    ListCalendarsResponse: calendars;
    ListTasksResponse: tasks;
    ListRunnersResponse: runners;
    ListSchedulersResponse: schedulers;
    ListVersionsResponse: versions;
}

/// Says how to get what comes after a page: the same command with its token.
pub fn note_next_page(output: Output, token: &str) {
    if token.is_empty() || output.is_data() {
        return;
    }
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(place) = words.iter().position(|word| word == "--page") {
        words.drain(place..(place + 2).min(words.len()));
    }
    words.retain(|word| !word.starts_with("--page="));
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    output.note(&format!("there is more: baton {} --page {}", words.join(" "), quoted(token)));
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The pairs of `-l`.
fn labels(pairs: &[(String, String)]) -> HashMap<String, String> {
    pairs.iter().cloned().collect()
}

/// `-l key=value`, any number of times or with commas.
#[derive(Debug, Clone, clap::Args)]
struct Labels {
    /// Only those with this label; may be repeated.
    #[arg(short, long = "label", value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',')]
    labels: Vec<(String, String)>,
}

/// Short on a table for people, whole for everyone else.
fn id(output: Output, id: &str) -> Span {
    if output.is_wide() || output.is_tsv() { id.into() } else { short_id(id).into() }
}

/// The text, or "-" when there is none: an empty cell makes columns slip for `cut` and `awk`.
fn or_dash(text: &str) -> Span {
    if text.is_empty() { "-".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use baton::v1::{Job, ListJobsResponse};

    use super::*;

    #[test]
    fn the_next_page_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("orders-etl"), "orders-etl");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[tokio::test]
    async fn a_limit_beyond_one_page_reads_several() {
        let paging = Paging { limit: 2_500, page: String::new() };
        let mut asked = Vec::new();
        let all: ListJobsResponse = paging
            .read(async |size, token| {
                asked.push((size, token));
                Ok(ListJobsResponse { jobs: vec![Job::default(); size as usize], next_page_token: "more".into() })
            })
            .await
            .unwrap();
        assert_eq!(asked, [(1_000, String::new()), (1_000, "more".into()), (500, "more".into())]);
        assert_eq!((all.jobs.len(), all.next_page_token.as_str()), (2_500, "more"));
    }
}
