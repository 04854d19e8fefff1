//! How a machine takes no more work, ends what it has, and says goodbye.

use super::{Drain, Machine, Output};
use crate::task::EndReason;

impl Machine {
    pub(super) fn set_drained(&mut self, drained: bool) {
        self.drained = drained;
        if let Some(session) = self.session.as_mut() {
            session.urgent = true;
        }
    }

    pub(super) fn leave(&mut self) {
        self.leaving = true;
        if let Some(session) = self.session.as_mut() {
            session.urgent = true;
        }
    }

    pub(super) fn stop_all(&mut self) {
        self.leave();
        for slot in 0..self.slots.len() as u32 {
            let Some(held) = self.slots[slot as usize].held.as_ref() else { continue };
            let grace = held.grace;
            self.stop(slot, EndReason::RunnerStop, grace);
        }
    }

    /// Says goodbye once nothing is held (rule 12). Without a stream there is nobody to say it to.
    pub(super) fn part(&mut self) {
        if !self.leaving || self.left || self.slots.iter().any(|slot| !slot.is_free()) {
            return;
        }
        match &self.session {
            Some(session) if !session.welcomed => return,
            Some(_) => self.send(Vec::new(), Drain::Leaving),
            None => {}
        }
        self.left = true;
        self.outputs.push(Output::Left);
    }
}
