//! What persons did: an audit of it, and what they said about tasks. And how long what has ended is kept.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- What somebody asked for that changed something, in the order of its id. Times are UTC microseconds.
            CREATE TABLE audit_event (
                id {uuid} NOT NULL PRIMARY KEY,
                at bigint NOT NULL,
                actor text NOT NULL,
                -- The method of the API, such as Rerun.
                action text NOT NULL,
                -- What was changed: its kind, its namespace if it has one, its name or id.
                kind text NOT NULL,
                namespace text NOT NULL DEFAULT '',
                object text NOT NULL,
                job_id {uuid},
                before text NOT NULL DEFAULT '',
                after text NOT NULL DEFAULT '',
                reason text NOT NULL DEFAULT '',
                request_id text NOT NULL DEFAULT ''
            );
            CREATE INDEX audit_event_at ON audit_event (at);
            CREATE INDEX audit_event_job ON audit_event (job_id, id) WHERE job_id IS NOT NULL;
            CREATE INDEX audit_event_object ON audit_event (kind, namespace, object, id);

            -- A person said how a task ended: only a repair that names it says otherwise.
            CREATE TABLE task_mark (
                task_id {uuid} NOT NULL PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE,
                job_id {uuid} NOT NULL,
                state text NOT NULL,
                before text NOT NULL,
                actor text NOT NULL,
                reason text NOT NULL,
                marked_at bigint NOT NULL
            );
            CREATE INDEX task_mark_job ON task_mark (job_id);
            -- How many attempts there were before somebody ran it again: those do not count against its retries.
            ALTER TABLE task ADD COLUMN attempts_before integer NOT NULL DEFAULT 0;

            -- How long the newest version of a job config wants its ended jobs kept; null leaves it to the scheduler.
            ALTER TABLE job_config ADD COLUMN retain_age bigint;
            ALTER TABLE job_config ADD COLUMN retain_count integer;
            ALTER TABLE job_config ADD COLUMN retain_logs bigint;
            -- Its rows are being removed, a slice at a time; nobody sees it any more.
            ALTER TABLE job ADD COLUMN removing {bool} NOT NULL DEFAULT {false};
            ALTER TABLE job ADD COLUMN logs_removed {bool} NOT NULL DEFAULT {false};
            CREATE INDEX job_ended ON job (job_config_id, ended_at, id) WHERE ended_at IS NOT NULL;
            CREATE INDEX job_logs_kept ON job (job_config_id, ended_at, id)
                WHERE ended_at IS NOT NULL AND NOT logs_removed;
            CREATE INDEX job_removing ON job (id) WHERE removing;
            ",
        )
        .await
    }
}
