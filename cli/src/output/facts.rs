//! Names and values under each other.

use std::collections::HashMap;

use super::text::{Line, Span, Tone};

/// How wide the names are.
const NAME_WIDTH: usize = 12;

/// Names and values under each other; what is empty is left out.
#[derive(Debug, Default)]
pub struct Facts(Vec<Line>);

impl Facts {
    /// Begins below a heading.
    pub fn below(heading: Line) -> Self {
        Self(vec![heading])
    }

    /// The lines.
    pub fn into_lines(self) -> Vec<Line> {
        self.0
    }

    /// Adds a value.
    pub fn add(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        if !value.is_empty() && value != "-" {
            self.span(name, value.into());
        }
    }

    /// Adds a value with its tone.
    pub fn span(&mut self, name: &str, value: Span) {
        let mut line = Line::new().with(name, Tone::Dim);
        line.pad_to(NAME_WIDTH.max(name.len() + 1));
        line.push(value);
        self.0.push(line);
    }

    /// Adds `key=value` pairs.
    pub fn pairs(&mut self, name: &str, values: &HashMap<String, String>) {
        self.add(name, pairs(values));
    }

    /// A further line of the value before.
    pub fn more(&mut self, value: &str) {
        let mut line = Line::new();
        line.pad_to(NAME_WIDTH);
        line.push(value.into());
        self.0.push(line);
    }
}

/// "a=1,b=2", or "-".
pub fn pairs(pairs: &HashMap<String, String>) -> String {
    if pairs.is_empty() {
        return "-".to_owned();
    }
    let mut pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_one_order() {
        let labels = HashMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]);
        assert_eq!(pairs(&labels), "a=1,b=2");
        assert_eq!(pairs(&HashMap::new()), "-");
    }
}
