//! JSON as grpcurl writes it: two spaces, one document after the other.

use serde_json::Value;

/// One document with its newline.
pub fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_look_like_those_of_grpcurl() {
        let value = json!({"job": {"id": "x", "needs": ["a"], "name": "a<b"}, "seq": "7"});
        let expected = "{\n  \"job\": {\n    \"id\": \"x\",\n    \"needs\": [\n      \"a\"\n    ],\n    \
                        \"name\": \"a<b\"\n  },\n  \"seq\": \"7\"\n}\n";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!({})), "{}\n");
    }
}
