//! A small YAML writer for the values of proto JSON: block style, text quoted whenever a reader could take it for
//! something else, long text as a literal block.

use std::fmt::Write as _;

use serde_json::Value;

/// One document, with the line that separates it from the one before.
pub fn document(value: &Value) -> String {
    let mut text = String::from("---\n");
    match value {
        Value::Object(fields) if !fields.is_empty() => write_fields(&mut text, fields, 0),
        Value::Array(items) if !items.is_empty() => write_items(&mut text, items, 0),
        other => {
            text.push_str(&scalar(other));
            text.push('\n');
        }
    }
    text
}

fn write_fields(text: &mut String, fields: &serde_json::Map<String, Value>, depth: usize) {
    for (index, (key, value)) in fields.iter().enumerate() {
        // The first field of a list item stands behind its dash.
        if index > 0 || !text.ends_with("- ") {
            indent(text, depth);
        }
        text.push_str(&plain_or_quoted(key));
        text.push(':');
        write_value(text, value, depth + 1);
    }
}

fn write_items(text: &mut String, items: &[Value], depth: usize) {
    for item in items {
        indent(text, depth);
        match item {
            Value::Object(fields) if !fields.is_empty() => {
                text.push_str("- ");
                write_fields(text, fields, depth + 1);
            }
            _ => {
                text.push('-');
                write_value(text, item, depth + 1);
            }
        }
    }
}

/// Writes what follows a key or a dash, up to and with the newline.
fn write_value(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            text.push('\n');
            write_fields(text, fields, depth);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            write_items(text, items, depth);
        }
        Value::String(string) if is_block(string) => write_block(text, string, depth),
        other => {
            let _ = writeln!(text, " {}", scalar(other));
        }
    }
}

/// Whether text reads best as a literal block, and survives one byte for byte.
fn is_block(string: &str) -> bool {
    let fits = |line: &str| !line.chars().any(|c| c.is_control() && c != '\t' || c == '\u{feff}' || c == '\u{2028}');
    let first = string.lines().next().unwrap_or_default();
    string.contains('\n') && !first.starts_with([' ', '\t']) && !first.is_empty() && string.split('\n').all(fits)
}

fn write_block(text: &mut String, string: &str, depth: usize) {
    let body = string.trim_end_matches('\n');
    let style = match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    let _ = writeln!(text, " {style}");
    let lines = string.strip_suffix('\n').unwrap_or(string);
    for line in lines.split('\n') {
        if !line.is_empty() {
            indent(text, depth);
            text.push_str(line);
        }
        text.push('\n');
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => plain_or_quoted(string),
        // Numbers, booleans, null, [] and {} read the same in both languages.
        other => other.to_string(),
    }
}

/// Text as it is where no YAML reader, of 1.1 or 1.2, can take it for anything but text; else as a JSON string,
/// which YAML reads alike.
fn plain_or_quoted(string: &str) -> String {
    let starts_well = string.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let simple = string.chars().all(|c| c.is_ascii_alphanumeric() || " -_./+@%()=".contains(c));
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let taken = word.contains(&string.to_ascii_lowercase().as_str());
    if starts_well && simple && !taken && !string.ends_with(' ') {
        string.to_owned()
    } else {
        Value::from(string).to_string()
    }
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_values_are_written_in_block_style() {
        let value = json!({
            "job": {"id": "019366ab", "params": {}, "tasks": [{"name": "a", "needs": ["x", "y"]}, {"name": "b"}]},
            "seq": "7",
            "list": [["deep"], 3, null],
        });
        let expected = "---\njob:\n  id: \"019366ab\"\n  params: {}\n  tasks:\n    - name: a\n      needs:\n        - x\n        \
                        - \"y\"\n    - name: b\nseq: \"7\"\nlist:\n  -\n    - deep\n  - 3\n  - null\n";
        assert_eq!(document(&value), expected);
        assert_eq!(document(&json!({})), "---\n{}\n");
    }

    #[test]
    fn text_never_turns_into_something_else() {
        for string in ["yes", "NULL", "1.5", "", " x", "x ", "a: b", "#x", "2026-11-30T12:00:00Z", "- a", "é", "\u{7}"]
        {
            assert!(plain_or_quoted(string).starts_with('"'), "{string:?}");
        }
        assert_eq!(plain_or_quoted("JOB_STATE_FINISHED"), "JOB_STATE_FINISHED");
    }

    #[test]
    fn scripts_stay_readable() {
        let value = json!({"shell": "set -u\n\necho hi\n", "tail": "a\nb", "odd": " a\nb"});
        let expected = "---\nshell: |\n  set -u\n\n  echo hi\ntail: |-\n  a\n  b\nodd: \" a\\nb\"\n";
        assert_eq!(document(&value), expected);
    }
}
