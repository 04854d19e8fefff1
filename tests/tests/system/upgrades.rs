//! Section 4, rule 8: a newer version expands the schema while older schedulers go on, and names the oldest that may.

use std::process::Command;

use baton_tests::{Backend, Cluster, PATIENCE, RunnerSpec, World, one_task, programs, run_program};

/// What a next version might do to the schema: a table, a column, an index, and its name among the migrations. As a
/// scheduler that starts does, it does not make work wait behind it for long.
const NEXT_SCHEMA: &str = "
    SET lock_timeout = '1s';
    CREATE TABLE of_the_next_version (task_id uuid PRIMARY KEY REFERENCES task (id) ON DELETE CASCADE, note text);
    ALTER TABLE task ADD COLUMN of_the_next_version text;
    ALTER TABLE job ADD COLUMN of_the_next_version bigint NOT NULL DEFAULT 0;
    ALTER TABLE runner ADD COLUMN of_the_next_version boolean NOT NULL DEFAULT false;
    CREATE INDEX of_the_next_version_live ON job (of_the_next_version) WHERE state = 'RUNNING';
    INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_of_the_next_version', 0);";

/// The old binary under the next schema: while it is applied, afterwards, and started anew on it.
#[tokio::test]
async fn a_rolling_restart_on_the_next_schema_loses_and_repeats_nothing() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let mut cluster = World::on(Backend::Postgres).schedulers(2).start().await;
    for number in 0..2 {
        cluster.add_runner(RunnerSpec::named(&format!("runner-{number}"))).await;
    }
    let marks = cluster.marks("work");
    cluster.ask().apply(&one_task("load", &marks.around("sleep 0.2"))).await.expect("it is applied");
    let mut accepted = Vec::new();
    for restarting in [0, 1] {
        for round in 0..8 {
            accepted.push(cluster.ask_of(round % 2).run("load", &[]).await.expect("it is accepted"));
            if (restarting, round) == (0, 4) {
                expand(&cluster);
            }
        }
        cluster.scheduler(restarting).terminate();
        for _ in 0..4 {
            accepted.push(cluster.ask_of(1 - restarting).run("load", &[]).await.expect("the other one is there"));
        }
        let status = cluster.scheduler(restarting).end(PATIENCE).await;
        assert!(status.success(), "{status}");
        cluster.start_scheduler(restarting).await;
    }
    for id in &accepted {
        let view = cluster.done(id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1);
    }
    assert_eq!((marks.count("begin"), marks.count("end")), (accepted.len(), accepted.len()));
    marks.assert_one_at_a_time();
}

#[tokio::test]
async fn a_scheduler_older_than_the_database_allows_is_refused_in_a_sentence() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let mut cluster = World::on(Backend::Postgres).runner(RunnerSpec::named("one")).start().await;
    cluster.sql(
        "INSERT INTO meta (key, value) VALUES ('min_binary', '99.0.0')
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    let refused = run_program(late(&cluster)).await;
    refused.exits(1).complains(&["needs at least version 99.0.0", "install the newer version"]);
    // Those that run already are asked to go one by one, not pushed out.
    let id = cluster.run(&one_task("still", "true")).await;
    cluster.done(&id).await.finished();
    assert!(cluster.scheduler(0).ended().is_none());
}

/// Brings the schema of the next version, which gives way to work that is in its way and is tried again.
fn expand(cluster: &Cluster) {
    while let Some(Err(refusal)) = cluster.try_sql(NEXT_SCHEMA) {
        assert!(refusal.contains("deadlock detected") || refusal.contains("lock timeout"), "{refusal}");
    }
}

/// One more scheduler on the database of a cluster.
fn late(cluster: &Cluster) -> Command {
    let mut command = programs::command("baton-scheduler");
    command.args(["--listen", "127.0.0.1:0", "--no-auth", "--database-url", cluster.database_url()]);
    command
}
