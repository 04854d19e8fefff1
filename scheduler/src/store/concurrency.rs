//! Keys that only so many tasks may hold at once. The row of a key is its lock; who holds it is counted from the tasks.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{
    Error, Tx,
    row::Row as _,
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

/// Who holds these keys, asked in a statement after the one that locked them; those that nobody holds are left out.
pub async fn holders(tx: &Tx, keys: &BTreeSet<String>) -> Result<BTreeMap<String, Holders>, Error> {
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let text = format!(
        "WITH {{input}}, holder AS (
             SELECT concurrency_key, concurrency_limit FROM task WHERE concurrency_key IS NOT NULL AND {HOLDS_SLOT}
             AND concurrency_key IN (SELECT wanted FROM input)
             UNION ALL
             SELECT concurrency_key, concurrency_limit FROM task WHERE concurrency_key IS NOT NULL AND NOT gone
             AND NOT ({HOLDS_SLOT}) AND concurrency_key IN (SELECT wanted FROM input)
         )
         SELECT concurrency_key, count(*) AS holders, min(concurrency_limit) AS lowest FROM holder
         GROUP BY concurrency_key"
    );
    let rows = tx.query(these(keys).statement(tx.backend(), &text, &[])).await?;
    rows.iter()
        .map(|row| {
            let count = u32::try_from(row.column::<i64>("holders")?).unwrap_or(u32::MAX);
            let holders = Holders { count, lowest: row.maybe_number("lowest")? };
            Ok((row.column("concurrency_key")?, holders))
        })
        .collect()
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
