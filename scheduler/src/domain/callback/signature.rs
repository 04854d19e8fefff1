//! How a receiver knows that a message is ours, whole and fresh: a keyed hash over the time and the body.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::domain::hex::hex;

/// The header that carries the signature.
pub const HEADER: &str = "Baton-Signature";

/// The value of the header: `t=SECONDS,v1=HEX`, where HEX is HMAC-SHA256 under the key over `SECONDS.BODY`.
pub fn sign(key: &[u8], seconds: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is a key");
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("t={seconds},v1={}", hex(&mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_that_other_tools_make() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let expected = "t=1700000000,v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(sign(b"key", 1_700_000_000, br#"{"a":1}"#), expected);
    }
}
