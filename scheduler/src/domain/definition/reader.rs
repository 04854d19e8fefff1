//! Reads a value of a file by the table of keys: what it holds, and everything that is wrong with it.

use std::{collections::BTreeMap, rc::Rc, time::Duration};

use chrono::{DateTime, Utc};

use super::{
    keys::{Key, Object, Shape},
    limits::PROBLEMS_MAX,
    problem::{Path, Problem, did_you_mean},
    span,
    tree::{Body, Node},
};

/// What was read of a map: the keys that are there and make sense.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

/// What a key held.
#[derive(Debug)]
pub(super) enum Value {
    Text(String),
    Flag(bool),
    Span(Duration),
    Integer(i64),
    Number(f64),
    Integers(Vec<i32>),
    Time(DateTime<Utc>),
    Texts(Vec<String>),
    Pairs(BTreeMap<String, String>),
    Object(Fields),
    Objects(Vec<Fields>),
}

macro_rules! taker {
    ($name:ident, $variant:ident, $type:ty) => {
        #[doc = concat!("Takes the value of a key, if it was read as `", stringify!($variant), "`.")]
        pub(super) fn $name(&mut self, key: &str) -> Option<$type> {
            let place = self.0.iter().position(|(name, _)| *name == key)?;
            match self.0.swap_remove(place).1 {
                Value::$variant(value) => Some(value),
                _ => None,
            }
        }
    };
}

impl Fields {
    taker!(text, Text, String);
    taker!(flag, Flag, bool);
    taker!(span, Span, Duration);
    taker!(integer, Integer, i64);
    taker!(number, Number, f64);
    taker!(integers, Integers, Vec<i32>);
    taker!(time, Time, DateTime<Utc>);
    taker!(texts, Texts, Vec<String>);
    taker!(pairs, Pairs, BTreeMap<String, String>);
    taker!(object, Object, Self);
    taker!(objects, Objects, Vec<Self>);

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, value)| *name == key && !matches!(value, Value::Flag(false)))
    }

    fn has_false(&self, key: &str) -> bool {
        self.0.iter().any(|(name, value)| *name == key && matches!(value, Value::Flag(false)))
    }
}

/// Reads a map. What is wrong goes to `problems`, and is left out of the answer.
pub(super) fn read(node: &Node, object: &'static Object, path: &Path, problems: &mut Vec<Problem>) -> Fields {
    let mut fields = Fields::default();
    let Body::Map(entries) = &node.body else {
        let message = format!("{} must be a map of keys, not {}", named(path), node.kind());
        problems.push(Problem::new(path.clone(), message).at(node.span));
        return fields;
    };
    let mut seen: Vec<&str> = Vec::with_capacity(entries.len());
    for (key_node, value) in entries {
        if problems.len() >= PROBLEMS_MAX {
            break;
        }
        let Some(name) = key_node.text() else {
            let message = format!("a key must be a word, not {}", key_node.kind());
            problems.push(Problem::new(path.clone(), message).at(key_node.span));
            continue;
        };
        let here = path.key(name.to_owned());
        let Some(key) = object.keys.iter().find(|key| key.name == name) else {
            problems.push(unknown(object, name, here).at(key_node.span));
            continue;
        };
        if seen.contains(&name) {
            problems.push(Problem::new(here, format!("{name:?} stands here twice")).at(key_node.span));
            continue;
        }
        seen.push(name);
        if let Some(value) = read_key(key, value, &here, problems) {
            fields.0.push((key.name, value));
        }
    }
    check_choice(object, &fields, &seen, node, path, problems);
    fields
}

fn unknown(object: &Object, name: &str, path: Path) -> Problem {
    if object.later.contains(&name) {
        return Problem::new(path, format!("{name:?} is not supported by this version"));
    }
    if name == "<<" {
        let problem = Problem::new(path, "merge keys are not supported");
        return problem.suggest("put what all tasks share into task_defaults".to_owned());
    }
    let known = object.keys.iter().map(|key| key.name);
    let suggestion = did_you_mean(name, known.clone()).unwrap_or_else(|| {
        let known: Vec<&str> = known.collect();
        format!("the keys here are {}", known.join(", "))
    });
    Problem::new(path, format!("unknown key {name:?}")).suggest(suggestion)
}

/// Some keys exclude each other.
fn check_choice(
    object: &Object,
    fields: &Fields,
    seen: &[&str],
    node: &Node,
    path: &Path,
    problems: &mut Vec<Problem>,
) {
    let Some((choice, required)) = object.choice else { return };
    let mut chosen = seen.iter().filter(|key| choice.contains(key) && fields.has(key));
    let (first, second) = (chosen.next(), chosen.next());
    if let Some(second) = second {
        let here = path.key((*second).to_owned());
        let span = node.locate(&Path::default().key((*second).to_owned()), true);
        problems.push(Problem::new(here, format!("only one of {} can be set", choice.join(", "))).at(span));
        // One that is set but was not understood has been told already.
    } else if required && first.is_none() && !seen.iter().any(|key| choice.contains(key) && !fields.has_false(key)) {
        problems.push(Problem::new(path.clone(), format!("one of {} must be set", choice.join(", "))).at(node.span));
    }
}

/// Reads what a key holds; nothing (`key:` or `key: null`) is as if the key were not there.
fn read_key(key: &Key, node: &Rc<Node>, path: &Path, problems: &mut Vec<Problem>) -> Option<Value> {
    if node.is_null() {
        return None;
    }
    let wrong = |problems: &mut Vec<Problem>, wanted: &str| {
        let message = format!("{} must be {wanted}, not {}", named(path), node.kind());
        problems.push(Problem::new(path.clone(), message).at(node.span));
    };
    match key.shape {
        Shape::Text | Shape::Name => {
            if node.text().is_none() {
                wrong(problems, "a text");
            }
            node.text().map(|text| Value::Text(text.to_owned()))
        }
        Shape::Object(object) => Some(Value::Object(read(node, object, path, problems))),
        Shape::Objects(object) => match &node.body {
            Body::List(items) => {
                let items = items.iter().enumerate();
                Some(Value::Objects(
                    items.map(|(place, item)| read(item, object, &path.index(place), problems)).collect(),
                ))
            }
            Body::Scalar { .. } | Body::Map(_) => {
                wrong(problems, "a list");
                None
            }
        },
        Shape::Texts => read_texts(node, path, problems).map(Value::Texts),
        Shape::Words(words) => read_texts(node, path, problems).map(|texts| {
            for (place, text) in texts.iter().enumerate() {
                let here = path.index(place);
                // One that is no text has been told already.
                if let Err((message, suggestion)) = read_scalar(Shape::Word(words, &[]), text)
                    && !problems.iter().any(|told| told.path == here)
                {
                    let span = node.locate(&Path::default().index(place), false);
                    problems.push(Problem::new(here, message).suggest(suggestion).at(span));
                }
            }
            Value::Texts(texts)
        }),
        Shape::ShortTexts(inner) => match &node.body {
            Body::Map(entries) => {
                let mut texts = None;
                for (key_node, value) in entries {
                    if key_node.text() == Some(inner) {
                        texts = read_texts(value, &path.key(inner), problems);
                    } else {
                        let message = format!("unknown key; {} holds {inner} alone", named(path));
                        problems.push(Problem::new(path.clone(), message).at(key_node.span));
                    }
                }
                texts.map(Value::Texts)
            }
            Body::Scalar { .. } | Body::List(_) => read_texts(node, &path.key(inner), problems).map(Value::Texts),
        },
        Shape::Pairs => read_pairs(node, path, problems).map(Value::Pairs),
        Shape::Integers(low, high) => {
            let texts = read_texts(node, path, problems)?.into_iter().enumerate();
            let mut read = |(place, text): (usize, String)| match text.parse() {
                Ok(number) if (low..=high).contains(&number) => Some(number),
                _ => {
                    let message = format!("{text:?} is not a whole number from {low} to {high}");
                    problems.push(Problem::new(path.index(place), message).at(node.span));
                    None
                }
            };
            Some(Value::Integers(texts.filter_map(&mut read).collect()))
        }
        Shape::Flag | Shape::Span | Shape::Time | Shape::Integer(..) | Shape::Number(..) | Shape::Word(..) => {
            let Some(text) = node.text() else {
                wrong(problems, wanted(key.shape));
                return None;
            };
            let read = read_scalar(key.shape, text);
            read.map_err(|(message, suggestion)| {
                let problem = Problem::new(path.clone(), format!("{}: {message}", named(path)));
                problems.push(problem.suggest(suggestion).at(node.span));
            })
            .ok()
        }
    }
}

fn wanted(shape: Shape) -> &'static str {
    match shape {
        Shape::Flag => "true or false",
        Shape::Span => "a span of time such as 90s",
        Shape::Time => "an instant such as 2026-12-01T09:00:00+08:00",
        Shape::Integer(..) => "a whole number",
        Shape::Number(..) => "a number",
        _ => "a word",
    }
}

fn read_scalar(shape: Shape, text: &str) -> Result<Value, (String, Option<String>)> {
    match shape {
        Shape::Flag => match text {
            "true" | "True" | "TRUE" => Ok(Value::Flag(true)),
            "false" | "False" | "FALSE" => Ok(Value::Flag(false)),
            _ => Err((format!("{text:?} is neither true nor false"), None)),
        },
        Shape::Span => span::parse(text).map(Value::Span).map_err(|message| (message, None)),
        Shape::Time => DateTime::parse_from_rfc3339(text).map(|time| Value::Time(time.to_utc())).map_err(|_| {
            let how = "write it with its offset, like 2026-12-01T09:00:00+08:00 or 2026-12-01T01:00:00Z";
            (format!("{text:?} is no instant; {how}"), None)
        }),
        Shape::Integer(low, high) => match text.parse() {
            Ok(number) if (low..=high).contains(&number) => Ok(Value::Integer(number)),
            _ => Err((format!("{text:?} is not a whole number from {low} to {high}"), None)),
        },
        Shape::Number(low, high) => match text.parse() {
            Ok(number) if (low..=high).contains(&number) => Ok(Value::Number(number)),
            _ => Err((format!("{text:?} is not a number from {low} to {high}"), None)),
        },
        Shape::Word(words, later) if !words.contains(&text) => {
            if later.contains(&text) {
                return Err((format!("{text:?} is not supported by this version"), None));
            }
            let suggestion = did_you_mean(text, words.iter().copied())
                .unwrap_or_else(|| format!("it is one of {}", words.join(", ")));
            Err((format!("{text:?} is unknown"), Some(suggestion)))
        }
        _ => Ok(Value::Text(text.to_owned())),
    }
}

fn read_texts(node: &Node, path: &Path, problems: &mut Vec<Problem>) -> Option<Vec<String>> {
    let Body::List(items) = &node.body else {
        let problem = Problem::new(path.clone(), format!("{} must be a list, not {}", named(path), node.kind()));
        let suggestion = node.text().map(|text| format!("write [{text}]"));
        problems.push(problem.suggest(suggestion.filter(|hint| hint.len() < 80)).at(node.span));
        return None;
    };
    let mut texts = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let text = item.text().filter(|_| !item.is_null());
        if text.is_none() {
            problems.push(no_text(item, path.index(place)));
        }
        // Its place is kept, so that the places of those after it stay what they are in the file.
        texts.push(text.unwrap_or_default().to_owned());
    }
    Some(texts)
}

fn read_pairs(node: &Node, path: &Path, problems: &mut Vec<Problem>) -> Option<BTreeMap<String, String>> {
    let Body::Map(entries) = &node.body else {
        let message = format!("{} must be a map of names to texts, not {}", named(path), node.kind());
        problems.push(Problem::new(path.clone(), message).at(node.span));
        return None;
    };
    let mut pairs = BTreeMap::new();
    for (key, value) in entries {
        let Some(name) = key.text() else {
            let message = format!("a name must be a text, not {}", key.kind());
            problems.push(Problem::new(path.clone(), message).at(key.span));
            continue;
        };
        let here = path.key(name.to_owned());
        let text = value.text().filter(|_| !value.is_null());
        if text.is_none() {
            problems.push(no_text(value, here.clone()));
        }
        if pairs.insert(name.to_owned(), text.unwrap_or_default().to_owned()).is_some() {
            problems.push(Problem::new(here, format!("{name:?} stands here twice")).at(key.span));
        }
    }
    Some(pairs)
}

fn no_text(node: &Node, path: Path) -> Problem {
    let problem = Problem::new(path, format!("this must be a text, not {}", node.kind())).at(node.span);
    problem.suggest(node.is_null().then(|| "write \"\" for an empty text".to_owned()))
}

/// A path for the beginning of a message.
fn named(path: &Path) -> String {
    match path.steps().last() {
        None => "a job config".to_owned(),
        Some(super::problem::Step::Key(key)) => key.to_string(),
        Some(super::problem::Step::Index(index)) => format!("item {index}"),
    }
}
