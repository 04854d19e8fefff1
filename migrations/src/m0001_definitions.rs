//! Job configs, their versions, and the graph of each version as rows.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            CREATE TABLE job_config (
                id {uuid} NOT NULL PRIMARY KEY,
                namespace text NOT NULL,
                name text NOT NULL,
                version integer NOT NULL,
                created_at bigint NOT NULL,
                updated_at bigint NOT NULL,
                deleted_at bigint
            );
            CREATE UNIQUE INDEX job_config_name ON job_config (namespace, name) WHERE deleted_at IS NULL;

            CREATE TABLE job_config_version (
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                version integer NOT NULL,
                definition text NOT NULL,
                source text NOT NULL,
                labels text NOT NULL,
                task_count integer NOT NULL,
                created_at bigint NOT NULL,
                PRIMARY KEY (job_config_id, version)
            );

            CREATE TABLE task_config (
                id {uuid} NOT NULL PRIMARY KEY,
                job_config_id {uuid} NOT NULL,
                version integer NOT NULL,
                node integer NOT NULL,
                name text NOT NULL,
                FOREIGN KEY (job_config_id, version)
                    REFERENCES job_config_version (job_config_id, version) ON DELETE CASCADE
            );
            CREATE UNIQUE INDEX task_config_node ON task_config (job_config_id, version, node);
            CREATE UNIQUE INDEX task_config_name ON task_config (job_config_id, version, name);

            CREATE TABLE task_dependency (
                child_id {uuid} NOT NULL REFERENCES task_config (id) ON DELETE CASCADE,
                parent_id {uuid} NOT NULL REFERENCES task_config (id) ON DELETE CASCADE,
                PRIMARY KEY (child_id, parent_id)
            );
            CREATE INDEX task_dependency_parent ON task_dependency (parent_id);
            ",
        )
        .await
    }
}
