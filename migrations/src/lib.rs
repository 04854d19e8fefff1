//! The tables of Baton, one file a change. A migration says one thing and only expands within a minor version, so
//! that the binary before it goes on working. The whole present schema of each database lies in `schema/`.

#![allow(elided_lifetimes_in_paths, reason = "the trait of the migrations is declared so")]

pub use sea_orm_migration;
use sea_orm_migration::prelude::*;

mod dialect;
mod m0001_definitions;
mod m0002_jobs;
mod m0003_runners;
mod m0004_requests;
mod m0005_schedules;
mod m0006_calendars;
mod m0007_placement;
mod m0008_attempts;
mod m0009_sub_jobs;
mod m0010_callbacks;
mod m0011_completions;
mod m0012_repair;
mod m0013_boots;
mod m0014_backfills;
mod m0015_removed;
mod m0016_starts;
mod m0017_unfinished;
mod m0101_logs;

/// The changes of the main database, in order.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_definitions::Migration),
            Box::new(m0002_jobs::Migration),
            Box::new(m0003_runners::Migration),
            Box::new(m0004_requests::Migration),
            Box::new(m0005_schedules::Migration),
            Box::new(m0006_calendars::Migration),
            Box::new(m0007_placement::Migration),
            Box::new(m0008_attempts::Migration),
            Box::new(m0009_sub_jobs::Migration),
            Box::new(m0010_callbacks::Migration),
            Box::new(m0011_completions::Migration),
            Box::new(m0012_repair::Migration),
            Box::new(m0013_boots::Migration),
            Box::new(m0014_backfills::Migration),
            Box::new(m0015_removed::Migration),
            Box::new(m0016_starts::Migration),
            Box::new(m0017_unfinished::Migration),
        ]
    }
}

/// The changes of the log store, in order: a file of its own beside the main one on SQLite, so that output never
/// waits for a turn of the engine nor holds one up; the same database on PostgreSQL.
#[derive(Debug)]
pub struct LogMigrator;

#[async_trait::async_trait]
impl MigratorTrait for LogMigrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![Box::new(m0101_logs::Migration)]
    }

    fn migration_table_name() -> DynIden {
        "seaql_log_migrations".into_iden()
    }
}
