//! Applying, running, watching and reading jobs, as a test says it.

use std::{collections::BTreeMap, time::Duration};

use baton::v1::{self, Job, JobState, Task, TaskKind, TaskState};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{Api, Cluster, PATIENCE, eventually};

/// A job and its tasks at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// The job.
    pub job: Job,
    /// Its tasks, in the order of the definition.
    pub tasks: Vec<Task>,
}

impl View {
    /// A task, or the group of a sharded one.
    #[track_caller]
    pub fn task(&self, name: &str) -> &Task {
        self.find(name).unwrap_or_else(|| panic!("no task {name:?} in {}", self.summary()))
    }

    fn find(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.name == name && task.kind() != TaskKind::Shard)
    }

    /// The state of a task; unspecified while there is no such row.
    pub fn state(&self, name: &str) -> TaskState {
        self.find(name).map_or(TaskState::Unspecified, Task::state)
    }

    /// The shards of a task in order.
    pub fn shards(&self, name: &str) -> Vec<&Task> {
        let mut shards: Vec<_> =
            self.tasks.iter().filter(|task| task.name == name && task.kind() == TaskKind::Shard).collect();
        shards.sort_by_key(|task| task.shard_index);
        shards
    }

    /// The states without their prefixes, for assertions that read well: `FINISHED; a=FINISHED, b=SKIPPED`.
    pub fn summary(&self) -> String {
        let tasks: Vec<_> = self
            .tasks
            .iter()
            .filter(|task| task.kind() != TaskKind::Shard)
            .map(|task| format!("{}={}", task.name, short(task.state())))
            .collect();
        let job = self.job.state().as_str_name().trim_start_matches("JOB_STATE_");
        format!("{job}; {}", tasks.join(", "))
    }

    /// Fails the test unless the job finished.
    #[track_caller]
    pub fn finished(&self) -> &Self {
        assert_eq!(self.job.state(), JobState::Finished, "{}\n{}", self.summary(), self.reasons());
        self
    }

    /// Every recorded reason.
    pub fn reasons(&self) -> String {
        let of = |name: &str, reason: &str| (!reason.is_empty()).then(|| format!("{name}: {reason}"));
        let tasks = self.tasks.iter().filter_map(|task| of(&task.name, &task.reason));
        of("job", &self.job.reason).into_iter().chain(tasks).collect::<Vec<_>>().join("\n")
    }
}

fn short(state: TaskState) -> &'static str {
    state.as_str_name().trim_start_matches("TASK_STATE_")
}

/// What can be asked of a scheduler in one line.
#[derive(Debug, Clone)]
pub struct Asked(pub Api);

impl Asked {
    /// Applies the text of a job file.
    pub async fn apply(&self, source: &str) -> Result<v1::ApplyResponse, tonic::Status> {
        let request = v1::ApplyRequest {
            definition: Some(v1::apply_request::Definition::Source(source.to_owned())),
            ..Default::default()
        };
        Ok(self.0.job_configs.clone().apply(request).await?.into_inner())
    }

    /// Runs a job config and gives the job's id.
    pub async fn run(&self, name: &str, params: &[(&str, &str)]) -> Result<String, tonic::Status> {
        let params = params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = v1::RunRequest { name: name.to_owned(), params, ..Default::default() };
        let job = self.0.commands.clone().run(request).await?.into_inner().job;
        Ok(job.expect("a run answers with its job").id)
    }

    /// The jobs of a config, oldest first.
    pub async fn jobs(&self, name: &str) -> Result<Vec<v1::Job>, tonic::Status> {
        let mut request = v1::ListJobsRequest { name: name.to_owned(), page_size: 1_000, ..Default::default() };
        let mut jobs = Vec::new();
        loop {
            let page = self.0.jobs.clone().list_jobs(request.clone()).await?.into_inner();
            jobs.extend(page.jobs);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                jobs.reverse();
                return Ok(jobs);
            }
        }
    }

    /// Reads a job with all of its tasks.
    pub async fn get(&self, job_id: &str) -> Result<View, tonic::Status> {
        let request = v1::GetJobRequest { job_id: job_id.to_owned() };
        let mut answer = self.0.jobs.clone().get_job(request).await?.into_inner();
        let mut job = answer.job.take().expect("a job is read");
        let mut tasks = std::mem::take(&mut job.tasks);
        let mut page_token = answer.next_task_page_token;
        while !page_token.is_empty() {
            let request = v1::ListTasksRequest { job_id: job.id.clone(), page_token, ..Default::default() };
            let page = self.0.jobs.clone().list_tasks(request).await?.into_inner();
            tasks.extend(page.tasks);
            page_token = page.next_page_token;
        }
        Ok(View { job, tasks })
    }

    /// Asks to end a job, or one task of it.
    pub async fn terminate(&self, job_id: &str, task: &str) -> Result<v1::TerminateResponse, tonic::Status> {
        let request = v1::TerminateRequest {
            job_id: job_id.to_owned(),
            name: task.to_owned(),
            reason: "a test wants it so".to_owned(),
            ..Default::default()
        };
        Ok(self.0.commands.clone().terminate(request).await?.into_inner())
    }

    /// Watches a job until `holds`; gives up when the stream breaks.
    async fn watch_once(&self, job_id: &str, holds: &mut (dyn FnMut(&View) -> bool + Send)) -> Option<View> {
        let request = v1::WatchJobRequest { job_id: job_id.to_owned(), ..Default::default() };
        let mut changes = self.0.jobs.clone().watch_job(request).await.ok()?.into_inner();
        let mut job = None;
        let mut tasks = BTreeMap::new();
        while let Ok(Some(change)) = changes.message().await {
            job = change.job.or(job);
            for task in change.tasks {
                tasks.insert(task.id.clone(), task);
            }
            if change.seq == 0 {
                continue;
            }
            let view = View { job: job.clone()?, tasks: tasks.values().cloned().collect() };
            if holds(&view) {
                return Some(view);
            }
        }
        None
    }
}

impl Cluster {
    /// What can be asked of the first scheduler.
    pub fn ask(&self) -> Asked {
        Asked(self.api())
    }

    /// What can be asked of the scheduler with this number.
    pub fn ask_of(&self, index: usize) -> Asked {
        Asked(Api::to(self.address_of(index)))
    }

    /// Applies a job file and runs the job config that it defines; gives the job's id.
    pub async fn run(&self, source: &str) -> String {
        self.run_with(source, &[]).await
    }

    /// [`Cluster::run`] with values for parameters.
    pub async fn run_with(&self, source: &str, params: &[(&str, &str)]) -> String {
        let ask = self.ask();
        let applied = ask.apply(source).await.unwrap_or_else(|status| panic!("{}\n{source}", status.message()));
        let config = applied.job_configs.into_iter().next().and_then(|applied| applied.job_config?.config);
        let name = config.expect("an apply answers with the config").name;
        ask.run(&name, params).await.unwrap_or_else(|status| panic!("{name} does not run: {}", status.message()))
    }

    /// Watches a job until `holds`, dialling again whenever the scheduler is gone.
    pub async fn until(&self, job_id: &str, what: &str, holds: impl FnMut(&View) -> bool + Send) -> View {
        self.until_within(PATIENCE, job_id, what, holds).await
    }

    /// [`Cluster::until`] with a limit of its own.
    pub async fn until_within(
        &self,
        limit: Duration,
        job_id: &str,
        what: &str,
        mut holds: impl FnMut(&View) -> bool + Send,
    ) -> View {
        let ask = self.ask();
        let mut last = String::from("nothing was seen of it");
        let mut note = |view: &View| {
            last = format!("{}\n{}", view.summary(), view.reasons());
            holds(view)
        };
        let watching = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(50));
            loop {
                ticks.tick().await;
                if let Some(view) = ask.watch_once(job_id, &mut note).await {
                    return view;
                }
            }
        };
        let seen = timeout(limit, watching).await;
        let Ok(view) = seen else { panic!("waited {limit:?} in vain for job {job_id}: {what}; last seen: {last}") };
        view
    }

    /// Waits for the end of a job and reads it.
    pub async fn done(&self, job_id: &str) -> View {
        self.until(job_id, "it ends", |view| is_over(view.job.state())).await;
        self.ask().get(job_id).await.expect("a job that ended can be read")
    }

    /// Waits until a task is in a state.
    pub async fn task_is(&self, job_id: &str, task: &str, state: TaskState) -> View {
        let what = format!("{task} is {}", short(state));
        self.until(job_id, &what, |view| view.state(task) == state).await
    }

    /// Everything that a task has written so far, both outputs as they came.
    pub async fn log(&self, job_id: &str, task: &str) -> Vec<u8> {
        self.log_of(v1::LogSelector { job_id: job_id.to_owned(), name: task.to_owned(), ..Default::default() }).await
    }

    /// Everything that is stored of a log.
    pub async fn log_of(&self, selector: v1::LogSelector) -> Vec<u8> {
        let mut logs = self.api().logs;
        let mut text = Vec::new();
        let mut cursor = String::new();
        loop {
            let request = v1::ReadRequest { selector: Some(selector.clone()), cursor, ..Default::default() };
            let page = logs.read(request).await.expect("a log can be read").into_inner();
            let nothing_new = page.chunks.is_empty();
            for chunk in page.chunks {
                text.extend_from_slice(&chunk.data);
            }
            cursor = page.next_cursor;
            if cursor.is_empty() || nothing_new {
                return text;
            }
        }
    }

    /// Waits until the log of a task holds a text: output may arrive a moment after the task has ended.
    pub async fn log_holds(&self, job_id: &str, task: &str, text: &str) -> String {
        eventually(&format!("the log of {task} holds {text:?}"), PATIENCE, || async {
            let log = String::from_utf8_lossy(&self.log(job_id, task).await).into_owned();
            log.contains(text).then_some(log)
        })
        .await
    }
}

/// The text of a job file with one shell task, `work`.
pub fn one_task(name: &str, script: &str) -> String {
    job(name, &json!([{"name": "work", "shell": script}]))
}

/// The text of a job file with these tasks. JSON is YAML too, and quotes whatever a script holds.
pub fn job(name: &str, tasks: &Value) -> String {
    json!({"name": name, "tasks": tasks}).to_string()
}

/// Whether a job in this state has ended.
pub fn is_over(state: JobState) -> bool {
    matches!(state, JobState::Finished | JobState::Failed | JobState::Skipped | JobState::Terminated)
}
