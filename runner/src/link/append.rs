//! The stream of logs, on a connection of its own.

use baton::v1::{self, log_service_client::LogServiceClient};
use bytes::Bytes;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::{StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::transport::Endpoint;
use tracing::debug;

use super::convert::{task_from_proto, task_to_proto};
use crate::task::TaskRef;

/// Answers read ahead of the shipper.
const ANSWERS_MAX: usize = 1024;

/// A piece of one output.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) task: TaskRef,
    /// Standard output (0) or standard error (1).
    pub(crate) stream: usize,
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
    pub(crate) skipped: u64,
    pub(crate) last: bool,
}

/// What the scheduler has done with it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) task: TaskRef,
    pub(crate) stream: usize,
    /// Everything before this offset is stored.
    pub(crate) before: u64,
    /// Why it is not wanted, if it is not.
    pub(crate) refused: String,
}

/// An open stream. It ends when dropped.
pub(crate) struct Append {
    /// Unbounded, for the sender keeps a window of bytes.
    pub(crate) pieces: mpsc::UnboundedSender<Piece>,
    pub(crate) answers: mpsc::Receiver<Stored>,
    carrier: JoinHandle<()>,
}

impl Drop for Append {
    fn drop(&mut self) {
        self.carrier.abort();
    }
}

impl Append {
    /// Connects. The call itself is made beside, since a server may want to see a piece before it answers.
    pub(crate) async fn open(endpoint: Endpoint) -> Result<Self, tonic::transport::Error> {
        let channel = endpoint.connect().await?;
        let (pieces, outgoing) = mpsc::unbounded_channel();
        let (sender, answers) = mpsc::channel(ANSWERS_MAX);
        let carrier = tokio::spawn(async move {
            let requests = UnboundedReceiverStream::new(outgoing).map(request);
            if let Err(status) = carry(LogServiceClient::new(channel).append(requests).await, sender).await {
                debug!(%status, "the stream of logs broke");
            }
        });
        Ok(Self { pieces, answers, carrier })
    }
}

async fn carry(
    opened: Result<tonic::Response<tonic::Streaming<v1::AppendResponse>>, tonic::Status>,
    sender: mpsc::Sender<Stored>,
) -> Result<(), tonic::Status> {
    let mut incoming = opened?.into_inner();
    while let Some(answer) = incoming.message().await? {
        let Some(Ok(task)) = answer.task.as_ref().map(task_from_proto) else { continue };
        let stream = usize::from(answer.stream() == v1::LogStream::Stderr);
        let stored = Stored { task, stream, before: answer.stored, refused: answer.refused };
        if sender.send(stored).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn request(piece: Piece) -> v1::AppendRequest {
    v1::AppendRequest {
        task: Some(task_to_proto(piece.task)),
        stream: [v1::LogStream::Stdout, v1::LogStream::Stderr][piece.stream].into(),
        offset: piece.offset,
        data: piece.data,
        skipped: piece.skipped,
        last: piece.last,
    }
}
