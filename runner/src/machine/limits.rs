//! What time alone brings to a task: its timeout, and self-stop when no scheduler is heard.

use std::time::Duration;

use super::{Held, Machine, Old, Output, Stage};
use crate::{clock::Instant, task::EndReason};

impl Machine {
    pub(super) fn self_stop_due(&self, held: &Held) -> Option<Instant> {
        if matches!(held.stage, Stage::Ended(_)) || held.stopping == Some(EndReason::SelfStop) {
            return None;
        }
        Some(self.lifeline()? + held.self_stop_after?)
    }

    pub(super) fn old_due(&self, old: &Old) -> Option<Instant> {
        if old.self_stopped { None } else { Some(self.lifeline()? + old.self_stop_after?) }
    }

    /// Does what time alone brings: timeouts and self-stops. It goes before every other event, so that a runner that
    /// was frozen past self-stop says so, whatever it finds first when it wakes.
    pub(super) fn expire(&mut self) {
        let now = self.now;
        for slot in 0..self.slots.len() as u32 {
            let state = &self.slots[slot as usize];
            let due = state.old.as_ref().and_then(|old| self.old_due(old));
            if due.is_some_and(|due| now >= due)
                && let Some(old) = self.slots[slot as usize].old.as_mut()
            {
                old.self_stopped = true;
                self.outputs.push(Output::Stop { slot, task: old.task, grace: old.grace });
            }
            let Some(held) = self.slots[slot as usize].held.as_ref() else { continue };
            let (grace, self_stop, timeout) = (held.grace, self.self_stop_due(held), timeout_due(held));
            if self_stop.is_some_and(|due| now >= due) {
                self.self_stop(slot, grace);
            } else if timeout.is_some_and(|due| now >= due) {
                self.stop(slot, EndReason::Timeout, grace);
            }
        }
    }

    /// A longer grace, given on a RESET or for a timeout, ends at self-stop plus the set grace (section 5). The task is
    /// lost to the scheduler by then, so `SELF_STOP` is what it must be told, whatever began the stop.
    fn self_stop(&mut self, slot: u32, grace: Duration) {
        if let Some(held) = self.slots[slot as usize].held.as_mut() {
            held.stopping = Some(EndReason::SelfStop);
        }
        self.stop(slot, EndReason::SelfStop, grace);
    }
}

pub(super) fn timeout_due(held: &Held) -> Option<Instant> {
    match held.stage {
        Stage::Running { since, .. } if held.stopping.is_none() => Some(since + held.timeout?),
        _ => None,
    }
}
