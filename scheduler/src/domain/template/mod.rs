//! Templates: texts in which `{{ … }}` stands for a value.
//!
//! The language is Jinja's expressions with filters, `if` and `for`: no files, nothing that looks at the world, no names for
//! values in between. With fuel, and without what the engine does not count as fuel, every template comes to an end in a
//! moment. Which names a template uses is known before it runs: a task is always named in quotes, never worked out. Strings
//! come out byte for byte, everything else as JSON.

mod names;
mod render;

pub use self::{
    names::{check, tasks_named},
    render::{RENDERED_MAX, Renderer, items},
};

/// Whether a text has anything to work out. One that has not is its own value, to the byte.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests;
