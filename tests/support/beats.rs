//! A bad network that understands the heartbeat protocol: it can lose, hold and repeat single frames.
//!
//! [`Beats`] is a server to the runner and a client to the scheduler. A stream never loses a frame and lives on, so
//! losing one means that the stream is cut with this frame and everything behind it on the way.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use baton::v1::{
    AppendRequest, AppendResponse, Command, CommandKind, FollowRequest, FollowResponse, Heartbeat, ReadRequest,
    ReadResponse, SlotStatus,
    heartbeat_service_server::{HeartbeatService, HeartbeatServiceServer},
    log_service_server::{LogService, LogServiceServer},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

use crate::Api;

/// How many frames may wait in either direction, as many as fit on a real wire.
const IN_FLIGHT: usize = 64;

/// The most that is remembered of what passed.
const REMEMBERED: usize = 10_000;

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Pass,
    /// It and everything behind it is lost, and the stream with them.
    Lose,
    /// It arrives, then the stream is cut.
    PassAndCut,
    /// It and everything behind it, in this direction, waits for [`Beats::release`].
    Hold,
    /// It arrives twice.
    Twice,
}

/// A frame that reached the proxy.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame {
    /// From the runner.
    Up(Heartbeat),
    /// From the scheduler.
    Down(Command),
}

type Judge = Box<dyn FnMut(&Frame) -> Fate + Send>;

struct State {
    api: Api,
    judge: Mutex<Judge>,
    seen: Mutex<Vec<Frame>>,
    // Grows with each cut.
    cuts: watch::Sender<u64>,
    // Grows with each release.
    releases: watch::Sender<u64>,
}

/// The proxy. It lives until it is dropped.
pub struct Beats {
    address: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

impl Beats {
    /// Stands at this address before a scheduler and lets everything pass.
    pub async fn at(address: SocketAddr, scheduler: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free address can be bound");
        let state = Arc::new(State {
            api: Api::to(scheduler),
            judge: Mutex::new(Box::new(|_| Fate::Pass)),
            seen: Mutex::default(),
            cuts: watch::Sender::new(0),
            releases: watch::Sender::new(0),
        });
        let server = Server::builder()
            .add_service(HeartbeatServiceServer::new(Wire(state.clone())))
            .add_service(LogServiceServer::new(Wire(state.clone())))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        let serving = tokio::spawn(async {
            let _ = server.await;
        });
        Self { address, state, serving }
    }

    /// Where runners dial it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Decides over each frame from now on.
    pub fn judge(&self, judge: impl FnMut(&Frame) -> Fate + Send + 'static) {
        *self.state.judge.lock().expect("no judge panics") = Box::new(judge);
    }

    /// Decides over the first frame that is `meant`; all others pass.
    pub fn once(&self, fate: Fate, meant: impl Fn(&Frame) -> bool + Send + 'static) {
        let mut done = false;
        self.judge(move |frame| {
            if done || !meant(frame) {
                return Fate::Pass;
            }
            done = true;
            fate
        });
    }

    /// Lets what is held go on, and everything pass from now on.
    pub fn release(&self) {
        self.judge(|_| Fate::Pass);
        self.state.releases.send_modify(|count| *count += 1);
    }

    /// Cuts every stream there is.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|count| *count += 1);
    }

    /// Every frame that came, in the order in which it came, whatever became of it.
    pub fn seen(&self) -> Vec<Frame> {
        self.state.seen.lock().expect("nobody panics here").clone()
    }

    /// How many frames came of which this is true.
    pub fn count(&self, of: impl Fn(&Frame) -> bool) -> usize {
        self.state.seen.lock().expect("nobody panics here").iter().filter(|frame| of(frame)).count()
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.cut();
        self.serving.abort();
    }
}

impl Frame {
    /// A command of this kind is in it.
    pub fn commands(&self, kind: CommandKind) -> bool {
        matches!(self, Self::Down(command) if command.commands.iter().any(|command| command.kind() == kind))
    }

    /// A slot says this in it, about a task.
    pub fn reports(&self, status: SlotStatus) -> bool {
        matches!(self, Self::Up(beat) if beat.slots.iter().any(|slot| slot.status() == status && slot.task.is_some()))
    }

    /// A result is in it.
    pub fn brings_result(&self) -> bool {
        matches!(self, Self::Up(beat) if beat.slots.iter().any(|slot| slot.result.is_some()))
    }

    /// It is the first one of a stream.
    pub fn is_hello(&self) -> bool {
        matches!(self, Self::Up(Heartbeat { hello: Some(_), .. }))
    }
}

impl State {
    fn fate(&self, frame: &Frame) -> Fate {
        let mut seen = self.seen.lock().expect("nobody panics here");
        if seen.len() < REMEMBERED {
            seen.push(frame.clone());
        }
        (self.judge.lock().expect("no judge panics"))(frame)
    }

    /// Carries frames one way until they end or are lost. Ends with what the receiver is to be told.
    async fn carry<T: Clone>(
        &self,
        mut from: Streaming<T>,
        to: mpsc::Sender<Result<T, Status>>,
        frame: impl Fn(T) -> Frame,
        cuts_at_start: u64,
    ) {
        let mut cuts = self.cuts.subscribe();
        let cut = async {
            let _ = cuts.wait_for(|cuts| *cuts > cuts_at_start).await;
        };
        let carrying = async {
            loop {
                let message = match from.message().await {
                    Ok(Some(message)) => message,
                    Ok(None) => return,
                    Err(status) => {
                        let _ = to.send(Err(status)).await;
                        return;
                    }
                };
                let mut releases = self.releases.subscribe();
                let fate = self.fate(&frame(message.clone()));
                match fate {
                    Fate::Lose => break,
                    Fate::Hold => {
                        let _ = releases.changed().await;
                    }
                    Fate::Twice => {
                        let _ = to.send(Ok(message.clone())).await;
                    }
                    Fate::Pass | Fate::PassAndCut => {}
                }
                if to.send(Ok(message)).await.is_err() || fate == Fate::PassAndCut {
                    break;
                }
            }
            self.cuts.send_modify(|cuts| *cuts += 1);
        };
        tokio::select! {
            () = carrying => {}
            () = cut => {
                let _ = to.try_send(Err(Status::unavailable("the network is gone")));
            }
        }
    }
}

/// The services that a runner uses.
struct Wire(Arc<State>);

#[tonic::async_trait]
impl HeartbeatService for Wire {
    type BeatStream = ReceiverStream<Result<Command, Status>>;

    async fn beat(&self, request: Request<Streaming<Heartbeat>>) -> Result<Response<Self::BeatStream>, Status> {
        let state = self.0.clone();
        let cuts = *state.cuts.borrow();
        let (up, mut upward) = mpsc::channel(IN_FLIGHT);
        let (down, downward) = mpsc::channel(IN_FLIGHT);
        let (to_scheduler, frames) = mpsc::channel(IN_FLIGHT);
        let carrier = state.clone();
        tokio::spawn(async move { carrier.carry(request.into_inner(), up, Frame::Up, cuts).await });
        // An error ends the scheduler's side like a lost connection: the stream of frames just ends.
        tokio::spawn(async move {
            while let Some(Ok(frame)) = upward.recv().await {
                if to_scheduler.send(frame).await.is_err() {
                    return;
                }
            }
        });
        let commands = state.api.heartbeats.clone().beat(ReceiverStream::new(frames)).await?.into_inner();
        tokio::spawn(async move { state.carry(commands, down, Frame::Down, cuts).await });
        Ok(Response::new(ReceiverStream::new(downward)))
    }
}

#[tonic::async_trait]
impl LogService for Wire {
    type AppendStream = Streaming<AppendResponse>;
    type FollowStream = Streaming<FollowResponse>;

    async fn append(&self, request: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        let mut from = request.into_inner();
        let (to, chunks) = mpsc::channel(IN_FLIGHT);
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = from.message().await {
                if to.send(chunk).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(self.0.api.logs.clone().append(ReceiverStream::new(chunks)).await?.into_inner()))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        self.0.api.logs.clone().read(request.into_inner()).await
    }

    async fn follow(&self, request: Request<FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        Ok(Response::new(self.0.api.logs.clone().follow(request.into_inner()).await?.into_inner()))
    }
}
