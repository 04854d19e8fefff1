//! The right to complete an attempt that waits for its callback.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            -- One dispatch of a task that waits for its callback. The token that completes it is kept nowhere.
            CREATE TABLE completion (
                -- SHA-256 of the token, in hex.
                token_hash text NOT NULL PRIMARY KEY,
                task_id {uuid} NOT NULL REFERENCES task (id) ON DELETE CASCADE,
                job_id {uuid} NOT NULL,
                attempt integer NOT NULL,
                lease bigint NOT NULL,
                -- OPEN until the token is used; USED until the runner that waits is told; then TOLD.
                state text NOT NULL CHECK (state IN ('OPEN', 'USED', 'TOLD')),
                -- Where the runner that waits is to be told.
                session_id {uuid},
                slot integer,
                created_at bigint NOT NULL,
                used_at bigint
            );
            CREATE INDEX completion_task ON completion (task_id);
            CREATE INDEX completion_untold ON completion (session_id) WHERE state = 'USED';
            ",
        )
        .await
    }
}
