//! Keys that only so many tasks may hold at once. The row of a key is its lock; who holds it is counted from the tasks.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{DbBackend, Statement};
use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row,
    sql::{Input, int, text, uuid},
    task::HOLDS_SLOT,
};
use crate::domain::placement::{Holders, Limit};

/// Locks keys in their order, and makes the rows of those that are new. Returns those locked: a key that another
/// transaction has is left out, so that nobody waits.
pub async fn lock(tx: &Tx, keys: &BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    if keys.is_empty() {
        return Ok(BTreeSet::new());
    }
    let question = "WITH {input} SELECT key FROM concurrency_limit WHERE key IN (SELECT wanted FROM input)
                    ORDER BY key {skip_locked}";
    let rows = tx.query(these(keys).statement(tx.backend(), question, &[])).await?;
    let mut locked: BTreeSet<String> = rows.iter().map(|row| row.column("key")).collect::<Result<_, _>>()?;
    if locked.len() < keys.len() {
        // A row that is there and not locked is in other hands; who makes one holds it.
        let text = "WITH {input} INSERT INTO concurrency_limit (key) SELECT wanted FROM input
                    WHERE NOT EXISTS (SELECT 1 FROM concurrency_limit WHERE key = wanted) ORDER BY wanted
                    ON CONFLICT (key) DO NOTHING RETURNING key";
        let rows = tx.query(these(keys).statement(tx.backend(), text, &[])).await?;
        for row in rows {
            locked.insert(row.column("key")?);
        }
    }
    Ok(locked)
}

/// The tasks that hold a key of the input. Two questions, for each of which there is an index: one question with OR in it
/// would be answered by reading every task there ever was.
fn holding() -> String {
    let columns = "id, job_id, task_config_id, shard_index, concurrency_key, concurrency_limit";
    let of_keys = "concurrency_key IS NOT NULL AND concurrency_key IN (SELECT wanted FROM input)";
    format!(
        "WITH {{input}}, holder AS (
             SELECT {columns} FROM task WHERE {HOLDS_SLOT} AND {of_keys}
             UNION ALL
             SELECT {columns} FROM task WHERE NOT gone AND NOT ({HOLDS_SLOT}) AND {of_keys}
         )"
    )
}

/// The question how many hold these keys.
pub(super) fn counted(backend: DbBackend, keys: &BTreeSet<String>) -> Statement {
    let text = format!(
        "{} SELECT concurrency_key, count(*) AS holders, min(concurrency_limit) AS lowest FROM holder
         GROUP BY concurrency_key",
        holding()
    );
    these(keys).statement(backend, &text, &[])
}

/// The question which tasks hold a key, the first few of them: job, shard and name.
pub(super) fn named(backend: DbBackend, key: &str, limit: u32) -> Statement {
    let text = format!(
        "{} SELECT holder.job_id, holder.shard_index, task_config.name FROM holder
         JOIN task_config ON task_config.id = holder.task_config_id ORDER BY holder.id LIMIT :limit",
        holding()
    );
    these(&BTreeSet::from([key.to_owned()])).statement(backend, &text, &[("limit", i64::from(limit).into())])
}

/// Reads an answer to [`counted`].
pub(super) fn read_counted(row: &impl Row) -> Result<(String, Holders), Error> {
    Ok((row.column("concurrency_key")?, Holders { count: row.count("holders")?, lowest: row.maybe_number("lowest")? }))
}

/// Who holds these keys, asked in a statement after the one that locked them; those that nobody holds are left out.
pub async fn holders(tx: &Tx, keys: &BTreeSet<String>) -> Result<BTreeMap<String, Holders>, Error> {
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    tx.query(counted(tx.backend(), keys)).await?.iter().map(read_counted).collect()
}

/// Writes down under which keys tasks are given out, in the transaction that does so.
pub async fn hold(tx: &Tx, tasks: &[(Uuid, &Limit)]) -> Result<(), Error> {
    if tasks.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([uuid("id"), text("key"), int("at_once")]);
    for (task, limit) in tasks {
        input.push([(*task).into(), limit.key.as_str().into(), limit.at_once.cast_signed().into()]);
    }
    let text = "WITH {input} UPDATE task SET concurrency_key = input.key, concurrency_limit = input.at_once
                FROM input WHERE task.id = input.id";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
    Ok(())
}

fn these(keys: &BTreeSet<String>) -> Input<1> {
    let mut input = Input::new([text("wanted")]);
    for key in keys {
        input.push([key.as_str().into()]);
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{index_use, testing};

    #[tokio::test]
    async fn the_holders_of_a_key_are_found_without_reading_what_has_ended() {
        let world = testing::sqlite().await;
        let keys = BTreeSet::from(["a".to_owned()]);
        for question in [counted(DbBackend::Sqlite, &keys), named(DbBackend::Sqlite, "a", 10)] {
            let plan = index_use::plan(&world, question).await;
            for index in ["task_holds_key", "task_may_hold_key"] {
                assert!(plan.iter().any(|step| step.contains(index)), "{index}: {plan:?}");
            }
            assert!(!plan.iter().any(|step| step.starts_with("SCAN task")), "{plan:?}");
        }
    }
}
