//! Giving output out, a page at a time.

use std::collections::HashMap;

use bytes::Bytes;
use sea_orm::{
    ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _, Select,
    sea_query::{Expr, ExprTrait as _},
};
use uuid::Uuid;

use super::{Logs, Stream};
use crate::{
    domain::time::Timestamp,
    store::{Error, entity::log_chunk, read::Page},
};

/// How many chunks are read at once: with the largest ones, 4 MiB.
const SLICE: u64 = 16;

/// A piece of stored output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its place in the order of arrival; a cursor.
    pub id: i64,
    /// The task.
    pub task_id: Uuid,
    /// The attempt.
    pub attempt: u32,
    /// Which output.
    pub stream: Stream,
    /// Where in that output the data begin.
    pub offset: u64,
    /// So many bytes before were left out.
    pub skipped: u64,
    /// The bytes as the task wrote them.
    pub data: Bytes,
    /// When it was stored.
    pub created_at: Timestamp,
}

/// Whose output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The job.
    pub job_id: Uuid,
    /// Only this task of it.
    pub task_id: Option<Uuid>,
    /// Only this attempt.
    pub attempt: Option<u32>,
    /// Only this output.
    pub stream: Option<Stream>,
}

impl Logs {
    /// Chunks in the order of arrival, after the one given, until about so many bytes.
    pub async fn page(&self, of: &Selection, after: i64, bytes_max: usize) -> Result<Page<Chunk>, Error> {
        let (mut chunks, mut bytes, mut after) = (Vec::new(), 0, after);
        loop {
            let question = selected(of).filter(log_chunk::Column::Id.gt(after)).order_by_asc(log_chunk::Column::Id);
            let rows = question.limit(SLICE).all(self.reader()).await?;
            let (size, mut rows) = (rows.len() as u64, rows.into_iter());
            for row in &mut rows {
                after = row.id;
                bytes += row.data.len();
                chunks.push(Chunk::from(row));
                if bytes >= bytes_max {
                    return Ok(Page { rows: chunks, more: rows.len() > 0 || size == SLICE });
                }
            }
            if size < SLICE {
                return Ok(Page { rows: chunks, more: false });
            }
        }
    }

    /// The last so many lines, up to and including the chunk `until`, and at most about so many bytes.
    pub async fn tail(&self, of: &Selection, until: i64, lines: u32, bytes_max: usize) -> Result<Vec<Chunk>, Error> {
        let (mut chunks, mut bytes, mut before, mut found) = (Vec::new(), 0, until.saturating_add(1), 0);
        let mut last_byte = None;
        loop {
            let question = selected(of).filter(log_chunk::Column::Id.lt(before)).order_by_desc(log_chunk::Column::Id);
            let rows = question.limit(SLICE).all(self.reader()).await?;
            let size = rows.len() as u64;
            for row in rows {
                before = row.id;
                let mut chunk = Chunk::from(row);
                // The line feed at the very end ends the last line, it does not begin another one.
                let last = last_byte.is_none();
                last_byte = last_byte.or(chunk.data.last().copied());
                let searched = chunk.data.len() - usize::from(last && last_byte == Some(b'\n'));
                let mut end = searched;
                while let Some(at) = chunk.data[..end].iter().rposition(|byte| *byte == b'\n') {
                    found += 1;
                    if found == lines {
                        chunk.cut(at + 1);
                        chunks.push(chunk);
                        chunks.reverse();
                        return Ok(chunks);
                    }
                    end = at;
                }
                bytes += chunk.data.len();
                chunks.push(chunk);
                if bytes >= bytes_max {
                    chunks.reverse();
                    return Ok(chunks);
                }
            }
            if size < SLICE {
                chunks.reverse();
                return Ok(chunks);
            }
        }
    }

    /// The newest chunk of a job; 0 when there is none.
    pub async fn newest(&self, job: Uuid) -> Result<i64, Error> {
        let newest: Option<Option<i64>> = log_chunk::Entity::find()
            .filter(log_chunk::Column::JobId.eq(job))
            .select_only()
            .expr(Expr::col(log_chunk::Column::Id).max())
            .into_tuple()
            .one(self.reader())
            .await?;
        Ok(newest.flatten().unwrap_or(0))
    }

    /// Where the outputs of a task under a lease end.
    pub async fn ends(&self, task: Uuid, lease: u64) -> Result<HashMap<Stream, u64>, Error> {
        let rows: Vec<(i32, Option<i64>)> = log_chunk::Entity::find()
            .filter(log_chunk::Column::TaskId.eq(task))
            .filter(log_chunk::Column::Lease.eq(lease.cast_signed()))
            .select_only()
            .column(log_chunk::Column::Stream)
            .expr(Expr::col(log_chunk::Column::EndOffset).max())
            .group_by(log_chunk::Column::Stream)
            .into_tuple()
            .all(self.reader())
            .await?;
        let ends = rows.into_iter();
        Ok(ends.map(|(stream, end)| (Stream::from_number(stream), end.unwrap_or(0).cast_unsigned())).collect())
    }
}

fn selected(of: &Selection) -> Select<log_chunk::Entity> {
    use log_chunk::Column as C;
    let mut question = log_chunk::Entity::find();
    question = match of.task_id {
        Some(task) => question.filter(C::TaskId.eq(task)),
        None => question.filter(C::JobId.eq(of.job_id)),
    };
    if let Some(attempt) = of.attempt {
        question = question.filter(C::Attempt.eq(attempt.cast_signed()));
    }
    if let Some(stream) = of.stream {
        question = question.filter(C::Stream.eq(stream.number()));
    }
    question
}

impl Chunk {
    /// Leaves out the first bytes.
    fn cut(&mut self, count: usize) {
        self.data = self.data.slice(count..);
        self.offset += count as u64;
        self.skipped = 0;
    }
}

impl From<log_chunk::Model> for Chunk {
    fn from(row: log_chunk::Model) -> Self {
        Self {
            id: row.id,
            task_id: row.task_id,
            attempt: row.attempt.cast_unsigned(),
            stream: Stream::from_number(row.stream),
            offset: row.start_offset.cast_unsigned(),
            skipped: row.skipped.cast_unsigned(),
            data: row.data.into(),
            created_at: Timestamp(row.created_at),
        }
    }
}
