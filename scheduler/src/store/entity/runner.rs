//! Runners.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "runner")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub install_id: String,
    pub boot_id: String,
    pub conn: i64,
    pub session_id: Option<Uuid>,
    pub scheduler_id: Option<Uuid>,
    pub labels: String,
    pub version: String,
    pub capabilities: String,
    pub slots: i32,
    pub drained: bool,
    pub draining: bool,
    pub drain_reason: String,
    pub last_seen_at: i64,
    pub hold_until: Option<i64>,
    pub created_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
