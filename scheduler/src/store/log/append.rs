//! Taking output in: one writer that stores whatever queued up while its last commit ran.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use sea_orm::{DbBackend, Statement};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

use super::{CHUNK_BYTES_MAX, Output, Piece, Stream, given::Given, wall_clock};
use crate::store::{
    Error, Tx,
    row::Row as _,
    sql::{self, Input, bigint, int, uuid},
    tx::Writer,
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

/// Where output goes.
#[derive(Debug, Clone)]
pub(super) struct Outlet {
    pub(super) writer: Writer,
    pub(super) backend: DbBackend,
    pub(super) given: Given,
}

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
    outlet: Outlet,
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
            match outlet.store(&pieces, &torn).await {
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
                    outlet.given.doubt(&piece.output);
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

/// Removes pieces of output of these jobs, at most so many in all. Returns how many.
pub(super) async fn remove(writer: &Writer, jobs: &[Uuid], limit: u32) -> Result<u64, Error> {
    let mut input = Input::new([uuid("job")]);
    for job in jobs {
        input.push([(*job).into()]);
    }
    if input.is_empty() {
        return Ok(0);
    }
    let tx = writer.begin().await?;
    let text = "WITH {input} DELETE FROM log_chunk WHERE id IN
                    (SELECT id FROM log_chunk WHERE job_id IN (SELECT job FROM input) LIMIT :limit)";
    let removed = tx.execute(input.statement(tx.backend(), text, &[("limit", i64::from(limit).into())])).await?;
    tx.commit().await?;
    Ok(removed)
}

impl Outlet {
    /// Stores a batch in one transaction and says for each piece up to where its output is stored then; none for a piece
    /// that comes behind one that could not be stored and is not sent again yet. To take it would make a hole of what is
    /// missing, which nothing fills any more.
    async fn store(&self, pieces: &[Piece], torn: &HashMap<Output, u64>) -> Result<Vec<Option<u64>>, Error> {
        if let Some(ends) = self.known_ends(pieces) {
            // A statement alone is a transaction, too.
            let fresh = Fresh::of(pieces, ends, torn);
            if let Some(insert) = fresh.insert(self.backend) {
                self.writer.execute(insert).await?;
            }
            self.note(&fresh);
            return Ok(fresh.answers);
        }
        let tx = self.writer.begin().await?;
        if self.backend == DbBackend::Postgres {
            let params = [("lock", ORDER_LOCK.into())];
            tx.query(sql::statement(self.backend, "SELECT pg_advisory_xact_lock(:lock)", &params)).await?;
        }
        let fresh = Fresh::of(pieces, ends(&tx, pieces).await?, torn);
        if let Some(insert) = fresh.insert(self.backend) {
            tx.execute(insert).await?;
            tx.commit().await?;
        }
        self.note(&fresh);
        Ok(fresh.answers)
    }

    /// Where the outputs of these pieces end, if that is known of all. Never where another scheduler may store some, too.
    fn known_ends(&self, pieces: &[Piece]) -> Option<HashMap<Output, u64>> {
        if self.backend != DbBackend::Sqlite {
            return None;
        }
        pieces.iter().map(|piece| Some((piece.output, self.given.end(&piece.output)?))).collect()
    }

    fn note(&self, fresh: &Fresh<'_>) {
        for (output, end) in &fresh.ends {
            self.given.stored(output, *end);
        }
    }
}

/// What of a batch is to be stored.
struct Fresh<'a> {
    rows: Vec<(&'a Piece, Missing<'a>)>,
    /// Up to where the outputs are stored then.
    ends: HashMap<Output, u64>,
    answers: Vec<Option<u64>>,
}

impl<'a> Fresh<'a> {
    fn of(pieces: &'a [Piece], mut ends: HashMap<Output, u64>, torn: &HashMap<Output, u64>) -> Self {
        let mut rows = Vec::with_capacity(pieces.len());
        let mut answers = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let end = ends.entry(piece.output).or_insert(0);
            if piece.offset > *end && torn.get(&piece.output).is_some_and(|from| piece.offset > *from && *end <= *from)
            {
                answers.push(None);
                continue;
            }
            if let Some(missing) = missing(*end, piece) {
                *end = missing.start + missing.data.len() as u64;
                rows.push((piece, missing));
            }
            answers.push(Some(*end));
        }
        Self { rows, ends, answers }
    }

    /// The statement that stores it: one text for batches of every size, so that it is prepared once. The bytes of all
    /// pieces go as one value, which each row takes its own from.
    fn insert(&self, backend: DbBackend) -> Option<Statement> {
        if self.rows.is_empty() {
            return None;
        }
        let mut input = Input::new([
            int("nth"),
            uuid("job_id"),
            uuid("task_id"),
            int("attempt"),
            bigint("lease"),
            int("stream"),
            bigint("start_offset"),
            bigint("end_offset"),
            bigint("skipped"),
            int("data_from"),
            int("data_length"),
        ]);
        let size: usize = self.rows.iter().map(|(_, missing)| missing.data.len()).sum();
        // One byte more than there is, for nothing can be taken from an empty value, not even nothing.
        let mut bytes = Vec::with_capacity(size + 1);
        for (nth, (piece, Missing { start, skipped, data })) in self.rows.iter().enumerate() {
            let end = start + data.len() as u64;
            input.push([
                (nth as i32).into(),
                piece.job_id.into(),
                piece.output.task_id.into(),
                piece.attempt.cast_signed().into(),
                piece.output.lease.cast_signed().into(),
                piece.output.stream.number().into(),
                start.cast_signed().into(),
                end.cast_signed().into(),
                skipped.cast_signed().into(),
                // Counted from 1. A batch is far smaller than the bound of this type.
                (bytes.len() as i32 + 1).into(),
                (data.len() as i32).into(),
            ]);
            bytes.extend_from_slice(data);
        }
        bytes.push(0);
        let text =
            "WITH {input} INSERT INTO log_chunk (job_id, task_id, attempt, lease, stream, start_offset, end_offset,
                        skipped, data, created_at)
                    SELECT job_id, task_id, attempt, lease, stream, start_offset, end_offset, skipped,
                        substr(:bytes, data_from, data_length), :now
                    FROM input ORDER BY nth";
        let params = [("bytes", bytes.into()), ("now", wall_clock().0.into())];
        Some(input.statement(backend, text, &params))
    }
}

/// What of a piece is not stored yet: where it begins, how much is left out before it, and the bytes.
struct Missing<'a> {
    start: u64,
    skipped: u64,
    data: &'a [u8],
}

/// What of a piece is not stored yet, where its output is stored up to `end`.
fn missing(end: u64, piece: &Piece) -> Option<Missing<'_>> {
    let gap = piece.offset.saturating_sub(end);
    let known = usize::try_from(end.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
    let data = piece.data.get(known..).unwrap_or_default();
    // The note that the rest of an output was left out has no bytes of its own.
    if data.is_empty() && gap == 0 {
        return None;
    }
    Some(Missing { start: piece.offset.max(end), skipped: gap, data })
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
                task_id: row.column("task_id")?,
                lease: row.column::<i64>("lease")?.cast_unsigned(),
                stream: Stream::from_number(row.column("stream")?),
            };
            Ok((output, row.column::<i64>("end_offset")?.cast_unsigned()))
        })
        .collect()
}
