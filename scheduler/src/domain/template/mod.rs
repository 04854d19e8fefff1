//! Templates: texts in which `{{ … }}` stands for a value.
//!
//! The language is that of Jinja, without files, without functions that look at the world, and with fuel, so that every
//! template comes to an end. Which names a template uses is known before it runs: a task is always named in quotes, never
//! worked out. Strings come out byte for byte, everything else as JSON.

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
