//! Repairs of jobs: tasks are run again, ends are marked.

use baton::v1::{MarkKind, MarkRequest, MarkResponse, RerunRequest, RerunResponse};

use super::{
    api::{Api, Fields},
    caller::caller,
    commands::check_reason,
    convert,
    status::Error,
};
use crate::{
    domain::repair::Mark,
    flow::request::{Again, MarkTask, Rerun, Said},
};

impl Api {
    pub(super) async fn rerun(&self, mut request: RerunRequest) -> Result<RerunResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let mut fields = Fields::default();
        if request.name.is_empty() && request.shard_index.is_some() {
            fields.refuse("shard_index", "says which shard of a task, so name must say which task");
        }
        if request.name.is_empty() && request.with_following {
            fields.refuse("with_following", "runs what follows a task, so name must say which task");
        }
        check_reason(&mut fields, &request.reason);
        fields.check()?;
        let job = self.job(&request.job_id).await?;
        let again = if request.name.is_empty() {
            Again::Failed
        } else {
            self.node(&job, &request.name).await?;
            Again::Task { name: request.name, shard: request.shard_index, following: request.with_following }
        };
        let order = Rerun { caller, job_id: job.id, again, force: request.force, reason: request.reason };
        let done = self.engine.rerun(order).await?;
        let job = Some(convert::jobs::job(self.job_by_id(job.id).await?));
        Ok(RerunResponse { job, tasks: done.tasks, reconsidered: done.reconsidered })
    }

    pub(super) async fn mark(&self, mut request: MarkRequest) -> Result<MarkResponse, Error> {
        let caller = caller(std::mem::take(&mut request.request_id), &request)?;
        let mut fields = Fields::default();
        let said = match MarkKind::try_from(request.mark) {
            Ok(MarkKind::Finished) => Said::Ended(Mark::Finished),
            Ok(MarkKind::Failed) => Said::Ended(Mark::Failed),
            Ok(MarkKind::Skipped) => Said::Ended(Mark::Skipped),
            Ok(MarkKind::Gone) => Said::Gone,
            Ok(MarkKind::Unspecified) | Err(_) => {
                fields.refuse("mark", "is one of FINISHED, FAILED, SKIPPED and GONE");
                Said::Gone
            }
        };
        if request.name.is_empty() {
            fields.refuse("name", "says which task is marked, and is empty");
        }
        if request.waiting_only && said == Said::Gone {
            fields.refuse("waiting_only", "does not go with GONE: what waits has nothing left behind");
        }
        if request.reason.is_empty() && !request.waiting_only {
            fields.refuse("reason", "says why, for those who read it later, and is empty");
        }
        check_reason(&mut fields, &request.reason);
        fields.check()?;
        let job = self.job(&request.job_id).await?;
        self.node(&job, &request.name).await?;
        let (name, shard) = (request.name, request.shard_index);
        let order = MarkTask {
            caller,
            job_id: job.id,
            task: name.clone(),
            shard,
            said,
            waiting_only: request.waiting_only,
            reason: request.reason,
        };
        let done = self.engine.mark(order).await?;
        let job = self.job_by_id(job.id).await?;
        let task = Some(convert::jobs::task(self.task(&job, &name, shard).await?));
        Ok(MarkResponse { job: Some(convert::jobs::job(job)), task, reconsidered: done.reconsidered })
    }
}
