//! The labels that a task asks of a runner: each of them, exactly.
//!
//! A selector has one canonical text, so that tasks that ask for the same are one class in the queue, whatever order
//! their labels were written in.

use std::{collections::BTreeMap, fmt};

/// The labels that a runner must have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Selector(BTreeMap<String, String>);

impl Selector {
    /// Asks for these labels; for none means any runner.
    pub fn new(labels: BTreeMap<String, String>) -> Self {
        Self(labels)
    }

    /// Reads the canonical text back; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut labels = BTreeMap::new();
        let mut characters = text.chars();
        let (mut key, mut value, mut in_value) = (String::new(), String::new(), false);
        while let Some(character) = characters.next() {
            let part = if in_value { &mut value } else { &mut key };
            match character {
                '\\' => part.push(characters.next()?),
                '=' if !in_value => in_value = true,
                ',' if in_value => {
                    labels.insert(std::mem::take(&mut key), std::mem::take(&mut value));
                    in_value = false;
                }
                '=' | ',' => return None,
                plain => part.push(plain),
            }
        }
        if in_value {
            labels.insert(key, value);
        } else if !text.is_empty() {
            return None;
        }
        let selector = Self(labels);
        (selector.to_string() == text).then_some(selector)
    }

    /// The labels asked for.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether a runner with these labels suits: equality of whole values, never a part of one.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// The canonical text, `key=value,key=value`, sorted by key; `\` stands before a `\`, `,` or `=` that belongs to a key or
/// value. Equal selectors have equal texts, and only they.
impl fmt::Display for Selector {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        for (place, (key, value)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(to, "{comma}{}={}", escaped(key), escaped(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn the_order_of_writing_does_not_matter() {
        let selector = Selector::new(labels(&[("zone", "b"), ("pool", "etl")]));
        assert_eq!(selector.to_string(), "pool=etl,zone=b");
        assert_eq!(Selector::default().to_string(), "");
    }

    #[test]
    fn a_label_matches_whole_or_not_at_all() {
        let runner = labels(&[("pool", "etl-large"), ("zone", "b")]);
        assert!(!Selector::new(labels(&[("pool", "etl")])).matches(&runner));
        assert!(Selector::new(labels(&[("pool", "etl-large")])).matches(&runner));
        assert!(!Selector::new(labels(&[("gpu", "")])).matches(&runner));
        assert!(Selector::default().matches(&runner));
    }

    #[test]
    fn what_is_not_canonical_is_no_selector() {
        for text in ["pool", "a=1,", ",", "a=1=2", "b=1,a=2", "a=\\", "a=\\x"] {
            assert_eq!(Selector::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn the_text_says_the_same_as_the_labels(
            pairs in prop::collection::btree_map("[a=,\\\\é]{1,3}", "[b=,\\\\ ]{0,3}", 0..4),
            others in prop::collection::btree_map("[a=,\\\\é]{1,3}", "[b=,\\\\ ]{0,3}", 0..4),
        ) {
            let (selector, other) = (Selector::new(pairs), Selector::new(others));
            let back = Selector::parse(&selector.to_string());
            prop_assert_eq!(back.as_ref(), Some(&selector));
            prop_assert_eq!(selector == other, selector.to_string() == other.to_string());
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = Selector::parse(&text);
        }
    }
}
