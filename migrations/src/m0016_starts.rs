//! Which job configs callbacks start: they are part of the rings that are refused.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- The job configs of which callbacks of the newest version of another one start jobs.
            CREATE TABLE job_config_start (
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                namespace text NOT NULL,
                name text NOT NULL,
                PRIMARY KEY (job_config_id, name)
            );
            CREATE INDEX job_config_started ON job_config_start (namespace, name);
            ",
        )
        .await
    }
}
