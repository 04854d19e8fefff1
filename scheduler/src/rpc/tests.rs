//! Stories told over a real connection: a scheduler on a free port, and a client.

use std::collections::HashMap;

use baton::v1::{
    AppendRequest, ApplyRequest, DeleteRequest, DrainRunnerRequest, DrainSchedulerRequest, ExplainRequest,
    FollowRequest, GetJobRequest, GetRequest, GetTaskRequest, ListJobsRequest, ListRequest, ListSchedulersRequest,
    ListTasksRequest, ListVersionsRequest, LogSelector, LogStream, ReadRequest, RestoreRequest, RunRequest,
    SchedulerState, TaskRef, TaskState, TerminateRequest, WatchJobRequest, apply_request::Definition,
    command_service_client::CommandServiceClient, job_config_service_client::JobConfigServiceClient,
    job_service_client::JobServiceClient, log_service_client::LogServiceClient,
    scheduler_service_client::SchedulerServiceClient,
};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_stream::StreamExt as _;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use crate::{Scheduler, config, store};

/// A scheduler that serves, and a connection to it.
struct World {
    channel: Channel,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), crate::Error>>,
    _directory: TempDir,
}

const ETL: &str = "
name: etl
labels: {team: data}
params: {day: monday}
tasks:
  - {name: extract, command: [extract]}
  - {name: load, needs: [extract], command: [load]}
";

impl World {
    async fn begin() -> Self {
        let directory = TempDir::new().unwrap();
        let url = directory.path().join("baton.db").display().to_string();
        let arguments = ["baton-scheduler", "--listen", "127.0.0.1:0", "--database-url", &url];
        let asked = config::read(&config::command().try_get_matches_from(arguments).unwrap()).unwrap();
        let config::Asked::Run { config, .. } = asked else { panic!("it was asked to run") };
        assert_eq!(config.database, store::Settings { url });
        let scheduler = Scheduler::start(*config).await.unwrap();
        let channel = Endpoint::from_shared(format!("http://{}", scheduler.local_addr())).unwrap().connect_lazy();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(scheduler.run(async {
            let _or_dropped = stopped.await;
        }));
        Self { channel, stop: Some(stop), running, _directory: directory }
    }

    async fn end(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.running.await.unwrap().unwrap();
    }

    fn configs(&self) -> JobConfigServiceClient<Channel> {
        JobConfigServiceClient::new(self.channel.clone())
    }

    fn jobs(&self) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channel.clone())
    }

    fn commands(&self) -> CommandServiceClient<Channel> {
        CommandServiceClient::new(self.channel.clone())
    }

    fn logs(&self) -> LogServiceClient<Channel> {
        LogServiceClient::new(self.channel.clone())
    }

    async fn apply(&self, source: &str) -> Result<Vec<baton::v1::AppliedJobConfig>, Status> {
        let definition = Some(Definition::Source(source.to_owned()));
        let answer = self.configs().apply(ApplyRequest { definition, ..ApplyRequest::default() }).await?;
        Ok(answer.into_inner().job_configs)
    }

    async fn run(&self, name: &str) -> String {
        let request = RunRequest { name: name.to_owned(), ..RunRequest::default() };
        self.commands().run(request).await.unwrap().into_inner().job.unwrap().id
    }

    /// Waits until a job is RUNNING, which means that all of its tasks are there.
    async fn written(&self, job_id: &str) {
        let request = WatchJobRequest { job_id: job_id.to_owned(), ..WatchJobRequest::default() };
        let mut changes = self.jobs().watch_job(request).await.unwrap().into_inner();
        while let Some(change) = changes.next().await {
            if change.unwrap().job.unwrap().state() == baton::v1::JobState::Running {
                return;
            }
        }
    }
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn fields(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|request| request.field_violations.clone()).unwrap_or_default();
    violations.into_iter().map(|violation| violation.field).collect()
}

#[tokio::test]
async fn a_definition_is_applied_once_changed_twice_and_brought_back() {
    let world = World::begin().await;
    assert_eq!(world.apply(ETL).await.unwrap()[0].job_config.as_ref().unwrap().version, 1);
    assert_eq!(world.apply(ETL).await.unwrap()[0].change(), baton::v1::ApplyChange::Unchanged);
    let changed = ETL.replace("monday", "friday");
    let definition = Some(Definition::Source(changed.clone()));
    let dry = ApplyRequest { definition, dry_run: true, ..ApplyRequest::default() };
    let would = world.configs().apply(dry).await.unwrap().into_inner().job_configs.remove(0);
    assert_eq!((would.job_config.unwrap().version, would.differences.len()), (2, 1));
    let applied = world.apply(&changed).await.unwrap().remove(0);
    assert_eq!(applied.differences[0].path, "params.day");
    let restore = RestoreRequest { name: "etl".to_owned(), version: 1, ..RestoreRequest::default() };
    let restored = world.configs().restore(restore).await.unwrap().into_inner().job_config.unwrap();
    let restored = restored.job_config.unwrap();
    assert_eq!((restored.version, restored.config.unwrap().params["day"].as_str()), (3, "monday"));
    let versions = ListVersionsRequest { name: "etl".to_owned(), page_size: 2, ..ListVersionsRequest::default() };
    let page = world.configs().list_versions(versions.clone()).await.unwrap().into_inner();
    assert_eq!(page.versions.iter().map(|version| version.version).collect::<Vec<_>>(), [3, 2]);
    let rest = ListVersionsRequest { page_token: page.next_page_token, ..versions };
    let page = world.configs().list_versions(rest).await.unwrap().into_inner();
    assert_eq!((page.versions[0].version, page.next_page_token.as_str()), (1, ""));
    world.end().await;
}

#[tokio::test]
async fn everything_wrong_with_a_definition_is_told_at_once_and_with_its_place() {
    let world = World::begin().await;
    let bad = "name: bad\ntasks:\n  - {name: a, command: [x], needs: [b]}\n  - {name: c, comand: [x]}\n";
    let status = world.apply(bad).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_REQUEST"));
    assert!(fields(&status).len() >= 2, "{status:?}");
    let details = status.get_error_details();
    let first = &details.bad_request().unwrap().field_violations[0];
    assert!(first.description.starts_with("line "), "{first:?}");
    let message = baton::v1::JobConfig { name: "bad".to_owned(), ..baton::v1::JobConfig::default() };
    let definition = Some(Definition::Config(message));
    let status = world.configs().apply(ApplyRequest { definition, ..ApplyRequest::default() }).await.unwrap_err();
    assert!(fields(&status).iter().all(|field| field.starts_with("config.")), "{status:?}");
    let status = world.configs().apply(ApplyRequest::default()).await.unwrap_err();
    assert_eq!(fields(&status), ["source"]);
    world.end().await;
}

#[tokio::test]
async fn what_does_not_exist_is_said_with_what_was_meant() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let get = GetRequest { name: "elt".to_owned(), ..GetRequest::default() };
    let status = world.configs().get(get).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, "JOB_CONFIG_NOT_FOUND"));
    assert!(status.message().contains("did you mean \"etl\"?"), "{status:?}");
    let run = RunRequest { name: "elt".to_owned(), ..RunRequest::default() };
    let status = world.commands().run(run).await.unwrap_err();
    assert!(status.message().contains("did you mean \"etl\"?"), "{status:?}");
    let job_id = world.run("etl").await;
    let task = GetTaskRequest { job_id, name: "lod".to_owned(), ..GetTaskRequest::default() };
    let status = world.jobs().get_task(task).await.unwrap_err();
    assert!(status.message().contains("did you mean \"load\"?"), "{status:?}");
    for (part, code) in [("ffffffff", Code::NotFound), ("abc", Code::InvalidArgument), ("nope!", Code::InvalidArgument)]
    {
        let status = world.jobs().get_job(GetJobRequest { job_id: part.to_owned() }).await.unwrap_err();
        assert_eq!(status.code(), code, "{part}");
    }
    let drain = DrainRunnerRequest { runner_id: "r1".to_owned(), ..DrainRunnerRequest::default() };
    assert_eq!(reason(&world.commands().drain_runner(drain).await.unwrap_err()), "RUNNER_NOT_FOUND");
    let explain = ExplainRequest { job_id: "ffff".to_owned(), ..ExplainRequest::default() };
    assert!(world.jobs().explain(explain).await.is_err());
    world.end().await;
}

#[tokio::test]
async fn a_job_is_found_by_the_end_of_its_id_and_carries_its_tasks() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let id = world.run("etl").await;
    world.written(&id).await;
    for part in [&id[..], &id[id.len() - 8..], &id[..id.len() - 2].to_uppercase()] {
        let job = world.jobs().get_job(GetJobRequest { job_id: part.to_owned() }).await.unwrap().into_inner();
        let job = job.job.unwrap();
        assert_eq!(job.id, id);
        let names: Vec<&str> = job.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["extract", "load"]);
        assert_eq!(job.tasks[1].needs, ["extract"]);
        assert_eq!(job.tasks[0].state(), TaskState::Queued);
    }
    let explain = |name: &str| ExplainRequest { job_id: id.clone(), name: name.to_owned(), shard_index: None };
    let extract = world.jobs().explain(explain("extract")).await.unwrap().into_inner();
    assert!(extract.summary.ends_with("there is no runner"), "{}", extract.summary);
    let load = world.jobs().explain(explain("load")).await.unwrap().into_inner();
    assert!(load.summary.ends_with("it waits for extract"), "{}", load.summary);
    let job = world.jobs().explain(explain("")).await.unwrap().into_inner();
    assert!(job.summary.contains("0 of 2 tasks ended"), "{}", job.summary);
    assert!(job.fixes[0].ends_with("/extract"), "{:?}", job.fixes);
    let labels = HashMap::from([("team".to_owned(), "data".to_owned())]);
    let list = |labels| ListJobsRequest { labels, ..ListJobsRequest::default() };
    assert_eq!(world.jobs().list_jobs(list(labels.clone())).await.unwrap().into_inner().jobs.len(), 1);
    let other = HashMap::from([("team".to_owned(), "dat".to_owned())]);
    assert_eq!(world.jobs().list_jobs(list(other)).await.unwrap().into_inner().jobs.len(), 0);
    let configs = ListRequest { labels, ..ListRequest::default() };
    assert_eq!(world.configs().list(configs).await.unwrap().into_inner().job_configs.len(), 1);
    world.end().await;
}

#[tokio::test]
async fn pages_of_tasks_go_on_where_the_last_one_ended() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let (older, newer) = (world.run("etl").await, world.run("etl").await);
    world.written(&older).await;
    world.written(&newer).await;
    let mut seen = Vec::new();
    let mut request = ListTasksRequest { page_size: 1, ..ListTasksRequest::default() };
    loop {
        let page = world.jobs().list_tasks(request.clone()).await.unwrap().into_inner();
        seen.extend(page.tasks.into_iter().map(|task| (task.job_id, task.name)));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    let expected = [(&newer, "extract"), (&newer, "load"), (&older, "extract"), (&older, "load")];
    assert_eq!(seen, expected.map(|(job, name)| (job.clone(), name.to_owned())));
    request = ListTasksRequest { page_size: 1, ..ListTasksRequest::default() };
    let page = world.jobs().list_tasks(request).await.unwrap().into_inner();
    let other = ListTasksRequest { job_id: older, page_token: page.next_page_token, ..ListTasksRequest::default() };
    let status = world.jobs().list_tasks(other).await.unwrap_err();
    assert_eq!(fields(&status), ["page_token"]);
    world.end().await;
}

#[tokio::test]
async fn a_request_that_is_repeated_makes_one_job() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let request = RunRequest { name: "etl".to_owned(), request_id: "once".to_owned(), ..RunRequest::default() };
    let first = world.commands().run(request.clone()).await.unwrap().into_inner().job.unwrap();
    let again = world.commands().run(request.clone()).await.unwrap().into_inner().job.unwrap();
    assert_eq!(first.id, again.id);
    let params = HashMap::from([("day".to_owned(), "sunday".to_owned())]);
    let status = world.commands().run(RunRequest { params, ..request }).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::AlreadyExists, "REQUEST_ID_REUSED"));
    let delete = DeleteRequest { name: "etl".to_owned(), ..DeleteRequest::default() };
    assert_eq!(world.configs().delete(delete).await.unwrap().into_inner().live_jobs, 1);
    world.end().await;
}

#[tokio::test]
async fn a_watch_tells_everything_then_changes_and_ends_with_the_job() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let job_id = world.run("etl").await;
    world.written(&job_id).await;
    let watch = WatchJobRequest { job_id: job_id.clone(), until_done: true, ..WatchJobRequest::default() };
    let mut changes = world.jobs().watch_job(watch).await.unwrap().into_inner();
    let snapshot = changes.next().await.unwrap().unwrap();
    assert_eq!(snapshot.tasks.len(), 2);
    assert_eq!(snapshot.seq, snapshot.job.unwrap().seq);
    let end = TerminateRequest { job_id, reason: "enough".to_owned(), ..TerminateRequest::default() };
    assert_eq!(world.commands().terminate(end).await.unwrap().into_inner().tasks, 2);
    let mut last = None;
    while let Some(change) = changes.next().await {
        last = Some(change.unwrap());
    }
    let last = last.unwrap();
    assert_eq!(last.job.unwrap().state(), baton::v1::JobState::Terminated);
    assert!(last.tasks.iter().all(|task| task.state() == TaskState::Terminated), "{:?}", last.tasks);
    world.end().await;
}

#[tokio::test]
async fn output_is_taken_in_once_and_given_out_by_name() {
    let world = World::begin().await;
    world.apply(ETL).await.unwrap();
    let job_id = world.run("etl").await;
    world.written(&job_id).await;
    let job = world.jobs().get_job(GetJobRequest { job_id: job_id.clone() }).await.unwrap().into_inner().job.unwrap();
    let task = TaskRef { task_id: job.tasks[0].id.clone(), attempt: 0, lease: 1 };
    let piece = |offset, data: &'static str| AppendRequest {
        task: Some(task.clone()),
        stream: LogStream::Stdout.into(),
        offset,
        data: data.into(),
        ..AppendRequest::default()
    };
    let unknown = TaskRef { task_id: uuid::Uuid::now_v7().to_string(), attempt: 1, lease: 1 };
    let stray = AppendRequest { task: Some(unknown), ..piece(0, "lost") };
    let pieces = vec![piece(0, "one\n"), piece(4, "two\n"), piece(0, "one\ntwo\nthree\n"), stray];
    let answers = world.logs().append(tokio_stream::iter(pieces)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(Result::unwrap).collect().await;
    assert_eq!(answers.iter().map(|answer| answer.stored).collect::<Vec<_>>(), [4, 8, 14, 4]);
    assert!(!answers[3].refused.is_empty());
    let selector = Some(LogSelector { job_id, name: "extract".to_owned(), ..LogSelector::default() });
    let read = |tail_lines| ReadRequest { selector: selector.clone(), tail_lines, ..ReadRequest::default() };
    let text = |chunks: Vec<baton::v1::LogChunk>| -> String {
        chunks.iter().map(|chunk| String::from_utf8_lossy(&chunk.data).into_owned()).collect()
    };
    let page = world.logs().read(read(0)).await.unwrap().into_inner();
    assert_eq!(page.chunks[0].name, "extract");
    assert_eq!(text(page.chunks), "one\ntwo\nthree\n");
    let follow = FollowRequest { selector: selector.clone(), ..FollowRequest::default() };
    let mut following = world.logs().follow(follow).await.unwrap().into_inner();
    let first = following.next().await.unwrap().unwrap();
    assert_eq!(text(first.chunks), "one\ntwo\nthree\n");
    let answers = world.logs().append(tokio_stream::iter(vec![piece(14, "four\n")])).await.unwrap().into_inner();
    assert_eq!(answers.map(Result::unwrap).collect::<Vec<_>>().await[0].stored, 19);
    let second = following.next().await.unwrap().unwrap();
    assert_eq!(text(second.chunks), "four\n");
    let resumed = FollowRequest { selector: selector.clone(), cursor: first.cursor, ..FollowRequest::default() };
    let mut resumed = world.logs().follow(resumed).await.unwrap().into_inner();
    assert_eq!(text(resumed.next().await.unwrap().unwrap().chunks), "four\n");
    let wrong = ReadRequest { cursor: "beef".to_owned(), ..read(3) };
    assert_eq!(fields(&world.logs().read(wrong).await.unwrap_err()), ["cursor"]);
    // The stop ends what is still followed, and says so.
    world.end().await;
    let status = following.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test]
async fn schedulers_are_listed_and_drained() {
    let world = World::begin().await;
    let mut schedulers = SchedulerServiceClient::new(world.channel.clone());
    let listed = schedulers.list_schedulers(ListSchedulersRequest::default()).await.unwrap().into_inner().schedulers;
    assert_eq!((listed.len(), listed[0].state()), (1, SchedulerState::Working));
    let part = listed[0].id[listed[0].id.len() - 6..].to_owned();
    let drain = DrainSchedulerRequest { scheduler_id: part };
    let drained = world.commands().drain_scheduler(drain).await.unwrap().into_inner().scheduler.unwrap();
    assert_eq!(drained.state(), SchedulerState::Drained);
    world.end().await;
}

#[tokio::test]
async fn health_and_reflection_tell_exactly_what_is_served() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let world = World::begin().await;
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let questions = vec![
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("google.rpc.BadRequest".to_owned())),
        ask(MessageRequest::FileContainingSymbol("baton.v1.JobService".to_owned())),
    ];
    let mut reflection = ServerReflectionClient::new(world.channel.clone());
    let answers = reflection.server_reflection_info(tokio_stream::iter(questions)).await.unwrap().into_inner();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap().message_response.unwrap()).collect().await;
    let MessageResponse::ListServicesResponse(services) = &answers[0] else { panic!("{answers:?}") };
    let mut names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "baton.v1.AuditService",
            "baton.v1.BackfillService",
            "baton.v1.CalendarService",
            "baton.v1.CallbackService",
            "baton.v1.CommandService",
            "baton.v1.HeartbeatService",
            "baton.v1.JobConfigService",
            "baton.v1.JobService",
            "baton.v1.LogService",
            "baton.v1.RunnerService",
            "baton.v1.ScheduleService",
            "baton.v1.SchedulerService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
    );
    assert!(answers[1..].iter().all(|answer| matches!(answer, MessageResponse::FileDescriptorResponse(_))));
    let mut health = tonic_health::pb::health_client::HealthClient::new(world.channel.clone());
    for service in ["", "baton.v1.JobService", "baton.v1.HeartbeatService"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.to_owned() };
        let mut statuses = health.watch(request).await.unwrap().into_inner();
        while statuses.next().await.unwrap().unwrap().status() != tonic_health::ServingStatus::Serving.into() {}
    }
    world.end().await;
}
