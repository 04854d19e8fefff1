//! Conditions become truths.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::{Number, Value};

use super::{Kind, Node, Test};
use crate::domain::reference::{Scope, bracketed};

/// Decides a part that must be a truth.
pub(super) fn truth(node: &Node, scope: &Scope) -> Result<bool, String> {
    match value(node, scope)?.as_ref() {
        Value::Bool(truth) => Ok(*truth),
        other => {
            Err(format!("{} is {}, where true or false is needed: compare it with something", what(node), a(other)))
        }
    }
}

fn value<'v>(node: &'v Node, scope: &'v Scope) -> Result<Cow<'v, Value>, String> {
    let owned = |value: Value| Ok(Cow::Owned(value));
    match &node.kind {
        Kind::Literal(value) => Ok(Cow::Borrowed(value)),
        Kind::List(items) => {
            let items: Result<_, String> = items.iter().map(|item| Ok(value(item, scope)?.into_owned())).collect();
            owned(Value::Array(items?))
        }
        Kind::Param(name) => match scope.params.get(name) {
            Some(text) => owned(Value::String(text.clone())),
            None => Err(format!("params.{name} does not exist")),
        },
        Kind::State(task) => match scope.tasks.get(task) {
            Some(task) => owned(Value::String(task.state.clone())),
            None => Err(format!("task {task:?} does not exist")),
        },
        Kind::Output(task, keys) => output(task, keys, scope),
        Kind::Int(inner) => owned(integer(value(inner, scope)?.as_ref())?.into()),
        Kind::Float(inner) => owned(float(value(inner, scope)?.as_ref())?.into()),
        Kind::Not(inner) => owned((!truth(inner, scope)?).into()),
        Kind::And(left, right) => owned((truth(left, scope)? && truth(right, scope)?).into()),
        Kind::Or(left, right) => owned((truth(left, scope)? || truth(right, scope)?).into()),
        Kind::Test(left, test, right) => {
            let (left, right) = (value(left, scope)?, value(right, scope)?);
            owned(compare(&left, *test, &right)?.into())
        }
    }
}

fn output<'v>(task: &str, keys: &[String], scope: &'v Scope) -> Result<Cow<'v, Value>, String> {
    let view = scope.tasks.get(task).ok_or_else(|| format!("task {task:?} does not exist"))?;
    let mut value = &view.output;
    let mut path = format!("{}.output", bracketed(task));
    for key in keys {
        value = value.get(key.as_str()).ok_or_else(|| match value {
            Value::Object(_) => format!("{path} has no key {key:?}"),
            Value::Null => format!("{path} is empty; the task is {}", view.state),
            other => format!("{path} is {} and has no keys", a(other)),
        })?;
        path.push('.');
        path.push_str(key);
    }
    Ok(Cow::Borrowed(value))
}

fn integer(value: &Value) -> Result<i64, String> {
    let refused = || Err(format!("int({}) is not a whole number", shown(value)));
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(whole),
            // 2^53 is where a float begins to skip whole numbers.
            (None, Some(float)) if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 => Ok(float as i64),
            _ => refused(),
        },
        Value::String(text) => text.trim().parse().or_else(|_| refused()),
        _ => refused(),
    }
}

fn float(value: &Value) -> Result<f64, String> {
    let float = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    float.filter(|float| float.is_finite()).ok_or_else(|| format!("float({}) is not a number", shown(value)))
}

fn compare(left: &Value, test: Test, right: &Value) -> Result<bool, String> {
    match test {
        Test::In => contains(right, left),
        Test::NotIn => contains(right, left).map(|found| !found),
        Test::Equal => equal(left, right),
        Test::NotEqual => equal(left, right).map(|equal| !equal),
        Test::Less => order(left, right).map(Ordering::is_lt),
        Test::LessOrEqual => order(left, right).map(Ordering::is_le),
        Test::Greater => order(left, right).map(Ordering::is_gt),
        Test::GreaterOrEqual => order(left, right).map(Ordering::is_ge),
    }
}

fn equal(left: &Value, right: &Value) -> Result<bool, String> {
    match (left, right) {
        // Whether something is there may be asked of anything.
        (Value::Null, other) | (other, Value::Null) => Ok(other.is_null()),
        (Value::Number(left), Value::Number(right)) => Ok(numbers(left, right).is_eq()),
        (Value::Bool(_), Value::Bool(_))
        | (Value::String(_), Value::String(_))
        | (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_)) => Ok(left == right),
        _ => Err(different(left, right)),
    }
}

fn order(left: &Value, right: &Value) -> Result<Ordering, String> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Ok(numbers(left, right)),
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        _ if std::mem::discriminant(left) != std::mem::discriminant(right) => Err(different(left, right)),
        _ => Err(format!("{} is neither less nor greater than another", a(left))),
    }
}

/// JSON numbers are finite, so every two of them have an order.
fn numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn contains(whole: &Value, part: &Value) -> Result<bool, String> {
    match (whole, part) {
        (Value::Array(items), part) => {
            for item in items {
                if equal(item, part)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        (Value::String(whole), Value::String(part)) => Ok(whole.contains(part.as_str())),
        _ => Err(format!("{} cannot be in {}", a(part), a(whole))),
    }
}

fn different(left: &Value, right: &Value) -> String {
    let hint = match (left, right) {
        (Value::String(_), Value::Number(_)) | (Value::Number(_), Value::String(_)) => ": use int() or float()",
        _ => "",
    };
    format!("{} {} is compared with {} {}{hint}", a(left), shown(left), a(right), shown(right))
}

fn a(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A value in a reason, cut to a length at which it still helps.
fn shown(value: &Value) -> String {
    const SHOWN_MAX: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn what(node: &Node) -> String {
    match &node.kind {
        Kind::Param(name) => format!("params.{name}"),
        Kind::State(task) => format!("{}.state", bracketed(task)),
        Kind::Output(task, keys) => {
            let keys: Vec<&str> = ["output"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            format!("{}.{}", bracketed(task), keys.join("."))
        }
        _ => "a part of the condition".to_owned(),
    }
}
