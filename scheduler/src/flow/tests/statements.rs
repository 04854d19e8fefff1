//! What a turn asks for is found along indexes, however little the database knows of its tables.

use super::*;
use crate::domain::definition::{Shards, Split};

/// Tables that grow with what was run and with what is stored, by the day and by the thousand.
const GROWING: [&str; 4] = ["task", "job", "schedule", "backfill"];

/// Indexes that may be read from end to end: what they hold waits or runs at this moment, or is to be looked at by this turn.
const OF_THE_MOMENT: [&str; 8] = [
    "backfill_running",
    "job_held",
    "job_to_expand",
    "job_waiting",
    "schedule_waits",
    "task_not_gone",
    "task_with_child",
    "job_live_of_config",
];

impl Scene {
    /// The first column of each index, on PostgreSQL.
    async fn first_columns(&self) -> BTreeMap<String, String> {
        if !self.world.store.is_clustered() {
            return BTreeMap::new();
        }
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT relname AS name, pg_get_indexdef(indexrelid, 1, true) AS first
                    FROM pg_index JOIN pg_class ON oid = indexrelid";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[])).await.unwrap();
        rows.iter().map(|row| (row.column("name").unwrap(), row.column("first").unwrap())).collect()
    }

    /// The steps in which the database would read a growing table from end to end for a statement.
    async fn full_reads(&self, mut statement: sea_orm::Statement) -> Vec<String> {
        let firsts = self.first_columns().await;
        let tx = self.world.store.begin().await.unwrap();
        let clustered = self.world.store.is_clustered();
        let (explain, column) = if clustered { ("EXPLAIN", "QUERY PLAN") } else { ("EXPLAIN QUERY PLAN", "detail") };
        statement.sql = format!("{explain} {}", statement.sql);
        let rows = tx.query(statement).await.unwrap();
        let steps: Vec<String> = rows.iter().map(|row| row.column(column).unwrap()).collect();
        let is_full = |(at, step): (usize, &String)| {
            let words: Vec<&str> = step.split_whitespace().collect();
            // A condition that says nothing of an index's first column is looked for in all of it.
            let first = words.iter().find_map(|word| firsts.get(*word));
            let sought = |first: &String| {
                steps
                    .get(at + 1)
                    .is_some_and(|next| next.contains("Index Cond") && next.contains(&format!("({first} ")))
            };
            let reads = if clustered {
                step.contains(" Scan ") && !first.is_some_and(sought)
            } else {
                step.starts_with("SCAN ")
            };
            let of = |known: &[&str]| words.iter().any(|word| known.contains(word));
            reads && of(&GROWING) && !of(&OF_THE_MOMENT)
        };
        steps.iter().enumerate().filter(|step| is_full(*step)).map(|(_, step)| step.clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_turn_reads_a_growing_table_from_end_to_end() {
    for mut scene in Scene::on_each_database().await {
        let fuse = scene.overhear().await;
        let fan = TaskConfig {
            shards: Some(Shards { split: Split::Count(3), max_parallel: 2, min_success_percent: 100 }),
            ..task("fan", &["first"])
        };
        scene.apply(vec![task("first", &[]), fan, task("last", &["fan"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let job = scene.run().await;
        runner.finish(5).await;
        scene.end_of(job).await;
        let job = scene.run().await;
        runner.next_run().await;
        scene.terminate(job).await;

        let statements = fuse.statements();
        assert!(statements.len() > 40, "only {} statements were run", statements.len());
        let mut found = Vec::new();
        for statement in statements.into_iter().filter(|statement| !statement.sql.contains("pg_")) {
            let text = statement.sql.clone();
            let steps = scene.full_reads(statement).await;
            if !steps.is_empty() {
                found.push(format!("{}\n  {text}", steps.join("\n")));
            }
        }
        assert!(found.is_empty(), "{} statements:\n{}", found.len(), found.join("\n\n"));
    }
}
