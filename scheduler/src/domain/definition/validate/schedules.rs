//! Schedules: each is understood and fires some day, and what it is known by is its own.

use std::collections::HashMap;

use super::{
    super::{
        JobConfig, Overlap, Schedule,
        limits::{QUEUE_LIMITS, RULE_MAX, SCHEDULES_MAX, SPAN_MAX},
        problem::{Part, Path, Problem},
        span,
    },
    names,
};
use crate::domain::{
    schedule::{self, CALENDARS_MAX, Next, RuleSpec, Spec},
    time::Timestamp,
};

/// Tells everything that is wrong with the schedules of a definition and with what becomes of their fires.
pub(super) fn check(config: &JobConfig, problems: &mut Vec<Problem>) {
    let root = Path::default();
    let path = root.key("schedules");
    if config.schedules.len() > SCHEDULES_MAX {
        let message = format!("the job config has {} schedules; at most {SCHEDULES_MAX}", config.schedules.len());
        problems.push(Problem::new(path, message));
        return;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (position, schedule) in config.schedules.iter().enumerate() {
        let here = path.index(position);
        if !schedule.name.is_empty() {
            names::check("the schedule", &schedule.name, &here.key("name"), problems);
        }
        let key = schedule.key(position);
        if let Some(first) = seen.insert(key.clone(), position) {
            let message = format!("two schedules are known as {key:?}: schedules[{first}] and schedules[{position}]");
            problems.push(Problem::new(here.key("name"), message).about(Part::Key));
        }
        self::schedule(schedule, &key, &here, problems);
    }
    overlap(config, &root, problems);
}

fn schedule(schedule: &Schedule, key: &str, path: &Path, problems: &mut Vec<Problem>) {
    let spec = &schedule.spec;
    for (place, name) in spec.calendars.iter().enumerate() {
        let here = path.key("calendars").index(place);
        names::check("the calendar", name, &here, problems);
        if spec.calendars[..place].contains(name) {
            problems.push(Problem::new(here, format!("calendar {name:?} is named twice")));
        }
    }
    // Which calendars there are is known where they are stored; here everything else is looked at.
    let spec = &Spec { calendars: Vec::new(), ..spec.clone() };
    if schedule.spec.calendars.len() > CALENDARS_MAX {
        let message = format!("a schedule names {CALENDARS_MAX} calendars at most");
        problems.push(Problem::new(path.key("calendars"), message));
    }
    let (RuleSpec::Cron(rule) | RuleSpec::Text(rule)) = &spec.rule else {
        return understood(spec, key, path, problems);
    };
    let field = if matches!(spec.rule, RuleSpec::Cron(_)) { "cron" } else { "text" };
    if rule.len() > RULE_MAX {
        let message = format!("it has {} bytes; at most {RULE_MAX}", rule.len());
        problems.push(Problem::new(path.key(field), message));
    } else if rule.trim().is_empty() {
        let problem = Problem::new(path.key("cron"), "the schedule says no time").about(Part::Missing);
        problems.push(problem.suggest("set cron, text, every or at".to_owned()));
    } else {
        understood(spec, key, path, problems);
    }
}

fn understood(spec: &Spec, key: &str, path: &Path, problems: &mut Vec<Problem>) {
    match schedule::Schedule::new(spec, key, Timestamp(0), &[]) {
        Err(wrong) => {
            problems.extend(wrong.into_iter().map(|problem| Problem::new(path.key(problem.field), problem.message)));
        }
        // Whether its last fire has passed depends on when it is applied; whether it has any does not.
        Ok(schedule) => {
            let why = match schedule.next(Timestamp(0)) {
                Ok(Next::Never) => "it never fires: check its days and its window",
                Ok(Next::Beyond2100) => "its first fire lies after the year 2100, where schedules end",
                _ => return,
            };
            problems.push(Problem::new(path.key(spec.rule.field()), why));
        }
    }
}

fn overlap(config: &JobConfig, root: &Path, problems: &mut Vec<Problem>) {
    let queues = config.overlap == Some(Overlap::Queue);
    if let Some(limit) = config.queue_limit {
        let path = root.key("queue_limit");
        if !queues {
            problems.push(Problem::new(path, "queue_limit means something with `overlap: queue` alone"));
        } else if !QUEUE_LIMITS.contains(&limit) {
            let message = format!("queue_limit is from {} to {}", QUEUE_LIMITS.start(), QUEUE_LIMITS.end());
            problems.push(Problem::new(path, message));
        }
    }
    if let Some(deadline) = config.start_deadline {
        let path = root.key("start_deadline");
        if !queues {
            problems.push(Problem::new(path, "start_deadline means something with `overlap: queue` alone"));
        } else if deadline > SPAN_MAX {
            problems.push(Problem::new(path, span::too_long()));
        }
    }
}
