//! A sharded task: the shards that are made from it.

use uuid::Uuid;

use super::work::{NewTask, Work};
use crate::domain::task::{Event, Kind};

/// Makes the shards of a group, one an item, and queues as many as may run at once. A group without shards ends at
/// once.
pub(super) fn split(work: &mut Work, group: Uuid, pieces: Vec<Piece>) {
    let task = work.task(group).expect("the group is in hand");
    let (job_id, node) = (task.job_id, task.node);
    let plan = work.plan(job_id);
    let now = work.now;
    let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    work.edit(group).shard_count = Some(count);
    work.happen(group, Event::GateOpened, "");
    if pieces.is_empty() {
        work.happen(group, Event::ShardsEnded { enough: true }, "it had no items");
        return;
    }
    let pin = work.job(job_id).and_then(|job| job.row.pin.clone());
    let max_parallel = plan.task(node).shards.as_ref().map_or(0, |shards| shards.max_parallel);
    let open = if max_parallel == 0 { count } else { max_parallel };
    for (index, piece) in (0..).zip(pieces) {
        let class = plan.class(node, piece.runner.as_deref().or(pin.as_deref()));
        let id = Uuid::now_v7();
        let shard = Some((index, count, piece.item));
        let new = NewTask { id, job_id, node, kind: Kind::Shard, group_id: Some(group), shard, class };
        work.new_task(new.row(&plan, now));
        if index < open {
            work.happen(id, Event::GateOpened, "");
        }
    }
}

/// What one shard is made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    /// The item it works on.
    pub item: String,
    /// The one runner that may take it.
    pub runner: Option<String>,
}
