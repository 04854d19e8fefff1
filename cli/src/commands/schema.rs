//! `baton schema`: the JSON Schema of job files.

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// Prints it.
pub fn run(context: &Context) -> Result<Exit, Error> {
    context.output.line("{}")?;
    Ok(Exit::Ok)
}
