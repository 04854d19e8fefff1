//! Whether a definition makes sense: everything that is wrong with it, at once.
//!
//! A job file and a message go through this one validator. It speaks in the paths of the protocol; whoever read the
//! definition from a file knows where these stand.

mod callbacks;
mod failures;
mod http;
mod names;
mod placement;
mod retention;
mod schedules;
mod sizes;
mod sub_jobs;
mod texts;

pub(super) use self::names::check as check_name;
use super::{
    JobConfig, Shards, Split, Target, TaskConfig,
    limits::{
        EDGES_MAX, LABEL_MAX, LABELS_MAX, PATH_MAX, PERCENTS, PROBLEMS_MAX, SHARDS_MAX, SHARDS_TOTAL_MAX, SPAN_MAX,
        TASKS_MAX,
    },
    problem::{Part, Path, Problem},
    span,
};
use crate::domain::graph::{Fault, Graph};

/// Tells everything that is wrong with a definition, up to a bound; nothing if it can be applied.
pub fn validate(config: &JobConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let root = Path::default();
    names::check("the namespace", &config.namespace, &root.key("namespace"), &mut problems);
    names::check("the job config", &config.name, &root.key("name"), &mut problems);
    labels(&config.labels, &root.key("labels"), &mut problems);
    sizes::params(&config.params, &root.key("params"), &mut problems);
    timeout(config.timeout, &root.key("timeout"), &mut problems);
    failures::warning(config.warn_after, config.timeout, &root.key("warn_after"), &mut problems);
    defaults(config, &root.key("task_defaults"), &mut problems);
    schedules::check(config, &mut problems);
    retention::check(config, &root, &mut problems);
    sub_jobs::after(config, &mut problems);
    placement::job(config, &root, &mut problems);
    callbacks::check(config, &mut problems);

    let tasks = root.key("tasks");
    if config.tasks.is_empty() {
        let problem = Problem::new(tasks, "the job has no tasks").about(Part::Missing);
        problems
            .push(problem.suggest("a job has at least one task: tasks: [{name: hello, shell: echo hello}]".to_owned()));
    } else if config.tasks.len() > TASKS_MAX {
        let message = format!("the job has {} tasks; at most {TASKS_MAX}", config.tasks.len());
        problems.push(Problem::new(tasks, message));
    } else {
        let graph = graph(&config.tasks, &mut problems);
        for (place, task) in config.tasks.iter().enumerate() {
            self::task(task, config, &tasks.index(place), &mut problems);
            sub_jobs::task(config, task, &tasks.index(place), &mut problems);
        }
        shards_together(&config.tasks, &mut problems);
        let resolved = config.resolved();
        failures::policies(config, &resolved, &mut problems);
        sizes::commands(config, &mut problems);
        placement::together(config, &resolved, &mut problems);
        texts::check(config, graph.as_ref(), &mut problems);
    }
    problems.truncate(PROBLEMS_MAX);
    problems
}

fn defaults(config: &JobConfig, path: &Path, problems: &mut Vec<Problem>) {
    let defaults = &config.task_defaults;
    timeout(defaults.timeout, &path.key("timeout"), problems);
    failures::retry(defaults.retry.as_ref(), &path.key("retry"), problems);
    let asked = placement::Asked {
        match_labels: &defaults.match_labels,
        placement: &defaults.placement,
        queue_timeout: defaults.queue_timeout,
        concurrency: defaults.concurrency.as_ref(),
        priority: defaults.priority,
    };
    asked.check(path, problems);
    failures::warning(defaults.warn_after, defaults.timeout, &path.key("warn_after"), problems);
    sizes::env(&defaults.env, &path.key("env"), problems);
    working_dir(&defaults.working_dir, &path.key("working_dir"), problems);
}

fn task(task: &TaskConfig, config: &JobConfig, path: &Path, problems: &mut Vec<Problem>) {
    names::check("the task", &task.name, &path.key("name"), problems);
    target(task, config, path, problems);
    sizes::env(&task.env, &path.key("env"), problems);
    working_dir(&task.working_dir, &path.key("working_dir"), problems);
    if let Some(shards) = &task.shards {
        self::shards(shards, &path.key("shards"), problems);
    }
    timeout(task.timeout, &path.key("timeout"), problems);
    failures::retry(task.retry.as_ref(), &path.key("retry"), problems);
    let asked = placement::Asked {
        match_labels: &task.match_labels,
        placement: &task.placement,
        queue_timeout: task.queue_timeout,
        concurrency: task.concurrency.as_ref(),
        priority: task.priority,
    };
    asked.check(path, problems);
}

fn target(task: &TaskConfig, config: &JobConfig, path: &Path, problems: &mut Vec<Problem>) {
    let argv = path.key("command").key("argv");
    match &task.target {
        Target::Command(items) if items.is_empty() => {
            let message = format!("task {:?} runs nothing", task.name);
            let problem = Problem::new(path.key("command"), message).about(Part::Missing);
            problems.push(problem.suggest("set command, shell, http or job".to_owned()));
        }
        Target::Command(items) => {
            if items[0].is_empty() {
                problems.push(Problem::new(argv.index(0), "the program has no name"));
            }
            for (place, item) in items.iter().enumerate() {
                sizes::argument(item, &argv.index(place), problems);
            }
        }
        Target::Shell(script) if script.trim().is_empty() => {
            problems.push(Problem::new(path.key("shell"), format!("the script of task {:?} is empty", task.name)));
        }
        Target::Shell(script) => sizes::argument(script, &path.key("shell"), problems),
        Target::Job(job) => sizes::params(&job.params, &path.key("job").key("params"), problems),
        Target::Http(target) => {
            let timeout = task.timeout.or(config.task_defaults.timeout);
            http::check(task, target, timeout, path, problems);
        }
    }
}

fn shards(shards: &Shards, path: &Path, problems: &mut Vec<Problem>) {
    match &shards.split {
        Split::Count(count) if !(1..=SHARDS_MAX).contains(count) => {
            problems.push(Problem::new(path.key("count"), format!("a task has from 1 to {SHARDS_MAX} shards")));
        }
        Split::Items(items) if items.trim().is_empty() => {
            problems.push(Problem::new(path.key("items"), "the template of the items is empty"));
        }
        Split::Count(_) | Split::Items(_) | Split::OnePerRunner => {}
    }
    if !PERCENTS.contains(&shards.min_success_percent) {
        let message = format!("a share is from {} to {}", PERCENTS.start(), PERCENTS.end());
        problems.push(Problem::new(path.key("min_success_percent"), message));
    }
}

fn shards_together(tasks: &[TaskConfig], problems: &mut Vec<Problem>) {
    let mut total = 0;
    for (place, task) in tasks.iter().enumerate() {
        let Some(Shards { split: Split::Count(count), .. }) = task.shards else { continue };
        let before = total;
        total += u64::from(count.min(SHARDS_MAX));
        if before <= SHARDS_TOTAL_MAX && total > SHARDS_TOTAL_MAX {
            let path = Path::default().key("tasks").index(place).key("shards").key("count");
            let message = format!("with this task the job has more than {SHARDS_TOTAL_MAX} shards in all");
            problems.push(Problem::new(path, message));
        }
    }
}

fn timeout(timeout: Option<std::time::Duration>, path: &Path, problems: &mut Vec<Problem>) {
    let Some(timeout) = timeout else { return };
    if timeout.is_zero() {
        let problem = Problem::new(path.clone(), "a timeout of nothing would end everything at once");
        problems.push(problem.suggest("leave it out to wait for ever".to_owned()));
    } else if timeout > SPAN_MAX {
        problems.push(Problem::new(path.clone(), span::too_long()));
    }
}

fn working_dir(dir: &str, path: &Path, problems: &mut Vec<Problem>) {
    if dir.len() > PATH_MAX {
        problems.push(Problem::new(path.clone(), format!("the path has {} bytes; at most {PATH_MAX}", dir.len())));
    }
    sizes::no_nul(dir, path, problems);
}

fn labels(labels: &std::collections::BTreeMap<String, String>, path: &Path, problems: &mut Vec<Problem>) {
    if labels.len() > LABELS_MAX {
        problems.push(Problem::new(path.clone(), format!("{} labels; at most {LABELS_MAX}", labels.len())));
    }
    for (key, value) in labels {
        let here = path.key(key.clone());
        if key.is_empty() || key.len() > LABEL_MAX || key.chars().any(char::is_control) {
            let message = format!("a label's key has 1 to {LABEL_MAX} bytes and no control characters");
            problems.push(Problem::new(here, message).about(Part::Key));
        } else if value.len() > LABEL_MAX || value.chars().any(char::is_control) {
            let message = format!("a label's value has at most {LABEL_MAX} bytes and no control characters");
            problems.push(Problem::new(here, message));
        }
    }
}

/// The graph of the tasks, if they are one.
fn graph(tasks: &[TaskConfig], problems: &mut Vec<Problem>) -> Option<Graph> {
    let edges: usize = tasks.iter().map(|task| task.needs.len()).sum();
    if edges > EDGES_MAX {
        let message = format!("the tasks have {edges} needs in all; at most {EDGES_MAX}");
        problems.push(Problem::new(Path::default().key("tasks"), message));
        return None;
    }
    let faults = match Graph::of(tasks) {
        Ok(graph) => return Some(graph),
        Err(faults) => faults,
    };
    // While a task has no name, what needs it only seems to need something unknown.
    let all_named = tasks.iter().all(|task| !task.name.is_empty());
    let mut finder = names::Finder::new(tasks);
    let name = |node: u32| tasks[node as usize].name.as_str();
    let path = |node: u32| Path::default().key("tasks").index(node as usize);
    for fault in faults.into_iter().take(PROBLEMS_MAX) {
        match fault {
            Fault::DuplicateName { node, first } if !name(node).is_empty() => {
                let message = format!("two tasks are named {:?}: tasks[{first}] and tasks[{node}]", name(node));
                problems.push(Problem::new(path(node).key("name"), message));
            }
            Fault::UnknownParent { node, need } if all_named => {
                let given = &tasks[node as usize].needs[need];
                let message = format!("task {:?} needs {given:?}, which does not exist", name(node));
                let meant = finder.meant(given);
                problems.push(Problem::new(path(node).key("needs").index(need), message).suggest(meant));
            }
            Fault::SelfEdge { node, need } => {
                let message = format!("task {:?} needs itself", name(node));
                problems.push(Problem::new(path(node).key("needs").index(need), message));
            }
            Fault::Cycle(nodes) => problems.push(cycle(tasks, &nodes)),
            Fault::DuplicateName { .. } | Fault::UnknownParent { .. } => {}
        }
    }
    None
}

/// Shows a cycle where its first task says what it needs.
fn cycle(tasks: &[TaskConfig], nodes: &[u32]) -> Problem {
    /// Of a long cycle the beginning and the end are shown.
    const SHOWN_MAX: usize = 12;
    let name = |node: u32| tasks[node as usize].name.as_str();
    let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
    let mut names: Vec<&str> = nodes.iter().map(|&node| name(node)).collect();
    names.push(name(first));
    if names.len() > SHOWN_MAX {
        let half = SHOWN_MAX / 2;
        names.splice(half..names.len() - half, ["…"]);
    }
    let need = tasks[first as usize].needs.iter().position(|need| need == name(last)).unwrap_or(0);
    let path = Path::default().key("tasks").index(first as usize).key("needs").index(need);
    let message = format!("these {} tasks wait for each other: {}", nodes.len(), names.join(" → "));
    Problem::new(path, message).suggest("take out one of these edges".to_owned())
}

#[cfg(test)]
mod tests;
