//! What a task wrote to `BATON_OUTPUT`: `key=value` lines, or a JSON object.

use serde_json::{Map, Value};

/// Bytes of a task's output.
pub const OUTPUT_MAX: usize = 64 << 10;

/// Reads an output; nothing written is `Null`. Values of lines are texts, to the byte; of two lines with one key the later one
/// counts, as appending to a file means.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > OUTPUT_MAX {
        return Err(format!("the output has {} bytes; at most {OUTPUT_MAX}", bytes.len()));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("the output is not UTF-8 text (byte {})", error.valid_up_to()))?;
    if text.contains('\0') {
        return Err("the output holds the character U+0000".to_owned());
    }
    match text.trim_start().chars().next() {
        None => Ok(Value::Null),
        Some('{' | '[') => match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            Ok(_) => Err("the output is JSON, but not an object".to_owned()),
            Err(error) => Err(format!("the output is not JSON: {error}")),
        },
        Some(_) => lines(text).map(Value::Object),
    }
}

fn lines(text: &str) -> Result<Map<String, Value>, String> {
    let mut map = Map::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let Some((key, value)) = line.split_once('=').filter(|(key, _)| is_key(key)) else {
            let line: String = line.chars().take(60).collect();
            return Err(format!("line {} of the output is not key=value: {line:?}", place + 1));
        };
        map.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    Ok(map)
}

/// A key can be looked up by name: letters, digits, `_`, `-` and `.`.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_and_objects_are_read() {
        assert_eq!(parse(b""), Ok(Value::Null));
        assert_eq!(parse(b" \n"), Ok(Value::Null));
        assert_eq!(parse(b"db=a=b\nrows=12\n\nrows=13"), Ok(json!({"db": "a=b", "rows": "13"})));
        assert_eq!(parse(b"x= it's \"q\" {{ y }} \r\n"), Ok(json!({"x": " it's \"q\" {{ y }} "})));
        assert_eq!(parse(b"{\"files\": [\"a\", \"b\"], \"n\": 1}"), Ok(json!({"files": ["a", "b"], "n": 1})));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (bytes, why) in [
            (&b"no equals sign"[..], "line 1 of the output is not key=value"),
            (b"a=1\n=2", "line 2"),
            (b"{\"a\": ", "the output is not JSON"),
            (b"[1]", "not an object"),
            (b"a=\xff", "not UTF-8"),
            (b"a=\0", "U+0000"),
        ] {
            let reason = parse(bytes).expect_err(why);
            assert!(reason.contains(why), "{reason}");
        }
        assert!(parse(&vec![b'a'; OUTPUT_MAX + 1]).expect_err("too large").contains("65536"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_value_of_a_line_arrives_byte_for_byte(value in "[^\\n\\r\0]{0,80}") {
            prop_assert_eq!(parse(format!("k={value}").as_bytes()), Ok(json!({"k": value})));
        }
    }
}
