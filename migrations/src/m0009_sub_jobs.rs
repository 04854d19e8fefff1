//! What makes a job beside people and schedules: `job` tasks, and the ends of other jobs.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- What made the job, where that is neither a person nor a schedule: SUB_JOB, AFTER_JOBS, CALLBACK. A binary
            -- that does not know the column reads such a job as one that somebody asked for.
            ALTER TABLE job ADD COLUMN cause text;
            -- The job it was made for, and the task of that job and its attempt.
            ALTER TABLE job ADD COLUMN parent_job_id {uuid};
            ALTER TABLE job ADD COLUMN parent_task_id {uuid};
            ALTER TABLE job ADD COLUMN parent_attempt integer;
            -- How many jobs one after the other led to it.
            ALTER TABLE job ADD COLUMN depth integer NOT NULL DEFAULT 0;
            -- The time it is about and the zone to tell it in, where another job handed them down.
            ALTER TABLE job ADD COLUMN logical_at bigint;
            ALTER TABLE job ADD COLUMN logical_zone text;
            -- One attempt at a task makes one child.
            CREATE UNIQUE INDEX job_of_task ON job (parent_task_id, parent_attempt) WHERE parent_task_id IS NOT NULL;
            CREATE INDEX job_of_parent ON job (parent_job_id, id) WHERE parent_job_id IS NOT NULL;
            -- Tasks that wait for their child.
            CREATE INDEX task_with_child ON task (id)
                WHERE class = 'job;;' AND state IN ('RUNNING', 'TERMINATING');

            -- The job configs that the newest version of another one names.
            CREATE TABLE job_config_use (
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                -- TASK: a `job` task. AFTER: `after_jobs`.
                kind text NOT NULL CHECK (kind IN ('TASK', 'AFTER')),
                namespace text NOT NULL,
                name text NOT NULL,
                PRIMARY KEY (job_config_id, kind, name)
            );
            CREATE INDEX job_config_used ON job_config_use (namespace, name);
            CREATE INDEX job_config_followed ON job_config_use (namespace, name) WHERE kind = 'AFTER';

            -- The newest job of a config that finished since the job config which comes after it was started last.
            CREATE TABLE after_end (
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                name text NOT NULL,
                job_id {uuid} NOT NULL,
                ended_at bigint NOT NULL,
                PRIMARY KEY (job_config_id, name)
            );

            -- After which jobs a job was made. A job counts once for each config that comes after it.
            CREATE TABLE job_source (
                job_id {uuid} NOT NULL REFERENCES job (id) ON DELETE CASCADE,
                job_config_id {uuid} NOT NULL,
                source_job_id {uuid} NOT NULL,
                name text NOT NULL,
                PRIMARY KEY (job_config_id, source_job_id)
            );
            CREATE INDEX job_source_of ON job_source (job_id);
            ",
        )
        .await
    }
}
