//! The schedules of job configs, and the fires that made no job.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- One schedule of the newest version of a job config. Times are UTC microseconds.
            CREATE TABLE schedule (
                id {uuid} NOT NULL PRIMARY KEY,
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                -- Its name, else its position.
                key text NOT NULL,
                spec text NOT NULL,
                -- DUE waits for due_at, TURN for the end of the jobs of its config, END for the end of the job it made
                -- last; the others wait for an edit.
                state text NOT NULL CHECK (state IN ('DUE', 'TURN', 'END', 'OVER', 'PARKED', 'PAUSED')),
                reason text NOT NULL DEFAULT '',
                -- The fire it waits for, and when to decide it by the clock of the database.
                next_fire_at bigint,
                due_at bigint,
                -- The newest fire that was decided, and when the newest job was made.
                last_fire_at bigint,
                last_made_at bigint,
                -- How long a fixed rate may wait at most, whatever the clock was set to; null for other rules.
                period bigint,
                created_at bigint NOT NULL,
                CHECK (state NOT IN ('DUE', 'TURN') OR (next_fire_at IS NOT NULL AND due_at IS NOT NULL))
            );
            CREATE UNIQUE INDEX schedule_key ON schedule (job_config_id, key);
            CREATE INDEX schedule_due ON schedule (due_at) WHERE state = 'DUE';
            CREATE INDEX schedule_waits ON schedule (job_config_id) WHERE state IN ('TURN', 'END');

            -- Fires that made no job: one row for those that follow each other for one reason.
            CREATE TABLE fire (
                job_config_id {uuid} NOT NULL REFERENCES job_config (id) ON DELETE CASCADE,
                schedule text NOT NULL,
                first_at bigint NOT NULL,
                last_at bigint NOT NULL,
                count bigint NOT NULL,
                reason text NOT NULL,
                created_at bigint NOT NULL,
                PRIMARY KEY (job_config_id, schedule, first_at)
            );
            CREATE INDEX fire_newest ON fire (job_config_id, last_at);
            ",
        )
        .await
    }
}
