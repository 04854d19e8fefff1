//! Answers kept for repeated requests, and what the database says of itself.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        crate::dialect::run(
            manager,
            "
            CREATE TABLE request (
                principal text NOT NULL,
                method text NOT NULL,
                request_id text NOT NULL,
                body_hash {bytes} NOT NULL,
                response text NOT NULL,
                created_at bigint NOT NULL,
                PRIMARY KEY (principal, method, request_id)
            );
            CREATE INDEX request_age ON request (created_at);

            CREATE TABLE meta (
                key text NOT NULL PRIMARY KEY,
                value text NOT NULL
            );
            INSERT INTO meta (key, value) VALUES ('min_binary', '0.1.0');
            ",
        )
        .await
    }
}
