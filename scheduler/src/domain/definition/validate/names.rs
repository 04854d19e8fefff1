//! Names: one alphabet, so that every name can stand in a path, a label, a file name and a command line.

use super::super::{
    TaskConfig,
    limits::NAME_MAX,
    problem::{Part, Path, Problem, did_you_mean},
};

/// How many names are looked at in all to find what was meant: a search among many names takes its time, and after the
/// first dozens of suggestions the reader knows.
const SEARCHED_MAX: usize = 500_000;

/// Finds the names that were meant.
pub(super) struct Finder<'c> {
    known: Vec<&'c str>,
    searched: usize,
}

impl<'c> Finder<'c> {
    /// Among the names of these tasks.
    pub(super) fn new(tasks: &'c [TaskConfig]) -> Self {
        let known = tasks.iter().map(|task| task.name.as_str()).filter(|name| !name.is_empty()).collect();
        Self { known, searched: 0 }
    }

    /// The name that this one could have been meant to be, as a question.
    pub(super) fn meant(&mut self, given: &str) -> Option<String> {
        self.searched += self.known.len();
        if self.searched > SEARCHED_MAX {
            return None;
        }
        did_you_mean(given, self.known.iter().copied())
    }
}

/// Checks a name: 1 to 100 of a-z, 0-9, "-", "_" and ".", starting with a letter or digit.
pub(in super::super) fn check(what: &str, name: &str, path: &Path, problems: &mut Vec<Problem>) {
    if name.is_empty() {
        problems.push(Problem::new(path.clone(), format!("{what} has no name")).about(Part::Missing));
        return;
    }
    let good = name.chars().all(is_letter) && name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if good && name.len() <= NAME_MAX {
        return;
    }
    let shown: String = name.chars().take(NAME_MAX).collect();
    let dots = if shown.len() < name.len() { "…" } else { "" };
    let message = format!(
        "{shown:?}{dots} is no name: 1 to {NAME_MAX} of a-z, 0-9, \"-\", \"_\" and \".\", starting with a letter or digit"
    );
    problems.push(Problem::new(path.clone(), message).suggest(better(name)));
}

fn is_letter(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
}

/// The name in the alphabet, if it is one then.
fn better(name: &str) -> Option<String> {
    let better: String =
        name.trim().to_lowercase().chars().map(|c| if c.is_whitespace() || c == '/' { '-' } else { c }).collect();
    let good = !better.is_empty()
        && better.len() <= NAME_MAX
        && better.chars().all(is_letter)
        && better.starts_with(|c: char| c.is_ascii_alphanumeric());
    good.then(|| format!("write {better:?}"))
}
