//! The checks that look at what a task asks of a runner beside its labels, and at the key it shares with others.

use super::{Facts, RunnerFacts, Verdict, counted, runners::not_queued, some};
use crate::domain::placement::{Ask, Class};

/// The runners that have everything that is asked before this, and those among them that have this as well.
pub(super) fn having<'a>(facts: &'a Facts<'_>, class: &Class, ask: Ask) -> (Vec<&'a RunnerFacts>, usize) {
    let mut fitting = 0;
    let able = facts.runners.iter().filter(|runner| {
        let fault = class.fault(&runner.traits);
        fitting += usize::from(fault.is_none_or(|first| first > ask));
        fault.is_none_or(|first| first >= ask)
    });
    (able.collect(), fitting)
}

/// Why each of some runners does not suit.
pub(super) fn reasons(runners: &[&RunnerFacts], class: &Class) -> String {
    let reasons: Vec<String> = runners
        .iter()
        .filter_map(|runner| Some(format!("{}: {}", runner.traits.id, class.mismatch(&runner.traits)?.why)))
        .collect();
    some(&reasons)
}

/// Asks one thing of the runners that have everything before it. What is not asked for is not listed.
fn asked(facts: &Facts<'_>, ask: Ask, asks: impl Fn(&Class) -> Option<String>, fixes: &[&str]) -> Verdict {
    let Some(queue) = &facts.queue else { return Verdict::Foreign };
    let class = &queue.class;
    let Some(what) = asks(class) else { return Verdict::Foreign };
    let (able, fitting) = having(facts, class, ask);
    let known = counted(able.len(), "runner");
    if fitting > 0 {
        return Verdict::passed(format!("{what}: {fitting} of {known} suit"));
    }
    let detail = format!("{what}: none of {known} suits ({})", reasons(&able, class));
    let fixes = fixes.iter().map(|fix| fix.replace("tasks[]", &format!("tasks[{}]", facts.node))).collect();
    Verdict::holds(detail, format!("no runner suits: {what}"), fixes)
}

fn list(names: &std::collections::BTreeSet<String>) -> Option<String> {
    let names: Vec<&String> = names.iter().collect();
    (!names.is_empty()).then(|| some(&names))
}

/// Whether one of the runners that the definition names is known.
pub(super) fn named(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| Some(format!("one of {}", list(&class.runners)?));
    asked(facts, Ask::Runners, asks, &["start one of those runners", "or change tasks[].runner.runners"])
}

/// Whether a runner is left that the definition does not exclude.
pub(super) fn excluded(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| Some(format!("not {}", list(&class.excluded)?));
    asked(facts, Ask::Excluded, asks, &["start another runner", "or change tasks[].runner.exclude_runners"])
}

/// Whether a runner is left on which the task has not failed.
pub(super) fn spent(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| Some(format!("not {}, where it failed", list(&class.spent)?));
    asked(facts, Ask::Spent, asks, &["start another runner"])
}

/// Whether the runner is there whose turn it is.
pub(super) fn turn(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| Some(format!("its retries stay on {}", class.stay.as_ref()?));
    asked(facts, Ask::Stay, asks, &["nothing: if that runner stays away, it goes on to another by itself"])
}

/// Whether a runner is new enough.
pub(super) fn version(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| Some(format!("at least version {}", class.min_version.as_ref()?));
    asked(facts, Ask::MinVersion, asks, &["start a newer runner", "or change tasks[].runner.min_version"])
}

/// Whether the conditions on labels hold for a runner.
pub(super) fn expressions(facts: &Facts<'_>) -> Verdict {
    let asks = |class: &Class| {
        let expressions: Vec<String> = class.expressions.iter().map(ToString::to_string).collect();
        (!expressions.is_empty()).then(|| expressions.join(", "))
    };
    let fixes = ["start a runner with such labels", "or change tasks[].runner.match_expressions"];
    asked(facts, Ask::Expressions, asks, &fixes)
}

/// Whether the key that it needs may be held by one more.
pub(super) fn concurrency(facts: &Facts<'_>) -> Verdict {
    let Some(queue) = &facts.queue else {
        return if facts.config.concurrency.is_some() { not_queued(facts) } else { Verdict::Foreign };
    };
    let Some(limit) = &queue.class.limit else { return Verdict::Foreign };
    let held = &queue.holders;
    let bound = held.holders.bound(limit.at_once);
    let standing = format!("{}: {} of at most {bound} hold it", limit.key, held.holders.count);
    if !held.holders.admits(limit.at_once) {
        let detail = format!("{standing} ({})", some(&held.held_by));
        let because = format!("the key {} is held by as many as may: {}", limit.key, some(&held.held_by));
        let mut fixes = vec!["nothing: it starts when one of them ends".to_owned()];
        fixes.extend(held.held_by.first().map(|task| format!("baton explain {task}")));
        if bound < limit.at_once {
            fixes.push("or raise the limit of the task that holds it: of several the lowest counts".to_owned());
        } else {
            fixes.push(format!("or raise {} for later jobs", facts.path("concurrency.limit")));
        }
        return Verdict::holds(detail, because, fixes);
    }
    if let Some((task, theirs)) = held.first.as_ref().filter(|(_, theirs)| !held.holders.admits(*theirs)) {
        let because =
            format!("{task} waits before it for the key {}, and may share it with {} at most", limit.key, theirs - 1);
        return Verdict::holds(
            format!("{standing}, and {task} is before it"),
            because,
            vec![format!("baton explain {task}")],
        );
    }
    Verdict::passed(standing)
}
