//! A problem of a job file as compilers show them: where it is, the line, a caret, what may have been meant.

use std::fmt;

use serde_json::{Value, json};

/// How many columns of a line are shown around a problem.
const LINE_WIDTH_MAX: usize = 120;

/// One thing that is wrong with a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// From 1; 0 when the problem has no place in the text.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How many characters are wrong, for the line under them.
    pub length: usize,
    /// The path of the field; may be empty.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What may have been meant, or what to do.
    pub help: String,
    /// The line itself and the one before it, if there is one.
    pub excerpt: Vec<(usize, String)>,
}

impl Problem {
    /// Copies the lines that are shown with the problem out of the text.
    #[must_use]
    pub fn with_excerpt(mut self, text: &str) -> Self {
        if self.line > 0 {
            let first = self.line.saturating_sub(1).max(1);
            let lines = text.lines().enumerate().skip(first - 1).take(self.line - first + 1);
            self.excerpt = lines.map(|(index, line)| (index + 1, line.to_owned())).collect();
        }
        self
    }

    /// The problem for scripts.
    pub fn to_json(&self) -> Value {
        let mut value = json!({"file": self.file, "field": self.field, "description": self.message});
        if self.line > 0 {
            value["line"] = self.line.into();
            value["column"] = self.column.into();
        }
        if !self.help.is_empty() {
            value["help"] = self.help.as_str().into();
        }
        value
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: error: {}", self.file, self.message)?;
            if !self.help.is_empty() {
                write!(f, " ({})", self.help)?;
            }
            return writeln!(f);
        }
        writeln!(f, "{}:{}:{}: error: {}", self.file, self.line, self.column, self.message)?;
        let width = self.line.to_string().len();
        for (number, line) in &self.excerpt {
            if *number != self.line {
                if !line.trim().is_empty() {
                    writeln!(f, "  {number:>width$} | {}", window(line, 1).0)?;
                }
                continue;
            }
            let (shown, column) = window(line, self.column);
            writeln!(f, "  {number:>width$} | {shown}")?;
            let room = shown.chars().count().saturating_sub(column - 1).max(1);
            let carets = "^".repeat(self.length.clamp(1, room));
            let help = if self.help.is_empty() { String::new() } else { format!(" {}", self.help) };
            writeln!(f, "  {:width$} | {:pad$}{carets}{help}", "", "", pad = column - 1)?;
        }
        if self.excerpt.is_empty() && !self.help.is_empty() {
            writeln!(f, "  {}", self.help)?;
        }
        Ok(())
    }
}

/// The part of a line that holds the column, with tabs and control characters as spaces, and the column within it.
fn window(line: &str, column: usize) -> (String, usize) {
    let start = if column > LINE_WIDTH_MAX { column - LINE_WIDTH_MAX / 2 } else { 0 };
    let characters = line.chars().skip(start).take(LINE_WIDTH_MAX);
    let shown: String = characters.map(|c| if c.is_control() { ' ' } else { c }).collect();
    (shown, column.max(1) - start)
}

/// "1 problem", "3 problems".
pub fn count(problems: usize) -> String {
    match problems {
        1 => "the job file has 1 problem".to_owned(),
        n => format!("the job file has {n} problems"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        Problem {
            file: "bad.yaml".into(),
            line: 2,
            column: 13,
            length: 13,
            field: "tasks[join].needs".into(),
            message: "task \"join\" needs \"extract-order\", which does not exist".into(),
            help: "did you mean \"extract-orders\"?".into(),
            excerpt: Vec::new(),
        }
    }

    #[test]
    fn a_problem_points_at_its_place() {
        let text = "  - name: join\n    needs: [extract-order, extract-users]\n";
        let shown = problem().with_excerpt(text).to_string();
        assert_eq!(
            shown,
            "bad.yaml:2:13: error: task \"join\" needs \"extract-order\", which does not exist\n\
             \x20 1 |   - name: join\n\
             \x20 2 |     needs: [extract-order, extract-users]\n\
             \x20   |             ^^^^^^^^^^^^^ did you mean \"extract-orders\"?\n"
        );
    }

    #[test]
    fn an_endless_line_is_cut_around_the_problem() {
        let text = format!("x\n{}bad", "a".repeat(5_000));
        let shown = Problem { column: 5_001, length: 900, ..problem() }.with_excerpt(&text).to_string();
        let longest = shown.lines().skip(1).map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest < 200, "{shown}");
        assert!(shown.contains("^^^ did you mean"), "{shown}");
    }
}
