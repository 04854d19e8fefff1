//! A scheduler that does what a test says, and helpers to wait for what happens.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses its part")]

pub mod drawn;

use std::{
    collections::HashMap,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use baton::v1::{
    self, Command, CommandKind, Heartbeat, SlotCommand, SlotReport, TaskRef, TaskResult, Welcome,
    heartbeat_service_server::{HeartbeatService, HeartbeatServiceServer},
    log_service_server::{LogService, LogServiceServer},
    run_spec::Target,
};
use baton_runner::{Config, Error, Runner};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{TcpListenerStream, UnboundedReceiverStream},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// Longer than anything takes on the slowest machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub const BEAT: Duration = Duration::from_millis(100);

pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

/// Waits until a condition of the outside world (files, processes) holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    within(what, async {
        let mut again = tokio::time::interval(Duration::from_millis(5));
        while !holds() {
            again.tick().await;
        }
    })
    .await;
}

/// A fake scheduler on a free port.
pub struct Fake {
    pub address: String,
    sessions: mpsc::UnboundedReceiver<Session>,
    pub logs: Logs,
    server: JoinHandle<()>,
}

impl Fake {
    pub async fn start() -> Self {
        Self::on("127.0.0.1:0").await
    }

    pub async fn on(address: &str) -> Self {
        Self::with_logs(address, Logs::default()).await
    }

    /// A scheduler that already has these logs.
    pub async fn with_logs(address: &str, logs: Logs) -> Self {
        // A server that was just dropped may take a moment to let go of its port.
        let listener = within("the port", async {
            let mut again = tokio::time::interval(Duration::from_millis(5));
            loop {
                again.tick().await;
                if let Ok(listener) = TcpListener::bind(address).await {
                    return listener;
                }
            }
        })
        .await;
        let address = listener.local_addr().unwrap().to_string();
        let (sender, sessions) = mpsc::unbounded_channel();
        let server = Server::builder()
            .add_service(HeartbeatServiceServer::new(Beats(sender)))
            .add_service(LogServiceServer::new(logs.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { server.await.unwrap() });
        Self { address, sessions, logs, server }
    }

    /// The next stream, with its hello read.
    pub async fn session(&mut self) -> Session {
        within("a session", self.sessions.recv()).await.unwrap()
    }

    /// The next stream, welcomed.
    pub async fn welcomed(&mut self) -> Session {
        let mut session = self.session().await;
        session.welcome(welcome());
        session.frame(|frame| frame.ack >= 1).await;
        session
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every duration of the protocol is optional")]
pub fn span(span: Duration) -> Option<prost_types::Duration> {
    Some(span.try_into().unwrap())
}

pub fn welcome() -> Welcome {
    Welcome {
        session_id: "session".into(),
        heartbeat_interval: span(BEAT),
        lost_after: span(BEAT * 6),
        // Machines in CI are slow; a test that is about deafness sets its own.
        answer_timeout: span(Duration::from_secs(20)),
        backoff_base: span(Duration::from_millis(10)),
        backoff_max: span(Duration::from_millis(80)),
        protocol_version: 1,
        ..Welcome::default()
    }
}

struct Beats(mpsc::UnboundedSender<Session>);

#[tonic::async_trait]
impl HeartbeatService for Beats {
    type BeatStream = UnboundedReceiverStream<Result<Command, Status>>;

    async fn beat(&self, request: Request<Streaming<Heartbeat>>) -> Result<Response<Self::BeatStream>, Status> {
        let mut incoming = request.into_inner();
        let (out, answers) = mpsc::unbounded_channel();
        let sessions = self.0.clone();
        tokio::spawn(async move {
            let Some(Ok(hello)) = incoming.next().await else { return };
            let (frames_in, frames) = mpsc::unbounded_channel();
            let line =
                Arc::new(Line { out: Mutex::new(Some(out)), seq: Mutex::new(0), answers: Mutex::new(Answers::Acked) });
            let session = Session {
                hello: hello.hello.clone().expect("the first frame is the hello"),
                frames,
                line: line.clone(),
                seen: vec![],
            };
            let _ = sessions.send(session);
            while let Some(Ok(frame)) = incoming.next().await {
                let mode = *line.answers.lock().unwrap();
                let ack = if mode == Answers::Acked { frame.seq } else { 0 };
                let _ = frames_in.send(frame);
                if mode != Answers::None {
                    line.send(
                        ack,
                        vec![SlotCommand { kind: CommandKind::GoOn.into(), ..SlotCommand::default() }],
                        None,
                    );
                }
            }
            line.out.lock().unwrap().take();
        });
        Ok(Response::new(UnboundedReceiverStream::new(answers)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// As a scheduler in health.
    Acked,
    /// As one that cannot commit.
    Unacked,
    /// As one that is frozen.
    None,
}

struct Line {
    out: Mutex<Option<mpsc::UnboundedSender<Result<Command, Status>>>>,
    seq: Mutex<u64>,
    answers: Mutex<Answers>,
}

impl Line {
    fn send(&self, ack: u64, commands: Vec<SlotCommand>, welcome: Option<Welcome>) -> u64 {
        let mut seq = self.seq.lock().unwrap();
        *seq += 1;
        if let Some(out) = &*self.out.lock().unwrap() {
            let _ = out.send(Ok(Command { seq: *seq, ack, welcome, commands }));
        }
        *seq
    }
}

/// One stream of a runner.
pub struct Session {
    pub hello: v1::Hello,
    frames: mpsc::UnboundedReceiver<Heartbeat>,
    line: Arc<Line>,
    /// Every frame read so far.
    pub seen: Vec<Heartbeat>,
}

impl Session {
    pub fn answer(&self, answers: Answers) {
        *self.line.answers.lock().unwrap() = answers;
    }

    /// Ends the stream from this side.
    pub fn cut(&self) {
        self.line.out.lock().unwrap().take();
    }

    pub fn disconnect(&self, disconnect: v1::Disconnect) {
        self.send(vec![SlotCommand {
            kind: CommandKind::Disconnect.into(),
            disconnect: Some(disconnect),
            ..SlotCommand::default()
        }]);
        self.cut();
    }

    pub fn welcome(&self, welcome: Welcome) -> u64 {
        self.line.send(1, Vec::new(), Some(welcome))
    }

    pub fn send(&self, commands: Vec<SlotCommand>) -> u64 {
        self.line.send(0, commands, None)
    }

    pub fn run_new(&self, slot: u32, task: &TaskRef, run: v1::RunSpec) -> u64 {
        self.send(vec![run_new(slot, task, run)])
    }

    pub fn reset(&self, task: &TaskRef, grace: Option<Duration>) -> u64 {
        let grace = grace.and_then(span);
        self.send(vec![SlotCommand {
            kind: CommandKind::Reset.into(),
            task: Some(task.clone()),
            grace,
            ..SlotCommand::default()
        }])
    }

    pub fn ack_result(&self, slot: u32, task: &TaskRef) -> u64 {
        self.send(vec![result_ack(slot, task)])
    }

    /// The next frame of which this holds; the ones before are passed over.
    pub async fn frame(&mut self, wanted: impl Fn(&Heartbeat) -> bool) -> Heartbeat {
        within("a frame", async {
            loop {
                let frame = self.frames.recv().await.expect("the stream goes on");
                self.seen.push(frame.clone());
                if wanted(&frame) {
                    return frame;
                }
            }
        })
        .await
    }

    /// The next report of which this holds.
    pub async fn report(&mut self, wanted: impl Fn(&SlotReport) -> bool) -> SlotReport {
        let frame = self.frame(|frame| frame.slots.iter().any(&wanted)).await;
        frame.slots.into_iter().find(wanted).unwrap()
    }

    /// Waits until a task runs, and says as which process.
    pub async fn pid(&mut self, task: &TaskRef) -> u32 {
        self.report(|report| report.task.as_ref() == Some(task) && report.pid != 0).await.pid
    }

    /// Waits for the result of a task and acknowledges it.
    pub async fn result(&mut self, task: &TaskRef) -> TaskResult {
        let report = self.report(|report| report.task.as_ref() == Some(task) && report.result.is_some()).await;
        self.ack_result(report.slot, task);
        *report.result.unwrap()
    }

    /// Runs one task in slot 0 to its end.
    pub async fn run(&mut self, run: v1::RunSpec) -> (TaskRef, TaskResult) {
        let task = new_task();
        self.run_new(0, &task, run);
        let result = self.result(&task).await;
        (task, result)
    }

    /// Waits until the runner has closed the stream.
    pub async fn closed(&mut self) {
        within("the end of the stream", async {
            while let Some(frame) = self.frames.recv().await {
                self.seen.push(frame);
            }
        })
        .await;
    }
}

pub fn run_new(slot: u32, task: &TaskRef, run: v1::RunSpec) -> SlotCommand {
    SlotCommand {
        kind: CommandKind::RunNew.into(),
        slot,
        task: Some(task.clone()),
        run: Some(Box::new(run)),
        ..SlotCommand::default()
    }
}

pub fn result_ack(slot: u32, task: &TaskRef) -> SlotCommand {
    SlotCommand { kind: CommandKind::ResultAck.into(), slot, task: Some(task.clone()), ..SlotCommand::default() }
}

pub fn new_task() -> TaskRef {
    TaskRef { task_id: uuid::Uuid::now_v7().to_string(), attempt: 1, lease: 1 }
}

pub fn shell(script: &str) -> v1::RunSpec {
    v1::RunSpec {
        job_id: uuid::Uuid::nil().to_string(),
        namespace: "default".into(),
        job_name: "job".into(),
        task_name: "task".into(),
        target: Some(Target::Shell(script.into())),
        ..v1::RunSpec::default()
    }
}

pub fn command(argv: &[&str]) -> v1::RunSpec {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    v1::RunSpec { target: Some(Target::Command(v1::CommandTarget { argv })), ..shell("") }
}

/// What the scheduler has of each output.
#[derive(Clone, Default)]
pub struct Logs(Arc<LogsInner>);

#[derive(Default)]
struct LogsInner {
    outputs: Mutex<HashMap<(String, i32), Log>>,
    changed: Notify,
    refuse: Mutex<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    pub bytes: Vec<u8>,
    pub end: u64,
    pub skipped: u64,
    pub last: bool,
    pub chunks: usize,
}

impl Logs {
    pub fn refuse(&self) {
        *self.0.refuse.lock().unwrap() = true;
    }

    pub fn get(&self, task: &TaskRef, stream: v1::LogStream) -> Log {
        self.0.outputs.lock().unwrap().get(&(task.task_id.clone(), stream.into())).cloned().unwrap_or_default()
    }

    /// Waits until an output is as wanted.
    pub async fn wait(&self, task: &TaskRef, stream: v1::LogStream, wanted: impl Fn(&Log) -> bool) -> Log {
        within("output", async {
            loop {
                let changed = self.0.changed.notified();
                let log = self.get(task, stream);
                if wanted(&log) {
                    return log;
                }
                changed.await;
            }
        })
        .await
    }

    pub async fn whole(&self, task: &TaskRef, stream: v1::LogStream) -> Log {
        self.wait(task, stream, |log| log.last).await
    }
}

type AppendStream = Pin<Box<dyn Stream<Item = Result<v1::AppendResponse, Status>> + Send>>;

#[tonic::async_trait]
impl LogService for Logs {
    type AppendStream = AppendStream;
    type FollowStream = AppendStreamOf<v1::FollowResponse>;

    async fn append(
        &self,
        request: Request<Streaming<v1::AppendRequest>>,
    ) -> Result<Response<Self::AppendStream>, Status> {
        let this = self.clone();
        Ok(Response::new(Box::pin(request.into_inner().map(move |chunk| {
            let chunk = chunk?;
            let task = chunk.task.clone().unwrap();
            if *this.0.refuse.lock().unwrap() {
                return Ok(v1::AppendResponse {
                    task: Some(task),
                    stream: chunk.stream,
                    refused: "unknown task".into(),
                    ..v1::AppendResponse::default()
                });
            }
            let mut outputs = this.0.outputs.lock().unwrap();
            let log = outputs.entry((task.task_id.clone(), chunk.stream)).or_default();
            assert!(chunk.data.len() <= 256 * 1024);
            // What was stored before a connection broke comes again.
            assert!(chunk.offset - chunk.skipped <= log.end, "a gap that was not marked");
            let known = log.end.saturating_sub(chunk.offset).min(chunk.data.len() as u64);
            log.bytes.extend_from_slice(&chunk.data[known as usize..]);
            if chunk.offset > log.end {
                log.skipped += chunk.skipped;
            }
            log.end = log.end.max(chunk.offset + chunk.data.len() as u64);
            log.last |= chunk.last;
            log.chunks += 1;
            let stored = log.end;
            drop(outputs);
            this.0.changed.notify_waiters();
            let stream = chunk.stream;
            Ok(v1::AppendResponse { task: Some(task), stream, stored, refused: String::new() })
        }))))
    }

    async fn read(&self, _: Request<v1::ReadRequest>) -> Result<Response<v1::ReadResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn follow(&self, _: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

type AppendStreamOf<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A runner in this process.
pub struct Inside {
    pub dir: tempfile::TempDir,
    leave: watch::Sender<u8>,
    pub ended: JoinHandle<Result<(), Error>>,
}

impl Inside {
    pub fn start(addresses: &[&str], slots: u32) -> Self {
        Self::with(addresses, slots, |_| {})
    }

    pub fn with(addresses: &[&str], slots: u32, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let mut config = Config::new("test-runner", addresses[0], dir.path().join("state"));
        config.endpoints = addresses.iter().map(|address| (*address).to_owned()).collect();
        config.work_dir = dir.path().join("work");
        config.slots = slots;
        config.grace = Duration::from_millis(200);
        change(&mut config);
        Self::run(dir, Runner::new(config))
    }

    pub fn run(dir: tempfile::TempDir, runner: Runner) -> Self {
        let (leave, told) = watch::channel(0);
        let (mut first, mut second) = (told.clone(), told);
        let ended = tokio::spawn(async move {
            runner
                .run(async move { drop(first.wait_for(|level| *level >= 1).await) }, async move {
                    drop(second.wait_for(|level| *level >= 2).await);
                })
                .await
        });
        Self { dir, leave, ended }
    }

    pub fn leave(&self) {
        self.leave.send_replace(1);
    }

    pub fn stop(&self) {
        self.leave.send_replace(2);
    }

    pub fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    pub fn state(&self) -> std::path::PathBuf {
        self.dir.path().join("state")
    }
}

/// Whether a process is there and not dead.
pub fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X'])))
}

/// Reads a pid that a task wrote to a file, once it is there.
pub async fn pid_in(path: &Path) -> u32 {
    let read = || std::fs::read_to_string(path).ok()?.trim().parse().ok();
    until("a pid in a file", || read().is_some()).await;
    read().unwrap()
}
