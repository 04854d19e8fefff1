//! Where each task is: found without a look at every slot, of which a runner may have thousands.

use std::collections::HashMap;

use uuid::Uuid;

/// The slots that hold something of each task. Mostly one; two while a higher lease waits for the end of a lower one.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<Uuid, Vec<u32>>);

impl Places {
    /// A slot holds something of this task.
    pub(super) fn insert(&mut self, task: Uuid, slot: u32) {
        let slots = self.0.entry(task).or_default();
        if let Err(at) = slots.binary_search(&slot) {
            slots.insert(at, slot);
        }
    }

    /// It does no longer.
    pub(super) fn remove(&mut self, task: Uuid, slot: u32) {
        let Some(slots) = self.0.get_mut(&task) else { return };
        slots.retain(|known| *known != slot);
        if slots.is_empty() {
            self.0.remove(&task);
        }
    }

    /// The slots that hold something of a task, in order.
    pub(super) fn of(&self, task: Uuid) -> &[u32] {
        self.0.get(&task).map_or(&[], Vec::as_slice)
    }
}
