//! The database alone, as durable as Baton has it: what it commits with nothing around it.

use std::{fmt::Write as _, time::Instant};

use anyhow::Context as _;
use baton_tests::{Backend, Cluster};
use sea_orm::{ConnectOptions, ConnectionTrait as _, Database, DatabaseConnection, Statement, TransactionTrait as _};

use crate::{
    figure::percentile,
    stamps::{ms, now},
};

/// How many tasks one commit of [`Bare::lives`] moves, as many as the runner of that workload has slots.
const BATCH: usize = 64;

/// How many rows one statement inserts.
const INSERT: usize = 5_000;

/// A database with a table like that of tasks, and one connection.
#[derive(Debug)]
pub(crate) struct Bare {
    connection: DatabaseConnection,
    backend: Backend,
}

impl Bare {
    /// On PostgreSQL the database of the cluster itself; on SQLite a file beside that of the scheduler, who shares its
    /// own with nobody.
    pub(crate) async fn open(cluster: &Cluster, backend: Backend) -> anyhow::Result<Self> {
        let url = match backend {
            Backend::Sqlite => format!("sqlite://{}?mode=rwc", cluster.directory().join("floor.db").display()),
            Backend::Postgres => cluster.database_url().to_owned(),
        };
        let mut options = ConnectOptions::new(url);
        options.max_connections(1).sqlx_logging(false);
        let connection = Database::connect(options).await.context("the floor's database opens")?;
        if backend == Backend::Sqlite {
            connection.execute_unprepared("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").await?;
        }
        let bare = Self { connection, backend };
        bare.run("DROP TABLE IF EXISTS bench_task").await?;
        let texts = (0..12).fold(String::new(), |mut list, number| {
            let _ = write!(list, ", text{number} text NOT NULL DEFAULT ''");
            list
        });
        let numbers = (0..12).fold(String::new(), |mut list, number| {
            let _ = write!(list, ", number{number} bigint NOT NULL DEFAULT 0");
            list
        });
        bare.run(&format!(
            "CREATE TABLE bench_task (id text PRIMARY KEY, nth bigint NOT NULL, state text NOT NULL{texts}{numbers})"
        ))
        .await?;
        bare.run("CREATE INDEX bench_task_nth ON bench_task (nth)").await?;
        bare.run("CREATE INDEX bench_task_queue ON bench_task (nth) WHERE state = 'QUEUED'").await?;
        Ok(bare)
    }

    /// The database of a cluster itself, as it is. On SQLite its scheduler must have ended.
    pub(crate) async fn of_cluster(cluster: &Cluster) -> anyhow::Result<Self> {
        let backend = if cluster.database_server().is_some() { Backend::Postgres } else { Backend::Sqlite };
        let mut options = ConnectOptions::new(cluster.database_url().to_owned());
        options.max_connections(1).sqlx_logging(false);
        let connection = Database::connect(options).await.context("the database of the cluster opens")?;
        Ok(Self { connection, backend })
    }

    /// The columns of a table.
    pub(crate) async fn columns(&self, table: &str) -> anyhow::Result<Vec<String>> {
        let text = match self.backend {
            Backend::Postgres => format!(
                "SELECT CAST(column_name AS text) AS name FROM information_schema.columns
                 WHERE table_schema = current_schema() AND table_name = '{table}'"
            ),
            Backend::Sqlite => format!("SELECT name FROM pragma_table_info('{table}')"),
        };
        let rows = self.connection.query_all_raw(Statement::from_string(self.connection.get_database_backend(), text));
        rows.await?.iter().map(|row| Ok(row.try_get("", "name")?)).collect()
    }

    /// One row, durably, in milliseconds: the median.
    pub(crate) async fn commit(&self, samples: usize) -> anyhow::Result<f64> {
        let mut times = Vec::with_capacity(samples);
        for number in 0..samples {
            let start = now();
            self.run(&format!("INSERT INTO bench_task (id, nth, state) VALUES ('{number}', {number}, 'FINISHED')"))
                .await?;
            times.push(ms(start, now()));
        }
        self.run("DELETE FROM bench_task").await?;
        Ok(percentile(&mut times, 50.0))
    }

    /// Rows inserted a second, many in one statement.
    pub(crate) async fn inserts(&self, count: usize) -> anyhow::Result<f64> {
        let start = Instant::now();
        for from in (0..count).step_by(INSERT) {
            self.insert(from, count.min(from + INSERT)).await?;
        }
        let rate = count as f64 / start.elapsed().as_secs_f64();
        self.run("DELETE FROM bench_task").await?;
        Ok(rate)
    }

    /// Tasks moved from QUEUED to DISPATCHED to FINISHED a second, a batch in each commit: a commit finishes one batch and
    /// gives out the next.
    pub(crate) async fn lives(&self, count: usize) -> anyhow::Result<f64> {
        for from in (0..count).step_by(INSERT) {
            self.insert(from, count.min(from + INSERT)).await?;
        }
        let start = Instant::now();
        let set = |from: usize, state: &str| {
            let to = from + BATCH;
            format!("UPDATE bench_task SET state = '{state}', number0 = number0 + 1 WHERE nth >= {from} AND nth < {to}")
        };
        for from in (0..count + BATCH).step_by(BATCH) {
            let tx = self.connection.begin().await?;
            if let Some(before) = from.checked_sub(BATCH) {
                tx.execute_unprepared(&set(before, "FINISHED")).await?;
            }
            tx.execute_unprepared(&set(from, "DISPATCHED")).await?;
            tx.commit().await?;
        }
        let rate = count as f64 / start.elapsed().as_secs_f64();
        self.run("DELETE FROM bench_task").await?;
        Ok(rate)
    }

    async fn insert(&self, from: usize, to: usize) -> anyhow::Result<()> {
        let numbers = match self.backend {
            Backend::Postgres => format!("SELECT generate_series({from}, {}) AS nth", to - 1),
            Backend::Sqlite => format!(
                "WITH RECURSIVE list (nth) AS (SELECT {from} UNION ALL SELECT nth + 1 FROM list WHERE nth < {})
                 SELECT nth FROM list",
                to - 1
            ),
        };
        // Ids of the length and order of those of tasks.
        let id = match self.backend {
            Backend::Postgres => "lpad(nth::text, 36, '0')",
            Backend::Sqlite => "printf('%036d', nth)",
        };
        let text =
            format!("INSERT INTO bench_task (id, nth, state) SELECT {id}, nth, 'QUEUED' FROM ({numbers}) AS numbers");
        self.run(&text).await
    }

    /// Runs a statement.
    pub(crate) async fn run(&self, text: &str) -> anyhow::Result<()> {
        self.connection.execute_unprepared(text).await.with_context(|| text.to_owned())?;
        Ok(())
    }
}
