//! When a task that only one runner may take waits in vain.

use std::time::Duration;

use crate::domain::{runner::Signs, time::Timestamp};

/// Whether a task queued since then waits in vain for the one runner that may take it: that has no session, was not heard
/// for `lost_after`, and the task has waited that long for it to come back. `None` stands for a runner nobody knows.
pub fn pinned_in_vain(runner: Option<&Signs>, queued_at: Timestamp, now: Timestamp, lost_after: Duration) -> bool {
    let gone = runner.is_none_or(|signs| !signs.has_session && signs.last_seen_at + lost_after <= now);
    gone && queued_at + lost_after <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_has_time_to_come_back() {
        let at = |second: i64| Timestamp(second * 1_000_000);
        let signs = |has_session, last_seen| Signs {
            has_session,
            draining: false,
            last_seen_at: at(last_seen),
            hold_until: None,
        };
        let minute = Duration::from_mins(1);
        for (runner, queued_at, now, in_vain) in [
            // It is there, or not lost yet.
            (Some(signs(true, 0)), 0, 1_000, false),
            // It left, and was not away for long.
            (Some(signs(false, 100)), 0, 159, false),
            (Some(signs(false, 100)), 0, 160, true),
            // It has been away for long, but the task has only just come.
            (Some(signs(false, 100)), 900, 959, false),
            (Some(signs(false, 100)), 900, 960, true),
            // Nobody knows it.
            (None, 900, 959, false),
            (None, 900, 960, true),
        ] {
            let found = pinned_in_vain(runner.as_ref(), at(queued_at), at(now), minute);
            assert_eq!(found, in_vain, "{runner:?}, queued at {queued_at}, now {now}");
        }
    }
}
