//! The names that a template uses, found in its syntax tree before it ever runs.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use minijinja::machinery::{self, Span, ast};

use super::{is_template, render::environment};
use crate::domain::{
    definition::{closest, did_you_mean},
    reference::{Fault, Name, Reference, bracketed},
};

/// Bytes of a text with marks: what is longer is data, which belongs into a parameter or an output.
const TEMPLATE_MAX: usize = 16 << 10;
/// Words within the marks of a template. The engine walks a long sum step by step down the stack, so that its length has
/// to be bounded before it is read.
const WORDS_MAX: usize = 500;

/// The filters there are; `date` and `urlencode` are ours.
pub(super) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "date",
    "default",
    "dictsort",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "zip",
];

/// The tests there are.
pub(super) const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

/// The functions there are.
pub(super) const FUNCTIONS: &[&str] = &["range"];

/// What a callback can name of its event.
const EVENT: &[&str] =
    &["name", "task", "state", "reason", "attempt", "runner", "exit_code", "output", "time", "schedule"];

/// Filters whose value is a number.
const NUMERIC: &[&str] = &["abs", "count", "float", "int", "length", "round"];

/// Checks that a text is a template that makes sense by itself, and tells every name it uses.
pub fn check(text: &str) -> Result<Vec<Reference>, Vec<Fault>> {
    if !is_template(text) {
        return Ok(Vec::new());
    }
    within_bounds(text).map_err(|fault| vec![fault])?;
    let tree = machinery::parse(text, "template", environment().syntax().clone()).map_err(|error| {
        let at = error.range().filter(|at| text.get(at.clone()).is_some()).unwrap_or(0..text.len());
        vec![Fault::new(format!("the template does not parse: {}", error.detail().unwrap_or("syntax error")), at)]
    })?;
    let mut walk = Walk { text, own: HashSet::new(), looping: false, references: Vec::new(), faults: Vec::new() };
    walk.own_names(&tree);
    walk.statement(&tree);
    if walk.faults.is_empty() { Ok(walk.references) } else { Err(walk.faults) }
}

/// Refuses a template whose very reading would be too much.
pub(super) fn within_bounds(text: &str) -> Result<(), Fault> {
    if text.len() > TEMPLATE_MAX {
        let fault = Fault::new(format!("the template has {} bytes; at most {TEMPLATE_MAX}", text.len()), 0..0);
        return Err(fault.suggest("put long data into a param or an output and name it here"));
    }
    let words = machinery::tokenize(text, false, environment().syntax().clone());
    if words.take_while(Result::is_ok).take(WORDS_MAX + 1).count() > WORDS_MAX {
        return Err(Fault::new(format!("the template has more than {WORDS_MAX} words and marks"), 0..0));
    }
    Ok(())
}

/// The tasks that a text names; none if it does not make sense.
pub fn tasks_named(text: &str) -> BTreeSet<String> {
    let references = check(text).unwrap_or_default();
    references.iter().filter_map(|reference| reference.name.task()).map(str::to_owned).collect()
}

/// Names for values in between would let a template of a few lines grow without end.
const NO_NAMES: &str = "a template cannot name values of its own";

struct Walk<'t> {
    text: &'t str,
    /// What the loops give names to.
    own: HashSet<String>,
    looping: bool,
    references: Vec<Reference>,
    faults: Vec<Fault>,
}

impl Walk<'_> {
    /// Collects the names that loops give: they hide those of ours from then on, and before is too early to use them, which
    /// shows when it runs.
    fn own_names(&mut self, statement: &ast::Stmt<'_>) {
        if let ast::Stmt::ForLoop(inner) = statement {
            self.own.insert("loop".to_owned());
            self.target(&inner.target);
        }
        for part in parts(statement) {
            self.own_names(part);
        }
    }

    fn target(&mut self, target: &ast::Expr<'_>) {
        match target {
            ast::Expr::Var(name) => {
                self.own.insert(name.id.to_owned());
            }
            ast::Expr::List(list) => list.items.iter().for_each(|item| self.target(item)),
            ast::Expr::Tuple(tuple) => tuple.items.iter().for_each(|item| self.target(item)),
            _ => {}
        }
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) {
        match statement {
            ast::Stmt::Template(_) | ast::Stmt::EmitRaw(_) => {}
            ast::Stmt::EmitExpr(inner) => self.expression(&inner.expr),
            ast::Stmt::ForLoop(inner) => {
                self.expression(&inner.iter);
                inner.filter_expr.iter().for_each(|filter| self.expression(filter));
                if std::mem::replace(&mut self.looping, true) {
                    self.fault("a loop cannot stand in a loop", inner.span());
                }
                for part in parts(statement) {
                    self.statement(part);
                }
                self.looping = false;
                return;
            }
            ast::Stmt::IfCond(inner) => self.expression(&inner.expr),
            ast::Stmt::WithBlock(inner) => self.fault(NO_NAMES, inner.span()),
            ast::Stmt::Set(inner) => self.fault(NO_NAMES, inner.span()),
            ast::Stmt::SetBlock(inner) => self.fault(NO_NAMES, inner.span()),
            ast::Stmt::FilterBlock(inner) => {
                self.fault("a filter stands behind a value: {{ x | upper }}", inner.span());
            }
            ast::Stmt::AutoEscape(inner) => self.fault("nothing is escaped: values come out as they are", inner.span()),
            ast::Stmt::Do(inner) => self.fault("there is nothing to do here", inner.span()),
        }
        for part in parts(statement) {
            self.statement(part);
        }
    }

    fn fault(&mut self, message: &str, span: Span) {
        let at = self.bytes(span);
        self.faults.push(Fault::new(message, at));
    }

    fn expression(&mut self, expression: &ast::Expr<'_>) {
        match expression {
            ast::Expr::Const(_) => {}
            ast::Expr::Var(_) | ast::Expr::GetAttr(_) | ast::Expr::GetItem(_) => self.chain(expression),
            ast::Expr::Slice(inner) => {
                self.expression(&inner.expr);
                [&inner.start, &inner.stop, &inner.step].into_iter().flatten().for_each(|part| self.expression(part));
            }
            ast::Expr::UnaryOp(inner) => self.expression(&inner.expr),
            ast::Expr::BinOp(inner) => {
                if matches!(inner.op, ast::BinOpKind::Sub) && self.hyphenated(&inner.left) {
                    return;
                }
                let (left, right) = (numeric(&inner.left), numeric(&inner.right));
                match inner.op {
                    ast::BinOpKind::Add if !left && !right => {
                        self.fault("+ adds numbers: join texts with ~, or make a number with | int", inner.span());
                    }
                    ast::BinOpKind::Mul if !left || !right => {
                        self.fault("* multiplies numbers: make a number with | int", inner.span());
                    }
                    _ => {}
                }
                self.expression(&inner.left);
                self.expression(&inner.right);
            }
            ast::Expr::Compare(inner) => {
                self.expression(&inner.expr);
                inner.ops.iter().for_each(|op| self.expression(&op.expr));
            }
            ast::Expr::IfExpr(inner) => {
                self.expression(&inner.test_expr);
                self.expression(&inner.true_expr);
                inner.false_expr.iter().for_each(|part| self.expression(part));
            }
            ast::Expr::Filter(inner) => {
                inner.expr.iter().for_each(|part| self.expression(part));
                self.known("filter", inner.name, FILTERS, inner.span());
                self.arguments(&inner.args);
            }
            ast::Expr::Test(inner) => {
                self.expression(&inner.expr);
                self.known("test", inner.name, TESTS, inner.span());
                self.arguments(&inner.args);
            }
            ast::Expr::Call(inner) => self.call(inner, inner.span()),
            ast::Expr::List(inner) => inner.items.iter().for_each(|item| self.expression(item)),
            ast::Expr::Tuple(inner) => inner.items.iter().for_each(|item| self.expression(item)),
            ast::Expr::Map(inner) => inner.keys.iter().chain(&inner.values).for_each(|part| self.expression(part)),
        }
    }

    fn known(&mut self, kind: &str, name: &str, known: &[&str], span: Span) {
        if known.contains(&name) {
            return;
        }
        let mut fault = Fault::new(format!("there is no {kind} {name:?}"), self.bytes(span));
        fault.suggestion = did_you_mean(name, known.iter().copied());
        self.faults.push(fault);
    }

    fn call(&mut self, call: &ast::Call<'_>, span: Span) {
        match &call.expr {
            ast::Expr::Var(function) if FUNCTIONS.contains(&function.id) => {}
            ast::Expr::Var(function) => self.known("function", function.id, FUNCTIONS, span),
            other => {
                let fault = Fault::new("values have no functions of their own", self.bytes(other.span()));
                self.faults.push(fault.suggest("a filter follows a value: {{ value | upper }}"));
            }
        }
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &[ast::CallArg<'_>]) {
        for argument in arguments {
            match argument {
                ast::CallArg::Pos(value)
                | ast::CallArg::Kwarg(_, value)
                | ast::CallArg::PosSplat(value)
                | ast::CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }

    /// A name and what is looked up in it: `tasks['a'].output.rows`.
    fn chain(&mut self, expression: &ast::Expr<'_>) {
        let mut keys: Vec<Option<String>> = Vec::new();
        let mut rest = expression;
        let root = loop {
            match rest {
                ast::Expr::GetAttr(inner) => {
                    keys.push(Some(inner.name.to_owned()));
                    rest = &inner.expr;
                }
                ast::Expr::GetItem(inner) => {
                    let key = inner.subscript_expr.as_const();
                    keys.push(key.as_ref().and_then(minijinja::Value::as_str).map(str::to_owned));
                    self.expression(&inner.subscript_expr);
                    rest = &inner.expr;
                }
                ast::Expr::Var(root) => break root,
                other => return self.expression(other),
            }
        };
        if self.own.contains(root.id) {
            return;
        }
        // What is looked up by a bracket has a span of its own, from the bracket on.
        let at = self.bytes(root.span()).start..self.bytes(expression.span()).end;
        let mut keys = keys.into_iter().rev();
        let (first, second) = (keys.next(), keys.next());
        match name(root.id, first, second) {
            Ok(Some(name)) => self.references.push(Reference { name, at }),
            Ok(None) => {}
            Err((message, suggestion)) => self.faults.push(Fault::new(message, at).suggest(suggestion)),
        }
    }

    /// `tasks.my-task` reads like a subtraction; what was meant is the bracket form.
    fn hyphenated(&mut self, left: &ast::Expr<'_>) -> bool {
        let ast::Expr::GetAttr(task) = left else { return false };
        let ast::Expr::Var(root) = &task.expr else { return false };
        if root.id != "tasks" || self.own.contains("tasks") {
            return false;
        }
        let start = self.bytes(left.span()).start;
        let dotted = &self.text[start..];
        let end = dotted.find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c))).unwrap_or(dotted.len());
        let path = dotted[..end].trim_start_matches("tasks.");
        let name = path.find(".output").or_else(|| path.find(".state")).map_or(path, |at| &path[..at]);
        let fault = Fault::new("a name with a hyphen cannot follow a dot", start..start + end);
        self.faults.push(fault.suggest(format!("write {}{}", bracketed(name), &path[name.len()..])));
        true
    }

    fn bytes(&self, span: Span) -> Range<usize> {
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        if self.text.get(start..end).is_some() { start..end } else { 0..self.text.len() }
    }
}

/// Whether an expression is a number for certain. Lists can be added and multiplied in Jinja without taking any memory, until
/// someone looks at them.
fn numeric(expression: &ast::Expr<'_>) -> bool {
    match expression {
        ast::Expr::Const(inner) => inner.value.is_number(),
        ast::Expr::UnaryOp(inner) => matches!(inner.op, ast::UnaryOpKind::Neg) && numeric(&inner.expr),
        ast::Expr::BinOp(inner) => match inner.op {
            ast::BinOpKind::Add => numeric(&inner.left) || numeric(&inner.right),
            ast::BinOpKind::Sub
            | ast::BinOpKind::Mul
            | ast::BinOpKind::Div
            | ast::BinOpKind::FloorDiv
            | ast::BinOpKind::Rem
            | ast::BinOpKind::Pow => true,
            _ => false,
        },
        ast::Expr::Filter(inner) => NUMERIC.contains(&inner.name),
        ast::Expr::GetAttr(inner) => {
            let root = if let ast::Expr::Var(root) = &inner.expr { root.id } else { "" };
            matches!((root, inner.name), ("shard", "index" | "count") | ("loop", "index" | "index0" | "length"))
        }
        _ => false,
    }
}

/// The statements within a statement.
fn parts<'s, 't>(statement: &'s ast::Stmt<'t>) -> Vec<&'s ast::Stmt<'t>> {
    match statement {
        ast::Stmt::Template(inner) => inner.children.iter().collect(),
        ast::Stmt::ForLoop(inner) => inner.body.iter().chain(&inner.else_body).collect(),
        ast::Stmt::IfCond(inner) => inner.true_body.iter().chain(&inner.false_body).collect(),
        // The others are refused as a whole.
        _ => Vec::new(),
    }
}

/// What a root with its first two keys names; a key that has to be worked out is `None`.
#[expect(clippy::option_option, reason = "no key, a key that is worked out, and a key are three things")]
fn name(
    root: &str,
    first: Option<Option<String>>,
    second: Option<Option<String>>,
) -> Result<Option<Name>, (String, String)> {
    let field = |first: Option<Option<String>>, known: &[&str]| match first.flatten() {
        Some(field) if known.contains(&field.as_str()) => Ok(field),
        Some(field) => {
            let meant = closest(&field, known.iter().copied()).unwrap_or(known[0]);
            Err((format!("{root} has no {field:?}"), format!("did you mean {root}.{meant}?")))
        }
        None => Err((format!("{root:?} needs a name"), format!("it has {}", known.join(", ")))),
    };
    match root {
        // All of them, or one that is worked out: whichever it is, it was declared.
        "params" => Ok(first.flatten().map(Name::Param)),
        "tasks" => {
            let Some(task) = first.flatten() else {
                let message = "a task is named in quotes, so that it is known before it runs";
                return Err((message.to_owned(), "write tasks['NAME']".to_owned()));
            };
            match second.flatten().as_deref() {
                Some("state") => Ok(Some(Name::State(task))),
                Some("output") => Ok(Some(Name::Output(task))),
                _ => Err((
                    "a task has a .state and an .output".to_owned(),
                    format!("write {}.output.KEY", bracketed(&task)),
                )),
            }
        }
        "shard" => field(first, &["index", "count", "item"]).map(Name::Shard).map(Some),
        "callback" => field(first, &["url", "token"]).map(Name::Callback).map(Some),
        "job" => field(first, &["id", "name"]).map(Name::Job).map(Some),
        "event" => field(first, EVENT).map(Name::Event).map(Some),
        "logical_time" => Ok(Some(Name::LogicalTime)),
        other => Ok(Some(Name::Unknown(other.to_owned()))),
    }
}
