//! Words become a condition.

use std::ops::Range;

use serde_json::Value;

use super::{
    super::{
        definition::did_you_mean,
        reference::{Fault, bracketed},
    },
    DEPTH_MAX, Kind, NODES_MAX, Node, Test,
    lexer::{Token, Word, tokens},
};

/// Reads a whole condition.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, nodes: 0, depth: 0 };
    let root = parser.or()?;
    match parser.peek() {
        Word::End => Ok(root),
        Word::Mark("==" | "!=" | "<" | "<=" | ">" | ">=") => {
            Err(parser.fault("comparisons cannot be chained").suggest("join two with \"and\""))
        }
        Word::Mark("-") => Err(parser.fault("there is no arithmetic in a condition")),
        _ => Err(parser.fault("the condition should end here").suggest("join two with \"and\" or \"or\"")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    next: usize,
    nodes: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Word {
        &self.tokens[self.next].0
    }

    fn at(&self) -> Range<usize> {
        self.tokens[self.next].1.clone()
    }

    /// The bytes from a place up to the last word taken.
    fn since(&self, start: usize) -> Range<usize> {
        start..self.tokens[self.next.saturating_sub(1)].1.end.max(start)
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(message, self.at())
    }

    /// Takes the next word; the end is never passed.
    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn take_mark(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Word::Mark(found) if *found == mark);
        if found {
            self.take();
        }
        found
    }

    fn take_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Word::Name(found) if found == name);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.take_mark(mark) { Ok(()) } else { Err(self.fault(format!("{mark:?} is missing here"))) }
    }

    fn node(&mut self, start: usize, kind: Kind) -> Result<Node, Fault> {
        self.nodes += 1;
        let at = self.since(start);
        if self.nodes > NODES_MAX {
            return Err(Fault::new(format!("the condition has more than {NODES_MAX} parts"), at));
        }
        Ok(Node { at, kind })
    }

    /// Every way down passes here, so that no condition is too deep for the stack.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(self.fault(format!("the condition is nested more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn or(&mut self) -> Result<Node, Fault> {
        let start = self.at().start;
        let mut left = self.and()?;
        while self.take_name("or") {
            let right = self.and()?;
            left = self.node(start, Kind::Or(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Node, Fault> {
        let start = self.at().start;
        let mut left = self.not()?;
        while self.take_name("and") {
            let right = self.not()?;
            left = self.node(start, Kind::And(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Node, Fault> {
        let start = self.at().start;
        if self.take_name("not") {
            let inner = self.deeper(Self::not)?;
            return self.node(start, Kind::Not(Box::new(inner)));
        }
        self.test()
    }

    fn test(&mut self) -> Result<Node, Fault> {
        let start = self.at().start;
        let left = self.value()?;
        let test = match self.peek() {
            Word::Mark("==") => Test::Equal,
            Word::Mark("!=") => Test::NotEqual,
            Word::Mark("<") => Test::Less,
            Word::Mark("<=") => Test::LessOrEqual,
            Word::Mark(">") => Test::Greater,
            Word::Mark(">=") => Test::GreaterOrEqual,
            Word::Name(name) if name == "in" => Test::In,
            Word::Name(name) if name == "not" => Test::NotIn,
            _ => return Ok(left),
        };
        self.take();
        if test == Test::NotIn && !self.take_name("in") {
            return Err(self.fault("\"in\" is missing after \"not\""));
        }
        let right = self.value()?;
        self.node(start, Kind::Test(Box::new(left), test, Box::new(right)))
    }

    fn value(&mut self) -> Result<Node, Fault> {
        let at = self.at();
        let literal = |value: Value| Kind::Literal(value);
        let (word, _) = self.take();
        let kind = match word {
            Word::Text(text) => literal(Value::String(text)),
            Word::Integer(number) => literal(number.into()),
            Word::Float(number) => literal(number.into()),
            Word::Mark("-") => match self.take().0 {
                Word::Integer(number) => literal((-number).into()),
                Word::Float(number) => literal((-number).into()),
                _ => return Err(Fault::new("a number is missing after \"-\"", self.since(at.start))),
            },
            Word::Mark("(") => {
                let inner = self.deeper(Self::or)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Word::Mark("[") => Kind::List(self.deeper(Self::items)?),
            Word::Name(name) => return self.named(&name, at),
            Word::End => return Err(Fault::new("a value is missing here", at)),
            Word::Mark(mark) => return Err(Fault::new(format!("a value is missing before {mark:?}"), at)),
        };
        self.node(at.start, kind)
    }

    fn items(&mut self) -> Result<Vec<Node>, Fault> {
        let mut items = Vec::new();
        while !self.take_mark("]") {
            items.push(self.or()?);
            if !self.take_mark(",") {
                self.expect("]")?;
                break;
            }
        }
        Ok(items)
    }

    fn named(&mut self, name: &str, at: Range<usize>) -> Result<Node, Fault> {
        let kind = match name {
            "true" => Kind::Literal(Value::Bool(true)),
            "false" => Kind::Literal(Value::Bool(false)),
            "null" | "none" => Kind::Literal(Value::Null),
            "int" | "float" => {
                self.expect("(")?;
                let inner = Box::new(self.deeper(Self::or)?);
                self.expect(")")?;
                if name == "int" { Kind::Int(inner) } else { Kind::Float(inner) }
            }
            "params" => match self.key()? {
                Some(param) => Kind::Param(param),
                None => return Err(Fault::new("\"params\" needs a name: params.x", at)),
            },
            "tasks" => self.task(&at)?,
            other => {
                let known = ["params", "tasks", "int", "float", "true", "false", "null", "and", "or", "not", "in"];
                let fault = Fault::new(format!("{other:?} is unknown in a condition"), at);
                let meant = did_you_mean(other, known);
                return Err(fault.suggest(meant.unwrap_or_else(|| format!("a text stands in quotes: '{other}'"))));
            }
        };
        self.node(at.start, kind)
    }

    fn task(&mut self, at: &Range<usize>) -> Result<Kind, Fault> {
        let dotted = matches!(self.peek(), Word::Mark("."));
        let Some(task) = self.key()? else {
            return Err(Fault::new("\"tasks\" needs a name: tasks['name']", at.clone()));
        };
        if dotted && matches!(self.peek(), Word::Mark("-")) {
            return Err(self.hyphenated(at.start));
        }
        let field = self.key()?;
        match field.as_deref() {
            Some("state") => Ok(Kind::State(task)),
            Some("output") => {
                let mut keys = Vec::new();
                while let Some(key) = self.key()? {
                    keys.push(key);
                }
                Ok(Kind::Output(task, keys))
            }
            _ => {
                let fault = Fault::new("a task has a .state and an .output", self.since(at.start));
                Err(fault.suggest(format!("{}.output.KEY", bracketed(&task))))
            }
        }
    }

    /// `tasks.my-task` reads like a subtraction; what was meant is the bracket form.
    fn hyphenated(&self, start: usize) -> Fault {
        let dotted = &self.text[start..];
        let end = dotted.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).unwrap_or(dotted.len());
        let path = dotted[..end].trim_start_matches("tasks.");
        let task = path.find(".output").or_else(|| path.find(".state")).map_or(path, |at| &path[..at]);
        let fault = Fault::new("a name with a hyphen cannot follow a dot", start..start + end);
        fault.suggest(format!("write {}{}", bracketed(task), &path[task.len()..]))
    }

    /// Reads `.word` or `['text']`, if one follows.
    fn key(&mut self) -> Result<Option<String>, Fault> {
        if self.take_mark(".") {
            return match self.take() {
                (Word::Name(name), _) => Ok(Some(name)),
                (_, at) => Err(Fault::new("a name is missing after the dot", at)),
            };
        }
        if !matches!(self.peek(), Word::Mark("[")) {
            return Ok(None);
        }
        self.take();
        let key = match self.take() {
            (Word::Text(key), _) => key,
            (_, at) => return Err(Fault::new("a name in quotes is missing here", at).suggest("write ['name']")),
        };
        self.expect("]")?;
        Ok(Some(key))
    }
}
