//! What failure policies have used up, and warnings about what takes long.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- Attempts that failed on the runner whose turn it is.
            ALTER TABLE task ADD COLUMN tried integer NOT NULL DEFAULT 0;
            -- When it was reported that the present attempt takes long.
            ALTER TABLE task ADD COLUMN warned_at bigint;

            -- When to report that the job takes long, and when that was done.
            ALTER TABLE job ADD COLUMN warn_at bigint;
            ALTER TABLE job ADD COLUMN warned_at bigint;
            CREATE INDEX job_warning ON job (warn_at)
                WHERE warn_at IS NOT NULL AND warned_at IS NULL AND state = 'RUNNING';
            ",
        )
        .await
    }
}
