//! Bytes as text.

use std::fmt::Write as _;

/// Bytes in hexadecimal, two digits each, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!((hex(&[]).as_str(), hex(&[0, 10, 255]).as_str()), ("", "000aff"));
    }
}
