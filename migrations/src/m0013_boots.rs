//! The boots of a runner are told apart by their order: a late hello of an older one must not count.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            ALTER TABLE runner ADD COLUMN boot_number bigint;
            -- The boot that has this number; another boot_id was written by a scheduler that knows no numbers.
            ALTER TABLE runner ADD COLUMN boot_numbered text;
            ",
        )
        .await
    }
}
