//! Who asks, and how a repetition of the same request is known.

use prost::{Message, Name};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::status::Error;
use crate::flow::request::Caller;

/// Everybody, while there are no users.
const PRINCIPAL: &str = "local";
/// Characters of a request id at most.
const REQUEST_ID_MAX: usize = 200;

/// The caller of a request that may be repeated under its id. `request` is the message without its request id.
pub(super) fn caller<M: Message + Name>(request_id: String, request: &M) -> Result<Caller, Error> {
    if request_id.chars().count() > REQUEST_ID_MAX || request_id.chars().any(char::is_control) {
        return Err(Error::invalid(
            "request_id",
            format!("is at most {REQUEST_ID_MAX} printable characters, such as a UUID"),
        ));
    }
    // Only a request that may be repeated is compared with another one.
    let body_hash = if request_id.is_empty() { Vec::new() } else { hash(request) };
    Ok(Caller { principal: PRINCIPAL.to_owned(), request_id, body_hash })
}

/// A hash that is the same for the same message. The encoding of a message is not: maps have no order.
fn hash<M: Message + Name>(message: &M) -> Vec<u8> {
    let mut text = M::full_name();
    write(&baton::json::to_value(message), &mut text);
    Sha256::digest(text).to_vec()
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (key, value) in fields {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use baton::v1::{RunRequest, TerminateRequest};

    use super::*;

    fn request(pairs: impl IntoIterator<Item = u32>) -> RunRequest {
        let params: HashMap<String, String> =
            pairs.into_iter().map(|number| (format!("key{number}"), number.to_string())).collect();
        RunRequest { name: "etl".to_owned(), params, ..RunRequest::default() }
    }

    #[test]
    fn the_same_request_has_the_same_hash_in_whatever_order_its_maps_come() {
        assert_eq!(hash(&request(0..20)), hash(&request((0..20).rev())));
        assert_ne!(hash(&request(0..20)), hash(&request(0..19)));
        assert_ne!(hash(&RunRequest::default()), hash(&TerminateRequest::default()));
    }

    #[test]
    fn a_request_id_is_short_and_printable() {
        assert!(caller("x".repeat(201), &request(0..1)).is_err());
        assert!(caller("a\nb".to_owned(), &request(0..1)).is_err());
        assert_eq!(caller(String::new(), &request(0..1)).unwrap().body_hash, Vec::<u8>::new());
    }
}
