//! What a response leaves behind for later tasks.

use serde_json::{Map, Value, json};

use crate::task::OUTPUT_MAX;

/// A response that was a success.
#[derive(Debug)]
pub(super) struct Answer {
    /// What later tasks may read.
    pub(super) output: Vec<u8>,
    /// Why that is nothing, if there is a reason.
    pub(super) note: String,
}

/// A body, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Its beginning; enough to see whether it fits into an output.
    pub(super) head: Vec<u8>,
    /// How many bytes were read.
    pub(super) bytes: u64,
    /// There was more than may be read.
    pub(super) cut: bool,
}

impl Body {
    /// How much of it is kept.
    const HEAD_MAX: usize = OUTPUT_MAX + 1;

    /// Takes in a piece of which `room` bytes may be read: what of it counts.
    pub(super) fn take<'p>(&mut self, piece: &'p [u8], max: u64) -> &'p [u8] {
        let room = usize::try_from(max - self.bytes).unwrap_or(usize::MAX);
        self.cut |= piece.len() > room;
        let piece = &piece[..piece.len().min(room)];
        self.bytes += piece.len() as u64;
        let keep = piece.len().min(Self::HEAD_MAX - self.head.len());
        self.head.extend_from_slice(&piece[..keep]);
        piece
    }
}

/// The output of a task, and a word on what did not become one. A JSON object is the output as it is, other text its
/// `body`. What is cut, packed, no text or too long is left to the log.
pub(super) fn output(body: &Body, encoding: Option<&str>) -> (Vec<u8>, String) {
    let left = |why: String| (Vec::new(), format!("the response is no output: {why}"));
    if body.bytes == 0 {
        return (Vec::new(), String::new());
    }
    if body.cut {
        return left(format!("it was cut after {} bytes", body.bytes));
    }
    if let Some(encoding) = encoding.filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return left(format!("it is packed ({encoding}), which was not asked for"));
    }
    if body.bytes > OUTPUT_MAX as u64 {
        return left(format!("it has {} bytes; at most {OUTPUT_MAX}", body.bytes));
    }
    let Ok(text) = std::str::from_utf8(&body.head) else { return left("it is not UTF-8 text".to_owned()) };
    // Written anew, so that nothing in it can be anything but JSON to whoever reads it next.
    let output = match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(object) => Value::Object(object).to_string(),
        Err(_) => json!({ "body": text }).to_string(),
    };
    if output.len() > OUTPUT_MAX {
        return left(format!("written as JSON it has {} bytes; at most {OUTPUT_MAX}", output.len()));
    }
    (output.into_bytes(), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Body {
        let mut body = Body::default();
        body.take(bytes, u64::MAX);
        body
    }

    #[test]
    fn an_object_is_the_output_and_other_text_its_body() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"{\"a\": [1, 2], \"b\": null}", "{\"a\":[1,2],\"b\":null}"),
            (b" {}\n", "{}"),
            (b"[1]", "{\"body\":\"[1]\"}"),
            (b"12", "{\"body\":\"12\"}"),
            (b"{\"a\": ", "{\"body\":\"{\\\"a\\\": \"}"),
            (b"a=b\nc\0d", "{\"body\":\"a=b\\nc\\u0000d\"}"),
            ("数据".as_bytes(), "{\"body\":\"数据\"}"),
        ] {
            let (output, note) = output(&read(bytes), None);
            assert_eq!((String::from_utf8(output).unwrap().as_str(), note.as_str()), (expected, ""));
        }
    }

    #[test]
    fn what_is_no_output_says_why() {
        let long = vec![b'x'; OUTPUT_MAX + 1];
        let quotes = vec![b'"'; OUTPUT_MAX / 2 + 10];
        for (bytes, encoding, why) in [
            (&b"\xff\xfe"[..], None, "not UTF-8"),
            (b"\x1f\x8b", Some("gzip"), "packed (gzip)"),
            (&long, None, "has 65537 bytes"),
            (&quotes, None, "written as JSON"),
        ] {
            let (output, note) = output(&read(bytes), encoding);
            assert!(output.is_empty() && note.contains(why), "{note}");
        }
        let mut body = Body::default();
        assert_eq!(body.take(b"abc", 5), b"abc");
        assert_eq!(body.take(b"def", 5), b"de");
        assert_eq!((body.bytes, body.cut, body.head.as_slice()), (5, true, &b"abcde"[..]));
        assert!(output(&body, None).1.contains("cut after 5 bytes"));
        assert!(output(&read(b"{}"), Some("identity")).1.is_empty());
    }
}
