//! What must fit: into a parameter, into an environment, into what the kernel starts.

use std::collections::{BTreeMap, HashMap};

use super::super::{
    JobConfig, Target,
    limits::{ARGUMENT_MAX, ENV_NAME_MAX, EXEC_MAX, NAME_MAX, PARAMS_MAX, PARAMS_TOTAL_MAX},
    problem::{Part, Path, Problem},
};
use crate::domain::params;

/// Variables that begin so are set for every task.
const RESERVED: &str = "BATON_";

pub(super) fn params(params: &BTreeMap<String, String>, path: &Path, problems: &mut Vec<Problem>) {
    if params.len() > PARAMS_MAX {
        problems.push(Problem::new(path.clone(), format!("{} params; at most {PARAMS_MAX}", params.len())));
    }
    let mut variables = HashMap::new();
    for (name, value) in params {
        let here = path.key(name.clone());
        let good = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.len() <= NAME_MAX;
        if !good {
            let message =
                format!("a param's name is 1 to {NAME_MAX} of a-z, A-Z, 0-9 and \"_\", and starts with no digit");
            let better = name.replace(['-', '.', ' '], "_");
            let suggestion = (better != *name && better.len() <= NAME_MAX).then(|| format!("write {better:?}"));
            problems.push(Problem::new(here, message).about(Part::Key).suggest(suggestion));
        } else if let Some(other) = variables.insert(params::variable(name), name) {
            let message = format!("params {other:?} and {name:?} would be one variable, {}", params::variable(name));
            problems.push(Problem::new(here, message).about(Part::Key));
        } else if let Err(message) = params::check(value) {
            problems.push(Problem::new(here, format!("the default of {name:?} {message}")));
        }
    }
    let total: usize = params.iter().map(|(name, value)| name.len() + value.len()).sum();
    if total > PARAMS_TOTAL_MAX {
        let message = format!("the params have {total} bytes in all; at most {PARAMS_TOTAL_MAX}");
        problems.push(Problem::new(path.clone(), message));
    }
}

pub(super) fn env(env: &BTreeMap<String, String>, path: &Path, problems: &mut Vec<Problem>) {
    for (name, value) in env {
        let here = path.key(name.clone());
        if name.is_empty() || name.len() > ENV_NAME_MAX || name.contains(['=', '\0']) {
            let message = format!("a variable's name has 1 to {ENV_NAME_MAX} bytes and no \"=\"");
            problems.push(Problem::new(here, message).about(Part::Key));
            continue;
        }
        if name.starts_with(RESERVED) {
            let message = format!("variables that begin with {RESERVED} are set by Baton");
            problems.push(Problem::new(here.clone(), message).about(Part::Key));
        }
        let len = name.len() + 1 + value.len();
        if len > ARGUMENT_MAX {
            let message = format!("{name:?} has {len} bytes with its name; the kernel takes at most {ARGUMENT_MAX}");
            problems.push(Problem::new(here.clone(), message));
        }
        no_nul(value, &here, problems);
    }
}

/// One argument of a command, or a script, which is the argument of a shell.
pub(super) fn argument(text: &str, path: &Path, problems: &mut Vec<Problem>) {
    if text.len() > ARGUMENT_MAX {
        let message = format!("this has {} bytes; the kernel takes at most {ARGUMENT_MAX}", text.len());
        problems.push(Problem::new(path.clone(), message));
    }
    no_nul(text, path, problems);
}

pub(super) fn no_nul(text: &str, path: &Path, problems: &mut Vec<Problem>) {
    if let Some(at) = text.find('\0') {
        let message = "this holds the character U+0000, which no process can be given";
        problems.push(Problem::new(path.clone(), message).about(Part::Bytes(at..at + 1)));
    }
}

/// Each task's command with the whole environment that it gets from the definition.
pub(super) fn commands(config: &JobConfig, problems: &mut Vec<Problem>) {
    let entry = |(name, value): (&String, &String)| name.len() + value.len() + 2;
    let defaults: usize = config.task_defaults.env.iter().map(entry).sum();
    for (place, task) in config.tasks.iter().enumerate() {
        let command: usize = match &task.target {
            Target::Command(items) => items.iter().map(|item| item.len() + 1).sum(),
            Target::Shell(script) => script.len() + 1,
            // Its parts have bounds of their own, and no kernel sees it.
            Target::Http(_) | Target::Job(_) => continue,
        };
        let own: usize = task.env.iter().map(entry).sum();
        let replaced: usize =
            task.env.keys().filter_map(|name| config.task_defaults.env.get_key_value(name)).map(entry).sum();
        let total = command + own + defaults - replaced;
        if total > EXEC_MAX {
            let path = Path::default().key("tasks").index(place).key("env");
            let message =
                format!("the command of task {:?} and its env have {total} bytes; at most {EXEC_MAX}", task.name);
            problems.push(Problem::new(path, message));
        }
    }
}
