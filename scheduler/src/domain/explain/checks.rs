//! The checks of a task, in the order in which it passes them.

use std::fmt::Write as _;

use super::{Facts, NAMED_MAX, Verdict, are, counted, placing, runners, some, spell, sub_job};
use crate::domain::{
    gate::{Gate, Outcome, closed_because, counts_as},
    job::JobState,
    task::{Kind, TaskState},
};

type Check = fn(&Facts<'_>) -> Verdict;

/// Every check, in order.
pub(super) const WAY: [(&str, Check); 24] = [
    ("parents", parents),
    ("job", job),
    ("enabled", enabled),
    ("when", when),
    ("max_parallel", max_parallel),
    ("attempts", attempts),
    ("retry delay", retry_delay),
    ("sub-job", sub_job::check),
    ("queue", queue),
    ("capability", runners::capability),
    ("pin", runners::pin),
    ("named runners", placing::named),
    ("excluded runners", placing::excluded),
    ("failed runners", placing::spent),
    ("turn", placing::turn),
    ("version", placing::version),
    ("labels", runners::labels),
    ("expressions", placing::expressions),
    ("runners", runners::ready),
    ("schedulers", runners::schedulers),
    ("concurrency", placing::concurrency),
    ("slots", runners::slots),
    ("dispatch", dispatch),
    ("work", work),
];

/// What has not been decided for good is of interest only as long as the task waits for it or was skipped by it.
fn waits_or_was_skipped(facts: &Facts<'_>) -> bool {
    matches!(facts.task.state, TaskState::Created | TaskState::Skipped)
}

fn parents(facts: &Facts<'_>) -> Verdict {
    let counts = facts.parents_counted();
    let rule = facts.rule();
    let ended = counts.succeeded + counts.failed + counts.skipped;
    let standing = format!("{ended} of {} ended", counts.total);
    match facts.gate() {
        _ if facts.parents.is_empty() => Verdict::passed("it has none"),
        Gate::Open => Verdict::passed(format!("{standing}, {} holds", rule.name())),
        Gate::Wait if facts.task.state == TaskState::Created => {
            let ahead: Vec<&str> =
                facts.parents.iter().filter(|parent| parent.end().is_none()).map(|parent| parent.name).collect();
            let detail = format!("{standing}, {} waits for {}", rule.name(), some(&ahead));
            let fixes = ahead.first().map(|first| format!("baton explain {}/{first}", facts.job.id));
            Verdict::holds(detail, format!("it waits for {}", some(&ahead)), fixes.into_iter().collect())
        }
        Gate::Wait => Verdict::not_asked(format!("{standing}, {} was not decided", rule.name())),
        Gate::Closed { by, .. } if waits_or_was_skipped(facts) => {
            let closed: Vec<&str> = facts
                .parents
                .iter()
                .filter(|parent| parent.end().is_some_and(|end| counts_as(end, parent.on_failure) == by))
                .map(|parent| parent.name)
                .collect();
            let first = closed.first().copied().unwrap_or("a parent");
            let because = closed_because(rule, by, first);
            let detail = format!("{standing}, {because}");
            let mut fixes = vec![format!("baton explain {}/{first}", facts.job.id)];
            if by == Outcome::Failed {
                fixes.push(format!("or let it run after a failure: change {}", facts.path("trigger_rule")));
            }
            Verdict::holds(detail, because, fixes)
        }
        Gate::Closed { .. } => Verdict::not_asked(standing),
    }
}

fn job(facts: &Facts<'_>) -> Verdict {
    let job = &facts.job;
    match job.state {
        JobState::Created => {
            let detail = "its tasks are still being written";
            Verdict::holds(detail, "its job is still being written", vec!["nothing: it goes on by itself".to_owned()])
        }
        _ if job.stopping && !facts.rule().outlives_stop() && waits_or_was_skipped(facts) => {
            let detail = "stops: a task with on_failure: stop failed";
            let fixes =
                vec![format!("baton explain {}", job.id), "or change that task's on_failure and run again".to_owned()];
            Verdict::holds(detail, "its job stopped", fixes)
        }
        JobState::Running if job.stopping => Verdict::passed("stops, but this is left to run"),
        JobState::Running => Verdict::passed("RUNNING"),
        state if facts.task.state == TaskState::Created => {
            Verdict::holds(state.word(), format!("its job is {}", state.word()), Vec::new())
        }
        state => Verdict::passed(state.word()),
    }
}

fn enabled(facts: &Facts<'_>) -> Verdict {
    if facts.config.enabled != Some(false) {
        return Verdict::passed("yes");
    }
    if !waits_or_was_skipped(facts) {
        return Verdict::not_asked("no, and not reached");
    }
    let key = facts.path("enabled");
    let fixes = vec![
        format!("remove {key} and apply; jobs that exist stay on their version"),
        format!("then baton run {}", facts.job.name),
    ];
    Verdict::holds(format!("no: {key} is false"), "it is disabled", fixes)
}

fn when(facts: &Facts<'_>) -> Verdict {
    if facts.config.when.is_empty() {
        return Verdict::not_asked("it has no condition");
    }
    let text = &facts.config.when;
    let Some(condition) = &facts.condition else {
        return match facts.task.state {
            TaskState::Created | TaskState::Skipped => Verdict::not_asked("not reached"),
            _ => Verdict::passed(format!("{text} was true")),
        };
    };
    let with = match condition.values.as_slice() {
        [] => String::new(),
        values => format!(", with {}", values.join(", ")),
    };
    let fix = vec![format!("change {}, or what it reads", facts.path("when"))];
    match &condition.outcome {
        Ok(true) => Verdict::passed(format!("{text} is true{with}")),
        Ok(false) => Verdict::holds(format!("{text} is false{with}"), format!("its condition {text} is false"), fix),
        Err(why) => Verdict::holds(format!("{why}{with}"), format!("its condition cannot be decided: {why}"), fix),
    }
}

fn max_parallel(facts: &Facts<'_>) -> Verdict {
    let Some(shards) = facts.shards.filter(|_| facts.task.kind == Kind::Shard) else {
        return Verdict::Foreign;
    };
    let limit = match shards.max_parallel {
        0 => return Verdict::passed("all shards may run at once"),
        limit => limit,
    };
    if facts.task.state != TaskState::Created {
        return Verdict::passed(format!("it is one of the {limit} that may run at once"));
    }
    let detail = format!("{} of at most {limit} are queued or run, {} before it", shards.live, shards.before);
    let because = format!("only {} may run at once", counted(limit as usize, "shard"));
    let fixes = vec![
        format!("nothing: it starts when {} ended", counted(shards.before as usize + 1, "more shard")),
        format!("or raise {} for later jobs", facts.path("shards.max_parallel")),
    ];
    Verdict::holds(detail, because, fixes)
}

/// What became of the attempts before this one.
fn attempts(facts: &Facts<'_>) -> Verdict {
    if facts.task.kind == Kind::Group {
        return Verdict::Foreign;
    }
    let earlier = facts.task.earlier;
    if earlier.is_empty() {
        return Verdict::not_asked("none before this one");
    }
    // The last few say most.
    let left_out = earlier.len().saturating_sub(NAMED_MAX);
    let mut told: Vec<String> = earlier.iter().skip(left_out).map(ToString::to_string).collect();
    if left_out > 0 {
        told.insert(0, format!("{left_out} more"));
    }
    Verdict::passed(told.join("; "))
}

fn retry_delay(facts: &Facts<'_>) -> Verdict {
    let task = &facts.task;
    match task.not_before.filter(|_| task.state == TaskState::Queued) {
        Some(at) if at > facts.now => {
            let left = spell(at.since(facts.now));
            let next = task.numbered();
            let fixes = vec![
                format!("nothing: {next} may start in {left}"),
                format!("what the one before wrote: baton logs {}", facts.address()),
            ];
            let because = format!("{next} waits for its retry delay, {left} more ({})", task.reason);
            Verdict::holds(format!("{left} more"), because, fixes)
        }
        Some(_) if task.attempt > 1 => Verdict::passed("over"),
        _ if task.kind == Kind::Group => Verdict::Foreign,
        _ => runners::not_queued_or(facts, Verdict::not_asked("none")),
    }
}

fn queue(facts: &Facts<'_>) -> Verdict {
    let Some(queue) = &facts.queue else { return runners::not_queued(facts) };
    let mut detail = match (queue.ahead, queue.more_ahead) {
        (0, _) => "first of those that ask for the same".to_owned(),
        (ahead, false) => format!("{} before it", counted(ahead as usize, "task")),
        (ahead, true) => format!("more than {ahead} tasks before it"),
    };
    if let Some((timeout, since)) = facts.config.queue_timeout.zip(facts.task.since) {
        let left = timeout.saturating_sub(facts.now.since(since));
        let _ = write!(detail, "; fails in {} unless a runner takes it", spell(left));
    }
    Verdict::passed(detail)
}

fn dispatch(facts: &Facts<'_>) -> Verdict {
    let task = &facts.task;
    let runner = task.runner.unwrap_or("a runner");
    match task.state {
        TaskState::Queued => Verdict::holds(
            "it is about to be given out",
            "a slot is idle and it is about to be given out",
            vec!["nothing: look again in a moment".to_owned()],
        ),
        TaskState::Dispatched => {
            let asked = facts.timing.accept_timeout;
            let detail = format!("given to {runner}, which has not said that it runs");
            let fixes = vec![
                format!("nothing: an answer is due within {}, else it is asked for", spell(asked)),
                format!("baton describe runner {runner}"),
            ];
            Verdict::holds(detail, format!("runner {runner} has not said that it runs"), fixes)
        }
        _ if task.kind == Kind::Group || facts.sub_job().is_some() => Verdict::Foreign,
        _ if task.attempt == 0 => Verdict::not_asked("it was never given out"),
        _ => Verdict::passed(format!("{} on {runner}", task.numbered())),
    }
}

/// Its work is over; what it waits for is that others hear of it.
fn held(facts: &Facts<'_>) -> Verdict {
    let Some(first) = facts.owed.first() else { return Verdict::passed("its work is over, and so is what held it") };
    let tried = match (first.tries, first.next_try_at) {
        (_, None) => "is being delivered".to_owned(),
        (0, Some(_)) => "is about to be delivered".to_owned(),
        (tries, Some(at)) => {
            let next = spell(at.since(facts.now));
            format!("failed {}, next try in {next}: {}", counted(tries as usize, "time"), first.last_error)
        }
    };
    let more = match facts.owed.len() {
        1 => String::new(),
        many => format!("; {} more after it", many - 1),
    };
    let detail = format!("its work is over; callback {} ({}) {tried}{more}", first.id, first.what);
    let fixes = vec![
        format!("baton get callbacks {}", facts.job.id),
        format!("baton callback resend {} tries it now", first.id),
        format!("baton terminate {} gives it up: the task ends as its work ended", facts.address()),
    ];
    Verdict::holds(detail, format!("waits for callback {} ({}), which {tried}", first.id, first.what), fixes)
}

/// How the work itself stands, and what became of it.
fn work(facts: &Facts<'_>) -> Verdict {
    let task = &facts.task;
    let shards = facts.shards.filter(|_| task.kind == Kind::Group);
    match (task.state, shards) {
        (TaskState::Running, Some(shards)) => Verdict::passed(format!(
            "{} of {} shards ended, {} queued or running, {} for max_parallel",
            shards.ended,
            shards.count,
            shards.live,
            match shards.waiting {
                1 => "1 waits".to_owned(),
                waiting => format!("{waiting} wait"),
            }
        )),
        (TaskState::Running, _) if facts.config.target.waits_for_callback() => Verdict::passed(
            "under way: it asks, then waits until somebody posts to its callback or its timeout is over",
        ),
        (TaskState::Callback, _) => held(facts),
        (TaskState::Running, _) => Verdict::passed("under way"),
        (TaskState::Finished, _) => Verdict::passed("finished"),
        (TaskState::Terminating, Some(shards)) => {
            let left = shards.count - shards.ended;
            let because = format!("{} {} still being ended", counted(left as usize, "shard"), are(left));
            Verdict::holds(because.clone(), because, vec![format!("baton get tasks {}", facts.job.id)])
        }
        (TaskState::Terminating, _) => runners::ending(facts),
        (TaskState::Failed, Some(shards)) if shards.count > 0 => {
            let fixes = vec![format!("baton get tasks {} --state failed", facts.job.id)];
            let detail = format!(
                "{} of {} shards finished, {} % must",
                shards.finished, shards.count, shards.min_success_percent
            );
            Verdict::holds(detail, task.reason, fixes)
        }
        (TaskState::Failed, _) => {
            let mut fixes = Vec::new();
            match facts.child {
                Some(child) => fixes.push(format!("baton explain {}", child.id)),
                None if task.attempt > 0 => fixes.push(format!("baton logs {}", facts.address())),
                None => {}
            }
            fixes.push(format!("change tasks[{}] and apply, then baton run {}", facts.node, facts.job.name));
            let tries = match task.attempt {
                0 | 1 => task.reason.to_owned(),
                _ => format!("{} ({})", task.reason, task.numbered()),
            };
            Verdict::holds(tries.clone(), tries, fixes)
        }
        (TaskState::Terminated, _) => {
            let fixes = vec![format!("baton run {} starts a new job", facts.job.name)];
            Verdict::holds(task.reason, task.reason, fixes)
        }
        (TaskState::Skipped, _) => Verdict::holds(task.reason, task.reason, Vec::new()),
        _ => Verdict::not_asked("not reached"),
    }
}
