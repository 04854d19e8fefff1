//! Waiting for what happens rather than for a while.

use std::{future::Future, time::Duration};

use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long anything may take on a machine busy with other things before a test gives up.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// How often a condition that sends no event is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(15);

/// Waits until `probe` gives something, and fails the test with `what` when it does not within `limit`.
pub async fn eventually<T, F, P>(what: &str, limit: Duration, mut probe: P) -> T
where
    F: Future<Output = Option<T>>,
    P: FnMut() -> F,
{
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let looking = async {
        loop {
            ticks.tick().await;
            if let Some(found) = probe().await {
                return found;
            }
        }
    };
    let Ok(found) = timeout(limit, looking).await else { panic!("waited {limit:?} in vain: {what}") };
    found
}

/// [`eventually`] for a plain condition, with the usual patience.
pub async fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, PATIENCE, || std::future::ready(holds().then_some(()))).await;
}

/// How often a race is run: `few` times in an ordinary run of the tests, `many` where `BATON_TEST_LONG` is set.
pub fn repeats(few: usize, many: usize) -> usize {
    if std::env::var_os("BATON_TEST_LONG").is_some() { many } else { few }
}
