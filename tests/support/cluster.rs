//! Schedulers, runners and a database: the world of one test.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use baton::v1::{self, RunnerState};
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

use crate::{
    Backend, Gate, Marks, Output, PATIENCE, Part, Runner, RunnerSpec, database::Database, eventually, processes,
    programs, proxy::Proxy,
};

/// The most that one answer may hold, as large as a page of tasks can become.
const MESSAGE_BYTES: usize = 64 << 20;

/// What a test wants before it begins.
#[derive(Debug, Clone)]
#[must_use]
pub struct World {
    backend: Backend,
    beat: Duration,
    grace: Duration,
    schedulers: usize,
    fronts: bool,
    database_proxy: bool,
    scheduler_args: Vec<String>,
    own_server: bool,
    sqlite_in: Option<PathBuf>,
    scheduler_env: Vec<(usize, Vec<(String, String)>)>,
    runners: Vec<RunnerSpec>,
}

impl World {
    /// One scheduler, no runner yet, and beats so slow that a busy machine never looks like a lost runner.
    pub fn on(backend: Backend) -> Self {
        Self {
            backend,
            beat: Duration::from_secs(2),
            grace: Duration::from_millis(500),
            schedulers: 1,
            fronts: false,
            database_proxy: false,
            scheduler_args: Vec::new(),
            own_server: false,
            sqlite_in: None,
            scheduler_env: Vec::new(),
            runners: Vec::new(),
        }
    }

    /// On SQLite, for stories in which the database plays no part.
    pub fn plain() -> Self {
        Self::on(Backend::Sqlite)
    }

    /// With this heartbeat interval, from which every other time follows.
    pub fn beat(mut self, beat: Duration) -> Self {
        self.beat = beat;
        self
    }

    /// With beats that a busy machine still keeps, and a loss that a test can wait for: after 6 s.
    pub fn quick(self) -> Self {
        self.beat(Duration::from_secs(1)).grace(Duration::from_millis(200))
    }

    /// With this grace for processes that are ended.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// With so many schedulers.
    pub fn schedulers(mut self, count: usize) -> Self {
        self.schedulers = count;
        self
    }

    /// Whose schedulers tell runners to dial [`Cluster::front`], where the test puts a proxy: a runner that knew the
    /// real address would go round it.
    pub fn with_fronts(mut self) -> Self {
        self.fronts = true;
        self
    }

    /// Whose first scheduler reaches its PostgreSQL through a proxy: [`Cluster::way_to_database`].
    pub fn with_way_to_database(mut self) -> Self {
        self.database_proxy = true;
        self
    }

    /// Whose schedulers are started with one more argument.
    pub fn scheduler_arg(mut self, argument: &str) -> Self {
        self.scheduler_args.push(argument.to_owned());
        self
    }

    /// On a PostgreSQL server of its own, which the test may break.
    pub fn with_own_server(mut self) -> Self {
        self.own_server = true;
        self
    }

    /// Whose SQLite database lies in this directory.
    pub fn sqlite_in(mut self, directory: &Path) -> Self {
        self.sqlite_in = Some(directory.to_owned());
        self
    }

    /// With this in the environment of the scheduler with this number.
    pub fn scheduler_env(mut self, index: usize, env: Vec<(String, String)>) -> Self {
        self.scheduler_env.push((index, env));
        self
    }

    /// With one more runner.
    pub fn runner(mut self, runner: RunnerSpec) -> Self {
        self.runners.push(runner);
        self
    }

    /// The database it is on.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Starts it all and waits until the runners are connected.
    pub async fn start(self) -> Cluster {
        let directory = tempfile::Builder::new().prefix("baton-test-").tempdir().expect("a directory can be made");
        for name in ["home", "work"] {
            fs::create_dir(directory.path().join(name)).expect("a directory can be made");
        }
        let files = self.sqlite_in.as_deref().unwrap_or(directory.path());
        let database = Database::create(self.backend, files, self.own_server);
        let way_to_database = match database.server_address().filter(|_| self.database_proxy) {
            Some(server) => Some(Proxy::to(server).await),
            None => None,
        };
        let some = |count: usize| (0..count).map(|_| programs::free_address()).collect();
        let addresses = some(self.schedulers);
        let fronts = some(if self.fronts { self.schedulers } else { 0 });
        let mut cluster = Cluster {
            schedulers: Vec::new(),
            runners: Vec::new(),
            addresses,
            fronts,
            way_to_database,
            beat: self.beat,
            grace: self.grace,
            scheduler_args: self.scheduler_args,
            scheduler_env: self.scheduler_env,
            database,
            directory,
        };
        for index in 0..self.schedulers {
            let part = cluster.spawn_scheduler(index);
            cluster.schedulers.push(part);
            cluster.scheduler_is_up(index).await;
        }
        for spec in self.runners {
            cluster.add_runner(spec).await;
        }
        cluster
    }
}

/// Clients of one scheduler.
#[derive(Debug, Clone)]
pub struct Api {
    /// Definitions.
    pub job_configs: v1::job_config_service_client::JobConfigServiceClient<Channel>,
    /// Acting on what lives.
    pub commands: v1::command_service_client::CommandServiceClient<Channel>,
    /// Jobs and tasks.
    pub jobs: v1::job_service_client::JobServiceClient<Channel>,
    /// Output of tasks.
    pub logs: v1::log_service_client::LogServiceClient<Channel>,
    /// Runners.
    pub runners: v1::runner_service_client::RunnerServiceClient<Channel>,
    /// Schedules and the fires that made no job.
    pub schedules: v1::schedule_service_client::ScheduleServiceClient<Channel>,
    /// Schedulers.
    pub schedulers: v1::scheduler_service_client::SchedulerServiceClient<Channel>,
    /// The stream of runners.
    pub heartbeats: v1::heartbeat_service_client::HeartbeatServiceClient<Channel>,
}

impl Api {
    /// Clients that connect when they are first used.
    pub fn to(address: SocketAddr) -> Self {
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .expect("an address makes a URL")
            .connect_timeout(Duration::from_secs(5))
            .connect_lazy();
        Self {
            job_configs: v1::job_config_service_client::JobConfigServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES),
            commands: v1::command_service_client::CommandServiceClient::new(channel.clone()),
            jobs: v1::job_service_client::JobServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES),
            logs: v1::log_service_client::LogServiceClient::new(channel.clone())
                .max_decoding_message_size(MESSAGE_BYTES),
            runners: v1::runner_service_client::RunnerServiceClient::new(channel.clone()),
            schedules: v1::schedule_service_client::ScheduleServiceClient::new(channel.clone()),
            schedulers: v1::scheduler_service_client::SchedulerServiceClient::new(channel.clone()),
            heartbeats: v1::heartbeat_service_client::HeartbeatServiceClient::new(channel),
        }
    }
}

/// A running cluster. Dropping it kills every process of it, those of its tasks included.
#[derive(Debug)]
pub struct Cluster {
    // The order is the order of dropping: runners, schedulers, database, files.
    runners: Vec<Runner>,
    schedulers: Vec<Part>,
    addresses: Vec<SocketAddr>,
    fronts: Vec<SocketAddr>,
    way_to_database: Option<Proxy>,
    beat: Duration,
    grace: Duration,
    scheduler_args: Vec<String>,
    scheduler_env: Vec<(usize, Vec<(String, String)>)>,
    database: Database,
    directory: TempDir,
}

impl Cluster {
    /// The directory of this test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The directory where runners of this test run tasks unless told otherwise.
    pub fn work_dir(&self) -> PathBuf {
        self.directory().join("work")
    }

    /// A file to which tasks add marks.
    pub fn marks(&self, name: &str) -> Marks {
        Marks::in_directory(self.directory(), name)
    }

    /// A door that holds tasks.
    pub fn gate(&self, name: &str) -> Gate {
        Gate::in_directory(self.directory(), name)
    }

    /// The heartbeat interval.
    pub fn beat(&self) -> Duration {
        self.beat
    }

    /// After so long without a sign of life a runner is lost.
    pub fn lost_after(&self) -> Duration {
        self.beat * 6
    }

    /// Where the scheduler with this number listens.
    pub fn address_of(&self, index: usize) -> SocketAddr {
        self.addresses[index]
    }

    /// Where runners are told to dial the scheduler with this number: a place for a proxy ([`World::with_fronts`]).
    pub fn front(&self, index: usize) -> SocketAddr {
        self.fronts[index]
    }

    /// What stands between the first scheduler and its database ([`World::with_way_to_database`]).
    pub fn way_to_database(&self) -> &Proxy {
        self.way_to_database.as_ref().expect("the test asked for it, on PostgreSQL")
    }

    /// Where the first scheduler listens.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Clients of the first scheduler.
    pub fn api(&self) -> Api {
        Api::to(self.address())
    }

    /// The URL of the database.
    pub fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The process of the PostgreSQL server, parent of all of its others; none on SQLite.
    pub fn database_server(&self) -> Option<i32> {
        self.database.server_pid()
    }

    /// Runs a statement on PostgreSQL, or tells what the server had against it; none on SQLite.
    pub fn try_sql(&self, statement: &str) -> Option<Result<Vec<String>, String>> {
        self.database.try_sql(statement)
    }

    /// Runs a statement on PostgreSQL; none on SQLite.
    pub fn sql(&self, statement: &str) -> Option<Vec<String>> {
        self.database.sql(statement)
    }

    /// Restarts the PostgreSQL server of this test ([`World::with_own_server`]): in order, or as if it had crashed.
    pub fn restart_database(&self, crash: bool) {
        self.database.own_server().restart(if crash { "QUIT" } else { "INT" });
    }

    /// Stops the time of the PostgreSQL server of this test, each of its processes.
    pub fn freeze_database(&self) {
        self.database.own_server().signal_all(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw_database(&self) {
        self.database.own_server().signal_all(Signal::CONT);
    }

    /// What a scheduler has written so far.
    pub fn scheduler_output(&self, index: usize) -> String {
        self.schedulers[index].output()
    }

    /// What every task of this cluster has in its environment: the home of its runner is the test's own.
    pub fn home(&self) -> String {
        format!("HOME={}", self.directory().join("home").display())
    }

    /// Runs the CLI against the first scheduler.
    pub async fn baton(&self, arguments: &[&str]) -> Output {
        crate::run_program(self.baton_command(arguments)).await
    }

    /// The CLI, pointed at the first scheduler, not started yet.
    pub fn baton_command(&self, arguments: &[&str]) -> Command {
        let mut command = programs::command("baton");
        command
            .args(arguments)
            .current_dir(self.directory())
            .env("HOME", self.directory().join("cli-home"))
            .env("BATON_ADDRESS", format!("http://{}", self.address()));
        command
    }

    /// The command line of the scheduler with this number.
    pub fn scheduler_command(&self, index: usize) -> Command {
        let url = match &self.way_to_database {
            Some(proxy) if index == 0 => self.database.url_through(proxy.address()),
            _ => self.database.url().to_owned(),
        };
        let mut command = programs::command("baton-scheduler");
        command.args(["--listen", &self.addresses[index].to_string(), "--database-url", &url, "--no-auth"]).args([
            "--heartbeat-interval",
            &milliseconds(self.beat),
            "--grace",
            &milliseconds(self.grace),
        ]);
        for (_, env) in self.scheduler_env.iter().filter(|(of, _)| *of == index) {
            command.envs(env.iter().map(|(key, value)| (key, value)));
        }
        if let Some(front) = self.fronts.get(index) {
            command.args(["--advertise", &front.to_string()]);
        }
        command.args(&self.scheduler_args);
        command
    }

    fn spawn_scheduler(&self, index: usize) -> Part {
        let name = format!("scheduler-{index}");
        Part::start(&name, self.scheduler_command(index), &self.directory().join(format!("{name}.log")))
    }

    async fn scheduler_is_up(&mut self, index: usize) {
        let api = Api::to(self.addresses[index]);
        let part = &mut self.schedulers[index];
        eventually("the scheduler answers", PATIENCE, || {
            assert!(part.ended().is_none(), "the scheduler ended as it started:\n{}", part.last_words());
            let mut schedulers = api.schedulers.clone();
            async move { schedulers.list_schedulers(v1::ListSchedulersRequest::default()).await.ok().map(drop) }
        })
        .await;
    }

    /// How many schedulers it has.
    pub fn schedulers(&self) -> usize {
        self.schedulers.len()
    }

    /// The process of a scheduler.
    pub fn scheduler(&mut self, index: usize) -> &mut Part {
        &mut self.schedulers[index]
    }

    /// Starts a scheduler that has ended again, at the same address, and waits until it answers.
    pub async fn start_scheduler(&mut self, index: usize) {
        assert!(self.schedulers[index].ended().is_some(), "the scheduler still runs");
        self.schedulers[index] = self.spawn_scheduler(index);
        self.scheduler_is_up(index).await;
    }

    /// The command line of a runner.
    pub fn runner_command(&self, spec: &RunnerSpec) -> Command {
        let everyone =
            || self.addresses.iter().map(|address| format!("http://{address}")).collect::<Vec<_>>().join(",");
        let state = spec.state_dir.clone().unwrap_or_else(|| self.directory().join(format!("runner-{}", spec.id)));
        let mut command = programs::command("baton-runner");
        command
            .args(["--scheduler", &spec.dials.clone().unwrap_or_else(everyone)])
            .args(["--id", &spec.id, "--slots", &spec.slots.to_string()])
            .arg("--state-dir")
            .arg(state)
            .arg("--work-dir")
            .arg(spec.work_dir.clone().unwrap_or_else(|| self.work_dir()))
            .args(["--grace", &milliseconds(self.grace)])
            .env("HOME", self.directory().join("home"));
        command.envs(spec.env.iter().map(|(key, value)| (key, value)));
        for label in &spec.labels {
            command.args(["--label", label]);
        }
        command
    }

    /// Starts a runner without waiting for it.
    pub fn spawn_runner(&mut self, spec: RunnerSpec) -> &mut Runner {
        let name = format!("runner-{}-{}", spec.id, self.runners.len());
        let part = Part::start(&name, self.runner_command(&spec), &self.directory().join(format!("{name}.log")));
        self.runners.push(Runner { part, spec });
        self.runners.last_mut().expect("it was just added")
    }

    /// Starts a runner and waits until it is online.
    pub async fn add_runner(&mut self, spec: RunnerSpec) {
        let id = spec.id.clone();
        self.spawn_runner(spec);
        self.runner_is(&id, RunnerState::Online).await;
    }

    /// A runner, by its id; the one started last when there were several.
    pub fn runner(&mut self, id: &str) -> &mut Runner {
        self.runners.iter_mut().rev().find(|runner| runner.spec.id == id).expect("the test started it")
    }

    /// Takes a runner out of the cluster's hands: dropping it kills watchdog, runner and tasks.
    pub fn take_runner(&mut self, id: &str) -> Runner {
        let index = self.runners.iter().rposition(|runner| runner.spec.id == id).expect("the test started it");
        self.runners.remove(index)
    }

    /// Waits until the scheduler says this of a runner.
    pub async fn runner_is(&self, id: &str, state: RunnerState) -> v1::Runner {
        let api = self.api();
        eventually(&format!("runner {id} is {}", state.as_str_name()), PATIENCE, || {
            let mut runners = api.runners.clone();
            let request = v1::GetRunnerRequest { runner_id: id.to_owned() };
            async move {
                let runner = runners.get_runner(request).await.ok()?.into_inner().runner?;
                (runner.state() == state).then_some(runner)
            }
        })
        .await
    }

    /// Waits until nothing that this cluster's runners started is alive.
    pub async fn nothing_left_running(&self) {
        let home = self.home();
        eventually("every process of every task is gone", PATIENCE, || {
            // The runners have the same home; only what they run counts.
            let ours = programs::path("baton-runner");
            let left = processes::with_environment(&home)
                .into_iter()
                .any(|pid| processes::program(pid).is_some_and(|program| program != ours));
            std::future::ready((!left).then_some(()))
        })
        .await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for part in self.schedulers.iter().chain(self.runners.iter().map(|runner| &runner.part)) {
                eprintln!("{}", part.last_words());
            }
        }
        // Watchdogs restart what dies, so they go first; then whatever still carries the home of this test.
        self.runners.clear();
        let home = self.home();
        for pid in processes::with_environment(&home) {
            processes::signal(pid, Signal::KILL);
        }
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}
