//! What is remembered of jobs that are not kept any more.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- A job that retention took: whoever asks for it is told so, as long as this is remembered.
            CREATE TABLE removed_job (
                id {uuid} NOT NULL PRIMARY KEY,
                removed_at bigint NOT NULL
            );
            CREATE INDEX removed_job_at ON removed_job (removed_at, id);
            CREATE INDEX removed_job_tail ON removed_job ({tail});

            -- A job that was counted for a config which comes after it, by a job that is not kept any more: it never
            -- counts a second time for it. Goes with the job that was counted.
            CREATE TABLE after_counted (
                source_job_id {uuid} NOT NULL,
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                PRIMARY KEY (source_job_id, job_config_id)
            );
            ",
        )
        .await
    }
}
