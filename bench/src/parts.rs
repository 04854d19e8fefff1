//! The parts that workloads start, and what they are asked: schedulers and runners are the real programs, unless a
//! workload embeds the runner to have no processes in the figure.

use std::{path::Path, time::Duration};

use baton_runner::{Config, Context, Outcome, Runner};
use baton_tests::{Asked, Backend, Cluster, RunnerSpec, World, is_over, v1};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// How long anything may take before a workload gives up.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// The id of the runner that is started with a cluster, or embedded beside it.
pub(crate) const RUNNER: &str = "bench";

/// The beat that Baton has unless it is told otherwise.
pub(crate) const BEAT: Duration = Duration::from_secs(10);

/// How often what sends no event is looked at: seldom enough to cost nothing, within a hundredth of what it times.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The name of a database, as figures have it.
pub(crate) fn name(backend: Backend) -> &'static str {
    match backend {
        Backend::Sqlite => "sqlite",
        Backend::Postgres => "postgres",
    }
}

/// One scheduler with its default times, and no runner yet.
pub(crate) fn world(backend: Backend) -> World {
    World::on(backend).beat(BEAT).grace(BEAT)
}

/// A scheduler with its default times, and a runner with so many slots (none: no runner).
pub(crate) async fn start(backend: Backend, slots: u32) -> Cluster {
    let world = world(backend);
    let world = if slots == 0 { world } else { world.runner(RunnerSpec::named(RUNNER).slots(slots)) };
    world.start().await
}

/// Waits for the end of a job and fails unless it finished.
pub(crate) async fn finished(ask: &Asked, job_id: &str) -> anyhow::Result<v1::Job> {
    let job = timeout(PATIENCE, ended(ask, job_id)).await??;
    anyhow::ensure!(
        job.state() == v1::JobState::Finished,
        "job {job_id} is {}: {}",
        job.state().as_str_name(),
        job.reason
    );
    Ok(job)
}

/// Watches a job, without the shards of its groups, until it has ended.
async fn ended(ask: &Asked, job_id: &str) -> anyhow::Result<v1::Job> {
    let request =
        v1::WatchJobRequest { job_id: job_id.to_owned(), until_done: true, fold_shards: true, ..Default::default() };
    let mut changes = ask.0.jobs.clone().watch_job(request).await?.into_inner();
    let mut last = None;
    while let Some(change) = changes.message().await? {
        last = change.job.or(last);
        if let Some(job) = last.as_ref().filter(|job| is_over(job.state())) {
            return Ok(job.clone());
        }
    }
    anyhow::bail!("the watch of job {job_id} ended before the job did")
}

/// Waits until no job is live.
pub(crate) async fn nothing_lives(ask: &Asked) -> anyhow::Result<()> {
    let states = [v1::JobState::Created, v1::JobState::Running].map(i32::from).to_vec();
    let request = v1::ListJobsRequest { states, page_size: 1, ..Default::default() };
    let looking = async {
        loop {
            if ask.0.jobs.clone().list_jobs(request.clone()).await?.into_inner().jobs.is_empty() {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, looking).await?
}

/// Waits until so many jobs run: every task of them is written.
pub(crate) async fn all_run(ask: &Asked, jobs: usize) -> anyhow::Result<()> {
    let states = vec![i32::from(v1::JobState::Running)];
    let request = v1::ListJobsRequest { states, page_size: 1_000, ..Default::default() };
    let looking = async {
        loop {
            if ask.0.jobs.clone().list_jobs(request.clone()).await?.into_inner().jobs.len() >= jobs {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, looking).await?
}

/// A runner in this process, whose tasks are done by a function.
#[derive(Debug)]
pub(crate) struct Embedded {
    leave: oneshot::Sender<()>,
    running: JoinHandle<Result<(), baton_runner::Error>>,
}

impl Embedded {
    /// Starts one that calls `each` for every task.
    pub(crate) fn start(
        cluster: &Cluster,
        id: &str,
        slots: u32,
        state_dir: &Path,
        each: impl Fn() + Clone + Send + Sync + 'static,
    ) -> Self {
        let config = Config { slots, ..Config::new(id, cluster.address().to_string(), state_dir) };
        Self::with(config, move |_| {
            each();
            std::future::ready(Outcome::default())
        })
    }

    /// Starts one that has its tasks done by this handler.
    pub(crate) fn with<F>(config: Config, handler: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let runner = Runner::new(config).handler(handler);
        let (leave, left) = oneshot::channel::<()>();
        let leaving = async {
            let _ = left.await;
        };
        let running = tokio::spawn(runner.run(leaving, std::future::pending()));
        Self { leave, running }
    }

    /// Lets it leave, and waits until it has.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        let _ = self.leave.send(());
        Ok(timeout(PATIENCE, self.running).await???)
    }
}
