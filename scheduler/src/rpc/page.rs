//! Pages of listings: how large they are, and the token that leads to the next one.
//!
//! A token is the key of the last row seen, so that a listing neither skips nor repeats a row when others come and go.
//! It carries a check over the listing it belongs to: used with other filters it is refused instead of giving a page of
//! something else.

use serde::{Serialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::status::Error;
use crate::domain::hex::hex;

/// Rows of a page when the request does not say.
const SIZE_DEFAULT: u32 = 100;
/// Rows of a page at most.
pub(crate) const SIZE_MAX: u32 = 1000;
/// Bytes of the check within a token.
const CHECK_LEN: usize = 8;

/// How many rows the request wants.
pub(crate) fn size(requested: u32) -> Result<u64, Error> {
    match requested {
        0 => Ok(u64::from(SIZE_DEFAULT)),
        1..=SIZE_MAX => Ok(u64::from(requested)),
        _ => Err(Error::invalid("page_size", format!("at most {SIZE_MAX}; follow next_page_token for more"))),
    }
}

/// What a listing is of: its method and its filters, as a hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing([u8; 32]);

impl Listing {
    /// The listing of a method with these filters.
    pub(crate) fn new(method: &str, filters: &impl Serialize) -> Self {
        let filters = serde_json::to_vec(filters).expect("filters have a JSON form");
        Self(Sha256::new().chain_update(method).chain_update([0]).chain_update(filters).finalize().into())
    }

    /// The token that leads past this key.
    pub(crate) fn token(self, key: &impl Serialize) -> String {
        let key = serde_json::to_vec(key).expect("a key has a JSON form");
        let mut bytes = self.check(&key).to_vec();
        bytes.extend(key);
        hex(&bytes)
    }

    /// The key that a token leads past; `None` for the first page.
    pub(crate) fn key<T: DeserializeOwned>(self, token: &str) -> Result<Option<T>, Error> {
        if token.is_empty() {
            return Ok(None);
        }
        let refused = || {
            Error::invalid(
                "page_token",
                "is not a token of this listing; take next_page_token of the page before, with the same filters",
            )
        };
        let bytes = from_hex(token).ok_or_else(refused)?;
        let (check, key) = bytes.split_at_checked(CHECK_LEN).ok_or_else(refused)?;
        if check != self.check(key) {
            return Err(refused());
        }
        serde_json::from_slice(key).map(Some).map_err(|_| refused())
    }

    fn check(self, key: &[u8]) -> [u8; CHECK_LEN] {
        let hash: [u8; 32] = Sha256::new().chain_update(self.0).chain_update(key).finalize().into();
        hash[..CHECK_LEN].try_into().expect("a hash is longer than a check")
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_on_in_its_own_listing_only() {
        let listing = Listing::new("ListJobs", &("default", ["FAILED"]));
        let token = listing.token(&("key", 7));
        assert_eq!(listing.key::<(String, u32)>(&token).unwrap(), Some(("key".to_owned(), 7)));
        assert_eq!(listing.key::<u32>("").unwrap(), None);
        let other = Listing::new("ListJobs", &("default", ["FINISHED"]));
        for wrong in [token.as_str(), "zz", "abc", "00", "ü"] {
            assert!(other.key::<(String, u32)>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_has_a_bound() {
        assert_eq!(size(0).unwrap(), 100);
        assert_eq!(size(1000).unwrap(), 1000);
        assert!(size(1001).is_err());
    }
}
