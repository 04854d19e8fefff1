//! How many tasks may hold one key at once, across job configs.

use serde::{Deserialize, Serialize};

/// What a task says about the key that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limit {
    /// The key, with the namespace it belongs to before it: `default/warehouse`.
    pub key: String,
    /// How many tasks may hold it while this one does.
    pub at_once: u32,
}

impl Limit {
    /// A key of a namespace.
    pub fn new(namespace: &str, key: &str, at_once: u32) -> Self {
        Self { key: format!("{namespace}/{key}"), at_once }
    }
}

/// Who holds a key: tasks that have a slot, and those whose end is not proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holders {
    /// How many there are.
    pub count: u32,
    /// The lowest limit among theirs.
    pub lowest: Option<u32>,
}

impl Holders {
    /// How many may hold it once a task with this limit does: the lowest limit of all of them. So a task that asked to be
    /// alone is alone, whatever others that name the same key would put up with.
    pub fn bound(&self, own: u32) -> u32 {
        self.lowest.map_or(own, |lowest| lowest.min(own))
    }

    /// Whether one more may hold it.
    pub fn admits(&self, own: u32) -> bool {
        self.count < self.bound(own)
    }

    /// One more holds it.
    pub fn take(&mut self, own: u32) {
        self.lowest = Some(self.bound(own));
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_counts() {
        for (count, lowest, own, admits) in [
            (0, None, 1, true),
            (1, Some(1), 1, false),
            (1, Some(3), 3, true),
            (2, Some(3), 3, true),
            (3, Some(3), 3, false),
            // One that asked to be alone is left alone, and waits until it would be.
            (1, Some(1), 3, false),
            (1, Some(3), 1, false),
            (2, Some(3), 2, false),
            // Limits were lowered meanwhile.
            (5, Some(5), 2, false),
        ] {
            assert_eq!(Holders { count, lowest }.admits(own), admits, "{count} hold it, {lowest:?}, {own}");
        }
        let mut holders = Holders::default();
        holders.take(3);
        holders.take(2);
        assert_eq!(holders, Holders { count: 2, lowest: Some(2) });
    }
}
