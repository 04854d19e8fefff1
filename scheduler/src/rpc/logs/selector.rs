//! What part of whose log: a request in the words of people becomes questions to the log store.

use std::collections::HashMap;

use baton::v1::{LogChunk, LogSelector};
use uuid::Uuid;

use super::super::{
    api::{Api, Fields},
    convert,
    page::Listing,
    status::Error,
};
use crate::flow::request;
use crate::store::{
    log::{Chunk, Selection},
    read::{Job, Task, TaskFilter},
};

/// How many tasks may be shown by their last lines in one answer.
const TAIL_TASKS_MAX: u64 = 1000;
/// How many times a page is filled up with what follows when chunks of earlier attempts are left out of it.
const LOOKS_MAX: usize = 64;

/// Where a reader is in the log of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    listing: Listing,
    pub(super) after: i64,
}

impl Cursor {
    /// The place that a token of this job leads to; its beginning when there is none.
    pub(super) fn read(job: &Job, token: &str) -> Result<Self, Error> {
        let listing = Listing::new("Log", &job.id);
        let after = listing.key(token).map_err(|_| {
            Error::invalid("cursor", "is no cursor of the log of this job; take it from an answer about the same job")
        })?;
        Ok(Self { listing, after: after.unwrap_or(0) })
    }

    pub(super) fn token(self) -> String {
        self.listing.token(&self.after)
    }
}

/// The tasks whose output was asked for.
pub(super) struct Selected {
    api: Api,
    pub(super) job: Job,
    selection: Selection,
    /// Only this node of the graph; the only task or shard of it is in `selection`.
    pub(super) node: Option<u32>,
    attempt: u32,
    /// Whether a retry's output follows that of the attempt before.
    following: bool,
    /// What is known of the tasks met so far.
    tasks: HashMap<Uuid, Known>,
}

/// What a chunk does not say of its task.
struct Known {
    name: String,
    node: u32,
    shard_index: Option<u32>,
    attempt: u32,
}

impl Known {
    fn of(task: &Task) -> Self {
        Self { name: task.name.clone(), node: task.node, shard_index: task.shard_index, attempt: task.attempt }
    }
}

impl Selected {
    /// Finds what a selector means.
    pub(super) async fn find(api: &Api, selector: LogSelector, following: bool) -> Result<Self, Error> {
        let mut fields = Fields::default();
        let stream = fields.take(convert::logs::read_log_stream("selector.stream", selector.stream));
        if selector.shard_index.is_some() && selector.name.is_empty() {
            fields.refuse("selector.shard_index", "says which shard of a task, so name must say which task");
        }
        if selector.job_id.is_empty() {
            fields.refuse("selector.job_id", "says whose log, and is empty");
        }
        fields.check()?;
        let job = api.job(&selector.job_id).await?;
        if job.logs_removed {
            let name = job.id.to_string();
            return Err(Error::Refused(request::Error::Expired { kind: "output of job", name }));
        }
        let (mut node, mut task_id) = (None, None);
        if !selector.name.is_empty() {
            node = Some(api.node(&job, &selector.name).await?);
            let task = api.task(&job, &selector.name, selector.shard_index).await;
            task_id = match task {
                // A group writes nothing itself: its shards do.
                Ok(task) if task.kind == crate::domain::task::Kind::Group => None,
                Ok(task) => Some(task.id),
                Err(Error::NotFound { .. }) if selector.shard_index.is_none() => None,
                Err(error) => return Err(error),
            };
        }
        let attempt = Some(selector.attempt).filter(|attempt| *attempt > 0);
        let selection = Selection { job_id: job.id, task_id, attempt, stream };
        Ok(Self { api: api.clone(), job, selection, node, attempt: selector.attempt, following, tasks: HashMap::new() })
    }

    /// A page from the cursor on, which it moves. Says whether more is stored.
    pub(super) async fn page(&mut self, cursor: &mut Cursor, bytes_max: usize) -> Result<(Vec<LogChunk>, bool), Error> {
        let (mut shown, mut bytes, mut more) = (Vec::new(), 0, true);
        for _ in 0..LOOKS_MAX {
            let page = self.api.store.logs().page(&self.selection, cursor.after, bytes_max - bytes).await?;
            more = page.more;
            if let Some(last) = page.rows.last() {
                cursor.after = last.id;
            }
            for chunk in self.shown(page.rows).await? {
                bytes += chunk.data.len();
                shown.push(chunk);
            }
            if !more || bytes >= bytes_max {
                break;
            }
        }
        Ok((shown, more))
    }

    /// The last lines of each task, and the cursor behind them.
    pub(super) async fn tail(&mut self, lines: u32, bytes_max: usize) -> Result<(Cursor, Vec<LogChunk>), Error> {
        let mut cursor = Cursor::read(&self.job, "")?;
        cursor.after = self.api.store.logs().newest(self.job.id).await?;
        let tasks = if let Some(task) = self.selection.task_id {
            self.api.store.tasks_by_id(&[task]).await?
        } else {
            let filter = TaskFilter { node: self.node, ..TaskFilter::default() };
            let page = self.api.store.tasks_of(&self.job, &filter, None, TAIL_TASKS_MAX).await?;
            if page.more {
                let many = format!("shows at most {TAIL_TASKS_MAX} tasks; name one of them in selector.name");
                return Err(Error::invalid("tail_lines", many));
            }
            page.rows
        };
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        for task in tasks.iter().filter(|task| task.attempt > 0) {
            let attempt = Some(self.attempt).filter(|attempt| *attempt > 0).unwrap_or(task.attempt);
            let selection = Selection { task_id: Some(task.id), attempt: Some(attempt), ..self.selection.clone() };
            if bytes >= bytes_max {
                break;
            }
            let tail = self.api.store.logs().tail(&selection, cursor.after, lines, bytes_max - bytes).await?;
            bytes += tail.iter().map(|chunk| chunk.data.len()).sum::<usize>();
            chunks.extend(tail);
            self.tasks.insert(task.id, Known::of(task));
        }
        chunks.sort_by_key(|chunk| chunk.id);
        Ok((cursor, self.shown(chunks).await?))
    }

    /// Chunks with the names of their tasks, without those that were not asked for.
    async fn shown(&mut self, chunks: Vec<Chunk>) -> Result<Vec<LogChunk>, Error> {
        if !self.following {
            // A page after another may meet a task that is at its next attempt by now.
            self.tasks.retain(|_, _| self.attempt > 0);
        }
        let mut unknown: Vec<Uuid> = chunks.iter().map(|chunk| chunk.task_id).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|id| !self.tasks.contains_key(id));
        for task in self.api.store.tasks_by_id(&unknown).await? {
            self.tasks.insert(task.id, Known::of(&task));
        }
        let shown = chunks.into_iter().filter_map(|chunk| {
            let task = self.tasks.get(&chunk.task_id)?;
            let wanted = match (self.attempt, self.following) {
                (0, true) => chunk.attempt >= task.attempt,
                (0, false) => chunk.attempt == task.attempt,
                (attempt, _) => chunk.attempt == attempt,
            };
            if !wanted || self.node.is_some_and(|node| node != task.node) {
                return None;
            }
            Some(LogChunk {
                name: task.name.clone(),
                shard_index: task.shard_index,
                attempt: chunk.attempt,
                stream: convert::logs::log_stream(chunk.stream).into(),
                offset: chunk.offset,
                data: chunk.data,
                time: Some(convert::timestamp(chunk.created_at)),
                skipped: chunk.skipped,
                task_id: chunk.task_id.to_string(),
            })
        });
        Ok(shown.collect())
    }

    /// Whether the tasks asked for have ended and every byte they wrote is stored; `None` when they have ended and it
    /// is not known, because bytes are missing or there are too many tasks to count.
    pub(super) async fn is_complete(&mut self, tasks_max: u64) -> Result<Option<bool>, Error> {
        self.job = self.api.job_by_id(self.job.id).await?;
        let tasks = match (self.selection.task_id, self.node) {
            (Some(task), _) => self.api.store.tasks_by_id(&[task]).await?,
            (None, Some(node)) => {
                let group = self.api.store.task(&self.job, node, None).await?;
                if group.is_some_and(|group| !group.state.is_terminal()) {
                    return Ok(Some(false));
                }
                self.all(tasks_max).await?
            }
            (None, None) if !self.job.state.is_terminal() => return Ok(Some(false)),
            (None, None) => self.all(tasks_max).await?,
        };
        if tasks.iter().any(|task| !task.state.is_terminal()) {
            return Ok(Some(false));
        }
        if tasks.len() as u64 >= tasks_max {
            return Ok(None);
        }
        for task in tasks {
            let ends = self.api.store.logs().ends(task.id, task.lease).await?;
            let written = [
                (crate::store::log::Stream::Stdout, task.stdout_bytes),
                (crate::store::log::Stream::Stderr, task.stderr_bytes),
            ];
            let missing = written.into_iter().any(|(stream, written)| {
                let wanted = self.selection.stream.is_none_or(|wanted| wanted == stream);
                wanted && ends.get(&stream).copied().unwrap_or(0) < written
            });
            if missing {
                return Ok(None);
            }
        }
        Ok(Some(true))
    }

    async fn all(&self, limit: u64) -> Result<Vec<Task>, Error> {
        let filter = TaskFilter { node: self.node, ..TaskFilter::default() };
        Ok(self.api.store.tasks_of(&self.job, &filter, None, limit).await?.rows)
    }
}
