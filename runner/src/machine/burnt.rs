//! Leases whose story is over on this runner, remembered for a while.

use std::collections::{HashMap, VecDeque};

use uuid::Uuid;

use crate::task::TaskRef;

/// Tasks remembered beside a few for each slot. Commands of one stream come in order and those of an older stream
/// never arrive, so in practice a handful would do.
const REMEMBERED_MIN: usize = 1024;

/// The highest lease of each task that may not start here any more.
#[derive(Debug)]
pub(super) struct Burnt {
    leases: HashMap<Uuid, u64>,
    order: VecDeque<Uuid>,
    capacity: usize,
}

impl Burnt {
    pub(super) fn new(slots: usize) -> Self {
        Self { leases: HashMap::new(), order: VecDeque::new(), capacity: REMEMBERED_MIN + 4 * slots }
    }

    /// This lease and all below it are over.
    pub(super) fn insert(&mut self, task: TaskRef) {
        if let Some(lease) = self.leases.get_mut(&task.id) {
            *lease = task.lease.max(*lease);
            return;
        }
        if self.order.len() >= self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.leases.remove(&oldest);
        }
        self.leases.insert(task.id, task.lease);
        self.order.push_back(task.id);
    }

    pub(super) fn covers(&self, task: TaskRef) -> bool {
        self.leases.get(&task.id).is_some_and(|lease| *lease >= task.lease)
    }
}
