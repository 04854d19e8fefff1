//! A scheduler that answers as it was told to, and the `baton` program run against it.

use std::{
    any::{Any, TypeId},
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    pin::Pin,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use baton::v1::{
    command_service_server::{CommandService, CommandServiceServer},
    job_config_service_server::{JobConfigService, JobConfigServiceServer},
    job_service_server::{JobService, JobServiceServer},
    log_service_server::{LogService, LogServiceServer},
    runner_service_server::{RunnerService, RunnerServiceServer},
    scheduler_service_server::{SchedulerService, SchedulerServiceServer},
    *,
};
use tokio::{net::TcpListener, process::Command, runtime::Runtime, sync::watch};
use tokio_stream::{Stream, StreamExt as _, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

/// No command of these tests takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_mins(1);

type Answers = HashMap<TypeId, VecDeque<Arc<dyn Any + Send + Sync>>>;
type Requests = Vec<Box<dyn Any + Send + Sync>>;
type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What one stream sends before it ends, or before it falls silent.
#[derive(Clone)]
struct Script<T> {
    items: Vec<Result<T, Status>>,
    stays_open: bool,
}

#[derive(Clone, Default)]
struct Stage {
    answers: Arc<Mutex<Answers>>,
    /// All that came, in order. Whoever waits for one is woken by it.
    requests: watch::Sender<Requests>,
}

impl Stage {
    fn put<T: Send + Sync + 'static>(&self, answer: T) {
        self.answers.lock().unwrap().entry(TypeId::of::<T>()).or_default().push_back(Arc::new(answer));
    }

    /// The next answer of a type; the last one is given again and again.
    fn next<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        let mut answers = self.answers.lock().unwrap();
        let queue = answers.get_mut(&TypeId::of::<T>())?;
        let answer = if queue.len() > 1 { queue.pop_front() } else { queue.front().cloned() };
        answer?.downcast_ref::<T>().cloned()
    }

    fn note<Q: Send + Sync + 'static>(&self, request: Request<Q>) {
        self.requests.send_modify(|requests| requests.push(Box::new(request.into_inner())));
    }

    fn unary<Q: Send + Sync + 'static, A: Clone + Send + Sync + 'static>(
        &self,
        request: Request<Q>,
    ) -> Result<Response<A>, Status> {
        self.note(request);
        self.next::<Result<A, Status>>()
            .unwrap_or_else(|| Err(Status::unimplemented("not on stage")))
            .map(Response::new)
    }

    fn stream<Q: Send + Sync + 'static, A: Clone + Send + Sync + 'static>(
        &self,
        request: Request<Q>,
    ) -> Result<Response<BoxStream<A>>, Status> {
        self.note(request);
        let script = self.next::<Script<A>>().ok_or_else(|| Status::unimplemented("not on stage"))?;
        let items = tokio_stream::iter(script.items);
        Ok(Response::new(if script.stays_open {
            Box::pin(items.chain(tokio_stream::pending()))
        } else {
            Box::pin(items)
        }))
    }
}

macro_rules! service {
    ($service:ident { $($call:ident: $request:ty => $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for Stage {
            $(
                async fn $call(&self, request: Request<$request>) -> Result<Response<$response>, Status> {
                    self.unary(request)
                }
            )*
        }
    };
}

service!(JobConfigService {
    apply: ApplyRequest => ApplyResponse;
    get: GetRequest => GetResponse;
    list: ListRequest => ListResponse;
    list_versions: ListVersionsRequest => ListVersionsResponse;
    restore: RestoreRequest => RestoreResponse;
    delete: DeleteRequest => DeleteResponse;
    disable: DisableRequest => DisableResponse;
    enable: EnableRequest => EnableResponse;
});

service!(CommandService {
    run: RunRequest => RunResponse;
    terminate: TerminateRequest => TerminateResponse;
    complete_task: CompleteTaskRequest => CompleteTaskResponse;
    rerun: RerunRequest => RerunResponse;
    mark: MarkRequest => MarkResponse;
    drain_runner: DrainRunnerRequest => DrainRunnerResponse;
    resume_runner: ResumeRunnerRequest => ResumeRunnerResponse;
    drain_scheduler: DrainSchedulerRequest => DrainSchedulerResponse;
    resume_scheduler: ResumeSchedulerRequest => ResumeSchedulerResponse;
});

service!(RunnerService {
    get_runner: GetRunnerRequest => GetRunnerResponse;
    list_runners: ListRunnersRequest => ListRunnersResponse;
});

service!(SchedulerService {
    list_schedulers: ListSchedulersRequest => ListSchedulersResponse;
});

#[tonic::async_trait]
impl JobService for Stage {
    type WatchJobStream = BoxStream<WatchJobResponse>;

    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<GetJobResponse>, Status> {
        self.unary(request)
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsResponse>, Status> {
        self.unary(request)
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<GetTaskResponse>, Status> {
        self.unary(request)
    }

    async fn list_tasks(&self, request: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        self.unary(request)
    }

    async fn watch_job(&self, request: Request<WatchJobRequest>) -> Result<Response<Self::WatchJobStream>, Status> {
        self.stream(request)
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        self.unary(request)
    }
}

#[tonic::async_trait]
impl LogService for Stage {
    type AppendStream = BoxStream<AppendResponse>;
    type FollowStream = BoxStream<FollowResponse>;

    async fn append(&self, _: Request<Streaming<AppendRequest>>) -> Result<Response<Self::AppendStream>, Status> {
        Err(Status::unimplemented("runners do not come here"))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        self.unary(request)
    }

    async fn follow(&self, request: Request<FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        self.stream(request)
    }
}

fn of_type<Q: 'static>(requests: &Requests) -> impl Iterator<Item = &Q> {
    requests.iter().filter_map(|request| request.downcast_ref())
}

/// The scheduler on its stage.
pub struct Fake {
    stage: Stage,
    address: SocketAddr,
    /// Of its own, so that its end cuts every connection, as that of a process does.
    runtime: Option<Runtime>,
}

impl Fake {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        Self::start_with(Stage::default(), SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    async fn start_with(stage: Stage, address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.spawn(TcpListener::bind(address)).await.unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let router = Server::builder()
            .add_service(JobConfigServiceServer::new(stage.clone()))
            .add_service(CommandServiceServer::new(stage.clone()))
            .add_service(JobServiceServer::new(stage.clone()))
            .add_service(LogServiceServer::new(stage.clone()))
            .add_service(RunnerServiceServer::new(stage.clone()))
            .add_service(SchedulerServiceServer::new(stage.clone()));
        runtime.spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { stage, address, runtime: Some(runtime) }
    }

    /// Dies and comes back at the same address.
    pub async fn restart(&mut self) {
        let runtime = self.runtime.take().expect("it runs");
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
        *self = Self::start_with(self.stage.clone(), self.address).await;
    }

    /// Answers calls that end in this message so; the last answer of a type is given again and again.
    pub fn answers<A: Clone + Send + Sync + 'static>(&self, answer: Result<A, Status>) -> &Self {
        self.stage.put(answer);
        self
    }

    /// Sends these on the next stream of the type, then ends it.
    pub fn streams<A: Clone + Send + Sync + 'static>(&self, items: Vec<Result<A, Status>>) -> &Self {
        self.stage.put(Script { items, stays_open: false });
        self
    }

    /// Sends these on the next stream of the type, then falls silent.
    pub fn streams_and_stays<A: Clone + Send + Sync + 'static>(&self, items: Vec<Result<A, Status>>) -> &Self {
        self.stage.put(Script { items, stays_open: true });
        self
    }

    /// The requests of a type that came, in order.
    pub fn requests<Q: Clone + 'static>(&self) -> Vec<Q> {
        of_type::<Q>(&self.stage.requests.borrow()).cloned().collect()
    }

    /// Waits until so many requests of a type have come.
    pub async fn heard<Q: Clone + 'static>(&self, count: usize) {
        let mut requests = self.stage.requests.subscribe();
        let came = requests.wait_for(|requests| of_type::<Q>(requests).count() >= count);
        tokio::time::timeout(PATIENCE, came).await.expect("it never came to be").expect("the stage is there");
    }

    /// `baton` with these words against this scheduler.
    pub fn command(&self, words: &[&str]) -> Command {
        command(&self.address.to_string(), words)
    }

    /// Runs `baton` to its end.
    pub async fn baton(&self, words: &[&str]) -> Ended {
        run(self.command(words)).await
    }
}

/// How a run of `baton` ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// `baton` with these words against an address, with nothing of the surroundings.
pub fn command(address: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    for name in ["BATON_NAMESPACE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.args(words).env("BATON_ADDRESS", address).env("TZ", "UTC").stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Ended {
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the command hangs").unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
