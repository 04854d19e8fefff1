//! Answers kept for repeated requests: a retry of a request gets the answer it missed, not a second job.

use std::time::Duration;

use super::{Error, Tx, row::Row as _, sql};
use crate::domain::time::{Timestamp, micros};

/// How long an answer is kept.
pub const KEPT_FOR: Duration = Duration::from_hours(24);

/// How a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is new and now ours to carry out; [`answer`] it in the same transaction.
    New,
    /// It was carried out, with this answer.
    Repeated(String),
    /// The same id was used for another body.
    OtherBody,
}

/// Claims a request id. A twin that is being carried out elsewhere is waited for.
pub async fn claim(
    tx: &Tx,
    principal: &str,
    method: &str,
    request_id: &str,
    body_hash: &[u8],
    now: Timestamp,
) -> Result<Claim, Error> {
    let params = [
        ("principal", principal.into()),
        ("method", method.into()),
        ("request", request_id.into()),
        ("hash", body_hash.to_vec().into()),
        ("now", now.0.into()),
        ("old", (now.0 - micros(KEPT_FOR)).into()),
    ];
    let forget = "DELETE FROM request WHERE principal = :principal AND method = :method AND request_id = :request
                  AND created_at < :old";
    tx.execute(sql::statement(tx.backend(), forget, &params)).await?;
    let insert = "INSERT INTO request (principal, method, request_id, body_hash, response, created_at)
                  VALUES (:principal, :method, :request, :hash, '', :now)
                  ON CONFLICT (principal, method, request_id) DO NOTHING";
    if tx.execute(sql::statement(tx.backend(), insert, &params)).await? == 1 {
        return Ok(Claim::New);
    }
    let read = "SELECT body_hash, response FROM request
                WHERE principal = :principal AND method = :method AND request_id = :request";
    let rows = tx.query(sql::statement(tx.backend(), read, &params)).await?;
    let Some(row) = rows.first() else { return Ok(Claim::New) };
    if row.column::<Vec<u8>>("body_hash")? != body_hash {
        return Ok(Claim::OtherBody);
    }
    Ok(Claim::Repeated(row.column("response")?))
}

/// Keeps the answer to a request that this transaction claimed.
pub async fn answer(tx: &Tx, principal: &str, method: &str, request_id: &str, response: &str) -> Result<(), Error> {
    let text = "UPDATE request SET response = :response
                WHERE principal = :principal AND method = :method AND request_id = :request";
    let params = [
        ("principal", principal.into()),
        ("method", method.into()),
        ("request", request_id.into()),
        ("response", response.into()),
    ];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Gives a claimed id back: the request failed, and may be repeated.
pub async fn release(tx: &Tx, principal: &str, method: &str, request_id: &str) -> Result<(), Error> {
    let text = "DELETE FROM request WHERE principal = :principal AND method = :method AND request_id = :request";
    let params = [("principal", principal.into()), ("method", method.into()), ("request", request_id.into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await?;
    Ok(())
}

/// Forgets answers that were kept long enough, at most so many. Returns how many.
pub async fn forget(tx: &Tx, now: Timestamp, limit: u32) -> Result<u64, Error> {
    let text = "DELETE FROM request WHERE (principal, method, request_id) IN
                    (SELECT principal, method, request_id FROM request WHERE created_at < :old LIMIT :limit)";
    let params = [("old", (now.0 - micros(KEPT_FOR)).into()), ("limit", i64::from(limit).into())];
    tx.execute(sql::statement(tx.backend(), text, &params)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::worlds;

    /// H08: on each database. What decides is a count of rows that it must give alike, and the row that is read back.
    #[tokio::test]
    async fn an_insert_that_was_ignored_is_never_taken_for_one_that_was_made() {
        for world in worlds().await {
            let now = Timestamp(1);
            let tx = world.store.begin().await.unwrap();
            assert_eq!(claim(&tx, "me", "Run", "once", b"body", now).await.unwrap(), Claim::New);
            answer(&tx, "me", "Run", "once", "the job").await.unwrap();
            let twin = claim(&tx, "me", "Run", "once", b"body", now).await.unwrap();
            assert_eq!(twin, Claim::Repeated("the job".into()), "in the same transaction");
            tx.commit().await.unwrap();

            let tx = world.store.begin().await.unwrap();
            for (body, found) in [(b"body", Claim::Repeated("the job".into())), (b"else", Claim::OtherBody)] {
                assert_eq!(claim(&tx, "me", "Run", "once", body, now).await.unwrap(), found);
            }
            for (principal, method, id) in [("you", "Run", "once"), ("me", "Apply", "once"), ("me", "Run", "twice")] {
                assert_eq!(claim(&tx, principal, method, id, b"body", now).await.unwrap(), Claim::New);
            }
        }
    }
}
