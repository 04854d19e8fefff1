//! Templates become texts.

use std::{collections::BTreeMap, io, sync::OnceLock};

use chrono::{DateTime, format::StrftimeItems};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, context,
    value::{Serde, ValueKind},
};

use super::{
    super::reference::{CallbackView, Scope, ShardView},
    is_template,
    names::within_bounds,
};

/// Steps that a template may take; a step makes at most some dozens of bytes.
const FUEL: u64 = 500_000;
/// Bytes that a template may come to.
pub const RENDERED_MAX: usize = 1 << 20;
/// Items that a task may be split into.
const ITEMS_MAX: usize = crate::domain::definition::limits::SHARDS_MAX as usize;

/// Works out the templates of one scope.
#[derive(Debug, Clone)]
pub struct Renderer {
    context: Value,
}

impl Renderer {
    /// For templates that may name anything in a scope.
    pub fn new(scope: &Scope) -> Self {
        let tasks: BTreeMap<&str, Value> = scope
            .tasks
            .iter()
            .map(|(name, task)| {
                (name.as_str(), context!(state => task.state.as_str(), output => Value::from(Serde(&task.output))))
            })
            .collect();
        let mut values = BTreeMap::from([
            ("params", Value::from(Serde(&scope.params))),
            ("tasks", Value::from(tasks)),
            ("job", context!(id => scope.job_id.as_str(), name => scope.job_name.as_str())),
            ("logical_time", Value::from(scope.logical_time.to_rfc3339())),
        ]);
        if let Some(ShardView { index, count, item }) = &scope.shard {
            let mut shard = BTreeMap::from([("index", Value::from(*index)), ("count", Value::from(*count))]);
            if let Some(item) = item {
                shard.insert("item", Value::from(item.as_str()));
            }
            values.insert("shard", Value::from(shard));
        }
        if let Some(CallbackView { token, url }) = &scope.callback {
            values.insert("callback", context!(token => token.as_str(), url => url.as_str()));
        }
        if !scope.event.is_null() {
            values.insert("event", Value::from(Serde(&scope.event)));
        }
        Self { context: Value::from(values) }
    }

    /// Works out the template of a field, or tells why that cannot be done.
    pub fn render(&self, field: &str, text: &str) -> Result<String, String> {
        if !is_template(text) {
            return Ok(text.to_owned());
        }
        within_bounds(text).map_err(|fault| format!("{field}: {}", fault.message))?;
        let mut out = Bounded(Vec::new());
        let template = environment().template_from_str(text).map_err(|error| reason(field, text, &error))?;
        match template.render_captured_to(self.context.clone(), &mut out) {
            Ok(_) => {}
            Err(_) if out.0.len() > RENDERED_MAX => {
                return Err(format!("{field}: comes to more than {RENDERED_MAX} bytes"));
            }
            Err(error) => return Err(reason(field, text, &error)),
        }
        if out.0.contains(&0) {
            return Err(format!("{field}: comes to a text with the character U+0000, which no process can be given"));
        }
        String::from_utf8(out.0).map_err(|_| format!("{field}: comes to something that is not text"))
    }
}

/// Takes a rendered list apart: a JSON list, or one item a line. An item that is not a text stays JSON.
pub fn items(rendered: &str) -> Result<Vec<String>, String> {
    let text = rendered.trim();
    let items: Vec<String> = if text.starts_with('[') {
        let items: Vec<serde_json::Value> =
            serde_json::from_str(text).map_err(|error| format!("items: this is no JSON list: {error}"))?;
        let item = |item| match item {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        items.into_iter().map(item).collect()
    } else {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    if items.len() > ITEMS_MAX {
        return Err(format!("items: {} of them; at most {ITEMS_MAX}", items.len()));
    }
    Ok(items)
}

/// What all templates share: it knows no file and no clock.
pub(super) fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(64);
        // The place of a mistake is wanted.
        environment.set_debug(true);
        let syntax = minijinja::syntax::SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.expect("the usual marks are a syntax"));
        environment.set_formatter(|out, _, value| match value.kind() {
            ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
            ValueKind::String => Ok(out.write_str(value.as_str().unwrap_or_default())?),
            _ => Ok(out.write_str(&json(value)?)?),
        });
        // The engine's own would fill the memory with blanks when asked for a wide indent.
        environment.add_filter("tojson", json_filter);
        environment.add_filter("date", date);
        environment.add_filter("urlencode", urlencode);
        environment
    })
}

/// A value as JSON. A list can be made far longer than the memory it takes, so its text has a bound of its own.
#[expect(clippy::needless_pass_by_value, reason = "filters are given values")]
fn json_filter(value: Value) -> Result<String, Error> {
    json(&value)
}

fn json(value: &Value) -> Result<String, Error> {
    let mut out = Bounded(Vec::new());
    let written = serde_json::to_writer(&mut out, value);
    if out.0.len() > RENDERED_MAX {
        let message = format!("comes to more than {RENDERED_MAX} bytes");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let none = || Error::new(ErrorKind::BadSerialization, "this value has no text");
    written.map_err(|_| none())?;
    String::from_utf8(out.0).map_err(|_| none())
}

/// A value as one part of a url: everything but letters, digits and `-._~` is written as `%XX`.
#[expect(clippy::needless_pass_by_value, reason = "filters are given values")]
fn urlencode(value: Value) -> Result<String, Error> {
    let text = match value.kind() {
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        _ => json(&value)?,
    };
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                let [high, low] = [byte >> 4, byte & 15].map(|half| char::from(HEX[usize::from(half)]));
                encoded.extend(['%', high, low]);
            }
        }
    }
    Ok(encoded)
}

/// `logical_time | date('%Y-%m-%d')`: a time in words of strftime.
fn date(time: &str, format: &str) -> Result<String, Error> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    let time = DateTime::parse_from_rfc3339(time)
        .map_err(|_| wrong(format!("{time:?} is no time such as 2026-12-01T09:00:00+08:00")))?;
    let items = StrftimeItems::new(format).parse().map_err(|_| wrong(format!("{format:?} is no form of a date")))?;
    Ok(time.format_with_items(items.iter()).to_string())
}

fn reason(field: &str, text: &str, error: &Error) -> String {
    let part = error.range().and_then(|at| text.get(at)).filter(|part| !part.is_empty() && part.len() <= 100);
    let place = part.map_or(String::new(), |part| format!(" `{part}`"));
    match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, _) => format!("{field}:{place} has no value"),
        (ErrorKind::OutOfFuel, _) => format!("{field}: takes more than {FUEL} steps"),
        (kind, None) => format!("{field}:{place} {kind}"),
        (_, Some(detail)) => format!("{field}:{place} {detail}"),
    }
}

/// Takes text up to the bound.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > RENDERED_MAX {
            return Err(io::Error::other("too long"));
        }
        // One byte more than the bound is how it is known to be passed.
        let room = (RENDERED_MAX + 1 - self.0.len()).min(bytes.len());
        self.0.extend_from_slice(&bytes[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
