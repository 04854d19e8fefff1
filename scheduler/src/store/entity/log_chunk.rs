//! A piece of one output of one attempt.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "log_chunk")]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub job_id: Uuid,
    pub task_id: Uuid,
    pub attempt: i32,
    pub lease: i64,
    pub stream: i32,
    pub start_offset: i64,
    pub end_offset: i64,
    pub skipped: i64,
    pub data: Vec<u8>,
    pub created_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
