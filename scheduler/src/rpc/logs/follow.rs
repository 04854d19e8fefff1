//! Sends a log from a cursor on, and goes on as it grows.

use std::time::Duration;

use baton::v1::{FollowRequest, FollowResponse, LogChunk};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{
    super::{
        api::{Api, STREAM_QUEUE_MAX},
        status::Error,
    },
    Cursor, PAGE_BYTES_DEFAULT, PAGE_BYTES_MARGIN, PAGE_BYTES_MAX, Selected, check,
};
use crate::store::log::Arrivals;

/// Output travels apart from results, so the last of it may come after its task has ended. When it is not known to be
/// complete, this much silence is taken for the end: the runner may be gone with it.
const LINGER: Duration = Duration::from_secs(5);
/// How many tasks are looked at to tell whether their output is complete.
const COUNTED_MAX: u64 = 200;

/// Begins to follow.
pub(super) async fn start(
    api: &Api,
    request: FollowRequest,
) -> Result<ReceiverStream<Result<FollowResponse, Status>>, Error> {
    check(request.tail_lines, &request.cursor)?;
    let permit = api.stream()?;
    let selected = Selected::find(api, request.selector.unwrap_or_default(), true).await?;
    let cursor = Cursor::read(&selected.job, &request.cursor)?;
    let (answers, stream) = mpsc::channel(STREAM_QUEUE_MAX);
    let follow = Follow {
        arrivals: api.store.logs().arrivals(selected.job.id),
        selected,
        cursor,
        tail_lines: request.tail_lines,
    };
    let stop = api.stop.clone();
    api.tasks.spawn(async move {
        let _until_it_ends = permit;
        let outcome = tokio::select! {
            outcome = follow.run(&answers) => outcome,
            () = stop.cancelled() => Err(Ended::Failed(Api::stopping())),
            () = answers.closed() => return,
        };
        if let Err(Ended::Failed(status)) = outcome {
            let _it_may_be_gone = answers.send(Err(status)).await;
        }
    });
    Ok(ReceiverStream::new(stream))
}

/// One client that follows one log.
struct Follow {
    selected: Selected,
    cursor: Cursor,
    tail_lines: u32,
    arrivals: Arrivals,
}

/// Why nothing more is sent, though there may be more.
enum Ended {
    /// It failed.
    Failed(Status),
    /// The client went away.
    Gone,
}

type Answers = mpsc::Sender<Result<FollowResponse, Status>>;

impl Follow {
    /// Sends until everything was sent.
    async fn run(mut self, answers: &Answers) -> Result<(), Ended> {
        if self.tail_lines > 0 {
            let bytes_max = PAGE_BYTES_MAX - PAGE_BYTES_MARGIN;
            let (cursor, chunks) = self.selected.tail(self.tail_lines, bytes_max).await?;
            self.cursor = cursor;
            self.send(answers, chunks).await?;
        }
        let mut quiet_since = Instant::now();
        loop {
            // Whether the tasks ended is asked before their output is read: what came before their end is read then.
            let complete = self.selected.is_complete(COUNTED_MAX).await?;
            loop {
                let (chunks, more) = self.selected.page(&mut self.cursor, PAGE_BYTES_DEFAULT).await?;
                if !chunks.is_empty() {
                    quiet_since = Instant::now();
                    self.send(answers, chunks).await?;
                }
                if !more {
                    break;
                }
            }
            match complete {
                Some(true) => return Ok(()),
                None if quiet_since.elapsed() >= LINGER => return Ok(()),
                None => {}
                Some(false) => quiet_since = Instant::now(),
            }
            self.arrivals.next().await;
        }
    }

    async fn send(&self, answers: &Answers, chunks: Vec<LogChunk>) -> Result<(), Ended> {
        let answer = FollowResponse { chunks, cursor: self.cursor.token() };
        answers.send(Ok(answer)).await.map_err(|_| Ended::Gone)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}
