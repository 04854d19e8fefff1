//! Who goes first: priority, which ages, then the time since a task is ready.

use std::time::Duration;

use crate::domain::time::{Timestamp, micros};

/// How long a wait weighs as much as one point of priority. Of two tasks that could take the same slot the one of the
/// higher priority goes first, unless the other has waited this much longer for each point between them: so whatever
/// keeps coming, nothing waits for ever. From the lowest priority to the highest it is 3 h 20 min.
pub const AGEING: Duration = Duration::from_mins(1);

/// The place of a task among those that wait; the lowest goes first. It does not depend on the present time, since
/// everybody's wait grows at the same rate, so it can be an index.
pub fn rank(priority: i32, queued_at: Timestamp) -> i64 {
    queued_at.0.saturating_sub(i64::from(priority) * micros(AGEING))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_priority_is_worth_a_minute() {
        let at = |second: i64| Timestamp(second * 1_000_000);
        assert!(rank(1, at(59)) < rank(0, at(0)), "the more urgent goes first");
        assert!(rank(1, at(61)) > rank(0, at(0)), "the other has waited for longer than that is worth");
        assert!(rank(0, at(0)) < rank(0, at(1)), "among equals the longer waiting goes first");
        assert!(rank(100, at(12_001)) > rank(-100, at(0)), "nothing waits for ever");
    }
}
