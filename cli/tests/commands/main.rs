//! The `baton` program against a scheduler that answers as it was told to.

#![allow(unreachable_pub, missing_docs)]
// The stage and its stories speak of nearly every message of the protocol.
#![allow(clippy::wildcard_imports)]

mod errors;
mod reading;
mod support;
mod watching;
mod world;
mod writing;
