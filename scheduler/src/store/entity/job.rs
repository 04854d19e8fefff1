//! One run of a job config.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "job")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_config_id: Uuid,
    pub version: i32,
    pub namespace: String,
    pub name: String,
    pub labels: String,
    pub state: String,
    pub reason: String,
    pub trigger_kind: String,
    pub schedule: Option<String>,
    pub fire_time: Option<i64>,
    pub cause: Option<String>,
    pub parent_job_id: Option<Uuid>,
    pub parent_task_id: Option<Uuid>,
    pub parent_attempt: Option<i32>,
    pub depth: i32,
    pub logical_at: Option<i64>,
    pub logical_zone: Option<String>,
    pub rerun_no: i32,
    pub backfill_id: Option<Uuid>,
    pub params: String,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub deadline_at: Option<i64>,
    pub warn_at: Option<i64>,
    pub warned_at: Option<i64>,
    pub waiting: bool,
    pub held: bool,
    pub runner: Option<String>,
    pub stopping: bool,
    pub timed_out: bool,
    pub expanded: i32,
    pub tasks_total: i32,
    pub tasks_ended: i32,
    pub tasks_failed: i32,
    pub seq: i64,
    pub removing: bool,
    pub logs_removed: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
