//! Dumps the present schema of each database into `migrations/schema/`, so that a migration shows up in review as what it
//! makes of the whole.

use std::fmt::Write as _;

use sea_orm::ConnectionTrait as _;

use super::testing;

/// Everything there is, as SQLite keeps it: main file, then log file.
const SQLITE: &str = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'seaql_%'
    ORDER BY tbl_name, type DESC, name";

/// Columns, constraints and indexes of every table, a line each.
const POSTGRES: &str = "
    SELECT line FROM (
        SELECT c.relname AS relation, 0 AS kind, a.attnum AS place,
            c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END
            || CASE WHEN a.attidentity <> '' THEN ' IDENTITY' ELSE '' END
            || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS line
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT c.relname, 1, 0, c.relname || ' ' || pg_get_constraintdef(k.oid)
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        WHERE c.relnamespace = 'public'::regnamespace AND k.contype IN ('p', 'u', 'f', 'c')
        UNION ALL
        SELECT tablename, 2, 0, indexdef FROM pg_indexes WHERE schemaname = 'public'
    ) AS lines WHERE relation NOT LIKE 'seaql\\_%' ORDER BY relation, kind, place, line";

#[tokio::test]
async fn the_schema_beside_the_migrations_is_the_present_one() {
    for world in testing::worlds().await {
        let (file, question) = match world.store.backend() {
            sea_orm::DbBackend::Postgres => ("postgres.txt", POSTGRES),
            _ => ("sqlite.sql", SQLITE),
        };
        let mut drawn = String::from("-- The present schema, written by a test: run it with BATON_WRITE_DOCS=1.\n");
        let mut readers = vec![world.store.reader()];
        if world.store.backend() == sea_orm::DbBackend::Sqlite {
            readers.push(world.store.logs().reader());
        }
        for reader in readers {
            let rows = reader.query_all_raw(sea_orm::Statement::from_string(world.store.backend(), question));
            for row in rows.await.unwrap() {
                let line: String = row.try_get_by_index(0).unwrap();
                let line =
                    line.lines().map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n    ");
                writeln!(drawn, "{line};").unwrap();
            }
        }
        let path = format!("{}/../migrations/schema/{file}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BATON_WRITE_DOCS").is_some() {
            std::fs::write(&path, &drawn).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, drawn, "migrations/schema/{file} is out of date: run the test with BATON_WRITE_DOCS=1");
    }
}
