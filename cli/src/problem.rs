//! A problem of a job file and the text it stands in, so that both can be shown together.

use std::sync::Arc;

use baton_scheduler::domain::definition::{Problem, render};
use serde_json::{Value, json};

/// One thing that is wrong with a job file.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// The file as the user named it.
    pub file: String,
    /// All of its text.
    pub text: Arc<str>,
    /// What is wrong, and where.
    pub problem: Problem,
}

impl Located {
    /// The problem as compilers show it: place, message, the line with a mark under it. Ends with a newline.
    pub fn to_text(&self, color: bool) -> String {
        render(&self.problem, &self.text, &self.file, color)
    }

    /// The problem for scripts.
    pub fn to_json(&self) -> Value {
        let problem = &self.problem;
        let mut value = json!({"file": self.file, "field": problem.path.to_string(), "description": problem.message});
        if let Some(span) = problem.span {
            value["line"] = span.line.into();
            value["column"] = span.column.into();
        }
        if let Some(suggestion) = &problem.suggestion {
            value["suggestion"] = suggestion.as_str().into();
        }
        value
    }
}

/// "1 problem in hello.yaml", "3 problems in 2 files".
pub fn count(problems: &[Located]) -> String {
    let mut files: Vec<_> = problems.iter().map(|located| located.file.as_str()).collect();
    files.dedup();
    let number = problems.len();
    let what = if number == 1 { "problem" } else { "problems" };
    match files.as_slice() {
        [file] => format!("{number} {what} in {file}"),
        _ => format!("{number} {what} in {} files", files.len()),
    }
}

#[cfg(test)]
mod tests {
    use baton_scheduler::domain::definition::Path;

    use super::*;

    fn located(file: &str) -> Located {
        let problem = Problem::new(Path::default().key("tasks"), "is empty");
        Located { file: file.into(), text: "".into(), problem }
    }

    #[test]
    fn problems_are_counted_where_they_are() {
        assert_eq!(count(&[located("a.yaml")]), "1 problem in a.yaml");
        assert_eq!(count(&[located("a.yaml"), located("a.yaml")]), "2 problems in a.yaml");
        assert_eq!(count(&[located("a.yaml"), located("a.yaml"), located("b.yaml")]), "3 problems in 2 files");
        assert_eq!(located("a.yaml").to_json()["field"], "tasks");
    }
}
