//! `baton schema`: the JSON Schema of job files.

use baton_scheduler::domain::definition;

use crate::{
    context::Context,
    errors::{Error, Exit},
};

/// Prints it; as JSON unless YAML was asked for, since editors read it.
pub fn run(context: &Context) -> Result<Exit, Error> {
    context.output.value(&definition::schema())?;
    Ok(Exit::Ok)
}
