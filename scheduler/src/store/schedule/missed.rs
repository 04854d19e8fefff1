//! Fires that made no job, as rows.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::{
    domain::time::Timestamp,
    store::{
        Error, Tx,
        row::Row as _,
        sql::{Cell, Input, bigint, text, uuid},
    },
};

/// Fires that made no job, for one reason and one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedRow {
    /// The job config.
    pub job_config_id: Uuid,
    /// The schedule.
    pub key: String,
    /// The fire of the same schedule that was decided before these.
    pub before: Option<Timestamp>,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many.
    pub count: i64,
    /// Why.
    pub reason: String,
}

/// Writes down fires that made no job. What follows on the fires written down last, for the same reason, is added to
/// them, so that a job which holds up its schedule for a day costs one row. Returns those that began a row of their own.
pub async fn record(tx: &Tx, missed: &[MissedRow], now: Timestamp) -> Result<Vec<MissedRow>, Error> {
    if missed.is_empty() {
        return Ok(Vec::new());
    }
    let missed = joined(missed);
    let added = add_to_last(tx, &missed).await?;
    let mut input = input();
    let (mut known, mut begun) = (BTreeSet::new(), Vec::new());
    for fires in missed.iter().rev().filter(|fires| !added.contains(&place(fires))) {
        // One statement must not meet a row twice; what was decided last counts.
        if known.insert((fires.job_config_id, &fires.key, fires.first)) {
            input.push(cells(fires));
            begun.push(fires.clone());
        }
    }
    if input.is_empty() {
        return Ok(begun);
    }
    let text = "WITH {input} INSERT INTO fire (job_config_id, schedule, first_at, last_at, count, reason, created_at)
                SELECT config, key, first_at, last_at, more, reason, :now FROM input WHERE true
                ON CONFLICT (job_config_id, schedule, first_at) DO UPDATE SET last_at = excluded.last_at,
                    count = excluded.count, reason = excluded.reason, created_at = excluded.created_at";
    tx.execute(input.statement(tx.backend(), text, &[("now", now.0.into())])).await?;
    begun.reverse();
    Ok(begun)
}

/// Adds fires to the row that they follow on, and tells which were.
async fn add_to_last(tx: &Tx, missed: &[MissedRow]) -> Result<BTreeSet<Place>, Error> {
    let mut input = input();
    for fires in missed.iter().filter(|fires| fires.before.is_some()) {
        input.push(cells(fires));
    }
    if input.is_empty() {
        return Ok(BTreeSet::new());
    }
    let text = "WITH {input} UPDATE fire SET last_at = input.last_at, count = fire.count + input.more FROM input
                WHERE fire.job_config_id = input.config AND fire.schedule = input.key
                    AND fire.last_at = input.before_at AND fire.reason = input.reason
                RETURNING fire.job_config_id, fire.schedule, fire.last_at";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| Ok((row.column("job_config_id")?, row.column("schedule")?, Timestamp(row.column("last_at")?))))
        .collect()
}

/// The config, the schedule and the last fire: of one schedule no two entries end at the same fire.
type Place = (Uuid, String, Timestamp);

fn place(fires: &MissedRow) -> Place {
    (fires.job_config_id, fires.key.clone(), fires.last)
}

fn input() -> Input<7> {
    Input::new([
        uuid("config"),
        text("key"),
        bigint("before_at").nullable(),
        bigint("first_at"),
        bigint("last_at"),
        bigint("more"),
        text("reason"),
    ])
}

fn cells(fires: &MissedRow) -> [Cell; 7] {
    [
        fires.job_config_id.into(),
        fires.key.as_str().into(),
        fires.before.map(|at| at.0).into(),
        fires.first.0.into(),
        fires.last.0.into(),
        fires.count.into(),
        fires.reason.as_str().into(),
    ]
}

/// The same fires with those put together that follow each other for the same reason.
fn joined(missed: &[MissedRow]) -> Vec<MissedRow> {
    let mut joined: Vec<MissedRow> = Vec::with_capacity(missed.len());
    let mut last: BTreeMap<(Uuid, &str), usize> = BTreeMap::new();
    for fires in missed {
        let schedule = (fires.job_config_id, fires.key.as_str());
        if let Some(place) = last.get(&schedule) {
            let open = &mut joined[*place];
            if open.reason == fires.reason && fires.before == Some(open.last) {
                open.last = fires.last;
                open.count = open.count.saturating_add(fires.count);
                continue;
            }
        }
        last.insert(schedule, joined.len());
        joined.push(fires.clone());
    }
    joined
}
