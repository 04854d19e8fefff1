//! How a dispatch comes to its end, whoever finds out: by its result, by the loss of its runner, or because somebody
//! wants it ended. Stations share this; none of them owns it.

use std::collections::HashMap;

use serde_json::Value;
use tracing::warn;
use uuid::Uuid;

use super::work::Work;
use crate::{
    domain::{
        heartbeat::{EndReason, TaskResult},
        job, output,
        placement::{Class, anyone_left},
        policy::{self, Next, Policy, Why},
        task::{self, Circumstances, Counters, Decision, Ending, Event, Kind, TaskState},
    },
    store::{self, Tx, task::TaskRow},
};

/// How many characters of a reason are kept.
pub const REASON_CHARS_MAX: usize = 4_096;

/// Ends a dispatch by its result. Returns why the result was refused, if it was: its attempt fails then.
pub(super) fn finish(work: &mut Work, id: Uuid, result: &TaskResult) -> String {
    let ending = if result.end_reason == EndReason::Reset && !is_late(work, id) {
        // Were its end asked for, it would be TERMINATING, and whatever came would have ended it so.
        Ending::TakenBack
    } else {
        result.ending()
    };
    let parsed = match ending {
        Ending::Success => output::parse(&result.output),
        // What a failed attempt wrote is not data for others.
        _ => Ok(Value::Null),
    };
    match parsed {
        Ok(output) => {
            let reason = match ending {
                Ending::TakenBack => "its runner did not answer in time".to_owned(),
                _ => result.reason(),
            };
            end(work, id, ending, &reason, Some(result));
            let finished = work.ended_well(id);
            work.edit(id).output = if finished && !output.is_null() { output.to_string() } else { String::new() };
            String::new()
        }
        Err(why) => {
            let reason = format!("result refused: {why}");
            end(work, id, Ending::Failure, &reason, Some(result));
            reason
        }
    }
}

/// Whether the time of a task is over, so that it is ended for that.
fn is_late(work: &Work, id: Uuid) -> bool {
    let task = work.task(id).expect("the task is in hand");
    let timeout = work.plan(task.job_id).task(task.node).timeout;
    task.started_at.zip(timeout).is_some_and(|(start, timeout)| start + timeout <= work.now)
}

/// Ends a dispatch: the task ends, or is tried again.
pub(super) fn end(work: &mut Work, id: Uuid, ending: Ending, reason: &str, result: Option<&TaskResult>) {
    let task = work.task(id).expect("the task is in hand");
    let (state, kind, counters, node, job) = (task.state, task.kind, task.counters, task.node, task.job_id);
    if work.is_parked(job) {
        return;
    }
    let plan = work.plan(job);
    let attempts_before = task.attempts_before;
    // A job that stops tries nothing again, but for what cleans up.
    let stopping = work.job(job).is_some_and(|job| job.row.stopping) && !plan.rule(node).outlives_stop();
    let policy = if stopping { Policy::NOTHING } else { plan.policy(node) };
    let exit_code = result.and_then(|result| result.exit_code).filter(|_| ended_by_itself(result));
    let others_left = policy.on_failure.transfers() && others_left(work, id);
    let at = Circumstances {
        now: work.now,
        exit_code,
        chance: policy::chance(id, counters.attempt),
        others_left,
        attempts_before,
    };
    let Some(decision) = task::decide(state, kind, counters, policy, ending, at) else { return };
    if let Some(result) = result {
        let row = work.edit(id);
        row.exit_code = result.exit_code.filter(|_| result.end_reason != EndReason::Reset);
        row.exit_signal = result.signal;
        row.stdout_bytes = i64::try_from(result.stdout_bytes).unwrap_or(i64::MAX);
        row.stderr_bytes = i64::try_from(result.stderr_bytes).unwrap_or(i64::MAX);
    }
    let reason = in_words(work, id, counters, &decision, ending, reason);
    if decision.archives() {
        work.archive(id, &reason);
        move_on(work, id, decision.next);
    }
    let reason = if decision.archives() { format!("attempt {}: {reason}", counters.attempt) } else { reason };
    if decision.counters.tried != counters.tried {
        work.note(id);
    }
    let row = work.edit(id);
    row.counters = decision.counters;
    row.gone = decision.gone;
    work.enter(id, decision.state, reason);
    if decision.state == TaskState::Failed && matches!(ending, Ending::Lost { .. } | Ending::LostUnproven) {
        warn!(task.id = %id, attempt = counters.attempt, gone = decision.gone, "attempt lost");
    }
}

/// Whether a process came to its exit code by itself: what it says then is about the work.
fn ended_by_itself(result: Option<&TaskResult>) -> bool {
    result.is_some_and(|result| result.end_reason == EndReason::Exit)
}

/// Why a task is what it becomes.
fn in_words(work: &Work, id: Uuid, counters: Counters, decision: &Decision, ending: Ending, reason: &str) -> String {
    let reason = cut(reason);
    if decision.poison {
        return format!("poison: its runner died under it {} times", decision.counters.deaths);
    }
    match (decision.state, decision.next) {
        // Why it was ended is said already; how it ended matters only where nobody saw it.
        (TaskState::Terminated, _) => {
            let why = &work.task(id).expect("the task is in hand").reason;
            match ending {
                Ending::Lost { .. } => cut(&format!("{why}; {reason}")),
                Ending::LostUnproven => cut(&format!("{why}; {reason}, end not proven")),
                _ => why.clone(),
            }
        }
        (TaskState::Queued, None) => format!("given back: {reason}"),
        (TaskState::Failed, Some(Next::Nothing(Why::NoneLeft))) => {
            cut(&format!("{reason}; no runner is left to transfer to"))
        }
        (TaskState::Failed, Some(Next::Nothing(Why::ExitCode))) => {
            cut(&format!("{reason}, one of no_retry_exit_codes"))
        }
        (TaskState::Failed, None) if ending == Ending::LostUnproven => {
            cut(&format!("{reason}, end not proven: attempt {} may go on there", counters.attempt))
        }
        _ => reason,
    }
}

/// Whether a runner is there that may take the task, once that which has it is given up.
fn others_left(work: &Work, id: Uuid) -> bool {
    let task = work.task(id).expect("the task is in hand");
    let left = Class::parse(&task.class).and_then(|class| class.give_up(task.runner_id.as_deref().unwrap_or_default()));
    left.is_some_and(|class| anyone_left(&class, &work.present))
}

/// Lets every runner have its turn again, and a warning come again: somebody runs the task once more.
pub(super) fn begin_anew(work: &mut Work, id: Uuid) {
    let task = work.task(id).expect("the task is in hand");
    let Some(class) = Class::parse(&task.class) else { return };
    if !class.was_tried() && task.counters.tried == 0 && task.warned_at.is_none() {
        return;
    }
    let row = work.note(id);
    row.class = class.anew().to_string();
    (row.counters.tried, row.warned_at) = (0, None);
}

/// Where the next attempt may go.
fn move_on(work: &mut Work, id: Uuid, next: Option<Next>) {
    let task = work.task(id).expect("the task is in hand");
    let (Some(runner), Some(class)) = (task.runner_id.clone(), Class::parse(&task.class)) else { return };
    let class = match next {
        Some(Next::Stay(_)) => Some(Class { stay: Some(runner), ..class }),
        Some(Next::Elsewhere) => class.give_up(&runner),
        _ => None,
    };
    if let Some(class) = class {
        work.note(id).class = class.to_string();
    }
}

/// Loses these dispatches. What was to end by itself when cut off has ended by now: its runner or the watchdog did it;
/// anything else may go on [8].
pub(super) fn lose(work: &mut Work, tasks: Vec<TaskRow>, death: bool, reason: &str) {
    let stops: HashMap<Uuid, bool> =
        tasks.iter().map(|task| (task.id, work.plan(task.job_id).stops_when_cut_off(task.node))).collect();
    let ending = |task: &TaskRow| if stops[&task.id] { Ending::Lost { death } } else { Ending::LostUnproven };
    end_all(work, tasks, ending, reason);
}

/// Ends every one of these dispatches.
pub(super) fn end_all(work: &mut Work, tasks: Vec<TaskRow>, ending: impl Fn(&TaskRow) -> Ending, reason: &str) {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.id).collect();
    work.take_tasks(tasks);
    for id in ids {
        let task = work.task(id).expect("the task is in hand");
        if task.state.holds_slot() {
            let ending = ending(task);
            end(work, id, ending, reason, None);
        }
    }
}

/// Cuts a text to what is kept of a reason, on the boundary of a character, and says so.
pub(super) fn cut(reason: &str) -> String {
    match reason.char_indices().nth(REASON_CHARS_MAX) {
        None => reason.to_owned(),
        Some((at, _)) => format!("{}… (cut)", &reason[..at]),
    }
}

/// Ends every task of a job, those that are there to clean up included.
pub(super) async fn terminate_job(
    tx: &Tx,
    work: &mut Work,
    job_id: Uuid,
    reason: &str,
    grace: Option<i64>,
) -> Result<u32, store::Error> {
    let now = work.now;
    work.take_tasks(store::task::lock_live(tx, job_id).await?);
    let job = work.job_mut(job_id).expect("the job is in hand");
    let Some(next) = job.state.after(job::Event::Terminate) else { return Ok(0) };
    job.state = next;
    reason.clone_into(&mut job.reason);
    if next.is_terminal() {
        job.ended_at = Some(now);
        // It waits for nothing any more.
        (job.waiting, job.held) = (false, false);
    }
    let mut concerned: Vec<Uuid> =
        work.tasks().filter(|task| task.job_id == job_id && !task.state.is_terminal()).map(|task| task.id).collect();
    concerned.sort_unstable();
    Ok(terminate_tasks(work, &concerned, reason, grace))
}

/// Ends these tasks. Returns how many it concerned; groups do not count.
pub(super) fn terminate_tasks(work: &mut Work, tasks: &[Uuid], reason: &str, grace: Option<i64>) -> u32 {
    let mut count = 0;
    for id in tasks {
        if work.happen(*id, Event::Terminate, reason) {
            work.edit(*id).end_grace = grace;
            count += u32::from(work.task(*id).is_some_and(|task| task.kind != Kind::Group));
        }
    }
    count
}
