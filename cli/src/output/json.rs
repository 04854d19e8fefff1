//! JSON as grpcurl writes it: two spaces, one document after the other.

use serde_json::Value;

/// What Go's encoder escapes beyond what JSON asks for. These stand in no place but text.
const ESCAPES: [(char, &str); 5] =
    [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];

/// One document with its newline.
pub fn document(value: &Value) -> String {
    let text = format!("{value:#}\n");
    ESCAPES.iter().fold(text, |text, (c, escape)| if text.contains(*c) { text.replace(*c, escape) } else { text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_look_like_those_of_grpcurl() {
        let value = json!({"job": {"id": "x", "needs": ["a"], "name": "a<b"}, "seq": "7"});
        let expected = "{\n  \"job\": {\n    \"id\": \"x\",\n    \"needs\": [\n      \"a\"\n    ],\n    \
                        \"name\": \"a\\u003cb\"\n  },\n  \"seq\": \"7\"\n}\n";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!({})), "{}\n");
    }
}
