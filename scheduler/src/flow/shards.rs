//! A sharded task: the shards that are made from it.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    repair,
    work::{NewTask, Work},
};
use crate::domain::{
    gate::SkipCause,
    task::{Event, Kind, TaskState},
};

/// Makes the shards of a group, one an item, and queues as many as may run at once. A group without shards ends at
/// once. Of a group that is run again the shards in hand are run again too, on the items as they are now; returns those.
pub(super) fn split(work: &mut Work, group: Uuid, pieces: Vec<Piece>) -> Vec<Uuid> {
    let task = work.task(group).expect("the group is in hand");
    let (job_id, node) = (task.job_id, task.node);
    let plan = work.plan(job_id);
    let now = work.now;
    let count = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    let mut known = BTreeMap::new();
    if task.shard_count.is_some() {
        let shards = work.tasks().filter(|task| task.group_id == Some(group));
        known.extend(shards.filter_map(|shard| Some((shard.shard_index?, shard.id))));
    }
    let row = work.edit(group);
    (row.shard_count, row.shards_ended, row.shards_succeeded) = (Some(count), 0, 0);
    work.happen(group, Event::GateOpened, "");
    for shard in known.split_off(&count).into_values() {
        let row = work.edit(shard);
        (row.state, row.skip_cause) = (TaskState::Skipped, Some(SkipCause::Condition));
        row.reason = format!("its group was run again with {count} items");
    }
    if pieces.is_empty() {
        work.happen(group, Event::ShardsEnded { enough: true }, "it had no items");
        return Vec::new();
    }
    let pin = work.job(job_id).and_then(|job| job.row.pin.clone());
    let max_parallel = plan.task(node).shards.as_ref().map_or(0, |shards| shards.max_parallel);
    let open = if max_parallel == 0 { count } else { max_parallel };
    for (index, piece) in (0..).zip(pieces) {
        let class = plan.class(node, piece.runner.as_deref().or(pin.as_deref()));
        let id = if let Some(&id) = known.get(&index) {
            repair::run_again(work, id);
            let row = work.edit(id);
            (row.shard_count, row.shard_item, row.class) = (Some(count), piece.item, class);
            id
        } else {
            let id = Uuid::now_v7();
            let shard = Some((index, count, piece.item));
            let new = NewTask { id, job_id, node, kind: Kind::Shard, group_id: Some(group), shard, class };
            work.new_task(new.row(&plan, now));
            id
        };
        if index < open {
            work.happen(id, Event::GateOpened, "");
        }
    }
    known.into_values().collect()
}

/// What one shard is made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    /// The item it works on.
    pub item: String,
    /// The one runner that may take it.
    pub runner: Option<String>,
}
