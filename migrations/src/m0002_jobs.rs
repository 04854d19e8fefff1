//! Jobs, their tasks and the attempts that others followed.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- One run of a job config. Its row is the lock of its graph. Times are UTC microseconds.
            CREATE TABLE job (
                id {uuid} NOT NULL PRIMARY KEY,
                job_config_id {uuid} NOT NULL,
                version integer NOT NULL,
                namespace text NOT NULL,
                name text NOT NULL,
                labels text NOT NULL,
                state text NOT NULL CHECK (state IN ('CREATED', 'RUNNING', 'FINISHED', 'FAILED', 'SKIPPED',
                    'TERMINATING', 'TERMINATED')),
                reason text NOT NULL DEFAULT '',
                trigger_kind text NOT NULL CHECK (trigger_kind IN ('MANUAL', 'SCHEDULE')),
                schedule text,
                fire_time bigint,
                rerun_no integer NOT NULL DEFAULT 0,
                params text NOT NULL,
                created_at bigint NOT NULL,
                started_at bigint,
                ended_at bigint,
                deadline_at bigint,
                -- It waits until the jobs of its config before it are over; nothing of it is written before.
                waiting {bool} NOT NULL DEFAULT {false},
                stopping {bool} NOT NULL DEFAULT {false},
                timed_out {bool} NOT NULL DEFAULT {false},
                expanded integer NOT NULL DEFAULT 0,
                tasks_total integer NOT NULL,
                tasks_ended integer NOT NULL DEFAULT 0,
                tasks_failed integer NOT NULL DEFAULT 0,
                seq bigint NOT NULL DEFAULT 1,
                CHECK (tasks_ended <= tasks_total)
            );
            CREATE UNIQUE INDEX job_fire ON job (job_config_id, schedule, fire_time, rerun_no)
                WHERE fire_time IS NOT NULL;
            CREATE INDEX job_of_config ON job (namespace, name, id);
            CREATE INDEX job_live_of_config ON job (job_config_id)
                WHERE state IN ('CREATED', 'RUNNING', 'TERMINATING');
            -- Short forms of ids are their last digits, because the first ones of a UUID v7 tell the time.
            CREATE INDEX job_tail ON job ({tail});
            CREATE INDEX job_to_expand ON job (id) WHERE state = 'CREATED' AND NOT waiting;
            CREATE INDEX job_waiting ON job (job_config_id, id) WHERE state = 'CREATED' AND waiting;
            CREATE INDEX job_deadline ON job (deadline_at) WHERE deadline_at IS NOT NULL AND state = 'RUNNING';

            -- One task config within a job, a group of shards, or one shard.
            CREATE TABLE task (
                id {uuid} NOT NULL PRIMARY KEY,
                job_id {uuid} NOT NULL REFERENCES job (id) ON DELETE CASCADE,
                task_config_id {uuid} NOT NULL,
                node integer NOT NULL,
                kind text NOT NULL CHECK (kind IN ('TASK', 'GROUP', 'SHARD')),
                group_id {uuid},
                -- -1 on everything but shards, so that one unique index holds for all.
                shard_index integer NOT NULL DEFAULT -1,
                shard_count integer,
                shard_item text NOT NULL DEFAULT '',
                state text NOT NULL CHECK (state IN ('CREATED', 'QUEUED', 'DISPATCHED', 'RUNNING', 'CALLBACK',
                    'FINISHED', 'FAILED', 'SKIPPED', 'TERMINATING', 'TERMINATED')),
                reason text NOT NULL DEFAULT '',
                skip_cause text CHECK (skip_cause IN ('CONDITION', 'UPSTREAM_FAILED')),
                attempt integer NOT NULL DEFAULT 0,
                lease bigint NOT NULL DEFAULT 0,
                priority integer NOT NULL DEFAULT 0,
                -- What a runner must have to take it: `capability;pin;labels`, the same text for the same demand.
                class text NOT NULL DEFAULT '',
                not_before bigint NOT NULL DEFAULT 0,
                runner_id text,
                slot integer,
                session_id {uuid},
                deaths integer NOT NULL DEFAULT 0,
                refusals integer NOT NULL DEFAULT 0,
                -- False while the end of the last attempt's processes is not proven.
                gone {bool} NOT NULL DEFAULT {true},
                end_grace bigint,
                exit_code integer,
                exit_signal integer,
                output text NOT NULL DEFAULT '',
                stdout_bytes bigint NOT NULL DEFAULT 0,
                stderr_bytes bigint NOT NULL DEFAULT 0,
                parents_total integer NOT NULL DEFAULT 0,
                parents_succeeded integer NOT NULL DEFAULT 0,
                parents_failed integer NOT NULL DEFAULT 0,
                parents_skipped integer NOT NULL DEFAULT 0,
                shards_succeeded integer NOT NULL DEFAULT 0,
                shards_ended integer NOT NULL DEFAULT 0,
                created_at bigint NOT NULL,
                queued_at bigint,
                dispatched_at bigint,
                started_at bigint,
                ended_at bigint,
                seq bigint NOT NULL DEFAULT 1,
                CHECK ((kind = 'SHARD') = (group_id IS NOT NULL)),
                CHECK ((kind = 'SHARD') = (shard_index >= 0)),
                CHECK (parents_succeeded + parents_failed + parents_skipped <= parents_total),
                CHECK (state NOT IN ('DISPATCHED', 'TERMINATING') OR kind = 'GROUP' OR runner_id IS NOT NULL),
                CHECK (skip_cause IS NOT NULL OR state <> 'SKIPPED')
            );
            CREATE UNIQUE INDEX task_of_job ON task (job_id, node, shard_index);
            CREATE INDEX task_changed ON task (job_id, seq);
            -- The picker's order, so that a pick costs the same whatever waits behind it.
            CREATE INDEX task_queue ON task (class, priority DESC, queued_at, id) WHERE state = 'QUEUED';
            -- What waits for a retry: when to look again is asked in every turn.
            CREATE INDEX task_delayed ON task (not_before) WHERE state = 'QUEUED' AND not_before > 0;
            CREATE INDEX task_held ON task (runner_id) WHERE state IN ('DISPATCHED', 'RUNNING', 'TERMINATING');
            CREATE INDEX task_not_gone ON task (runner_id) WHERE NOT gone;
            CREATE INDEX task_shard_waiting ON task (group_id, shard_index)
                WHERE state = 'CREATED' AND group_id IS NOT NULL;
            CREATE INDEX task_shard ON task (group_id) WHERE group_id IS NOT NULL;

            -- Each attempt that another followed; the last one lives on the task row.
            CREATE TABLE task_attempt (
                task_id {uuid} NOT NULL REFERENCES task (id) ON DELETE CASCADE,
                lease bigint NOT NULL,
                number integer NOT NULL,
                runner_id text,
                reason text NOT NULL,
                exit_code integer,
                exit_signal integer,
                started_at bigint,
                ended_at bigint NOT NULL,
                gone {bool} NOT NULL,
                PRIMARY KEY (task_id, lease)
            );
            CREATE INDEX task_attempt_not_gone ON task_attempt (runner_id) WHERE NOT gone;
            ",
        )
        .await
    }
}
