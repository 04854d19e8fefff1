//! `baton errors`: what the stable reasons of errors mean, and what to do about them.

use serde_json::{Value, json};

use crate::{
    context::Context,
    errors::{Error, Exit},
    output::table::Table,
};

/// What `errors` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton errors
  baton errors AMBIGUOUS_ID")]
pub struct Args {
    /// The reason, as an error named it; all of them when not given.
    #[arg(value_name = "REASON")]
    reason: Option<String>,
}

/// A reason with what it means and what to do.
#[derive(Debug)]
struct Entry {
    reason: &'static str,
    code: &'static str,
    meaning: &'static str,
    action: &'static str,
}

macro_rules! entries {
    ($($reason:ident ($code:ident) $meaning:literal => $action:literal;)*) => {
        &[$(Entry { reason: stringify!($reason), code: stringify!($code), meaning: $meaning, action: $action },)*]
    };
}

/// Sorted by reason. What is not here yet is explained by its message.
const ENTRIES: &[Entry] = entries! {
    AMBIGUOUS_ID (INVALID_ARGUMENT) "the part of an id that was given fits several things, which the message lists"
        => "give more digits of the one that is meant, or all of them";
    ATTEMPT_OVER (FAILED_PRECONDITION) "the attempt that a token belongs to is over: timed out, terminated, lost or followed by another"
        => "nothing: its task went on without it; see `baton describe task JOB/TASK`";
    BACKFILL_ENDED (FAILED_PRECONDITION) "the backfill has ended, and what was asked for needs one that has not"
        => "see how far it came: `baton get backfill ID`";
    BACKFILL_NOT_FOUND (NOT_FOUND) "no backfill has this id"
        => "see `baton get backfills`";
    BUSY (RESOURCE_EXHAUSTED) "more waits for the scheduler than it takes in"
        => "try again in a moment; when it goes on, add a scheduler or send less at once";
    CALENDAR_IN_USE (FAILED_PRECONDITION) "schedules name the calendar that was to be deleted; the message says which"
        => "take it out of their `calendars` and apply them, then delete it";
    CALENDAR_NOT_FOUND (NOT_FOUND) "no calendar of this name is in the namespace"
        => "see `baton calendar get`; another namespace is named with -n";
    CALLBACK_NOT_FOUND (NOT_FOUND) "no callback has this id"
        => "see `baton get callbacks`; callbacks are removed together with their job";
    CALLBACK_NOT_RESENT (FAILED_PRECONDITION) "the callback is being tried right now, or started a job already"
        => "see how it stands: `baton get callbacks --id ID`; a job is started again with `baton run CONFIG`";
    CONTENDED (ABORTED) "other changes of the same rows were in the way"
        => "try again: nothing was changed";
    EXPIRED (NOT_FOUND) "it was there, and is not kept any more, or not all of it"
        => "make a new job: `baton run CONFIG`";
    GATE_CLOSED (FAILED_PRECONDITION) "run again, the task would only be skipped: a parent's end keeps its gate closed"
        => "run that parent again, or mark it finished";
    GROUP_SKIPPED (FAILED_PRECONDITION) "the sharded task was skipped as a whole, so a shard of it cannot be run again"
        => "run all of it again: `baton rerun JOB/TASK`";
    INTERNAL (INTERNAL) "a fault of the scheduler"
        => "find the mark that the message names in the scheduler's log, and report it";
    INVALID_REQUEST (INVALID_ARGUMENT) "fields of the request are wrong; each of them is named"
        => "correct what is named; `baton validate -f FILE` checks a job file without a scheduler";
    JOB_CONFIG_NOT_FOUND (NOT_FOUND) "no job config of this name is in the namespace"
        => "see `baton get configs`; another namespace is named with -n";
    JOB_ENDED (FAILED_PRECONDITION) "the job has ended, and what was asked for needs one that has not"
        => "see how it ended: `baton describe job JOB`; start a new one: `baton run CONFIG`";
    JOB_ENDING (FAILED_PRECONDITION) "the job is being terminated"
        => "wait until it is TERMINATED: `baton watch JOB`";
    JOB_NEVER_STARTED (FAILED_PRECONDITION) "the job ended before any task of it started, so nothing can be run again"
        => "make a new one: `baton run CONFIG`";
    JOB_NOT_FOUND (NOT_FOUND) "no job has this id"
        => "see `baton get jobs`; an id may be given by at least 4 digits of its beginning or end";
    JOB_NOT_STARTED (FAILED_PRECONDITION) "the tasks of the job are still being written"
        => "try again in a moment";
    JOB_STOPPED (FAILED_PRECONDITION) "the failure of another task stopped the job, and it still stands"
        => "run that task again, or everything that failed: `baton rerun JOB`";
    NOTHING_FAILED (FAILED_PRECONDITION) "no task of the job failed or was cut short"
        => "name the task that is to run again: `baton rerun JOB/TASK`";
    NOTHING_TO_MARK (FAILED_PRECONDITION) "the task is already what it was to be marked"
        => "see it: `baton describe task JOB/TASK`";
    NOT_PROVEN_GONE (FAILED_PRECONDITION) "an earlier attempt may still run: its runner was lost, its end never proven"
        => "make sure that it is gone and say so: `baton mark JOB/TASK gone --reason TEXT`; or rerun with --force";
    REQUEST_ID_REUSED (ALREADY_EXISTS) "another request came under the same request id within 24 h"
        => "leave --request-id out, or give each request an id of its own";
    RUNNER_NOT_FOUND (NOT_FOUND) "no runner of this name has ever said hello"
        => "see `baton get runners`";
    SCHEDULER_NOT_FOUND (NOT_FOUND) "no scheduler has this id"
        => "see `baton get schedulers`; each start of a scheduler has a new id";
    TASK_DISABLED (FAILED_PRECONDITION) "the task is disabled in the version that the job runs"
        => "apply a version that enables it, and run that: `baton run CONFIG`";
    TASK_ENDED (FAILED_PRECONDITION) "the task has ended, and what was asked for needs one that has not"
        => "see how it ended: `baton explain JOB/TASK`";
    TASK_LIVE (FAILED_PRECONDITION) "the task is under way, and what was asked for needs one that has ended"
        => "terminate it first: `baton terminate JOB/TASK`";
    TASK_NOT_FOUND (NOT_FOUND) "the job has no task of this name, or the task no shard of this number"
        => "see `baton get tasks JOB`";
    TASK_NOT_WAITING (FAILED_PRECONDITION) "only a task that waits can be skipped"
        => "change how it ended: `baton mark JOB/TASK skipped --reason TEXT`";
    TOKEN_NOT_FOUND (NOT_FOUND) "nobody was given this token"
        => "it is the last part of the callback url, whole, and good at the cluster that gave it";
    TOKEN_USED (FAILED_PRECONDITION) "the token completed its task before"
        => "nothing: it is good once; see how the task ended: `baton get jobs`";
    UNAVAILABLE (UNAVAILABLE) "the database is away, or the scheduler is about to stop"
        => "try again in a moment, or ask another scheduler of the cluster with --address";
    VERSION_NOT_FOUND (NOT_FOUND) "the job config has no such version"
        => "see `baton get versions CONFIG`";
};

/// Whether `baton errors` has something to say about a reason.
pub fn known(reason: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.reason == reason)
}

/// Explains one reason, or lists all.
pub fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let output = context.output;
    let Some(reason) = &args.reason else {
        if output.is_data() {
            let all: Vec<_> = ENTRIES.iter().map(Entry::to_json).collect();
            output.value(&json!({ "errors": all }))?;
        } else {
            list().print(output)?;
        }
        return Ok(Exit::Ok);
    };
    let wanted = reason.to_uppercase().replace('-', "_");
    let Some(entry) = ENTRIES.iter().find(|entry| entry.reason == wanted) else {
        return Err(Error::with_next(
            format!("no error has the reason \"{reason}\""),
            "`baton errors` lists them; a newer scheduler may have more, and its message says what each is about",
        ));
    };
    if output.is_data() {
        output.value(&entry.to_json())?;
    } else if output.is_name() {
        output.line(entry.reason)?;
    } else {
        output.line(&format!("{} ({})\n  {}\nnext: {}", entry.reason, entry.code, entry.meaning, entry.action))?;
    }
    Ok(Exit::Ok)
}

fn list() -> Table {
    let mut table = Table::new(&["REASON", "CODE", "MEANING"]);
    for entry in ENTRIES {
        table.row(entry.reason, vec![entry.reason.into(), entry.code.into(), entry.meaning.into()]);
    }
    table
}

impl Entry {
    fn to_json(&self) -> Value {
        json!({"reason": self.reason, "code": self.code, "meaning": self.meaning, "action": self.action})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_order_and_each_says_what_to_do() {
        assert!(ENTRIES.is_sorted_by_key(|entry| entry.reason));
        assert!(ENTRIES.iter().all(|entry| !entry.action.is_empty() && !entry.meaning.ends_with('.')));
        assert!(known("AMBIGUOUS_ID") && !known("NONSENSE"));
    }
}
