//! The text of a job file as trees of values, each of which knows where it stands.
//!
//! Aliases share what they repeat, and are counted as often as they repeat it: a small file cannot become a large one.

use std::{collections::HashMap, ops::Range, rc::Rc};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{
    limits::{DEPTH_MAX, DOCUMENTS_MAX, FILE_MAX, VALUES_MAX},
    problem::{Path, Problem, Span, Step},
};

/// One value of a file.
#[derive(Debug)]
pub(super) struct Node {
    /// Where it stands.
    pub(super) span: Span,
    /// What it is.
    pub(super) body: Body,
    /// How many values it has, itself included.
    weight: usize,
}

/// What a value is.
#[derive(Debug)]
pub(super) enum Body {
    /// Text, a number, a truth or nothing: that is for the reader of a key to say.
    Scalar {
        /// As it was meant.
        text: String,
        /// Whether it stood without quotes.
        plain: bool,
    },
    /// Values in order.
    List(Vec<Rc<Node>>),
    /// Keys and their values, in the order of the file.
    Map(Vec<(Rc<Node>, Rc<Node>)>),
}

impl Node {
    /// Whether it is a plain nothing.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.body, Body::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Its text, if it is a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Scalar { text, .. } => Some(text),
            Body::List(_) | Body::Map(_) => None,
        }
    }

    /// What it is, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match &self.body {
            Body::Scalar { .. } if self.is_null() => "nothing",
            Body::Scalar { .. } => "a text",
            Body::List(_) => "a list",
            Body::Map(_) => "a map",
        }
    }

    /// Where the place stands that a path leads to, or else the last step of it that is there. With `key` the place of
    /// the last key instead of its value.
    pub(super) fn locate(&self, path: &Path, key: bool) -> Span {
        self.follow(path, key).0
    }

    /// Where some bytes of the text stand that a path leads to. The whole text, when it is written in a form in which they
    /// cannot be pointed at.
    pub(super) fn locate_bytes(&self, path: &Path, bytes: &Range<usize>, lines: &[&str]) -> Span {
        let (span, node) = self.follow(path, false);
        node.and_then(Node::text).and_then(|text| within(text, bytes, span, lines)).unwrap_or(span)
    }

    fn follow(&self, path: &Path, key: bool) -> (Span, Option<&Self>) {
        let (mut node, mut span) = (self, self.span);
        for (place, step) in path.steps().iter().enumerate() {
            let next = match (step, &node.body) {
                (Step::Index(index), Body::List(items)) => items.get(*index).map(|item| (item.span, item)),
                (Step::Key(name), Body::Map(entries)) => {
                    let entry = entries.iter().find(|(key, _)| key.text() == Some(name));
                    entry.map(|(at, value)| {
                        let last = place + 1 == path.steps().len();
                        // A whole block is best pointed at by its name.
                        let by_key = (last && key) || value.text().is_none() || value.is_null();
                        (if by_key { at.span } else { value.span }, value)
                    })
                }
                // `command: [a, b]` is short for `command: {argv: [a, b]}`, and `success_when` of its one key likewise.
                (Step::Key(name), Body::List(_)) if name == "argv" || name == "status" => continue,
                _ => None,
            };
            let Some((at, value)) = next else { return (span, None) };
            (span, node) = (at, value);
        }
        (span, Some(node))
    }
}

/// Finds bytes of a text in the lines that it was read from, if the text stands there as it is.
fn within(text: &str, bytes: &Range<usize>, span: Span, lines: &[&str]) -> Option<Span> {
    let before = text.get(..bytes.start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    // In a block the text starts on the line after the mark.
    let first = lines.get(span.line - 1)?;
    let opening: String = first.chars().skip(span.column - 1).collect();
    let block = opening.starts_with(['|', '>']);
    let number = span.line + usize::from(block) + before.matches('\n').count();
    let shown = lines.get(number - 1)?;
    let skip = if number == span.line { span.column - 1 } else { 0 };
    let skipped = shown.char_indices().nth(skip).map_or(shown.len(), |(at, _)| at);
    let at = shown[skipped..].find(line).filter(|_| !line.is_empty())? + skipped;
    let column = shown[..at].chars().count() + text[line_start..bytes.start].chars().count() + 1;
    let end = bytes.end.clamp(bytes.start, line_start + line.len());
    let width = text.get(bytes.start..end)?.chars().count().max(1);
    Some(Span { line: number, column, width })
}

/// One document of a file.
#[derive(Debug)]
pub(super) struct Document {
    /// Its value.
    pub(super) root: Rc<Node>,
    /// Its lines, from 1.
    pub(super) lines: Range<usize>,
}

/// Reads the documents of a file, empty ones left out. When the text stops making sense, the documents before that place are
/// there all the same.
pub(super) fn parse(source: &str) -> (Vec<Document>, Vec<Problem>) {
    if source.len() > FILE_MAX {
        let message = format!("the file has {} bytes; at most {FILE_MAX}", source.len());
        return (Vec::new(), vec![Problem::new(Path::default(), message)]);
    }
    let mut builder = Builder::default();
    // The scanner takes a NUL for the end of the text.
    if let Some(at) = source.find('\0') {
        let before = &source[..at];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[start..].chars().count() + 1);
        let problem = Problem::new(Path::default(), "the file holds the character U+0000");
        return (Vec::new(), vec![problem.at(Span { line, column, width: 1 })]);
    }
    let mut parser = Parser::new_from_str(source);
    while let Some(event) = parser.next_event() {
        let taken = match event {
            Ok((event, span)) => builder.take(event, spanned(span.start, span.end)),
            Err(error) => {
                let at = spanned(*error.marker(), *error.marker());
                stop(format!("this is not YAML: {}", error.info()), at)
            }
        };
        if let Err(problem) = taken {
            builder.problems.push(*problem);
            break;
        }
    }
    (builder.documents, builder.problems)
}

/// A problem after which reading on makes no sense.
fn stop(message: String, span: Span) -> Result<(), Box<Problem>> {
    Err(Box::new(Problem::new(Path::default(), message).at(span)))
}

fn spanned(start: Marker, end: Marker) -> Span {
    // What runs over its line is marked where it begins.
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
    Span { line: start.line().max(1), column: start.col() + 1, width: width.max(1) }
}

/// Makes trees of events, without recursion.
#[derive(Default)]
struct Builder {
    documents: Vec<Document>,
    problems: Vec<Problem>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    weight: usize,
    started: usize,
    root: Option<Rc<Node>>,
}

/// A list or map whose end has not come.
struct Open {
    span: Span,
    anchor: usize,
    items: Vec<Rc<Node>>,
    is_map: bool,
}

impl Builder {
    /// Takes one event in; an error ends the reading.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Box<Problem>> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                self.root = None;
                self.started = if self.documents.is_empty() { 1 } else { span.line };
                if self.documents.len() == DOCUMENTS_MAX {
                    let message = format!("the file has more than {DOCUMENTS_MAX} documents; split it");
                    return stop(message, span);
                }
                Ok(())
            }
            Event::DocumentEnd => {
                if let Some(root) = self.root.take().filter(|root| !root.is_null()) {
                    self.documents.push(Document { root, lines: self.started..span.line });
                }
                Ok(())
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                // What is repeated is pointed at where it is written: that is the line to repair.
                Some(node) => self.add(Rc::clone(node), 0),
                None => stop("this alias lies within what it repeats".to_owned(), span),
            },
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(tag.as_deref(), span);
                let plain = style == ScalarStyle::Plain;
                let body = Body::Scalar { text: text.into_owned(), plain };
                self.add(Rc::new(Node { span, body, weight: 1 }), anchor)
            }
            Event::SequenceStart(anchor, tag) => self.open(anchor, tag.as_deref(), span, false),
            Event::MappingStart(anchor, tag) => self.open(anchor, tag.as_deref(), span, true),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { span, anchor, items, is_map }) = self.open.pop() else { return Ok(()) };
                let weight = items.iter().fold(1_usize, |sum, item| sum.saturating_add(item.weight));
                let mut items = items.into_iter();
                let body = if is_map {
                    Body::Map(std::iter::from_fn(|| items.next().zip(items.next())).collect())
                } else {
                    Body::List(items.collect())
                };
                self.finish(Rc::new(Node { span, body, weight }), anchor);
                Ok(())
            }
        }
    }

    fn open(&mut self, anchor: usize, tag: Option<&Tag>, span: Span, is_map: bool) -> Result<(), Box<Problem>> {
        self.refuse(tag, span);
        if self.open.len() == DEPTH_MAX {
            return stop(format!("nested more than {DEPTH_MAX} deep"), span);
        }
        self.open.push(Open { span, anchor, items: Vec::new(), is_map });
        self.weigh(1, span)
    }

    fn add(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), Box<Problem>> {
        self.weigh(node.weight, node.span)?;
        self.finish(node, anchor);
        Ok(())
    }

    fn weigh(&mut self, weight: usize, span: Span) -> Result<(), Box<Problem>> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > VALUES_MAX {
            let message = format!("the file has more than {VALUES_MAX} values, aliases counted as what they repeat");
            return stop(message, span);
        }
        Ok(())
    }

    fn finish(&mut self, node: Rc<Node>, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.root = Some(node),
        }
    }

    fn refuse(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let message = format!("the tag {tag} means nothing here; leave it out");
            self.problems.push(Problem::new(Path::default(), message).at(span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: &str) -> Rc<Node> {
        let (documents, problems) = parse(source);
        assert_eq!(problems, []);
        Rc::clone(&documents.first().expect("a document").root)
    }

    #[test]
    fn every_value_knows_its_place() {
        let root = one("name: join\ntasks:\n  - name: a\n    needs: [b, 'c d']\n");
        let tasks = Path::default().key("tasks");
        let at = |path: &Path| root.locate(path, false);
        assert_eq!(at(&Path::default().key("name")), Span { line: 1, column: 7, width: 4 });
        assert_eq!(at(&tasks), Span { line: 2, column: 1, width: 5 });
        assert_eq!(at(&tasks.index(0).key("needs").index(1)), Span { line: 4, column: 16, width: 5 });
        assert_eq!(root.locate(&tasks.index(0).key("name"), true), Span { line: 3, column: 5, width: 4 });
    }

    #[test]
    fn a_part_of_a_text_is_pointed_at_in_every_form_of_writing() {
        let word = "WORD";
        for source in [
            "k: say WORD now",
            "k: 'say WORD now'",
            "k: \"say WORD now\"",
            "k: |\n  first\n  say WORD now\n",
            "k: |-\n    数据 WORD\n",
            "{k: say WORD now}",
        ] {
            let root = one(source);
            let path = Path::default().key("k");
            let text = match &root.body {
                Body::Map(entries) => entries[0].1.text().expect("a text").to_owned(),
                _ => unreachable!("the root is a map"),
            };
            let start = text.find(word).expect("the word");
            let span = root.locate_bytes(&path, &(start..start + word.len()), &source.lines().collect::<Vec<_>>());
            let line: Vec<char> = source.lines().nth(span.line - 1).expect("the line").chars().collect();
            let marked: String = line[span.column - 1..span.column - 1 + span.width].iter().collect();
            assert_eq!(marked, word, "{source}");
        }
    }

    #[test]
    fn a_part_of_an_escaped_text_is_pointed_at_as_a_whole() {
        let source = "k: \"a\\tWORD\"";
        let span = one(source).locate_bytes(&Path::default().key("k"), &(2..6), &[source]);
        assert_eq!(span, Span { line: 1, column: 4, width: 9 });
    }

    #[test]
    fn aliases_repeat_but_never_explode() {
        assert!(matches!(&one("a: &x [1, 2]\nb: *x\n").body, Body::Map(entries) if entries.len() == 2));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..20 {
            let item = format!("*a{}, ", level - 1).repeat(10);
            bomb.extend([format!("a{level}: &a{level} [{item}]\n")]);
        }
        let (_, problems) = parse(&bomb);
        assert!(problems[0].message.contains("1000000 values"), "{problems:?}");
    }

    #[test]
    fn a_value_never_repeats_itself() {
        let (_, problems) = parse("a: &x [1, *x]\n");
        assert!(!problems.is_empty());
    }

    #[test]
    fn depth_tags_and_nul_are_refused_with_their_place() {
        let (_, problems) = parse(&"[".repeat(DEPTH_MAX + 1));
        assert!(problems[0].message.contains("nested more than"), "{problems:?}");
        assert!(!parse(&"[".repeat(100_000)).1.is_empty());
        let (_, problems) = parse("a: !!binary aGk=\n");
        assert_eq!(problems[0].span, Some(Span { line: 1, column: 4, width: 13 }));
        let (_, problems) = parse("a: b\nc: d\0e\n");
        assert_eq!(problems[0].span, Some(Span { line: 2, column: 5, width: 1 }));
    }

    #[test]
    fn documents_before_a_fault_are_read_all_the_same() {
        let (documents, problems) = parse("a: 1\n---\n---\nb: 2\n---\nc: [1\n");
        assert_eq!(documents.len(), 2);
        assert_eq!(problems.len(), 1);
        assert_eq!((documents[0].lines.clone(), documents[1].lines.clone()), (1..2, 3..5));
    }
}
