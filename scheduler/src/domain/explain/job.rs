//! Why a job is as it is: which of its tasks everything waits for, or which made it fail.

use std::collections::BTreeMap;

use super::{Check, Explanation, Standing, counted, some, spell};
use crate::domain::{
    job::{JobState, Places},
    task::TaskState,
    time::Timestamp,
};

/// What is known of a job when it is explained.
#[derive(Debug, Clone)]
pub struct JobFacts<'a> {
    /// The time of the answer.
    pub now: Timestamp,
    /// Its short id.
    pub id: &'a str,
    /// The name of its job config.
    pub name: &'a str,
    /// Its state.
    pub state: JobState,
    /// Why.
    pub reason: &'a str,
    /// What it waits for before its tasks are written, if it does.
    pub waits: Option<Waits>,
    /// A task with `on_failure: stop` failed.
    pub stopping: bool,
    /// Since when it is in its state, if that is known.
    pub since: Option<Timestamp>,
    /// When it runs out of time.
    pub deadline: Option<Timestamp>,
    /// How many nodes its graph has.
    pub tasks_total: u32,
    /// Its tasks by state, without shards.
    pub states: BTreeMap<TaskState, u32>,
    /// How many failed in a way that counts.
    pub tasks_failed: u32,
    /// The first few tasks that everything waits for: those that are neither CREATED nor ended.
    pub ahead: Vec<&'a str>,
    /// The first few tasks that failed or were terminated.
    pub failed: Vec<&'a str>,
}

/// A job that another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// Its short id.
    pub id: String,
    /// It is over but for an attempt that may go on somewhere: its runner is lost.
    pub outlived: bool,
}

impl Before {
    fn words(&self) -> String {
        let Self { id, outlived } = self;
        if *outlived { format!("{id} (over, but a lost attempt of it may go on)") } else { id.clone() }
    }
}

/// What a job waits for before its tasks are written.
#[derive(Debug, Clone)]
pub enum Waits {
    /// For the end of the jobs of its config before it: `overlap` says so.
    Turn {
        /// The first few that live.
        live: Vec<Before>,
    },
    /// For one of the places of its config: `max_active_jobs` says so.
    Place {
        /// How they stand.
        places: Places,
        /// How many wait before it.
        before: u32,
        /// The first few that have one.
        live: Vec<Before>,
    },
}

/// The check that holds a job which waits, the end of the sentence, and what would free it.
fn waiting(facts: &JobFacts<'_>) -> Option<(Check, String, Vec<String>)> {
    let waits = facts.waits.as_ref()?;
    let (Waits::Turn { live } | Waits::Place { live, .. }) = waits;
    let words: Vec<String> = live.iter().map(Before::words).collect();
    let (name, detail, because) = match waits {
        Waits::Turn { .. } => {
            let because = format!("it waits until the jobs before it are over: {}", some(&words));
            ("overlap", because.clone(), because)
        }
        Waits::Place { places, before, .. } if places.free() > *before => {
            let detail = "there is a place for it".to_owned();
            ("max_active_jobs", detail, "there is a place, and it is about to begin".to_owned())
        }
        Waits::Place { places, before, .. } => {
            let max = places.max.unwrap_or(u32::MAX);
            let detail = format!("{} of at most {max} run, {} before it: {}", places.active, before, some(&words));
            let because =
                format!("at most {} of its config may run at once ({})", counted(max as usize, "job"), some(&words));
            ("max_active_jobs", detail, because)
        }
    };
    let mut fixes = vec!["nothing: it begins when one of them ends".to_owned()];
    fixes.extend(live.first().map(|job| format!("baton explain {}", job.id)));
    if let Some(Before { id, .. }) = live.iter().find(|job| job.outlived) {
        fixes.push(format!("or, if nothing is left of the attempt of {id},  baton mark {id}/TASK gone"));
    }
    if name == "max_active_jobs" {
        fixes.push("or raise max_active_jobs and apply: the newest version decides".to_owned());
    }
    Some((Check { name, standing: Standing::Holds, detail }, because, fixes))
}

/// Explains a job.
pub fn explain_job(facts: &JobFacts<'_>) -> Explanation {
    let count = |wanted: fn(TaskState) -> bool| -> u32 {
        facts.states.iter().filter(|(state, _)| wanted(**state)).map(|(_, count)| count).sum()
    };
    let written: u32 = facts.states.values().sum();
    let ended = count(TaskState::is_terminal);
    let check = |name, standing, detail| Check { name, standing, detail };

    let writing = facts.state == JobState::Created;
    let waiting = waiting(facts).filter(|_| writing);
    let mut checks: Vec<Check> = waiting.iter().map(|(check, ..)| check.clone()).collect();
    checks.push(check(
        "expansion",
        match (writing, &waiting) {
            (_, Some(_)) => Standing::NotReached,
            (true, None) => Standing::Holds,
            (false, None) => Standing::Passed,
        },
        format!("{written} of {} written", counted(facts.tasks_total as usize, "task")),
    ));
    let live = matches!(facts.state, JobState::Running | JobState::Terminating);
    let counts: Vec<String> = facts.states.iter().map(|(state, count)| format!("{count} {}", state.word())).collect();
    checks.push(check(
        "tasks",
        match (writing, live) {
            (true, _) => Standing::NotReached,
            (_, true) => Standing::Holds,
            _ => Standing::Passed,
        },
        format!("{ended} of {} ended: {}", facts.tasks_total, counts.join(", ")),
    ));
    let failing = facts.state == JobState::Failed || facts.state == JobState::Terminated;
    checks.push(check(
        "failures",
        if failing { Standing::Holds } else { Standing::Passed },
        match (facts.tasks_failed, facts.stopping) {
            (0, _) => "none that counts".to_owned(),
            (failed, false) => format!("{} failed in a way that counts", counted(failed as usize, "task")),
            (failed, true) => format!("{} failed, and one of them stops the job", counted(failed as usize, "task")),
        },
    ));
    checks.push(match facts.deadline.filter(|_| live) {
        Some(deadline) => {
            check("timeout", Standing::Passed, format!("runs out of time in {}", spell(deadline.since(facts.now))))
        }
        None => check("timeout", Standing::NotReached, "none".to_owned()),
    });

    let span = facts.since.map_or_else(String::new, |since| format!(" for {}", spell(facts.now.since(since))));
    let state = facts.state.word();
    let (id, name) = (facts.id, facts.name);
    let summary = match facts.state {
        JobState::Created => match &waiting {
            Some((_, because, _)) => format!("{name} is {state}{span}: {because}"),
            None => format!("{name} is {state}{span}: its tasks are still being written"),
        },
        JobState::Running | JobState::Terminating => {
            let given = count(TaskState::holds_slot);
            let queued = count(|state| state == TaskState::Queued);
            let total = counted(facts.tasks_total as usize, "task");
            let long = if facts.reason.is_empty() { String::new() } else { format!("; {}", facts.reason) };
            format!("{name} is {state}{span}: {ended} of {total} ended, {given} with runners, {queued} queued{long}")
        }
        _ if facts.reason.is_empty() => format!("{name} is {state}"),
        _ => format!("{name} is {state}: {}", facts.reason),
    };
    if let Some((_, _, fixes)) = waiting {
        return Explanation { summary, checks, fixes };
    }
    let named = if live { &facts.ahead } else { &facts.failed };
    let fixes = named.iter().map(|task| format!("baton explain {id}/{task}")).collect();
    Explanation { summary, checks, fixes }
}
