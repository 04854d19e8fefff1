//! Reads jobs and tasks.

use baton::v1::{
    ExplainRequest, ExplainResponse, GetJobRequest, GetJobResponse, GetTaskRequest, GetTaskResponse, ListJobsRequest,
    ListJobsResponse, ListTasksRequest, ListTasksResponse, WatchJobRequest, WatchJobResponse,
    job_service_server::JobService,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::{Api, Fields},
    convert,
    page::{self, Listing, SIZE_MAX},
    status::{Error, Kind},
    watch,
};
use crate::{
    domain::job::JobState,
    flow,
    store::read::{Job, JobFilter, Task, TaskFilter},
};

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Jobs(pub(super) Api);

impl Jobs {
    async fn get(&self, request: GetJobRequest) -> Result<GetJobResponse, Error> {
        let job = self.0.job(&request.job_id).await?;
        let filter = TaskFilter::default();
        let page = self.0.store.tasks_of(&job, &filter, None, u64::from(SIZE_MAX)).await?;
        let listing = task_listing(Some(job.id), &filter);
        let last = page.rows.last().map(|task| listing.token(&task.cursor()));
        let mut shown = convert::jobs::job(job);
        shown.tasks = page.rows.into_iter().map(convert::jobs::task).collect();
        Ok(GetJobResponse { job: Some(shown), next_task_page_token: last.filter(|_| page.more).unwrap_or_default() })
    }

    async fn list(&self, request: ListJobsRequest) -> Result<ListJobsResponse, Error> {
        let size = page::size(request.page_size)?;
        let parent = match request.parent_job_id.as_str() {
            "" => None,
            part => Some(self.0.job(part).await?.id),
        };
        let mut fields = Fields::default();
        let filter = JobFilter {
            parent,
            triggers: fields.take(convert::jobs::read_triggers("triggers", &request.triggers)),
            states: fields.take(convert::jobs::read_job_states("states", &request.states)),
            since: fields.take(convert::read_timestamp("created_since", request.created_since)),
            before: fields.take(convert::read_timestamp("created_before", request.created_before)),
            namespace: Some(request.namespace).filter(|namespace| !namespace.is_empty()),
            name: Some(request.name).filter(|name| !name.is_empty()),
            labels: convert::sorted(request.labels),
        };
        fields.check()?;
        let times = (filter.since.map(|time| time.0), filter.before.map(|time| time.0));
        let states: Vec<&str> = filter.states.iter().map(|state| state.word()).collect();
        let triggers: Vec<&str> = filter.triggers.iter().map(|trigger| trigger.word()).collect();
        let made = (filter.parent, triggers);
        let listing = Listing::new("ListJobs", &(&filter.namespace, &filter.name, states, &filter.labels, times, made));
        let page = self.0.store.jobs(&filter, listing.key(&request.page_token)?, size).await?;
        let last = page.rows.last().map(|job| listing.token(&job.id));
        Ok(ListJobsResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            jobs: page.rows.into_iter().map(convert::jobs::job).collect(),
        })
    }

    async fn get_one_task(&self, request: GetTaskRequest) -> Result<GetTaskResponse, Error> {
        let job = self.0.job(&request.job_id).await?;
        let task = self.0.task(&job, &request.name, request.shard_index).await?;
        let attempts = self.0.store.attempts(task.id).await?;
        let mut shown = convert::jobs::task(task);
        shown.attempts = attempts.into_iter().map(convert::jobs::attempt).collect();
        Ok(GetTaskResponse { task: Some(shown) })
    }

    async fn explain_one(&self, request: ExplainRequest) -> Result<ExplainResponse, Error> {
        let job = self.0.job(&request.job_id).await?;
        let definition = self.0.definition(&job).await?;
        if request.name.is_empty() {
            if request.shard_index.is_some() {
                return Err(Error::invalid("shard_index", "says which shard of a task, so name must say which task"));
            }
            let explanation = flow::explain_job(&self.0.store, &job, &definition).await?;
            return Ok(convert::jobs::explanation(explanation, job, None, None));
        }
        let node = self.0.node(&job, &request.name).await?;
        let config = definition.tasks.get(node as usize);
        let mut task = self.0.store.task(&job, node, request.shard_index).await?;
        if task.is_none() && request.shard_index.is_some() {
            // A group that is not split yet has no shards; what holds it holds them too.
            task = self.0.store.task(&job, node, None).await?.filter(|group| group.shard_count.is_none());
        }
        if let Some(task) = task {
            let explanation = flow::explain_task(&self.0.store, self.0.timing, &job, &definition, &task).await?;
            return Ok(convert::jobs::explanation(explanation, job, Some(task), config));
        }
        if job.state == JobState::Created {
            // It is not written yet, because its job is not.
            let explanation = flow::explain_job(&self.0.store, &job, &definition).await?;
            return Ok(convert::jobs::explanation(explanation, job, None, config));
        }
        Err(Error::not_found(Kind::Task, selector(&request.name, request.shard_index)))
    }

    async fn list_all_tasks(&self, request: ListTasksRequest) -> Result<ListTasksResponse, Error> {
        let size = page::size(request.page_size)?;
        let mut fields = Fields::default();
        let states = fields.take(convert::jobs::read_task_states("states", &request.states));
        if request.job_id.is_empty() && !request.name.is_empty() {
            fields.refuse("name", "says which task of a job, so job_id must say which job");
        }
        fields.check()?;
        let namespace = Some(request.namespace).filter(|namespace| !namespace.is_empty());
        let mut filter = TaskFilter { namespace, states, node: None, fold_shards: request.fold_shards };
        let job = match request.job_id.as_str() {
            "" => None,
            part => Some(self.0.job(part).await?),
        };
        if let Some(job) = job.as_ref().filter(|_| !request.name.is_empty()) {
            filter.node = Some(self.0.node(job, &request.name).await?);
        }
        let listing = task_listing(job.as_ref().map(|job| job.id), &filter);
        let after = listing.key(&request.page_token)?;
        let page = match &job {
            Some(job) => self.0.store.tasks_of(job, &filter, after, size).await?,
            None => self.0.store.tasks(&filter, after, size).await?,
        };
        let last = page.rows.last().map(|task| listing.token(&task.cursor()));
        Ok(ListTasksResponse {
            next_page_token: last.filter(|_| page.more).unwrap_or_default(),
            tasks: page.rows.into_iter().map(convert::jobs::task).collect(),
        })
    }
}

fn task_listing(job: Option<Uuid>, filter: &TaskFilter) -> Listing {
    let states: Vec<&str> = filter.states.iter().map(|state| state.word()).collect();
    Listing::new("ListTasks", &(job, &filter.namespace, states, filter.node, filter.fold_shards))
}

impl Api {
    /// A task of a job by its name: the task or group itself, or one of its shards.
    pub(super) async fn task(&self, job: &Job, name: &str, shard: Option<u32>) -> Result<Task, Error> {
        let node = self.node(job, name).await?;
        let task = self.store.task(job, node, shard).await?;
        task.ok_or_else(|| Error::not_found(Kind::Task, selector(name, shard)))
    }
}

/// What people call a task or a shard of it.
fn selector(name: &str, shard: Option<u32>) -> String {
    shard.map_or_else(|| name.to_owned(), |shard| format!("{name}#{shard}"))
}

#[async_trait]
impl JobService for Jobs {
    async fn get_job(&self, request: Request<GetJobRequest>) -> Result<Response<GetJobResponse>, Status> {
        Ok(Response::new(self.get(request.into_inner()).await?))
    }

    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Result<Response<ListJobsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn get_task(&self, request: Request<GetTaskRequest>) -> Result<Response<GetTaskResponse>, Status> {
        Ok(Response::new(self.get_one_task(request.into_inner()).await?))
    }

    async fn list_tasks(&self, request: Request<ListTasksRequest>) -> Result<Response<ListTasksResponse>, Status> {
        Ok(Response::new(self.list_all_tasks(request.into_inner()).await?))
    }

    type WatchJobStream = ReceiverStream<Result<WatchJobResponse, Status>>;

    async fn watch_job(&self, request: Request<WatchJobRequest>) -> Result<Response<Self::WatchJobStream>, Status> {
        Ok(Response::new(watch::start(&self.0, request.into_inner()).await?))
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        Ok(Response::new(self.explain_one(request.into_inner()).await?))
    }
}
