//! Acts on jobs, runners and schedulers.

use baton::v1::{
    CompleteTaskRequest, CompleteTaskResponse, DrainRunnerRequest, DrainRunnerResponse, DrainSchedulerRequest,
    DrainSchedulerResponse, Job, MarkRequest, MarkResponse, RerunRequest, RerunResponse, ResumeRunnerRequest,
    ResumeRunnerResponse, ResumeSchedulerRequest, ResumeSchedulerResponse, RunRequest, RunResponse, Runner, Scheduler,
    TerminateRequest, TerminateResponse, command_service_server::CommandService,
};
use tonic::{Request, Response, Status, async_trait};
use uuid::Uuid;

use super::{
    api::{Api, Fields},
    caller::caller,
    convert,
    status::Error,
};
use crate::flow::request;

/// Characters of a reason at most.
const REASON_MAX: usize = 1000;

/// The service of this name in the protocol.
#[derive(Debug)]
pub(super) struct Commands(pub(super) Api);

impl Commands {
    async fn make_job(&self, mut request: RunRequest) -> Result<RunResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        if request.name.is_empty() {
            return Err(Error::invalid("name", "says which job config to run, and is empty"));
        }
        let namespace = Api::namespace(request.namespace);
        let run = request::Run {
            caller,
            namespace: namespace.clone(),
            name: request.name,
            params: convert::sorted(request.params),
            runner: Some(request.runner_id).filter(|runner| !runner.is_empty()),
        };
        match self.0.engine.run(run).await {
            Ok(id) => Ok(RunResponse { job: Some(self.job(id).await?) }),
            Err(refusal) => Err(self.0.with_suggestion(refusal, &namespace).await),
        }
    }

    async fn end(&self, mut request: TerminateRequest) -> Result<TerminateResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let mut fields = Fields::default();
        let grace = fields.take(convert::read_duration("grace", request.grace));
        if request.shard_index.is_some() && request.name.is_empty() {
            fields.refuse("shard_index", "says which shard of a task, so name must say which task");
        }
        check_reason(&mut fields, &request.reason);
        fields.check()?;
        let job = self.0.job(&request.job_id).await?;
        if !request.name.is_empty() {
            self.0.node(&job, &request.name).await?;
        }
        let terminate = request::Terminate {
            caller,
            job_id: job.id,
            task: Some(request.name).filter(|name| !name.is_empty()),
            shard_index: request.shard_index,
            grace,
            reason: request.reason,
        };
        let tasks = self.0.engine.terminate(terminate).await?;
        Ok(TerminateResponse { job: Some(self.job(job.id).await?), tasks })
    }

    async fn job(&self, id: Uuid) -> Result<Job, Error> {
        Ok(convert::jobs::job(self.0.job_by_id(id).await?))
    }

    async fn set_runner_drained(&self, id: String, drained: bool, reason: String) -> Result<Runner, Error> {
        let mut fields = Fields::default();
        check_reason(&mut fields, &reason);
        fields.check()?;
        if let Err(refusal) = self.0.engine.drain_runner(id.clone(), drained, reason).await {
            return Err(self.0.with_suggestion(refusal, "").await);
        }
        self.0.runner(&id).await
    }

    async fn set_scheduler_drained(&self, part: &str, drained: bool) -> Result<Scheduler, Error> {
        let id = self.0.scheduler_id(part).await?;
        self.0.engine.drain_scheduler(id, drained).await?;
        self.0.scheduler(id).await
    }
}

pub(super) fn check_reason(fields: &mut Fields, reason: &str) {
    if reason.chars().count() > REASON_MAX {
        fields.refuse("reason", format!("has at most {REASON_MAX} characters"));
    }
}

#[async_trait]
impl CommandService for Commands {
    async fn run(&self, request: Request<RunRequest>) -> Result<Response<RunResponse>, Status> {
        Ok(Response::new(self.make_job(request.into_inner()).await?))
    }

    async fn terminate(&self, request: Request<TerminateRequest>) -> Result<Response<TerminateResponse>, Status> {
        Ok(Response::new(self.end(request.into_inner()).await?))
    }

    async fn complete_task(
        &self,
        request: Request<CompleteTaskRequest>,
    ) -> Result<Response<CompleteTaskResponse>, Status> {
        Ok(Response::new(self.0.complete_task(request.into_inner()).await?))
    }

    async fn rerun(&self, request: Request<RerunRequest>) -> Result<Response<RerunResponse>, Status> {
        Ok(Response::new(self.0.rerun(request.into_inner()).await?))
    }

    async fn mark(&self, request: Request<MarkRequest>) -> Result<Response<MarkResponse>, Status> {
        Ok(Response::new(self.0.mark(request.into_inner()).await?))
    }

    async fn drain_runner(
        &self,
        request: Request<DrainRunnerRequest>,
    ) -> Result<Response<DrainRunnerResponse>, Status> {
        let DrainRunnerRequest { runner_id, reason } = request.into_inner();
        let runner = Some(self.set_runner_drained(runner_id, true, reason).await?);
        Ok(Response::new(DrainRunnerResponse { runner }))
    }

    async fn resume_runner(
        &self,
        request: Request<ResumeRunnerRequest>,
    ) -> Result<Response<ResumeRunnerResponse>, Status> {
        let ResumeRunnerRequest { runner_id } = request.into_inner();
        let runner = Some(self.set_runner_drained(runner_id, false, String::new()).await?);
        Ok(Response::new(ResumeRunnerResponse { runner }))
    }

    async fn drain_scheduler(
        &self,
        request: Request<DrainSchedulerRequest>,
    ) -> Result<Response<DrainSchedulerResponse>, Status> {
        let scheduler = Some(self.set_scheduler_drained(&request.into_inner().scheduler_id, true).await?);
        Ok(Response::new(DrainSchedulerResponse { scheduler }))
    }

    async fn resume_scheduler(
        &self,
        request: Request<ResumeSchedulerRequest>,
    ) -> Result<Response<ResumeSchedulerResponse>, Status> {
        let scheduler = Some(self.set_scheduler_drained(&request.into_inner().scheduler_id, false).await?);
        Ok(Response::new(ResumeSchedulerResponse { scheduler }))
    }
}
