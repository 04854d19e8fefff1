//! Streams with nothing of Baton in them: a server that answers each frame of a runner with an empty one, in a process of its
//! own, so that what it takes can be told apart. It is tonic as it comes.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::SocketAddr,
    pin::Pin,
    process::{Command, Stdio},
    task::{Context, Poll},
};

use baton_tests::{Part, programs, v1};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::{Service, http},
    server::{Grpc, NamedService, StreamingService},
    transport::Server,
};
use tonic_prost::ProstCodec;

/// Names the address to listen on to the process that serves.
const ADDRESS_VARIABLE: &str = "BATON_BENCH_BARE_STREAMS";

/// Answers that may wait in a stream.
const ANSWERS_MAX: usize = 16;

/// The flow-control window of a connection, as Baton has it: h2 kills one over many small frames in proportion to it.
const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;

/// Starts the server.
pub(crate) fn start(directory: &std::path::Path) -> (Part, SocketAddr) {
    let address = programs::free_address();
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.env(ADDRESS_VARIABLE, address.to_string()).stdin(Stdio::null());
    (Part::start("bare-streams", command, &directory.join("bare-streams.log")), address)
}

/// The address to serve on, if this process is to serve.
pub(crate) fn wanted() -> Option<SocketAddr> {
    std::env::var(ADDRESS_VARIABLE).ok()?.parse().ok()
}

/// Serves until killed.
pub(crate) async fn serve(address: SocketAddr) -> anyhow::Result<()> {
    baton_tests::Crowd::most(usize::MAX);
    let server = Server::builder().initial_connection_window_size(CONNECTION_WINDOW).tcp_nodelay(true);
    Ok({ server }.add_service(Bare).serve(address).await?)
}

#[derive(Clone)]
struct Bare;

impl NamedService for Bare {
    const NAME: &'static str = "baton.v1.HeartbeatService";
}

impl Service<http::Request<Body>> for Bare {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec: ProstCodec<v1::Command, v1::Heartbeat> = ProstCodec::default();
        Box::pin(async move { Ok(Grpc::new(codec).streaming(Answers, request).await) })
    }
}

struct Answers;

impl StreamingService<v1::Heartbeat> for Answers {
    type Response = v1::Command;
    type ResponseStream = ReceiverStream<Result<v1::Command, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<v1::Heartbeat>>) -> Self::Future {
        let mut frames = request.into_inner();
        let (answers, stream) = mpsc::channel(ANSWERS_MAX);
        tokio::spawn(async move {
            let mut seq = 0;
            while let Ok(Some(frame)) = frames.message().await {
                seq += 1;
                let welcome = (seq == 1).then(v1::Welcome::default);
                let answer = v1::Command { seq, ack: frame.seq, welcome, ..Default::default() };
                if answers.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        ready(Ok(Response::new(ReceiverStream::new(stream))))
    }
}
