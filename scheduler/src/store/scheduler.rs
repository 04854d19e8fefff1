//! Schedulers as rows, and the word that goes between them.

use uuid::Uuid;

use super::{Error, Tx, log, row::Row as _, sql};
use crate::domain::time::Timestamp;

/// The channel on which schedulers tell each other that there is something to look at. Never data: a message that is
/// lost costs a second.
pub const WAKE_CHANNEL: &str = "baton_wake";

/// The time by the clock of the database, after all locks were taken. SQLite's clock is that of this machine, so it need
/// not be asked.
pub async fn now(tx: &Tx) -> Result<Timestamp, Error> {
    if tx.backend() == sea_orm::DbBackend::Sqlite {
        return Ok(Timestamp(log::wall_clock().0 + tx.clock_set()));
    }
    let rows = tx.query(sql::statement(tx.backend(), "SELECT {now} AS now", &[])).await?;
    Ok(Timestamp(rows[0].column::<i64>("now")? + tx.clock_set()))
}

/// Enters a scheduler that starts.
pub async fn register(tx: &Tx, id: Uuid, address: &str, version: &str) -> Result<(), Error> {
    let text = "INSERT INTO scheduler (id, address, version, state, started_at, last_seen_at)
                VALUES (:id, :address, :version, 'WORKING', {now}, {now})";
    let params = [("id", id.into()), ("address", address.into()), ("version", version.into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Records a sign of life; returns whether an operator drained it.
pub async fn touch(tx: &Tx, id: Uuid) -> Result<bool, Error> {
    let text = "UPDATE scheduler SET last_seen_at = {now} WHERE id = :id RETURNING state";
    let rows = tx.query(sql::statement(tx.backend(), text, &[("id", id.into())])).await?;
    let state: String = rows.first().map(|row| row.column("state")).transpose()?.unwrap_or_default();
    Ok(state == "DRAINED")
}

/// Records that a scheduler stopped.
pub async fn leave(tx: &Tx, id: Uuid) -> Result<(), Error> {
    let text = "UPDATE scheduler SET state = 'OFFLINE', last_seen_at = {now} WHERE id = :id";
    tx.execute(sql::statement(tx.backend(), text, &[("id", id.into())])).await?;
    Ok(())
}

/// Drains a scheduler that is not offline, or resumes it. `false` when there is none.
pub async fn set_drained(tx: &Tx, id: Uuid, drained: bool) -> Result<bool, Error> {
    let text = "UPDATE scheduler SET state = :state WHERE id = :id AND state <> 'OFFLINE'";
    let state = if drained { "DRAINED" } else { "WORKING" };
    let params = [("id", id.into()), ("state", state.into())];
    Ok(tx.execute(sql::statement(tx.backend(), text, &params)).await? == 1)
}

/// The addresses of the schedulers heard since then, this one first.
pub async fn addresses(tx: &Tx, own: Uuid, since: Timestamp) -> Result<Vec<String>, Error> {
    let text = "SELECT id, address FROM scheduler WHERE id = :own OR (state <> 'OFFLINE' AND last_seen_at >= :since)
                ORDER BY id";
    let params = [("own", own.into()), ("since", since.0.into())];
    let rows = tx.query(sql::statement(tx.backend(), text, &params)).await?;
    let mut addresses: Vec<(bool, String)> = rows
        .iter()
        .map(|row| Ok((row.column::<Uuid>("id")? != own, row.column("address")?)))
        .collect::<Result<_, Error>>()?;
    addresses.sort_by_key(|(other, _)| *other);
    Ok(addresses.into_iter().map(|(_, address)| address).collect())
}

/// Tells the other schedulers, once this transaction is committed, that there is something to look at. Nothing to do
/// on SQLite, which has one scheduler.
pub async fn wake_others(tx: &Tx) -> Result<(), Error> {
    if tx.backend() == sea_orm::DbBackend::Postgres {
        let text = "SELECT pg_notify(:channel, '')";
        tx.query(sql::statement(tx.backend(), text, &[("channel", WAKE_CHANNEL.into())])).await?;
    }
    Ok(())
}
