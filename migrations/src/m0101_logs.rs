//! The output of tasks.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- A piece of one output of one attempt, as the task wrote it. `id` is the order of arrival.
            CREATE TABLE log_chunk (
                id {serial} PRIMARY KEY,
                job_id {uuid} NOT NULL,
                task_id {uuid} NOT NULL,
                attempt integer NOT NULL,
                lease bigint NOT NULL,
                -- 1 is standard output, 2 is standard error.
                stream integer NOT NULL,
                start_offset bigint NOT NULL,
                end_offset bigint NOT NULL,
                skipped bigint NOT NULL DEFAULT 0,
                data {bytes} NOT NULL,
                created_at bigint NOT NULL
            );
            CREATE UNIQUE INDEX log_chunk_offset ON log_chunk (task_id, lease, stream, end_offset);
            CREATE INDEX log_chunk_job ON log_chunk (job_id, id);
            CREATE INDEX log_chunk_task ON log_chunk (task_id, id);
            ",
        )
        .await
    }
}
