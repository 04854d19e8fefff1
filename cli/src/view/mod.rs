//! A job as one sees it: pure functions from what is known to lines of text, and the one place that moves a cursor.

pub mod bar;
pub mod change;
pub mod children;
pub mod ending;
pub mod fold;
pub mod picture;
pub mod screen;
pub mod tree;

#[cfg(test)]
pub mod testing;
