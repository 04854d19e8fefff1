//! `baton validate`: job files are checked without a scheduler, by the very code that a scheduler reads them with.

use std::sync::Arc;

use baton_scheduler::domain::definition::{self, Path, Problem, Span};
use serde_json::json;

use crate::{
    context::Context,
    errors::{Error, Exit},
    files::{self, JobFile},
    problem::Located,
};

/// The namespace of a definition that names none.
const NAMESPACE_DEFAULT: &str = "default";

/// What `validate` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton validate -f hello.yaml
  baton validate -f jobs/ -f more/one.yaml
  baton validate -f - < hello.yaml

No scheduler is asked; the answers are those that it would give.")]
pub struct Args {
    /// A job file, a directory of job files, or - for standard input.
    #[arg(short, long, value_name = "FILE|DIR|-", required = true)]
    file: Vec<String>,
}

/// Checks every file and says what is in it.
pub fn run(context: &Context, args: &Args) -> Result<Exit, Error> {
    let mut files = Vec::new();
    for path in &args.file {
        files.extend(files::read(path)?);
    }
    let sound = check(&files, &context.namespace)?;
    let output = context.output;
    if output.is_data() {
        let configs: Vec<_> = sound
            .iter()
            .map(|one| json!({"file": one.file, "namespace": one.namespace, "name": one.name, "taskCount": one.tasks}))
            .collect();
        output.value(&json!({ "jobConfigs": configs }))?;
        return Ok(Exit::Ok);
    }
    for one in &sound {
        let tasks = if one.tasks == 1 { "task" } else { "tasks" };
        output.line(&if output.is_name() {
            one.name.clone()
        } else {
            format!("{}: {} is sound · {} {tasks}", one.file, one.name, one.tasks)
        })?;
    }
    Ok(Exit::Ok)
}

/// A job config that nothing is wrong with.
#[derive(Debug, PartialEq, Eq)]
pub struct Sound {
    file: String,
    namespace: String,
    name: String,
    tasks: usize,
}

/// What is in the files, or every problem of every one of them.
pub fn check(files: &[JobFile], namespace: &str) -> Result<Vec<Sound>, Error> {
    let namespace = if namespace.is_empty() { NAMESPACE_DEFAULT } else { namespace };
    let (mut sound, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        match definition::read(&file.text, namespace) {
            Ok(documents) => sound.extend(documents.into_iter().map(|document| Sound {
                file: file.name.clone(),
                namespace: document.config.namespace,
                name: document.config.name,
                tasks: document.config.tasks.len(),
            })),
            Err(found) => {
                let text: Arc<str> = file.text.as_str().into();
                let located = |problem| Located { file: file.name.clone(), text: text.clone(), problem };
                problems.extend(found.into_iter().map(located));
            }
        }
    }
    if problems.is_empty() { Ok(sound) } else { Err(Error::Invalid(problems)) }
}

/// Points a scheduler's refusal at the places in the file, as far as it names any. What this side found sound a newer
/// scheduler may still refuse.
pub fn locate(file: &JobFile, error: Error) -> Error {
    let violations = error.violations();
    let text: Arc<str> = file.text.as_str().into();
    let located: Option<Vec<_>> = violations
        .iter()
        .map(|(_, description)| {
            let (span, message) = place(description)?;
            let problem = Problem::new(Path::default(), message).at(span);
            Some(Located { file: file.name.clone(), text: text.clone(), problem })
        })
        .collect();
    match located {
        Some(mut located) if !located.is_empty() => {
            if error.violations_left_out() > 0 {
                let message = format!("the scheduler found {} more problems", error.violations_left_out());
                let problem = Problem::new(Path::default(), message);
                located.push(Located { file: file.name.clone(), text: text.clone(), problem });
            }
            Error::Invalid(located)
        }
        _ => error,
    }
}

/// Reads "line 3, column 13: " off the beginning of a description.
fn place(description: &str) -> Option<(Span, &str)> {
    let (line, rest) = description.strip_prefix("line ")?.split_once(", column ")?;
    let (column, message) = rest.split_once(": ")?;
    let span = Span { line: line.parse().ok()?, column: column.parse().ok()?, width: 1 };
    (span.line > 0 && span.column > 0).then_some((span, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_of_every_file_is_told() {
        let file = |name: &str, text: &str| JobFile { name: name.into(), text: text.into() };
        let files = [
            file("good.yaml", "name: good\ntasks:\n  - name: a\n    shell: echo\n"),
            file("bad.yaml", "name: bad\ntasks:\n  - name: a\n    needs: [b]\n    shell: echo\n    shel: x\n"),
            file("worse.yaml", "tasks: 1\n"),
        ];
        assert_eq!(check(&files[..1], "").unwrap()[0].namespace, "default");
        let Err(Error::Invalid(problems)) = check(&files, "") else { panic!("two files have problems") };
        let in_file = |name: &str| problems.iter().filter(|located| located.file == name).count();
        assert_eq!(in_file("good.yaml"), 0);
        assert!(in_file("bad.yaml") >= 2 && in_file("worse.yaml") >= 1, "{problems:?}");
        assert!(problems[0].to_text(false).starts_with("bad.yaml:4:"), "{}", problems[0].to_text(false));
    }

    #[test]
    fn a_place_that_the_scheduler_names_is_found_in_the_file() {
        let (span, message) = place("line 3, column 13: needs what does not exist").unwrap();
        assert_eq!((span.line, span.column, message), (3, 13, "needs what does not exist"));
        assert!(place("tasks[0]: is empty").is_none());
        assert!(place("line 0, column 1: x").is_none());
    }
}
