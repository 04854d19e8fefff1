//! What is wrong with a definition, where, and what would be right.

use std::{borrow::Cow, fmt, fmt::Write as _, ops::Range};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How much of a long line is shown, in characters.
const SHOWN_MAX: usize = 120;
/// How much of a long line is shown before the place that is meant.
const SHOWN_BEFORE: usize = 40;

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, in the words of the protocol.
    pub path: Path,
    /// Which part of it.
    pub part: Part,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<String>,
    /// Where it stands in the file, if the definition came from one.
    pub span: Option<Span>,
}

/// Which part of a field is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Its value.
    Value,
    /// Its key.
    Key,
    /// These bytes of its value.
    Bytes(Range<usize>),
    /// Nothing is there, and something should be.
    Missing,
}

/// Where something stands in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The line, from 1.
    pub line: usize,
    /// The column of its first character, from 1.
    pub column: usize,
    /// How many characters it has on that line.
    pub width: usize,
}

/// The path of a field, such as `tasks[3].env.DB`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Path(Vec<Step>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// To the value of a key.
    Key(Cow<'static, str>),
    /// To an item of a list.
    Index(usize),
}

impl Path {
    /// The path of a key within what this path leads to.
    #[must_use]
    pub fn key(&self, key: impl Into<Cow<'static, str>>) -> Self {
        self.then(Step::Key(key.into()))
    }

    /// The path of an item of the list that this path leads to.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The path without its last step.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    /// Whether this path leads through the other one, or is it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(to, "[{index}]")?,
                Step::Key(key) if key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) => {
                    write!(to, "{}{key}", if place == 0 { "" } else { "." })?;
                }
                Step::Key(key) => write!(to, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

impl Problem {
    /// Says what is wrong with the value of a field.
    pub fn new(path: Path, message: impl Into<String>) -> Self {
        Self { path, part: Part::Value, message: message.into(), suggestion: None, span: None }
    }

    /// Says which part of the field is meant.
    #[must_use]
    pub fn about(mut self, part: Part) -> Self {
        self.part = part;
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<Option<String>>) -> Self {
        self.suggestion = suggestion.into();
        self
    }

    /// Says where it stands.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }
}

/// The problem in one line: where, what, and what to do.
impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = self.span {
            write!(to, "line {}, column {}: ", span.line, span.column)?;
        } else if !self.path.0.is_empty() {
            write!(to, "{}: ", self.path)?;
        }
        to.write_str(&self.message)?;
        if let Some(suggestion) = &self.suggestion {
            write!(to, " ({suggestion})")?;
        }
        Ok(())
    }
}

/// What is closest to `given` among what is known, if anything is close; as a question.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    closest(given, known).map(|name| format!("did you mean {name:?}?"))
}

/// What is closest to `given` among what is known, if anything is close.
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Beyond a name's length nothing is a slip of the pen, and comparing costs the product of both lengths.
    const LEN_MAX: usize = 128;
    if given.is_empty() || given.len() > LEN_MAX {
        return None;
    }
    let given = given.to_lowercase();
    // In a short name every other short name would be close.
    let slips_max = (given.chars().count() / 3).min(4);
    known
        .into_iter()
        .filter(|name| name.len() <= LEN_MAX)
        .filter(|name| name.chars().count().abs_diff(given.chars().count()) <= slips_max)
        .map(|name| (strsim::damerau_levenshtein(&given, &name.to_lowercase()), name))
        .filter(|&(slips, _)| slips <= slips_max)
        .min_by_key(|&(slips, _)| slips)
        .map(|(_, name)| name)
}

/// Draws a problem for a person: where it is, what it is, the line before and the line it is on, with the place marked
/// and what to do beside the mark. Ends with a newline.
pub fn render(problem: &Problem, source: &str, file_name: &str, color: bool) -> String {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let paint = |code: &'static str| if color { code } else { "" };
    let (bold, red, blue, plain) = (paint("\x1b[1m"), paint("\x1b[1;31m"), paint("\x1b[34m"), paint("\x1b[0m"));
    let message = &problem.message;
    let mut text = String::new();
    let Some(span) = problem.span else {
        let path = if problem.path.0.is_empty() { String::new() } else { format!("{}: ", problem.path) };
        let _ = writeln!(text, "{bold}{file_name}:{plain} {red}error:{plain} {path}{message}");
        if let Some(suggestion) = &problem.suggestion {
            let _ = writeln!(text, "      {red}{suggestion}{plain}");
        }
        return text;
    };
    let (number, column) = (span.line, span.column);
    let _ = writeln!(text, "{bold}{file_name}:{number}:{column}{plain} {red}error:{plain} {message}");
    let lines: Vec<&str> = source.lines().skip(number.saturating_sub(2)).take(2).collect();
    let (before, line) = match lines.as_slice() {
        [line] if number == 1 => (None, *line),
        [line, ..] if number == 1 => (None, *line),
        [before, line] => (Some(*before), *line),
        [before] => (Some(*before), ""),
        _ => (None, ""),
    };
    // A long line is shown from a little before the place on.
    let from = if column > SHOWN_MAX { column - 1 - SHOWN_BEFORE } else { 0 };
    let cut = |line: &str| -> String { line.chars().skip(from).take(SHOWN_MAX + SHOWN_BEFORE).map(visible).collect() };
    if let Some(before) = before.filter(|before| !before.trim().is_empty()) {
        let _ = writeln!(text, "{blue}{:>5} |{plain} {}", number - 1, cut(before));
    }
    let shown = cut(line);
    let _ = writeln!(text, "{blue}{number:>5} |{plain} {shown}");
    let lead: String = shown.chars().take(column - 1 - from).collect();
    let marked: String = shown.chars().skip(column - 1 - from).take(span.width).collect();
    let indent = " ".repeat(lead.width());
    let carets = "^".repeat(marked.width().max(1));
    let suggestion = problem.suggestion.as_deref().map_or(String::new(), |suggestion| format!(" {suggestion}"));
    let _ = writeln!(text, "{blue}      |{plain} {indent}{red}{carets}{suggestion}{plain}");
    text
}

/// Nothing in a file may move the reader's cursor or hide a character.
fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.width().is_none() => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "tasks:\n  - name: join\n    needs: [extract-order, extract-users]\n";

    fn problem() -> Problem {
        Problem::new(Path::default().key("tasks").index(0).key("needs").index(0), "task \"join\" needs nothing real")
            .suggest("did you mean \"extract-orders\"?".to_owned())
            .at(Span { line: 3, column: 13, width: 13 })
    }

    #[test]
    fn a_problem_shows_its_line_and_marks_its_place() {
        assert_eq!(
            render(&problem(), SOURCE, "bad.yaml", false),
            concat!(
                "bad.yaml:3:13 error: task \"join\" needs nothing real\n",
                "    2 |   - name: join\n",
                "    3 |     needs: [extract-order, extract-users]\n",
                "      |             ^^^^^^^^^^^^^ did you mean \"extract-orders\"?\n",
            )
        );
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let colored = render(&problem(), SOURCE, "bad.yaml", true);
        let mut plain = String::new();
        let mut rest = colored.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').expect("an end").1;
        }
        plain.push_str(rest);
        assert_eq!(plain, render(&problem(), SOURCE, "bad.yaml", false));
    }

    #[test]
    fn wide_characters_and_controls_do_not_move_the_mark() {
        let problem = Problem::new(Path::default(), "no").at(Span { line: 1, column: 4, width: 2 });
        let text = render(&problem, "数据\x1b名字", "f", false);
        assert_eq!(text, "f:1:4 error: no\n    1 | 数据\u{fffd}名字\n      |      ^^^^\n");
    }

    #[test]
    fn a_place_past_the_end_of_the_file_is_no_fault() {
        for line in [1, 2, 3, 9] {
            let problem = Problem::new(Path::default(), "no").at(Span { line, column: 7, width: 3 });
            assert!(render(&problem, "a: b", "f", false).contains('^'));
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}HERE{}", "x".repeat(5_000), "y".repeat(5_000));
        let problem = Problem::new(Path::default(), "no").at(Span { line: 1, column: 5_001, width: 4 });
        let text = render(&problem, &line, "f", false);
        assert!(text.contains("xHEREy") && text.len() < 600, "{text}");
    }

    #[test]
    fn a_path_reads_like_code() {
        let path = Path::default().key("tasks").index(3).key("env").key("A.B");
        assert_eq!(path.to_string(), "tasks[3].env[\"A.B\"]");
        assert_eq!(path.parent().to_string(), "tasks[3].env");
    }

    #[test]
    fn only_what_is_close_is_suggested() {
        let known = ["extract-orders", "extract-users", "join"];
        assert_eq!(closest("extract-order", known), Some("extract-orders"));
        assert_eq!(closest("jion", known), Some("join"));
        assert_eq!(closest("JOIN", known), Some("join"));
        assert_eq!(closest("publish", known), None);
        assert_eq!(closest("u", ["t"]), None);
    }
}
