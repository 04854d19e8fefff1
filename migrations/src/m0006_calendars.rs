//! Calendars of excluded dates, schedules that are switched off for a while, and what a schedule keeps to find out that
//! its clock was set back or that it fires too often.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- A named list of dates on which schedules that name it do not fire. Times are UTC microseconds.
            CREATE TABLE calendar (
                namespace text NOT NULL,
                name text NOT NULL,
                description text NOT NULL DEFAULT '',
                exclude text NOT NULL,
                -- Grows with every change of its dates.
                revision bigint NOT NULL,
                -- Schedules may still be planned by an earlier revision.
                pending {bool} NOT NULL DEFAULT {false},
                created_at bigint NOT NULL,
                updated_at bigint NOT NULL,
                PRIMARY KEY (namespace, name)
            );
            CREATE INDEX calendar_pending ON calendar (namespace, name) WHERE pending;

            -- Which schedules name a calendar, and by which revision of it they are planned.
            CREATE TABLE calendar_use (
                schedule_id {uuid} NOT NULL REFERENCES schedule (id) ON DELETE CASCADE,
                namespace text NOT NULL,
                calendar text NOT NULL,
                revision bigint NOT NULL,
                PRIMARY KEY (schedule_id, calendar)
            );
            CREATE INDEX calendar_use_of ON calendar_use (namespace, calendar, revision);

            -- When its next fire was worked out: later than now when the clock was set back since.
            ALTER TABLE schedule ADD COLUMN planned_at bigint;
            -- How many jobs it made since when, within a minute.
            ALTER TABLE schedule ADD COLUMN burst_at bigint;
            ALTER TABLE schedule ADD COLUMN burst integer NOT NULL DEFAULT 0;
            CREATE INDEX schedule_planned ON schedule (planned_at);
            -- Listings begin with what fires next; what never does comes last.
            CREATE INDEX schedule_listed ON schedule (coalesce(next_fire_at, 9223372036854775807), id);
            -- A schedule that is switched off until some time is due then.
            DROP INDEX schedule_due;
            CREATE INDEX schedule_due ON schedule (due_at) WHERE state IN ('DUE', 'PAUSED');

            -- Schedules of this config are switched off, those that it will have too.
            ALTER TABLE job_config ADD COLUMN disabled_at bigint;
            ALTER TABLE job_config ADD COLUMN disabled_until bigint;
            ALTER TABLE job_config ADD COLUMN disabled_reason text NOT NULL DEFAULT '';
            ",
        )
        .await
    }
}
