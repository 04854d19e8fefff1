//! Placement: the order of the queue, keys that only so many tasks may hold, places for the jobs of a config, runs for one
//! runner, and how long a task may wait for a runner.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- The picker's order: a minute of waiting, in microseconds, makes up for a point of priority. It takes the
            -- place of the index without ageing; an earlier scheduler sorts what it asks for.
            CREATE INDEX task_rank ON task (class, (queued_at - priority * CAST(60000000 AS bigint)), id)
                WHERE state = 'QUEUED';
            DROP INDEX task_queue;

            -- The key that a task was given out under, and its own limit; null for tasks that need none.
            ALTER TABLE task ADD COLUMN concurrency_key text;
            ALTER TABLE task ADD COLUMN concurrency_limit integer;
            CREATE INDEX task_holds_key ON task (concurrency_key)
                WHERE concurrency_key IS NOT NULL AND state IN ('DISPATCHED', 'RUNNING', 'TERMINATING');
            CREATE INDEX task_may_hold_key ON task (concurrency_key) WHERE concurrency_key IS NOT NULL AND NOT gone;
            -- Who gives out tasks under a key holds its row: the holders are counted, not kept.
            CREATE TABLE concurrency_limit (
                key text NOT NULL PRIMARY KEY
            );

            -- When tasks that wait for a runner have waited for too long. A row outlives the wait, until that time.
            CREATE TABLE task_alarm (
                task_id {uuid} NOT NULL PRIMARY KEY,
                due_at bigint NOT NULL
            );
            CREATE INDEX task_alarm_due ON task_alarm (due_at);

            -- How many jobs of the config may run, as its newest version says; null for any number.
            ALTER TABLE job_config ADD COLUMN max_active_jobs integer;
            -- It waits for one of these places, and `waiting` is true as well.
            ALTER TABLE job ADD COLUMN held {bool} NOT NULL DEFAULT {false};
            CREATE INDEX job_held ON job (job_config_id, id) WHERE state = 'CREATED' AND held;
            -- The one runner that may take its tasks.
            ALTER TABLE job ADD COLUMN runner text;
            ",
        )
        .await
    }
}
