//! Why a task is as it is: the checks it passes on its way, in order, decided by the functions that make it wait.

use std::{collections::BTreeMap, time::Duration};

use super::{
    definition::{TaskConfig, TriggerRule, span},
    gate::{Gate, Parents},
    job::JobState,
    pick::Class,
    runner::RunnerState,
    task::{Kind, TaskState},
    time::Timestamp,
};

/// How many names an explanation lists before it says how many more there are.
pub const NAMES_MAX: usize = 5;

/// What an explanation is made from.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The task's name, with its shard.
    pub name: &'a str,
    /// What it stands for.
    pub kind: Kind,
    /// Its state.
    pub state: TaskState,
    /// Why, as recorded.
    pub reason: &'a str,
    /// Its definition, defaults filled in.
    pub config: &'a TaskConfig,
    /// The state of its job.
    pub job: JobState,
    /// Whether its job has been stopped by a failure.
    pub stopping: bool,
    /// How its parents ended.
    pub parents: Parents,
    /// Some parents that have not ended, with their states.
    pub unfinished: &'a [(String, TaskState)],
    /// No dispatch before this.
    pub not_before: Option<Timestamp>,
    /// When it came into its state, as far as is known.
    pub since: Option<Timestamp>,
    /// The runner it was last given to.
    pub runner: Option<&'a str>,
    /// What a runner must have to take it.
    pub class: Option<Class>,
    /// Its shards by state, if it is a group.
    pub shards: &'a BTreeMap<TaskState, u32>,
    /// The runners that there are.
    pub runners: &'a [Runner],
    /// The time.
    pub now: Timestamp,
}

/// A runner, as far as an explanation needs it.
#[derive(Debug, Clone)]
pub struct Runner {
    /// Its id.
    pub id: String,
    /// Whether it can be given work.
    pub state: RunnerState,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it can run.
    pub capabilities: Vec<String>,
    /// How many slots it has.
    pub slots: u32,
    /// How many of them are busy.
    pub busy: u32,
}

/// How one check stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds nothing up.
    Passed,
    /// This is what holds the task.
    Holds,
    /// Not reached or not asked for.
    NotApplicable,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// The facts in a sentence.
    pub detail: String,
}

/// Why a task is as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The answer in a sentence.
    pub summary: String,
    /// The checks in order.
    pub checks: Vec<Check>,
    /// What would free it, or what to look at.
    pub fixes: Vec<String>,
}

/// Explains a task.
pub fn explain(facts: &Facts<'_>) -> Explanation {
    let mut fixes = Vec::new();
    let mut checks = vec![job(facts), parents(facts), condition(facts)];
    if facts.kind != Kind::Task {
        checks.push(shards(facts));
    }
    if facts.kind != Kind::Group {
        checks.extend([delay(facts), runner_labels(facts, &mut fixes), slots(facts, &mut fixes)]);
    }
    let held = checks.iter().find(|check| check.standing == Standing::Holds);
    let state = facts.state.word();
    let since = facts.since.map(|since| format!(" for {}", rounded(facts.now.since(since)))).unwrap_or_default();
    let what = match (held, facts.state) {
        _ if facts.state.is_terminal() && !facts.reason.is_empty() => format!(": {}", facts.reason),
        (_, state) if state.is_terminal() => String::new(),
        (Some(check), _) => format!("{since}: {}", check.detail),
        (None, TaskState::Queued) => format!("{since}: it is about to be given to a runner"),
        (None, _) => match facts.runner {
            Some(runner) if facts.state.holds_slot() => format!("{since} on {runner}"),
            _ => since,
        },
    };
    if matches!(facts.state, TaskState::Failed | TaskState::Terminated) && facts.runner.is_some() {
        fixes.push("look at what it said: baton logs JOB/TASK".to_owned());
    }
    Explanation { summary: format!("{} is {state}{what}", facts.name), checks, fixes }
}

fn check(name: &'static str, standing: Standing, detail: impl Into<String>) -> Check {
    Check { name, standing, detail: detail.into() }
}

fn job(facts: &Facts<'_>) -> Check {
    const NAME: &str = "job";
    let waits = matches!(facts.state, TaskState::Created | TaskState::Queued);
    match facts.job {
        JobState::Created => check(NAME, Standing::Holds, "the job is still being written"),
        JobState::Terminating if waits => check(NAME, Standing::Holds, "the job is being terminated"),
        _ if facts.stopping => {
            check(NAME, Standing::Passed, "the job was stopped by a failure: what has not started will not start")
        }
        state => check(NAME, Standing::Passed, format!("the job is {}", state.word())),
    }
}

fn parents(facts: &Facts<'_>) -> Check {
    const NAME: &str = "parents";
    let parents = facts.parents;
    if parents.total == 0 {
        return check(NAME, Standing::NotApplicable, "it needs no other task");
    }
    let rule = facts.config.trigger_rule.unwrap_or(TriggerRule::AllSuccess);
    let ended = parents.succeeded + parents.failed + parents.skipped;
    let counted = format!(
        "{ended} of {} ended ({} succeeded, {} failed, {} skipped), rule {}",
        parents.total,
        parents.succeeded,
        parents.failed,
        parents.skipped,
        rule.name()
    );
    match parents.gate(rule) {
        Gate::Wait => {
            let waiting = facts.unfinished.iter().map(|(name, state)| format!("{name} ({})", state.word()));
            let waiting = listed(waiting.collect(), (parents.total - ended) as usize);
            check(NAME, Standing::Holds, format!("{counted}; waits for {waiting}"))
        }
        Gate::Open => check(NAME, Standing::Passed, counted),
        Gate::Closed { .. } => check(NAME, Standing::Holds, format!("{counted}: the rule can no longer hold")),
    }
}

fn condition(facts: &Facts<'_>) -> Check {
    const NAME: &str = "condition";
    let when = &facts.config.when;
    match (facts.config.enabled, facts.state) {
        (Some(false), _) => check(NAME, Standing::Holds, "the definition says enabled: false"),
        _ if when.is_empty() => check(NAME, Standing::NotApplicable, "it has none"),
        (_, TaskState::Created) => {
            check(NAME, Standing::NotApplicable, format!("asked once its parents allow it: {when}"))
        }
        (_, TaskState::Skipped | TaskState::Failed) if facts.runner.is_none() => {
            check(NAME, Standing::Holds, format!("{when}: {}", facts.reason))
        }
        _ => check(NAME, Standing::Passed, format!("it held: {when}")),
    }
}

fn shards(facts: &Facts<'_>) -> Check {
    const NAME: &str = "shards";
    let max_parallel = facts.config.shards.as_ref().map_or(0, |shards| shards.max_parallel);
    if facts.kind == Kind::Shard {
        return match facts.state {
            TaskState::Created => check(
                NAME,
                Standing::Holds,
                format!("at most {max_parallel} shards run at once; it waits for its turn"),
            ),
            _ => check(NAME, Standing::Passed, "it had its turn"),
        };
    }
    let counted = facts.shards.iter().map(|(state, count)| format!("{count} {}", state.word())).collect::<Vec<_>>();
    match (counted.is_empty(), facts.state) {
        (true, _) => check(NAME, Standing::NotApplicable, "it has not been split yet"),
        (false, TaskState::Running | TaskState::Terminating) => {
            check(NAME, Standing::Holds, format!("it ends with its shards: {}", counted.join(", ")))
        }
        (false, _) => check(NAME, Standing::Passed, counted.join(", ")),
    }
}

fn delay(facts: &Facts<'_>) -> Check {
    const NAME: &str = "retry delay";
    match facts.not_before.filter(|time| *time > facts.now) {
        Some(time) if facts.state == TaskState::Queued => {
            let left = rounded(time.since(facts.now));
            check(NAME, Standing::Holds, format!("the next attempt starts in {left}"))
        }
        _ => check(NAME, Standing::NotApplicable, "none"),
    }
}

fn runner_labels(facts: &Facts<'_>, fixes: &mut Vec<String>) -> Check {
    const NAME: &str = "runner labels";
    let (Some(class), TaskState::Queued) = (&facts.class, facts.state) else {
        return check(NAME, Standing::NotApplicable, "asked while it is QUEUED");
    };
    let labels: Vec<String> = class.selector.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
    let wanted = if labels.is_empty() { "any runner".to_owned() } else { labels.join(", ") };
    let alive: Vec<&Runner> = facts.runners.iter().filter(|runner| runner.state != RunnerState::Offline).collect();
    let flags = labels.iter().fold(String::new(), |flags, label| format!("{flags} --label {label}"));
    if alive.is_empty() {
        fixes.push(format!("start a runner: baton-runner{flags}"));
        return check(NAME, Standing::Holds, format!("needs {wanted}; no runner is connected"));
    }
    let mut missing = Vec::new();
    let mut suiting = 0;
    for runner in &alive {
        match class.mismatch(&runner.id, &runner.labels, &runner.capabilities) {
            None => suiting += 1,
            Some(why) => missing.push(format!("{}: {why}", runner.id)),
        }
    }
    if suiting > 0 {
        return check(NAME, Standing::Passed, format!("needs {wanted}; {suiting} of {} runners suit", alive.len()));
    }
    fixes.push(format!("start a runner that suits: baton-runner{flags}"));
    fixes.push(format!("or change runner.match_labels of task {:?} and apply the file again", facts.config.name));
    let count = missing.len();
    missing.truncate(NAMES_MAX);
    check(NAME, Standing::Holds, format!("needs {wanted}; no runner suits: {}", listed(missing, count)))
}

fn slots(facts: &Facts<'_>, fixes: &mut Vec<String>) -> Check {
    const NAME: &str = "free slots";
    let (Some(class), TaskState::Queued) = (&facts.class, facts.state) else {
        return check(NAME, Standing::NotApplicable, "asked while it is QUEUED");
    };
    let suiting: Vec<&Runner> = facts
        .runners
        .iter()
        .filter(|runner| runner.state != RunnerState::Offline)
        .filter(|runner| class.suits(&runner.id, &runner.labels, &runner.capabilities))
        .collect();
    if suiting.is_empty() {
        return check(NAME, Standing::NotApplicable, "asked once a runner suits");
    }
    let online: Vec<&Runner> = suiting.iter().copied().filter(|runner| runner.state == RunnerState::Online).collect();
    if online.is_empty() {
        let names = suiting.iter().take(NAMES_MAX).map(|runner| {
            let state = if runner.state == RunnerState::Draining { "draining" } else { "silent" };
            format!("{} is {state}", runner.id)
        });
        if let Some(draining) = suiting.iter().find(|runner| runner.state == RunnerState::Draining) {
            fixes.push(format!("give it work again: baton resume {}", draining.id));
        }
        let names = listed(names.collect(), suiting.len());
        return check(NAME, Standing::Holds, format!("the runners that suit take nothing: {names}"));
    }
    let (total, busy) = online.iter().fold((0, 0), |(slots, busy), runner| (slots + runner.slots, busy + runner.busy));
    if busy >= total {
        fixes.push("start another runner, or one with more --slots".to_owned());
        return check(NAME, Standing::Holds, format!("all {total} slots of {} runners are busy", online.len()));
    }
    check(NAME, Standing::Passed, format!("{} of {total} are free", total - busy))
}

/// Names, and how many more there are.
fn listed(mut names: Vec<String>, count: usize) -> String {
    names.truncate(NAMES_MAX);
    let more = count.saturating_sub(names.len());
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// A span in whole seconds, or less when it is short.
fn rounded(span: Duration) -> String {
    let unit = if span >= Duration::from_secs(1) { Duration::from_secs(1) } else { Duration::from_millis(1) };
    let units = span.as_micros() / unit.as_micros();
    span::format(unit.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(labels: &[(&str, &str)]) -> Class {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let selector = super::super::selector::Selector::new(labels);
        Class { capability: "command".to_owned(), pin: None, selector }
    }

    fn runner(id: &str, labels: &[(&str, &str)], busy: u32) -> Runner {
        Runner {
            id: id.to_owned(),
            state: RunnerState::Online,
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            capabilities: vec!["command".to_owned()],
            slots: 2,
            busy,
        }
    }

    fn queued<'a>(config: &'a TaskConfig, shards: &'a BTreeMap<TaskState, u32>, runners: &'a [Runner]) -> Facts<'a> {
        Facts {
            name: "publish",
            kind: Kind::Task,
            state: TaskState::Queued,
            reason: "",
            config,
            job: JobState::Running,
            stopping: false,
            parents: Parents { total: 2, succeeded: 2, ..Parents::default() },
            unfinished: &[],
            not_before: None,
            since: Some(Timestamp(0)),
            runner: None,
            class: Some(class(&[("pool", "etl")])),
            shards,
            runners,
            now: Timestamp(192_000_000),
        }
    }

    fn holds(explanation: &Explanation) -> Vec<&'static str> {
        let held = explanation.checks.iter().filter(|check| check.standing == Standing::Holds);
        held.map(|check| check.name).collect()
    }

    #[test]
    fn a_queued_task_waits_for_a_runner_that_suits_and_is_free() {
        let (config, none) = (TaskConfig::default(), BTreeMap::new());
        let explanation = explain(&queued(&config, &none, &[]));
        assert_eq!(explanation.summary, "publish is QUEUED for 3m12s: needs pool=etl; no runner is connected");
        assert_eq!(explanation.fixes, ["start a runner: baton-runner --label pool=etl"]);
        let others = [runner("r1", &[("pool", "web")], 0), runner("r2", &[], 0)];
        let explanation = explain(&queued(&config, &none, &others));
        assert_eq!(holds(&explanation), ["runner labels"]);
        assert!(explanation.summary.contains("r1: it lacks pool=etl (it has pool=web)"), "{explanation:?}");
        let busy = [runner("r1", &[("pool", "etl")], 2)];
        let explanation = explain(&queued(&config, &none, &busy));
        assert_eq!(holds(&explanation), ["free slots"]);
        let draining = [Runner { state: RunnerState::Draining, ..runner("r1", &[("pool", "etl")], 0) }];
        let explanation = explain(&queued(&config, &none, &draining));
        assert_eq!(explanation.fixes, ["give it work again: baton resume r1"]);
        let free = [runner("r1", &[("pool", "etl")], 1)];
        let explanation = explain(&queued(&config, &none, &free));
        assert_eq!(holds(&explanation), [""; 0]);
        assert!(explanation.summary.ends_with("it is about to be given to a runner"));
    }

    #[test]
    fn a_created_task_names_the_parents_it_waits_for() {
        let (config, none) = (TaskConfig::default(), BTreeMap::new());
        let unfinished = [("load".to_owned(), TaskState::Running)];
        let facts = Facts {
            state: TaskState::Created,
            parents: Parents { total: 3, succeeded: 1, ..Parents::default() },
            unfinished: &unfinished,
            since: None,
            ..queued(&config, &none, &[])
        };
        let explanation = explain(&facts);
        assert_eq!(holds(&explanation), ["parents"]);
        assert!(explanation.summary.ends_with("waits for load (RUNNING) and 1 more"), "{explanation:?}");
    }

    #[test]
    fn what_has_ended_tells_its_recorded_reason() {
        let (config, none) = (TaskConfig::default(), BTreeMap::new());
        let facts = Facts {
            state: TaskState::Failed,
            reason: "exit code 2",
            runner: Some("r1"),
            ..queued(&config, &none, &[])
        };
        let explanation = explain(&facts);
        assert_eq!(explanation.summary, "publish is FAILED: exit code 2");
        assert_eq!(explanation.fixes.len(), 1);
    }

    #[test]
    fn a_retry_says_when_it_starts() {
        let (config, none) = (TaskConfig::default(), BTreeMap::new());
        let free = [runner("r1", &[("pool", "etl")], 1)];
        let facts = Facts { not_before: Some(Timestamp(202_000_000)), ..queued(&config, &none, &free) };
        assert_eq!(explain(&facts).summary, "publish is QUEUED for 3m12s: the next attempt starts in 10s");
    }
}
