//! Runners and schedulers.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            CREATE TABLE scheduler (
                id {uuid} NOT NULL PRIMARY KEY,
                address text NOT NULL,
                version text NOT NULL,
                state text NOT NULL CHECK (state IN ('WORKING', 'DRAINED', 'OFFLINE')),
                started_at bigint NOT NULL,
                last_seen_at bigint NOT NULL
            );

            CREATE TABLE runner (
                id text NOT NULL PRIMARY KEY,
                install_id text NOT NULL,
                boot_id text NOT NULL,
                conn bigint NOT NULL,
                -- The one session that counts; null once the runner left or was given up.
                session_id {uuid},
                scheduler_id {uuid},
                labels text NOT NULL,
                version text NOT NULL,
                capabilities text NOT NULL,
                slots integer NOT NULL,
                -- Drained by an operator, as opposed to draining by itself.
                drained {bool} NOT NULL DEFAULT {false},
                draining {bool} NOT NULL DEFAULT {false},
                drain_reason text NOT NULL DEFAULT '',
                last_seen_at bigint NOT NULL,
                hold_until bigint,
                created_at bigint NOT NULL
            );
            CREATE INDEX runner_session ON runner (scheduler_id) WHERE session_id IS NOT NULL;
            CREATE INDEX runner_silent ON runner (last_seen_at) WHERE session_id IS NOT NULL;
            ",
        )
        .await
    }
}
