//! The streams of runners: frames in become values for the engine, what the engine says becomes frames out.

use std::{pin::Pin, time::Duration};

use baton::v1::{self, heartbeat_service_server::HeartbeatService};
use tokio::{sync::mpsc, time};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, warn};

use super::{api::Api, frames};
use crate::{
    domain::command::{Command, Disconnect, DisconnectReason, Down},
    flow::{QUEUE_FRAMES_MAX, Refusal},
};

/// How long a runner that opened a stream may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// The heartbeat service.
pub(crate) struct Heartbeats(pub(crate) Api);

type Frames = Pin<Box<dyn Stream<Item = Result<v1::Command, Status>> + Send>>;

#[tonic::async_trait]
impl HeartbeatService for Heartbeats {
    type BeatStream = Frames;

    async fn beat(&self, request: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Frames>, Status> {
        let mut frames_in = request.into_inner();
        let first = match time::timeout(HELLO_TIMEOUT, frames_in.message()).await {
            Ok(Ok(Some(first))) => first,
            Ok(Ok(None)) => return Err(Status::invalid_argument("the stream ended before hello")),
            Ok(Err(status)) => return Err(status),
            Err(_) => return Err(Status::deadline_exceeded("no hello came within 10 s")),
        };
        let first_seq = first.seq;
        let hello = frames::hello(first).map_err(Status::invalid_argument)?;
        let runner = hello.runner_id.clone();
        let (out, frames_out) = mpsc::channel(QUEUE_FRAMES_MAX);
        let session = match self.0.engine.connect(hello, first_seq, out.clone()).await {
            Ok(session) => session,
            Err(Refusal::Unavailable) => {
                return Err(Status::unavailable("the scheduler cannot take runners at present; try another, or again"));
            }
            Err(refusal) => {
                let disconnect = refused(refusal, &runner);
                warn!(runner.id = %runner, reason = disconnect.message, "runner refused");
                let command = Command::Disconnect(disconnect);
                let _ = out.try_send(Down { seq: 1, ack: 0, welcome: None, commands: vec![command] });
                return Ok(Response::new(self.outgoing(frames_out)));
            }
        };
        // The engine holds the only sender: when it lets go of a session, the stream ends.
        drop(out);
        let api = self.0.clone();
        self.0.tasks.spawn(async move {
            let ended = read(&api, session, &mut frames_in).await;
            debug!(runner.id = %runner, session.id = %session, ended, "no more frames");
            api.engine.closed(session).await;
        });
        Ok(Response::new(self.outgoing(frames_out)))
    }
}

impl Heartbeats {
    fn outgoing(&self, frames: mpsc::Receiver<Down>) -> Frames {
        let timing = self.0.timing;
        Box::pin(ReceiverStream::new(frames).map(move |frame| Ok(frames::down(frame, &timing))))
    }
}

/// Reads frames until the stream ends. Frames are read at once, whatever the engine is doing: HTTP/2 ends a connection
/// over small frames that nobody reads [15].
async fn read(api: &Api, session: uuid::Uuid, frames_in: &mut Streaming<v1::Heartbeat>) -> String {
    loop {
        let next = tokio::select! {
            next = frames_in.message() => next,
            () = api.stop.cancelled() => return "the scheduler stopped".to_owned(),
        };
        match next {
            Ok(Some(wire)) => match frames::frame(&wire) {
                Ok(frame) => api.engine.frame(session, frame).await,
                Err(violation) => {
                    warn!(session.id = %session, violation, "a frame breaks the protocol");
                    return violation;
                }
            },
            Ok(None) => return "the runner closed it".to_owned(),
            Err(status) => return status.message().to_owned(),
        }
    }
}

fn refused(refusal: Refusal, runner: &str) -> Disconnect {
    match refusal {
        Refusal::Duplicate => Disconnect::because(
            DisconnectReason::DuplicateId,
            format!("another host runs a runner with the id {runner:?}; give this one another --id"),
        ),
        _ => Disconnect::because(DisconnectReason::Replaced, "a newer stream of this runner counts"),
    }
}
