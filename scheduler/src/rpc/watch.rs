//! Sends a job and its tasks, then what changes.

use std::time::Duration;

use baton::v1::{WatchJobRequest, WatchJobResponse};
use tokio::{sync::mpsc, time};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use uuid::Uuid;

use super::{
    api::{Api, STREAM_QUEUE_MAX},
    convert,
    page::SIZE_MAX,
    status::Error,
};
use crate::{
    flow::Changes,
    store::read::{Job, Page, Task, TaskCursor, TaskFilter},
};

/// A watch looks again after this long, because another scheduler may have changed something.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The least time between two looks. What changes within it is told together.
const GAP: Duration = Duration::from_millis(50);
/// A watch rests this many times as long as its look took: to count the shards of a large group takes time, and whoever
/// only looks must not hold up those who work.
const REST: u32 = 20;

type Answers = mpsc::Sender<Result<WatchJobResponse, Status>>;

/// Begins to watch.
pub(super) async fn start(
    api: &Api,
    request: WatchJobRequest,
) -> Result<ReceiverStream<Result<WatchJobResponse, Status>>, Error> {
    let permit = api.stream()?;
    let job = api.job(&request.job_id).await?;
    let (answers, stream) = mpsc::channel(STREAM_QUEUE_MAX);
    let watch = Watch {
        api: api.clone(),
        id: job.id,
        seq: request.after_seq,
        until_done: request.until_done,
        fold_shards: request.fold_shards,
        changes: api.engine.subscribe(job.id),
    };
    api.tasks.spawn(async move {
        let _until_it_ends = permit;
        watch.run(answers).await;
    });
    Ok(ReceiverStream::new(stream))
}

/// How long a watch rests after a look that took so long.
fn rest(look: Duration) -> Duration {
    (look * REST).clamp(GAP, LOOK_AGAIN)
}

/// One client that watches one job.
struct Watch {
    api: Api,
    id: Uuid,
    /// Everything up to here was told.
    seq: u64,
    until_done: bool,
    fold_shards: bool,
    changes: Changes,
}

/// The client went away.
struct Gone;

impl Watch {
    async fn run(mut self, answers: Answers) {
        let stop = self.api.stop.clone();
        let mut first = true;
        loop {
            let began = time::Instant::now();
            let told = tokio::select! {
                told = self.look(&answers, first) => told,
                () = stop.cancelled() => Ok(Err(Api::stopping())),
            };
            match told {
                Err(Gone) | Ok(Ok(true)) => return,
                Ok(Err(status)) => {
                    let _it_may_be_gone = answers.send(Err(status)).await;
                    return;
                }
                Ok(Ok(false)) => first = false,
            }
            let earliest = time::Instant::now() + rest(began.elapsed());
            let ended = tokio::select! {
                ended = self.changes.changed() => ended,
                () = time::sleep(LOOK_AGAIN) => false,
                () = stop.cancelled() => true,
                () = answers.closed() => return,
            };
            if !ended {
                // Most watch to see the end: nobody has to wait for that.
                tokio::select! {
                    () = time::sleep_until(earliest) => {}
                    () = self.changes.ended() => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }

    /// Tells what is new, and whether that was all there will be.
    async fn look(&mut self, answers: &Answers, first: bool) -> Result<Result<bool, Status>, Gone> {
        let job = match self.api.job_by_id(self.id).await {
            Ok(job) => job,
            Err(error) => return Ok(Err(error.into())),
        };
        if job.seq > self.seq || first {
            // Rows that change while they are read carry a higher seq than the job did: they come again next time.
            let snapshot = self.seq == 0;
            let (mut cursor, mut place) = (None, (self.seq, None));
            loop {
                let page = if snapshot { self.snapshot(&job, cursor).await } else { self.changed(&job, place).await };
                let page = match page {
                    Ok(page) => page,
                    Err(error) => return Ok(Err(error.into())),
                };
                if let Some(last) = page.rows.last() {
                    cursor = Some(last.cursor());
                    place = (last.seq, Some(last.id));
                }
                let answer = WatchJobResponse {
                    job: Some(convert::jobs::job(job.clone())),
                    tasks: page.rows.into_iter().map(convert::jobs::task).collect(),
                    seq: if page.more { 0 } else { job.seq },
                };
                answers.send(Ok(answer)).await.map_err(|_| Gone)?;
                if !page.more {
                    break;
                }
            }
            self.seq = job.seq;
        }
        Ok(Ok(self.until_done && job.state.is_terminal()))
    }

    async fn snapshot(&self, job: &Job, after: Option<TaskCursor>) -> Result<Page<Task>, Error> {
        let filter = TaskFilter { fold_shards: self.fold_shards, ..TaskFilter::default() };
        Ok(self.api.store.tasks_of(job, &filter, after, u64::from(SIZE_MAX)).await?)
    }

    async fn changed(&self, job: &Job, after: (u64, Option<Uuid>)) -> Result<Page<Task>, Error> {
        Ok(self.api.store.changed_tasks(job, after, self.fold_shards, u64::from(SIZE_MAX)).await?)
    }
}
