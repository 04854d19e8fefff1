//! One task config within a job, a group of shards, or one shard.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "task")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub task_config_id: Uuid,
    pub node: i32,
    pub kind: String,
    pub group_id: Option<Uuid>,
    pub shard_index: i32,
    pub shard_count: Option<i32>,
    pub shard_item: String,
    pub state: String,
    pub reason: String,
    pub skip_cause: Option<String>,
    pub attempt: i32,
    pub lease: i64,
    pub priority: i32,
    pub class: String,
    pub not_before: i64,
    pub runner_id: Option<String>,
    pub slot: Option<i32>,
    pub session_id: Option<Uuid>,
    pub deaths: i32,
    pub refusals: i32,
    pub tried: i32,
    pub warned_at: Option<i64>,
    pub attempts_before: i32,
    pub gone: bool,
    pub end_grace: Option<i64>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub output: String,
    pub stdout_bytes: i64,
    pub stderr_bytes: i64,
    pub parents_total: i32,
    pub parents_succeeded: i32,
    pub parents_failed: i32,
    pub parents_skipped: i32,
    pub shards_succeeded: i32,
    pub shards_ended: i32,
    pub created_at: i64,
    pub queued_at: Option<i64>,
    pub dispatched_at: Option<i64>,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub seq: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
