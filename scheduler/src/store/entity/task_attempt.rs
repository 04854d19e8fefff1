//! Each attempt that another followed.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "task_attempt")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub task_id: Uuid,
    #[sea_orm(primary_key, auto_increment = false)]
    pub lease: i64,
    pub number: i32,
    pub runner_id: Option<String>,
    pub reason: String,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    pub started_at: Option<i64>,
    pub ended_at: i64,
    pub gone: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
