//! Backfills: jobs for the fires of a schedule that lie in the past.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- One job for each fire of a schedule from one instant up to another. Times are UTC microseconds.
            CREATE TABLE backfill (
                id {uuid} NOT NULL PRIMARY KEY,
                job_config_id {uuid} NOT NULL,
                namespace text NOT NULL,
                name text NOT NULL,
                schedule text NOT NULL,
                -- What the schedule said when it was asked for, and where its intervals count from.
                spec text NOT NULL,
                anchor_at bigint NOT NULL,
                from_at bigint NOT NULL,
                to_at bigint NOT NULL,
                max_parallel integer NOT NULL,
                again {bool} NOT NULL,
                state text NOT NULL CHECK (state IN ('RUNNING', 'DONE', 'CANCELLED')),
                reason text NOT NULL DEFAULT '',
                -- The next fire to look at; null when all have been.
                next_at bigint,
                total bigint NOT NULL,
                made bigint NOT NULL DEFAULT 0,
                passed_over bigint NOT NULL DEFAULT 0,
                created_at bigint NOT NULL,
                ended_at bigint
            );
            CREATE INDEX backfill_running ON backfill (job_config_id, id) WHERE state = 'RUNNING';
            CREATE INDEX backfill_of_config ON backfill (namespace, name, id);
            ALTER TABLE job ADD COLUMN backfill_id {uuid};
            CREATE INDEX job_of_backfill ON job (backfill_id, state) WHERE backfill_id IS NOT NULL;
            ",
        )
        .await
    }
}
