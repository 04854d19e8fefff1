//! Text with tones: what is good, bad or busy. Tones become colours on a terminal and nothing elsewhere.

use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// How a piece of text feels. Colour only repeats what glyph and word already say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// Less important.
    Dim,
    /// More important.
    Bold,
    /// Ended well.
    Good,
    /// Ended badly.
    Bad,
    /// Under way.
    Busy,
    /// Deserves a look.
    Warn,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Busy => "\x1b[36m",
            Self::Warn => "\x1b[33m",
        }
    }
}

/// A piece of text with one tone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Span {
    text: String,
    tone: Tone,
}

impl Span {
    /// Text from anywhere: control characters, which could steer a terminal, become spaces.
    pub fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        let text = text.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { text, tone }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.text.width()
    }
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Self::new(text, Tone::Plain)
    }
}

impl From<String> for Span {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// One line of spans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line(Vec<Span>);

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text with a tone.
    #[must_use]
    pub fn with(mut self, text: impl AsRef<str>, tone: Tone) -> Self {
        self.push(Span::new(text, tone));
        self
    }

    /// Adds a span.
    pub fn push(&mut self, span: Span) {
        if !span.text.is_empty() {
            self.0.push(span);
        }
    }

    /// Moves the spans of another line to the end of this one.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Adds spaces up to a column.
    pub fn pad_to(&mut self, column: usize) {
        let width = self.width();
        if column > width {
            self.push(" ".repeat(column - width).into());
        }
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.0.iter().map(Span::width).sum()
    }

    /// The line in at most so many columns; what is cut is marked.
    #[must_use]
    pub fn cut(mut self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut kept = Vec::new();
        for mut span in self.0.drain(..) {
            let width = span.width();
            if width <= room {
                room -= width;
                kept.push(span);
                continue;
            }
            let mut end = 0;
            for (index, c) in span.text.char_indices() {
                let width = c.width().unwrap_or(0);
                if width > room {
                    break;
                }
                room -= width;
                end = index + c.len_utf8();
            }
            span.text.truncate(end);
            if columns > 0 {
                span.text.push('…');
            }
            kept.push(span);
            break;
        }
        Self(kept)
    }

    /// The line as text, with or without colours, without trailing spaces.
    pub fn render(&self, color: bool) -> String {
        let mut text = String::new();
        for span in &self.0 {
            let code = span.tone.code();
            if color && !code.is_empty() && !span.text.trim().is_empty() {
                let _ = write!(text, "{code}{}\x1b[0m", span.text);
            } else {
                text.push_str(&span.text);
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new().with(text, Tone::Plain)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_anywhere_cannot_steer_the_terminal() {
        let line = Line::from("a\x1b]0;title\x07b\u{9b}2J");
        assert!(!line.render(true).contains(['\x1b', '\x07', '\u{9b}']));
    }

    #[test]
    fn a_cut_line_fits_and_says_that_it_was_cut() {
        let line = Line::new().with("extract", Tone::Bold).with(" 每个工作日", Tone::Plain);
        assert_eq!(line.clone().cut(30), line);
        for columns in 0..line.width() {
            let cut = line.clone().cut(columns);
            assert!(cut.width() <= columns, "{columns}");
            assert!(columns == 0 || cut.render(false).ends_with('…'));
        }
    }

    #[test]
    fn colours_come_and_go_as_a_whole() {
        let line = Line::new().with("✔", Tone::Good).with(" finished", Tone::Plain);
        assert_eq!(line.render(false), "✔ finished");
        assert_eq!(line.render(true), "\x1b[32m✔\x1b[0m finished");
    }
}
