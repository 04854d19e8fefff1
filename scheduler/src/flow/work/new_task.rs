//! A task that is about to be born, and the row of it.

use uuid::Uuid;

use crate::{
    domain::{gate::Parents, task::Kind, time::Timestamp},
    flow::plan::Plan,
    store::task::{Birth, TaskRow},
};

/// A task that is about to be born.
pub(in crate::flow) struct NewTask {
    pub id: Uuid,
    pub job_id: Uuid,
    pub node: u32,
    pub kind: Kind,
    pub group_id: Option<Uuid>,
    pub shard: Option<(u32, u32, String)>,
    pub class: String,
}

impl NewTask {
    /// The row of it, CREATED.
    pub(in crate::flow) fn row(self, plan: &Plan, now: Timestamp) -> TaskRow {
        let Self { id, job_id, node, kind, group_id, shard, class } = self;
        let parents =
            if kind == Kind::Shard { 0 } else { u32::try_from(plan.graph.parents(node).len()).unwrap_or(u32::MAX) };
        let (shard_index, shard_count, shard_item) = match shard {
            Some((index, count, item)) => (Some(index), Some(count), item),
            None => (None, None, String::new()),
        };
        let task_config_id = plan.task_config_ids[node as usize];
        TaskRow {
            group_id,
            shard_index,
            shard_count,
            shard_item,
            priority: plan.task(node).priority.unwrap_or_default(),
            parents: Parents::waiting(parents),
            ..TaskRow::born(Birth { id, job_id, task_config_id, node, kind, class, at: now })
        }
    }
}
