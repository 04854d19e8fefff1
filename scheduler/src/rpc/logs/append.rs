//! Takes output in from a runner. Pieces are handed on as they come and answered in their order once they are stored,
//! so that those of one stream share commits, too.

use std::{collections::HashMap, pin::Pin};

use baton::v1::{AppendRequest, AppendResponse};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Status, Streaming};
use uuid::Uuid;

use super::{
    super::{
        api::{Api, Fields},
        convert,
        status::Error,
    },
    Answer,
};
use crate::store::log::{CHUNK_BYTES_MAX, Output, Pending, Piece, Stream as LogStream};

/// How many pieces of one stream may wait to be stored.
const IN_FLIGHT_MAX: usize = 64;
/// How many tasks that were given out elsewhere a stream remembers with their jobs.
const TASKS_MAX: usize = 10_000;

/// The answers to a stream of pieces.
pub(in crate::rpc) type Answers = Pin<Box<dyn Stream<Item = Answer> + Send>>;

/// A message that was taken in.
struct Taken {
    answer: AppendResponse,
    /// What to wait for before it is answered; nothing for what is refused.
    pending: Option<Pending>,
}

/// Begins to take in.
pub(super) fn start(api: &Api, requests: Streaming<AppendRequest>) -> Answers {
    let (taken, answers) = mpsc::channel(IN_FLIGHT_MAX);
    let intake = Intake { api: api.clone(), jobs: HashMap::new() };
    api.tasks.spawn(intake.run(requests, taken));
    Box::pin(ReceiverStream::new(answers).then(answered))
}

async fn answered(taken: Result<Taken, Status>) -> Answer {
    let Taken { mut answer, pending } = taken?;
    if let Some(pending) = pending {
        answer.stored = pending.stored().await.map_err(Error::from)?;
    }
    Ok(answer)
}

/// One runner that brings output.
struct Intake {
    api: Api,
    /// The jobs of the tasks seen on this stream that were not given out here.
    jobs: HashMap<Uuid, Uuid>,
}

impl Intake {
    async fn run(mut self, mut requests: Streaming<AppendRequest>, taken: mpsc::Sender<Result<Taken, Status>>) {
        loop {
            let request = tokio::select! {
                request = requests.next() => request,
                () = self.api.stop.cancelled() => Some(Err(Api::stopping())),
                () = taken.closed() => None,
            };
            let Some(request) = request else { return };
            let outcome = match request {
                Ok(request) => self.take(request).await.map_err(Status::from),
                Err(status) => Err(status),
            };
            let failed = outcome.is_err();
            if taken.send(outcome).await.is_err() || failed {
                return;
            }
        }
    }

    async fn take(&mut self, request: AppendRequest) -> Result<Taken, Error> {
        let mut fields = Fields::default();
        let task = request.task.clone().unwrap_or_default();
        let stream = fields.take(convert::logs::read_log_stream("stream", request.stream));
        let task_id = Uuid::try_parse(&task.task_id).unwrap_or_else(|_| {
            fields.refuse("task.task_id", "is no UUID");
            Uuid::nil()
        });
        if stream.is_none() {
            fields.refuse("stream", "says which output: LOG_STREAM_STDOUT or LOG_STREAM_STDERR");
        }
        if request.data.len() > CHUNK_BYTES_MAX {
            fields.refuse("data", format!("has at most {CHUNK_BYTES_MAX} bytes"));
        }
        let end = request.offset.checked_add(request.data.len() as u64);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            fields.refuse("offset", "is beyond what an output can have");
        }
        fields.check()?;
        let answer = AppendResponse { task: request.task, stream: request.stream, stored: 0, refused: String::new() };
        let Some(job_id) = self.job_of(task_id).await? else {
            let stored = request.offset + request.data.len() as u64;
            let refused = "there is no such task any more".to_owned();
            return Ok(Taken { answer: AppendResponse { stored, refused, ..answer }, pending: None });
        };
        let output = Output { task_id, lease: task.lease, stream: stream.unwrap_or(LogStream::Stdout) };
        let piece = Piece { output, job_id, attempt: task.attempt, offset: request.offset, data: request.data };
        Ok(Taken { answer, pending: Some(self.api.store.logs().append(piece).await?) })
    }

    async fn job_of(&mut self, task: Uuid) -> Result<Option<Uuid>, Error> {
        if let Some(job) = self.jobs.get(&task).copied().or_else(|| self.api.store.logs().job_of(task)) {
            return Ok(Some(job));
        }
        let Some(job) = self.api.store.job_of_task(task).await? else { return Ok(None) };
        if self.jobs.len() >= TASKS_MAX {
            self.jobs.clear();
        }
        self.jobs.insert(task, job);
        Ok(Some(job))
    }
}
