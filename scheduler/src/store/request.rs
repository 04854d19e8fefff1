//! Answers kept for repeated requests: a retry of a request gets the answer it missed, not a second job.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Error, Tx,
    row::Row,
    sql::{self, Input, bytes, text},
};
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

/// A request that is to be carried out once.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who asks.
    pub principal: &'a str,
    /// For what.
    pub method: &'a str,
    /// The id that a repetition has too.
    pub request_id: &'a str,
    /// What tells a repetition from another request under the same id.
    pub body_hash: &'a [u8],
}

/// Claims requests, each id at most once; how each stands, in their order. A twin that is being carried out elsewhere is waited
/// for. The ids are claimed in one order everywhere, so that two schedulers with the same twins do not wait for each other.
pub async fn claim(tx: &Tx, asked: &[Asked<'_>]) -> Result<Vec<Claim>, Error> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Input::new([text("principal"), text("method"), text("request_id"), bytes("body_hash")]);
    for Asked { principal, method, request_id, body_hash } in asked {
        input.push([(*principal).into(), (*method).into(), (*request_id).into(), (*body_hash).into()]);
    }
    // An answer that was kept long enough makes room for another.
    let insert = "WITH {input} INSERT INTO request (principal, method, request_id, body_hash, response, created_at)
                  SELECT principal, method, request_id, body_hash, '', {now} + :set FROM input WHERE true
                  ORDER BY principal, method, request_id
                  ON CONFLICT (principal, method, request_id) DO UPDATE
                  SET body_hash = excluded.body_hash, response = '', created_at = excluded.created_at
                  WHERE request.created_at < excluded.created_at - :kept_for
                  RETURNING principal, method, request_id";
    let params = [("set", tx.clock_set().into()), ("kept_for", micros(KEPT_FOR).into())];
    let rows = tx.query(input.clone().statement(tx.backend(), insert, &params)).await?;
    let new = rows.iter().map(key).collect::<Result<BTreeSet<Key>, _>>()?;
    let mut known = BTreeMap::new();
    if new.len() < asked.len() {
        let read = "WITH {input} SELECT principal, method, request_id, body_hash, response FROM request
                    WHERE (principal, method, request_id) IN (SELECT principal, method, request_id FROM input)";
        for row in tx.query(input.statement(tx.backend(), read, &[])).await? {
            known.insert(key(&row)?, (row.column::<Vec<u8>>("body_hash")?, row.column("response")?));
        }
    }
    let stands = |asked: &Asked<'_>| {
        let key = (asked.principal.to_owned(), asked.method.to_owned(), asked.request_id.to_owned());
        match known.remove(&key) {
            Some((hash, response)) if !new.contains(&key) && hash == asked.body_hash => Claim::Repeated(response),
            Some(_) if !new.contains(&key) => Claim::OtherBody,
            _ => Claim::New,
        }
    };
    Ok(asked.iter().map(stands).collect())
}

type Key = (String, String, String);

fn key(row: &impl Row) -> Result<Key, Error> {
    Ok((row.column("principal")?, row.column("method")?, row.column("request_id")?))
}

/// The answer to a request that this transaction claimed.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// Who asked.
    pub principal: &'a str,
    /// For what.
    pub method: &'a str,
    /// Under which id.
    pub request_id: &'a str,
    /// What came of it.
    pub response: String,
}

/// Keeps answers to requests that this transaction claimed.
pub async fn answer(tx: &Tx, answers: &[Answer<'_>]) -> Result<(), Error> {
    if answers.is_empty() {
        return Ok(());
    }
    let mut input = Input::new([text("of"), text("method"), text("id"), text("response")]);
    for Answer { principal, method, request_id, response } in answers {
        input.push([(*principal).into(), (*method).into(), (*request_id).into(), response.as_str().into()]);
    }
    let text = "WITH {input} UPDATE request SET response = input.response FROM input
                WHERE request.principal = input.of AND request.method = input.method AND request.request_id = input.id";
    tx.execute(input.statement(tx.backend(), text, &[])).await?;
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
            let asked = |principal, method, request_id, body_hash| Asked { principal, method, request_id, body_hash };
            let once = asked("me", "Run", "once", b"body".as_slice());
            let tx = world.store.begin().await.unwrap();
            assert_eq!(claim(&tx, &[once]).await.unwrap(), [Claim::New]);
            let Asked { principal, method, request_id, .. } = once;
            let response = "the job".to_owned();
            answer(&tx, &[Answer { principal, method, request_id, response }]).await.unwrap();
            let kept = Claim::Repeated("the job".into());
            let twin = claim(&tx, &[once]).await.unwrap();
            assert_eq!(twin, std::slice::from_ref(&kept), "in the same transaction");
            tx.commit().await.unwrap();

            let tx = world.store.begin().await.unwrap();
            let others = [
                asked("you", "Run", "once", b"body".as_slice()),
                once,
                asked("me", "Apply", "once", b"body".as_slice()),
                asked("me", "Run", "twice", b"body".as_slice()),
            ];
            let stand = claim(&tx, &others).await.unwrap();
            assert_eq!(stand, [Claim::New, kept, Claim::New, Claim::New]);
            let else_ = asked("me", "Run", "once", b"else".as_slice());
            assert_eq!(claim(&tx, &[else_]).await.unwrap(), [Claim::OtherBody]);
        }
    }

    #[tokio::test]
    async fn an_answer_that_was_kept_long_enough_makes_room_for_another() {
        for world in worlds().await {
            let (principal, method, request_id) = ("me", "Run", "once");
            let asked = |body_hash| [Asked { principal, method, request_id, body_hash }];
            let tx = world.store.begin().await.unwrap();
            claim(&tx, &asked(b"body".as_slice())).await.unwrap();
            let kept = [Answer { principal, method, request_id, response: "the job".into() }];
            answer(&tx, &kept).await.unwrap();
            let age = "UPDATE request SET created_at = created_at - :age";
            let age = |by: i64| sql::statement(tx.backend(), age, &[("age", by.into())]);
            tx.execute(age(micros(KEPT_FOR) - micros(Duration::from_mins(1)))).await.unwrap();
            assert_eq!(claim(&tx, &asked(b"else".as_slice())).await.unwrap(), [Claim::OtherBody]);
            tx.execute(age(micros(Duration::from_mins(2)))).await.unwrap();
            assert_eq!(claim(&tx, &asked(b"else".as_slice())).await.unwrap(), [Claim::New]);
            assert_eq!(claim(&tx, &asked(b"else".as_slice())).await.unwrap(), [Claim::Repeated(String::new())]);
        }
    }
}
