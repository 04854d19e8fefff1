//! The conditions of `when`: a small language in which every condition comes to an end, with a truth or a reason.
//!
//! ```text
//! or      = and { "or" and }
//! and     = not { "and" not }
//! not     = "not" not | test
//! test    = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in") value ]
//! value   = text | number | "true" | "false" | "null" | "[" [ or { "," or } ] "]" | "(" or ")"
//!         | ("int" | "float") "(" or ")" | "params" key | "tasks" key ".state" | "tasks" key ".output" { key }
//! key     = "." word | "[" text "]"
//! ```
//!
//! Values of different types are never compared, a text is never a truth, and nothing is converted unasked: what looks
//! right but means something else is refused.

mod eval;
mod lexer;
mod parser;

use std::ops::Range;

use serde_json::Value;

use super::{
    definition::limits::WHEN_MAX,
    reference::{Fault, Name, Reference, Scope},
};

/// Nodes of a condition.
pub const NODES_MAX: usize = 256;
/// How deep a condition may be nested.
pub const DEPTH_MAX: usize = 32;

/// A condition that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    root: Node,
}

/// A part of a condition and the bytes where it stands.
#[derive(Debug, Clone, PartialEq)]
struct Node {
    at: Range<usize>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Literal(Value),
    List(Vec<Node>),
    Param(String),
    State(String),
    Output(String, Vec<String>),
    Int(Box<Node>),
    Float(Box<Node>),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Test(Box<Node>, Test, Box<Node>),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

impl When {
    /// Reads a condition; the empty one is true.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > WHEN_MAX {
            return Err(Fault::new(format!("the condition has {} bytes; at most {WHEN_MAX}", text.len()), 0..0));
        }
        if text.trim().is_empty() {
            return Ok(Self { root: Node { at: 0..0, kind: Kind::Literal(Value::Bool(true)) } });
        }
        parser::parse(text).map(|root| Self { root })
    }

    /// Decides the condition, or tells why it cannot be decided.
    pub fn holds(&self, scope: &Scope) -> Result<bool, String> {
        eval::truth(&self.root, scope)
    }

    /// Every name the condition uses, in the order of the text.
    pub fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        self.root.visit(&mut |node| {
            let name = match &node.kind {
                Kind::Param(name) => Name::Param(name.clone()),
                Kind::State(task) => Name::State(task.clone()),
                Kind::Output(task, _) => Name::Output(task.clone()),
                _ => return,
            };
            references.push(Reference { name, at: node.at.clone() });
        });
        references
    }

    /// Every text that a state is compared with, and where: a condition on a state that does not exist is never what was
    /// meant.
    pub fn compared_states(&self) -> Vec<(String, Range<usize>)> {
        let mut states = Vec::new();
        self.root.visit(&mut |node| {
            let Kind::Test(left, _, right) = &node.kind else { return };
            for (one, other) in [(left, right), (right, left)] {
                if matches!(one.kind, Kind::State(_)) {
                    other.visit(&mut |node| {
                        if let Kind::Literal(Value::String(state)) = &node.kind {
                            states.push((state.clone(), node.at.clone()));
                        }
                    });
                }
            }
        });
        states
    }
}

impl Node {
    fn visit(&self, see: &mut dyn FnMut(&Self)) {
        see(self);
        match &self.kind {
            Kind::Literal(_) | Kind::Param(_) | Kind::State(_) | Kind::Output(..) => {}
            Kind::List(items) => items.iter().for_each(|item| item.visit(see)),
            Kind::Int(inner) | Kind::Float(inner) | Kind::Not(inner) => inner.visit(see),
            Kind::And(left, right) | Kind::Or(left, right) | Kind::Test(left, _, right) => {
                left.visit(see);
                right.visit(see);
            }
        }
    }
}

#[cfg(test)]
mod tests;
