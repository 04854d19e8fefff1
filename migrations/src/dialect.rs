//! One text of SQL for both databases: types that differ are written `{name}` and filled in here.

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

/// Runs statements, separated by `;`, after filling in the types of this database.
///
/// | written | PostgreSQL | SQLite | holds |
/// |---|---|---|---|
/// | `{uuid}` | `uuid` | `blob` | 16 bytes |
/// | `{bytes}` | `bytea` | `blob` | any bytes |
/// | `{serial}` | `bigint GENERATED ALWAYS AS IDENTITY` | `integer` | a growing number, as primary key |
/// | `{bool}` | `boolean` | `boolean` | true or false |
/// | `{tail}` | `right(CAST(id AS text), 4)` | `lower(substr(hex(id), -4))` | the last 4 hex digits of `id` |
/// | `{true}` / `{false}` | `true` / `false` | `1` / `0` | |
pub(crate) async fn run(manager: &SchemaManager<'_>, statements: &str) -> Result<(), DbErr> {
    let postgres = manager.get_database_backend() == DbBackend::Postgres;
    let types: [(&str, &str, &str); 7] = [
        ("{uuid}", "uuid", "blob"),
        ("{bytes}", "bytea", "blob"),
        ("{serial}", "bigint GENERATED ALWAYS AS IDENTITY", "integer"),
        ("{tail}", "right(CAST(id AS text), 4)", "lower(substr(hex(id), -4))"),
        ("{bool}", "boolean", "boolean"),
        ("{true}", "true", "1"),
        ("{false}", "false", "0"),
    ];
    let mut sql = statements.to_owned();
    for (name, on_postgres, on_sqlite) in types {
        sql = sql.replace(name, if postgres { on_postgres } else { on_sqlite });
    }
    manager.get_connection().execute_unprepared(&sql).await.map(|_| ())
}
