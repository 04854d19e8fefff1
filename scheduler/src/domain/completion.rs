//! Completing a task that waits for its callback: who may, and when it is too late.
//!
//! The right is a token, good for one dispatch of one task and only once. What is kept of it is its hash, so that who reads
//! the database cannot complete anything.

use sha2::{Digest as _, Sha256};

use super::{hex::hex, reference::CallbackView, task::TaskState};

/// Characters of a token: 244 bits of chance in hex digits.
pub const TOKEN_LEN: usize = 64;
/// Bytes of a message.
pub const MESSAGE_MAX: usize = 4 << 10;
/// Where a token is posted to.
pub const PATH: &str = "/v1/complete/";

/// What the called service is given: a token of chance, and where to post to.
pub fn callback(public_url: &str, chance: [u128; 2]) -> CallbackView {
    let token = format!("{:032x}{:032x}", chance[0], chance[1]);
    CallbackView { url: format!("{}{PATH}{token}", public_url.trim_end_matches('/')), token }
}

/// What is kept of a token.
pub fn hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

/// Why a token completes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was used before.
    Used,
    /// The attempt that it belongs to is over, or being ended.
    Over,
}

/// Whether a token may complete its task: `used` before, issued for `lease`, while the task stands like this.
pub fn admit(used: bool, lease: u64, task: Option<(TaskState, u64)>) -> Result<(), Refusal> {
    match task {
        _ if used => Err(Refusal::Used),
        Some((TaskState::Dispatched | TaskState::Running, present)) if present == lease => Ok(()),
        _ => Err(Refusal::Over),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_completes_the_dispatch_it_was_made_for_while_that_lives() {
        for state in TaskState::ALL {
            let lives = matches!(state, TaskState::Dispatched | TaskState::Running);
            let expected = if lives { Ok(()) } else { Err(Refusal::Over) };
            assert_eq!(admit(false, 7, Some((state, 7))), expected, "{state:?}");
            assert_eq!(admit(false, 7, Some((state, 8))), Err(Refusal::Over), "{state:?} under a later lease");
            assert_eq!(admit(true, 7, Some((state, 7))), Err(Refusal::Used), "{state:?}");
        }
        assert_eq!(admit(false, 7, None), Err(Refusal::Over));
    }

    #[test]
    fn a_callback_is_a_url_with_the_token_at_its_end() {
        let view = callback("http://baton.example:7420/", [1, u128::MAX]);
        assert_eq!(view.token.len(), TOKEN_LEN);
        assert_eq!(view.url, format!("http://baton.example:7420/v1/complete/{}", view.token));
        assert_ne!(callback("http://a", [1, 2]).token, callback("http://a", [2, 1]).token);
    }

    #[test]
    fn what_is_kept_is_not_the_token() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
