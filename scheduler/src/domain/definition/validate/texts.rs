//! Templates and conditions: they parse, and every name they use is there when they are worked out.

use std::{collections::HashMap, ops::Range};

use super::{
    super::{
        JobConfig, Split, Target, TaskConfig,
        http::Place,
        limits::PROBLEMS_MAX,
        problem::{Part, Path, Problem, did_you_mean},
    },
    names,
};
use crate::domain::{
    graph::Graph,
    reference::{Fault, Name, Reference},
    template,
    when::When,
};

/// The states that a task can be in when another one looks at it.
const STATES: [&str; 4] = ["FINISHED", "FAILED", "SKIPPED", "TERMINATED"];

/// What a text may name beside params and tasks.
#[derive(Clone, Copy, PartialEq)]
enum Context {
    /// A default of a param: the logical time alone.
    Param,
    /// A condition or a list of items: no shard yet.
    Task,
    /// A command, an environment, a request or the params of a sub-job.
    Attempt { sharded: bool, with_items: bool, callback: bool },
}

/// Checks every template and condition of a definition. Without a graph it is not asked what comes before what.
pub(super) fn check(config: &JobConfig, graph: Option<&Graph>, problems: &mut Vec<Problem>) {
    let mut checker = Checker {
        config,
        nodes: HashMap::new(),
        finder: names::Finder::new(&config.tasks),
        asked: Vec::new(),
        problems,
    };
    for (node, task) in (0..).zip(&config.tasks) {
        checker.nodes.entry(&task.name).or_insert(node);
    }
    checker.params();
    checker.defaults();
    for (node, task) in (0..).zip(&config.tasks) {
        checker.task(node, task);
    }
    if let Some(graph) = graph {
        checker.ancestors(graph);
    }
}

struct Checker<'c> {
    config: &'c JobConfig,
    nodes: HashMap<&'c str, u32>,
    finder: names::Finder<'c>,
    /// Of whom it must be asked whether the first comes before the second, and where that matters.
    asked: Vec<(u32, u32, Path, Range<usize>)>,
    problems: &'c mut Vec<Problem>,
}

impl Checker<'_> {
    fn params(&mut self) {
        let path = Path::default().key("params");
        for (name, default) in &self.config.params {
            let here = path.key(name.clone());
            for reference in self.template(default, &here) {
                self.name(&reference, Context::Param, None, &here);
            }
        }
    }

    /// The defaults that may be templates.
    fn defaults(&mut self) {
        let (path, defaults) = (Path::default().key("task_defaults"), &self.config.task_defaults);
        let key = path.key("runner").key("routing_key");
        self.default(&defaults.placement.routing_key, &key, |task| {
            task.placement.routing.is_none() && task.placement.routing_key.is_empty()
        });
        for (name, value) in &defaults.env {
            self.default(value, &path.key("env").key(name.clone()), |task| !task.env.contains_key(name));
        }
    }

    /// A default must make sense for every task that takes it over; the first for which it does not is told. No task that
    /// stands for a job does: it has neither a runner nor an environment.
    fn default(&mut self, text: &str, here: &Path, takes_over: impl Fn(&TaskConfig) -> bool) {
        if !template::is_template(text) {
            return;
        }
        let references = self.template(text, here);
        let before = self.problems.len();
        for (node, task) in (0..).zip(&self.config.tasks) {
            if matches!(task.target, Target::Job(_)) || !takes_over(task) {
                continue;
            }
            for reference in &references {
                self.name(reference, attempt(task), Some(node), here);
            }
            if self.problems.len() > before {
                break;
            }
        }
    }

    fn task(&mut self, node: u32, task: &TaskConfig) {
        let path = Path::default().key("tasks").index(node as usize);
        if let Target::Command(items) = &task.target {
            let argv = path.key("command").key("argv");
            for (place, item) in items.iter().enumerate() {
                self.task_template(item, attempt(task), node, || argv.index(place));
            }
        }
        if let Target::Job(job) = &task.target {
            let params = path.key("job").key("params");
            for (name, value) in &job.params {
                self.task_template(value, attempt(task), node, || params.key(name.clone()));
            }
        }
        if let Target::Http(http) = &task.target {
            for (place, text) in http.texts() {
                self.task_template(text, attempt(task), node, || {
                    let path = path.key("http");
                    match place {
                        Place::Url(at) => path.key("urls").index(at),
                        Place::Header(name) => path.key("headers").key(name.to_owned()),
                        Place::Body => path.key("body"),
                    }
                });
            }
        }
        for (name, value) in &task.env {
            self.task_template(value, attempt(task), node, || path.key("env").key(name.clone()));
        }
        self.task_template(&task.placement.routing_key, attempt(task), node, || path.key("runner").key("routing_key"));
        if let Some(Split::Items(items)) = task.shards.as_ref().map(|shards| &shards.split) {
            self.task_template(items, Context::Task, node, || path.key("shards").key("items"));
        }
        self.when(&task.when, node, &path.key("when"));
    }

    fn task_template(&mut self, text: &str, context: Context, node: u32, path: impl FnOnce() -> Path) {
        if !template::is_template(text) {
            return;
        }
        let path = path();
        for reference in self.template(text, &path) {
            self.name(&reference, context, Some(node), &path);
        }
    }

    fn template(&mut self, text: &str, path: &Path) -> Vec<Reference> {
        template::check(text).unwrap_or_else(|faults| {
            for fault in faults {
                self.fault(fault, path);
            }
            Vec::new()
        })
    }

    fn when(&mut self, text: &str, node: u32, path: &Path) {
        let when = match When::parse(text) {
            Ok(when) => when,
            Err(fault) => return self.fault(fault, path),
        };
        for reference in when.references() {
            self.name(&reference, Context::Task, Some(node), path);
        }
        for (state, at) in when.compared_states() {
            if !STATES.contains(&state.as_str()) {
                let hint =
                    did_you_mean(&state, STATES).unwrap_or_else(|| format!("it is one of {}", STATES.join(", ")));
                self.fault(Fault::new(format!("no task ends in the state {state:?}"), at).suggest(hint), path);
            }
        }
    }

    /// Checks that a name is there; whether a task comes before is asked later, for all together.
    fn name(&mut self, reference: &Reference, context: Context, node: Option<u32>, path: &Path) {
        let at = reference.at.clone();
        if reference.name == Name::LogicalTime || self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let fault = match (&reference.name, context) {
            (Name::Event(_), Context::Task | Context::Attempt { .. }) => {
                Fault::new("only callbacks tell of an event", at).suggest("there is params, tasks, job, logical_time")
            }
            (Name::Unknown(name), _) => {
                let known = known(context);
                let mut fault = Fault::new(format!("{name:?} is unknown here"), at);
                let hint = did_you_mean(name, known.iter().copied());
                fault.suggestion = hint.or_else(|| Some(format!("there is {}", known.join(", "))));
                fault
            }
            (name, Context::Param) => {
                let name = match name {
                    Name::Param(_) => "params",
                    Name::State(_) | Name::Output(_) => "tasks",
                    Name::Shard(_) => "shard",
                    Name::Callback(_) => "callback",
                    Name::Event(_) => "event",
                    _ => "job",
                };
                Fault::new(format!("the default of a param cannot name {name:?}"), at).suggest("there is logical_time")
            }
            (Name::Param(name), _) => {
                if self.config.params.contains_key(name) {
                    return;
                }
                let mut fault = Fault::new(format!("the job has no param {name:?}"), at);
                let hint = did_you_mean(name, self.config.params.keys().map(String::as_str));
                fault.suggestion = hint.or_else(|| Some(format!("declare it: params: {{{name}: \"\"}}")));
                fault
            }
            (Name::State(task) | Name::Output(task), _) => match (self.nodes.get(task.as_str()), node) {
                (Some(&other), Some(node)) if other == node => {
                    let message = format!("task {task:?} cannot look at itself");
                    Fault::new(message, at).suggest("name a task that comes before it")
                }
                (Some(&other), Some(node)) => return self.asked.push((other, node, path.clone(), at)),
                _ => {
                    let mut fault = Fault::new(format!("task {task:?} does not exist"), at);
                    fault.suggestion = self.finder.meant(task);
                    fault
                }
            },
            (Name::Shard(_), Context::Task | Context::Attempt { sharded: false, .. }) => {
                let task = node.map_or("", |node| self.config.tasks[node as usize].name.as_str());
                Fault::new(format!("task {task:?} has no shards here"), at).suggest("set shards on the task")
            }
            (Name::Shard(field), Context::Attempt { with_items: false, .. }) if field == "item" => {
                Fault::new("these shards have no items", at).suggest("set shards.items, or use shard.index")
            }
            (Name::Callback(_), Context::Task | Context::Attempt { callback: false, .. }) => {
                let message = "there is no callback here";
                Fault::new(message, at).suggest("set http.wait_for_callback: true on the task")
            }
            (Name::Callback(_), Context::Attempt { .. }) => return,
            (Name::LogicalTime | Name::Job(_), _) | (Name::Shard(_), Context::Attempt { .. }) => return,
        };
        self.fault(fault, path);
    }

    fn ancestors(&mut self, graph: &Graph) {
        let pairs: Vec<(u32, u32)> = self.asked.iter().map(|&(ancestor, node, ..)| (ancestor, node)).collect();
        let answers = graph.come_before(&pairs);
        let asked = std::mem::take(&mut self.asked);
        let mut told: Option<Path> = None;
        for ((ancestor, node, path, at), _) in asked.into_iter().zip(answers).filter(|(_, comes_before)| !comes_before)
        {
            // A default that makes no sense for many tasks is told once.
            let shared = path.steps().len() == 3;
            if shared && told.as_ref() == Some(&path) {
                continue;
            }
            let name = |node: u32| self.config.tasks[node as usize].name.as_str();
            let (ancestor, node) = (name(ancestor), name(node));
            let message = format!("task {ancestor:?} does not come before {node:?}, so it has nothing to show to it");
            let suggestion = format!("add {ancestor:?} to the needs of {node:?}");
            if shared {
                told = Some(path.clone());
            }
            self.fault(Fault::new(message, at).suggest(suggestion), &path);
        }
    }

    fn fault(&mut self, fault: Fault, path: &Path) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let part = if fault.at.is_empty() { Part::Value } else { Part::Bytes(fault.at) };
        self.problems.push(Problem::new(path.clone(), fault.message).about(part).suggest(fault.suggestion));
    }
}

fn attempt(task: &TaskConfig) -> Context {
    let split = task.shards.as_ref().map(|shards| &shards.split);
    let callback = task.target.waits_for_callback();
    Context::Attempt { sharded: split.is_some(), with_items: matches!(split, Some(Split::Items(_))), callback }
}

fn known(context: Context) -> &'static [&'static str] {
    match context {
        Context::Param => &["logical_time"],
        Context::Task | Context::Attempt { sharded: false, callback: false, .. } => {
            &["params", "tasks", "job", "logical_time"]
        }
        Context::Attempt { sharded: false, callback: true, .. } => {
            &["params", "tasks", "callback", "job", "logical_time"]
        }
        Context::Attempt { sharded: true, callback: true, .. } => {
            &["params", "tasks", "shard", "callback", "job", "logical_time"]
        }
        Context::Attempt { sharded: true, .. } => &["params", "tasks", "shard", "job", "logical_time"],
    }
}
