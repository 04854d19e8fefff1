//! Jobs that have not FINISHED are found by themselves, however many have.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(manager, "CREATE INDEX job_unfinished ON job (id) WHERE state <> 'FINISHED';").await
    }
}
