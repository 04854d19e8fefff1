//! The checks that look at runners: who may take the task, who is there, who has room.

use std::fmt::Write as _;

use uuid::Uuid;

use super::{
    Facts, Verdict, are, counted,
    placing::{having, reasons},
    some, spell,
};
use crate::domain::{
    placement::{Ask, Class, Traits},
    runner::{RunnerState, Signs},
    scheduler::SchedulerState,
    task::{Kind, TaskState},
    time::Timestamp,
    timing::Timing,
};

/// What is known of a runner.
#[derive(Debug, Clone)]
pub struct RunnerFacts {
    /// What it has.
    pub traits: Traits,
    /// Its slots.
    pub slots: u32,
    /// How many of them hold a task.
    pub slots_busy: u32,
    /// What is known of its life.
    pub signs: Signs,
    /// Whether an operator drained it, who alone can let it work again.
    pub drained: bool,
    /// Why it drains.
    pub drain_reason: String,
    /// The scheduler that holds its stream.
    pub scheduler: Option<SchedulerFacts>,
}

/// What is known of a scheduler.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerFacts {
    /// Its id.
    pub id: Uuid,
    /// What it does.
    pub state: SchedulerState,
}

impl RunnerFacts {
    fn state(&self, now: Timestamp, timing: &Timing) -> RunnerState {
        RunnerState::of(self.signs, now, timing.silent_after())
    }

    fn suits(&self, class: &Class) -> bool {
        class.suits(&self.traits)
    }
}

/// The runners that may take the task, if it is queued.
fn suitable<'a>(facts: &'a Facts<'_>) -> Option<Vec<&'a RunnerFacts>> {
    let class = &facts.queue.as_ref()?.class;
    Some(facts.runners.iter().filter(|runner| runner.suits(class)).collect())
}

/// What a task that is not in the queue says of the checks in it: it never comes there, has not yet, or is past them.
pub(super) fn not_queued(facts: &Facts<'_>) -> Verdict {
    match facts.task.state {
        TaskState::Created if facts.task.kind != Kind::Group => Verdict::not_asked("not reached"),
        _ => Verdict::Foreign,
    }
}

/// A verdict that is of interest only as long as the task is on its way to a runner.
pub(super) fn not_queued_or(facts: &Facts<'_>, verdict: Verdict) -> Verdict {
    if facts.queue.is_some() { verdict } else { not_queued(facts) }
}

pub(super) fn capability(facts: &Facts<'_>) -> Verdict {
    let Some(queue) = &facts.queue else { return not_queued(facts) };
    let class = &queue.class;
    let (_, able) = having(facts, class, Ask::Capability);
    let known = counted(facts.runners.len(), "runner");
    if able > 0 {
        return Verdict::passed(format!("{able} of {known} can run {:?} targets", class.capability));
    }
    if facts.runners.is_empty() {
        let fixes = vec!["baton-runner --scheduler ADDRESS starts one".to_owned()];
        return Verdict::holds("no runner has ever connected", "there is no runner", fixes);
    }
    let detail = format!("none of {known} can run {:?} targets", class.capability);
    let because = format!("no runner can run {:?} targets", class.capability);
    Verdict::holds(detail, because, vec!["start a runner that can, or a newer one".to_owned()])
}

pub(super) fn pin(facts: &Facts<'_>) -> Verdict {
    let Some(queue) = &facts.queue else { return not_queued(facts) };
    let Some(pin) = &queue.class.pin else { return Verdict::not_asked("any runner that suits may take it") };
    if having(facts, &queue.class, Ask::Pin).1 > 0 {
        return Verdict::passed(format!("only {pin} may take it"));
    }
    let because = format!("only runner {pin} may take it, and it is not there");
    Verdict::holds(because.clone(), because, vec![format!("start runner {pin} again: baton-runner --id {pin}")])
}

pub(super) fn labels(facts: &Facts<'_>) -> Verdict {
    let Some(queue) = &facts.queue else { return not_queued(facts) };
    let selector = &queue.class.selector;
    if selector.labels().is_empty() {
        return Verdict::not_asked("it asks for none");
    }
    let (able, fitting) = having(facts, &queue.class, Ask::Labels);
    let known = counted(able.len(), "runner");
    if fitting > 0 {
        return Verdict::passed(format!(
            "{selector}, which {fitting} of {known} {}",
            if fitting == 1 { "has" } else { "have" }
        ));
    }
    let detail = format!("needs {selector}; none of {known} has it ({})", reasons(&able, &queue.class));
    let mut start = "start a runner with  baton-runner".to_owned();
    for (key, value) in selector.labels() {
        let _ = write!(start, " --label {key}={value}");
    }
    let fixes = vec![start, format!("or change {}", facts.path("runner.match_labels"))];
    Verdict::holds(detail, format!("no runner has {selector}"), fixes)
}

/// Whether a runner that may take it is there and takes new work.
pub(super) fn ready(facts: &Facts<'_>) -> Verdict {
    let Some(suitable) = suitable(facts) else { return not_queued(facts) };
    let mut away = Vec::new();
    let mut fixes = Vec::new();
    let mut online = 0_usize;
    for runner in &suitable {
        let id = &runner.traits.id;
        let (word, fix) = match runner.state(facts.now, &facts.timing) {
            RunnerState::Online => {
                online += 1;
                continue;
            }
            RunnerState::Draining if runner.drained => {
                let reason = if runner.drain_reason.is_empty() { "" } else { " for: " };
                (format!("drained{reason}{}", runner.drain_reason), format!("baton resume {id}"))
            }
            RunnerState::Draining => ("draining".to_owned(), format!("start runner {id} again once it has ended")),
            RunnerState::Silent => {
                let silence = spell(facts.now.since(runner.signs.last_seen_at));
                (format!("silent for {silence}"), format!("look at the machine of runner {id}"))
            }
            RunnerState::Offline => ("offline".to_owned(), format!("start runner {id} again")),
        };
        away.push(format!("{id} is {word}"));
        fixes.push(fix);
    }
    if online > 0 {
        return Verdict::passed(format!("{online} of {} online", counted(suitable.len(), "suitable runner")));
    }
    fixes.dedup();
    fixes.truncate(super::NAMED_MAX);
    let detail = format!("none of {} takes new work: {}", counted(suitable.len(), "suitable runner"), some(&away));
    Verdict::holds(detail, format!("no runner that may take it takes new work: {}", some(&away)), fixes)
}

fn online<'a>(facts: &'a Facts<'_>) -> Option<Vec<&'a RunnerFacts>> {
    let suitable = suitable(facts)?;
    let online = |runner: &&RunnerFacts| runner.state(facts.now, &facts.timing) == RunnerState::Online;
    Some(suitable.into_iter().filter(online).collect())
}

/// Whether the schedulers of the runners that are there give out work.
pub(super) fn schedulers(facts: &Facts<'_>) -> Verdict {
    let Some(online) = online(facts) else { return not_queued(facts) };
    let drained: Vec<Uuid> = online
        .iter()
        .filter_map(|runner| runner.scheduler)
        .filter(|scheduler| scheduler.state == SchedulerState::Drained)
        .map(|scheduler| scheduler.id)
        .collect();
    if drained.len() < online.len() || online.is_empty() {
        return Verdict::passed("give out work");
    }
    let mut fixes: Vec<String> = drained.iter().map(|id| format!("baton resume --scheduler {id}")).collect();
    fixes.sort();
    fixes.dedup();
    fixes.truncate(super::NAMED_MAX);
    let because = "the scheduler of every runner that may take it is drained";
    Verdict::holds(because, because, fixes)
}

/// Whether a runner that may take it now has room.
pub(super) fn slots(facts: &Facts<'_>) -> Verdict {
    let Some(online) = online(facts) else { return not_queued(facts) };
    let working: Vec<&RunnerFacts> = online
        .into_iter()
        .filter(|runner| runner.scheduler.is_none_or(|scheduler| scheduler.state != SchedulerState::Drained))
        .collect();
    let slots: u32 = working.iter().map(|runner| runner.slots).sum();
    let busy: u32 = working.iter().map(|runner| runner.slots_busy.min(runner.slots)).sum();
    if busy < slots {
        return Verdict::passed(format!("{} of {slots} idle", slots - busy));
    }
    let ids: Vec<&str> = working.iter().map(|runner| runner.traits.id.as_str()).collect();
    let detail = format!("all {slots} of {} are busy", some(&ids));
    let mut because = format!("every slot of the runners that may take it is busy ({})", some(&ids));
    if let Some(ahead) = facts.queue.as_ref().map(|queue| queue.ahead).filter(|ahead| *ahead > 0) {
        let _ = write!(because, ", and {} {} before it", counted(ahead as usize, "task"), are(ahead));
    }
    let fixes = vec![
        "nothing: it starts when a slot becomes idle".to_owned(),
        "baton get tasks --state running shows who has them".to_owned(),
        "or start another runner, or one with more --slots".to_owned(),
    ];
    Verdict::holds(detail, because, fixes)
}

/// Why a task that is to be ended has not ended yet.
pub(super) fn ending(facts: &Facts<'_>) -> Verdict {
    let id = facts.task.runner.unwrap_or_default();
    let reason = facts.task.reason;
    let Some(runner) = facts.runners.iter().find(|runner| runner.traits.id == id) else {
        let detail = format!("its end is waited for ({reason})");
        return Verdict::holds(detail.clone(), detail, Vec::new());
    };
    debug_assert_eq!(facts.task.state, TaskState::Terminating);
    let state = runner.state(facts.now, &facts.timing);
    if matches!(state, RunnerState::Online | RunnerState::Draining) {
        let detail = format!("runner {id} has not reported yet that all its processes are gone ({reason})");
        let fixes = vec![
            format!("nothing: processes that do not end by themselves are killed after {}", spell(facts.timing.grace)),
            format!("baton describe runner {id}"),
        ];
        return Verdict::holds(detail, format!("runner {id} is ending its processes"), fixes);
    }
    let silence = facts.now.since(runner.signs.last_seen_at);
    let left = facts.timing.lost_after.saturating_sub(silence);
    let detail = format!("runner {id} is silent for {} ({reason})", spell(silence));
    let fixes = vec![
        format!("nothing: it counts as ended once its runner is lost, in {}", spell(left)),
        format!("or bring runner {id} back"),
    ];
    Verdict::holds(detail.clone(), detail, fixes)
}
