//! `baton version`.

use serde_json::json;

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// Prints the version of this program and of the protocol it speaks.
pub fn run(context: &Context) -> Result<Exit, Error> {
    let version = env!("CARGO_PKG_VERSION");
    if context.output.is_data() {
        context.output.value(&json!({"version": version, "protocolVersion": baton::PROTOCOL_VERSION}))?;
    } else if context.output.is_name() {
        context.output.line(version)?;
    } else {
        context.output.line(&format!("baton {version} (protocol {})", baton::PROTOCOL_VERSION))?;
    }
    Ok(Exit::Ok)
}
