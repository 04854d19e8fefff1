//! What is wrong with an expression, where, and what would be right.

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at offset {offset}: {message}; {hint}")]
pub struct ParseError {
    /// The field: "minute", "day of week" and so on, or "expression".
    pub field: &'static str,
    /// Where it begins to be wrong, in bytes from the start of the text.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl ParseError {
    pub(super) fn whole(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { field: "expression", offset: 0, message: message.into(), hint: hint.into() }
    }
}
