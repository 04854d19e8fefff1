//! The outbox of what is told about jobs and tasks.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- One event for one receiver, written in the transaction of the change that it tells of. Times are UTC
            -- microseconds.
            CREATE TABLE callback (
                -- What a receiver knows a repetition by.
                id {uuid} NOT NULL PRIMARY KEY,
                -- The same for every receiver of one event.
                event_id {uuid} NOT NULL,
                event text NOT NULL CHECK (event IN ('STARTED', 'SLOW', 'FINISHED', 'FAILED', 'TERMINATED', 'SKIPPED',
                    'MISSED')),
                job_config_id {uuid} NOT NULL,
                namespace text NOT NULL,
                name text NOT NULL,
                -- Null for a fire that made no job.
                job_id {uuid} REFERENCES job (id) ON DELETE CASCADE,
                -- Null for an event of the job itself.
                task_id {uuid},
                task_name text NOT NULL DEFAULT '',
                -- Its place among the callbacks of the job config or the task.
                position integer NOT NULL,
                -- What is done, and with what, nothing left to fill in.
                kind text NOT NULL CHECK (kind IN ('HTTP', 'EMAIL', 'JOB')),
                action text NOT NULL,
                payload text NOT NULL,
                -- Its task is held until it is delivered or given up.
                blocking {bool} NOT NULL,
                -- How many jobs, one after the other, led to the job of the event.
                depth integer NOT NULL DEFAULT 0,
                state text NOT NULL CHECK (state IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
                tries integer NOT NULL DEFAULT 0,
                -- The scheduler that tries it; it may be claimed again at next_try_at, which lies beyond any try.
                owner {uuid},
                next_try_at bigint NOT NULL,
                response_code integer,
                last_error text NOT NULL DEFAULT '',
                -- The job that it started.
                made_job_id {uuid},
                created_at bigint NOT NULL,
                ended_at bigint,
                CHECK ((state = 'PENDING') = (ended_at IS NULL)),
                CHECK (owner IS NULL OR state = 'PENDING'),
                CHECK (task_id IS NOT NULL OR NOT blocking)
            );
            CREATE INDEX callback_due ON callback (next_try_at) WHERE state = 'PENDING';
            CREATE INDEX callback_of_job ON callback (job_id, id);
            CREATE INDEX callback_of_config ON callback (namespace, name, id);
            CREATE INDEX callback_given_up ON callback (id) WHERE state = 'GIVEN_UP';
            CREATE INDEX callback_holds ON callback (task_id) WHERE blocking;
            CREATE INDEX callback_tail ON callback ({tail});
            CREATE INDEX callback_without_job ON callback (created_at) WHERE job_id IS NULL;
            ",
        )
        .await
    }
}
