//! Taking output in: one writer that stores whatever queued up while its last commit ran.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use sea_orm::{ActiveValue::NotSet, DatabaseConnection, DbBackend, EntityTrait as _, Set};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use super::{CHUNK_BYTES_MAX, Output, Piece, Stream, wall_clock};
use crate::store::{
    Error, Tx,
    entity::log_chunk,
    sql::{self, Input, bigint, int, uuid},
};

/// How many pieces go into one commit at most, which bounds its bytes by sixteen times the size of the largest.
const BATCH_MAX: usize = 64;
/// How often a batch is tried again when another transaction was in the way.
const TRIES_MAX: u32 = 5;
/// The advisory lock that lets one scheduler store output at a time: "blogs" in ASCII. Without it a reader could see
/// chunk 8 before chunk 7 is committed by another scheduler, and would never come back for it.
const ORDER_LOCK: i64 = 0x62_6c6f_6773;

/// How many outputs whose pieces could not be stored are remembered.
const TORN_MAX: usize = 10_000;

/// A piece and where to say that it is stored.
#[derive(Debug)]
pub(super) struct Order {
    piece: Piece,
    done: oneshot::Sender<Result<u64, Arc<Error>>>,
}

/// A piece that the writer has, but may not have stored yet.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Result<u64, Arc<Error>>>);

impl Pending {
    /// Returns once the piece is stored, with the offset up to which its output is stored then.
    pub async fn stored(self) -> Result<u64, Error> {
        self.0.await.map_err(|_| Error::Stopped)?.map_err(Error::Shared)
    }
}

/// Hands a piece to the writer. Waits while the queue is full.
pub(super) async fn order(orders: &mpsc::Sender<Order>, mut piece: Piece) -> Result<Pending, Error> {
    piece.data.truncate(CHUNK_BYTES_MAX);
    let (done, answer) = oneshot::channel();
    orders.send(Order { piece, done }).await.map_err(|_| Error::Stopped)?;
    Ok(Pending(answer))
}

/// Stores pieces until it is stopped, or the last one who could bring some is gone; then stores what is left.
pub(super) async fn write(
    writer: DatabaseConnection,
    backend: DbBackend,
    mut queue: mpsc::Receiver<Order>,
    stored: broadcast::Sender<Arc<[Uuid]>>,
    stop: CancellationToken,
) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    let mut torn = HashMap::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
            received = queue.recv_many(&mut batch, BATCH_MAX) => if received == 0 {
                return;
            },
        }
        let (pieces, answers): (Vec<Piece>, Vec<_>) =
            batch.drain(..).map(|Order { piece, done }| (piece, done)).unzip();
        let mut tries = 1;
        let outcome = loop {
            match store(&writer, backend, &pieces, &torn).await {
                Err(error) if error.is_contended() && tries < TRIES_MAX => tries += 1,
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(ends) => {
                for ((answer, end), piece) in answers.into_iter().zip(ends).zip(&pieces) {
                    if end.is_some() && torn.get(&piece.output).is_some_and(|from| piece.offset <= *from) {
                        torn.remove(&piece.output);
                    }
                    let _nobody_waits_any_more = answer.send(end.ok_or_else(|| Arc::new(Error::Torn)));
                }
                let jobs: BTreeSet<Uuid> = pieces.iter().map(|piece| piece.job_id).collect();
                let _nobody_follows = stored.send(jobs.into_iter().collect());
            }
            Err(error) => {
                warn!(%error, pieces = pieces.len(), "cannot store output; runners will send it again");
                if torn.len() + pieces.len() > TORN_MAX {
                    torn.clear();
                }
                for piece in &pieces {
                    let from = torn.entry(piece.output).or_insert(piece.offset);
                    *from = piece.offset.min(*from);
                }
                let error = Arc::new(error);
                for answer in answers {
                    let _nobody_waits_any_more = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Removes the first pieces of output of a job, at most so many. Returns how many.
pub(super) async fn remove(
    writer: &DatabaseConnection,
    backend: DbBackend,
    job: Uuid,
    limit: u32,
) -> Result<u64, Error> {
    let tx = Tx::begin(writer, backend).await?;
    let text = "DELETE FROM log_chunk WHERE id IN
                    (SELECT id FROM log_chunk WHERE job_id = :job ORDER BY id LIMIT :limit)";
    let params = [("job", job.into()), ("limit", i64::from(limit).into())];
    let removed = tx.execute(sql::statement(backend, text, &params)).await?;
    tx.commit().await?;
    Ok(removed)
}

/// Stores a batch in one transaction and says for each piece up to where its output is stored then; none for a piece
/// that comes behind one that could not be stored and is not sent again yet. To take it would make a hole of what is
/// missing, which nothing fills any more.
async fn store(
    writer: &DatabaseConnection,
    backend: DbBackend,
    pieces: &[Piece],
    torn: &HashMap<Output, u64>,
) -> Result<Vec<Option<u64>>, Error> {
    let tx = Tx::begin(writer, backend).await?;
    if backend == DbBackend::Postgres {
        let lock = sql::statement(backend, "SELECT pg_advisory_xact_lock(:lock)", &[("lock", ORDER_LOCK.into())]);
        tx.query(lock).await?;
    }
    let mut ends = ends(&tx, pieces).await?;
    let now = wall_clock().0;
    let mut rows = Vec::with_capacity(pieces.len());
    let mut answers = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let end = ends.entry(piece.output).or_insert(0);
        if piece.offset > *end && torn.get(&piece.output).is_some_and(|from| piece.offset > *from && *end <= *from) {
            answers.push(None);
            continue;
        }
        if let Some((start, skipped, data)) = missing(*end, piece) {
            *end = start + data.len() as u64;
            rows.push(log_chunk::ActiveModel {
                id: NotSet,
                job_id: Set(piece.job_id),
                task_id: Set(piece.output.task_id),
                attempt: Set(piece.attempt.cast_signed()),
                lease: Set(piece.output.lease.cast_signed()),
                stream: Set(piece.output.stream.number()),
                start_offset: Set(start.cast_signed()),
                end_offset: Set(end.cast_signed()),
                skipped: Set(skipped.cast_signed()),
                data: Set(data.to_vec()),
                created_at: Set(now),
            });
        }
        answers.push(Some(*end));
    }
    if !rows.is_empty() {
        log_chunk::Entity::insert_many(rows).exec_without_returning(tx.connection()).await?;
        tx.commit().await?;
    }
    Ok(answers)
}

/// What of a piece is not stored yet: where it begins, how much is left out before it, and the bytes.
fn missing(end: u64, piece: &Piece) -> Option<(u64, u64, &[u8])> {
    let gap = piece.offset.saturating_sub(end);
    let known = usize::try_from(end.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
    let data = piece.data.get(known..).unwrap_or_default();
    // The note that the rest of an output was left out has no bytes of its own.
    if data.is_empty() && gap == 0 {
        return None;
    }
    Some((piece.offset.max(end), gap, data))
}

/// Where the outputs of these pieces end at present.
async fn ends(tx: &Tx, pieces: &[Piece]) -> Result<HashMap<Output, u64>, Error> {
    let outputs: BTreeSet<Output> = pieces.iter().map(|piece| piece.output).collect();
    let mut input = Input::new([uuid("task"), bigint("lease_wanted"), int("stream_wanted")]);
    for output in outputs {
        input.push([output.task_id.into(), output.lease.cast_signed().into(), output.stream.number().into()]);
    }
    let text = "WITH {input} SELECT task_id, lease, stream, max(end_offset) AS end_offset FROM input JOIN log_chunk
                ON task_id = task AND lease = lease_wanted AND stream = stream_wanted GROUP BY task_id, lease, stream";
    let rows = tx.query(input.statement(tx.backend(), text, &[])).await?;
    rows.iter()
        .map(|row| {
            let output = Output {
                task_id: row.try_get("", "task_id")?,
                lease: row.try_get::<i64>("", "lease")?.cast_unsigned(),
                stream: Stream::from_number(row.try_get("", "stream")?),
            };
            Ok((output, row.try_get::<i64>("", "end_offset")?.cast_unsigned()))
        })
        .collect()
}
