//! Says why a task waits, was skipped, failed or got lost, and what would free it.

use std::collections::BTreeMap;

use baton::v1::{Check, CheckState, ExplainRequest, ExplainResponse};

use super::{api::Api, convert, page::SIZE_MAX, status::Error};
use crate::{
    domain::{
        explain::{self, Facts, NAMES_MAX, Standing},
        gate::Parents,
        task::{Kind, TaskState},
        time::Timestamp,
    },
    store::read::{Job, Task, TaskFilter},
};

impl Api {
    /// Explains a task, or a job by what it waits for.
    pub(super) async fn explain(&self, request: ExplainRequest) -> Result<ExplainResponse, Error> {
        if request.name.is_empty() && request.shard_index.is_some() {
            return Err(Error::invalid("shard_index", "says which shard of a task, so name must say which task"));
        }
        let job = self.job(&request.job_id).await?;
        if request.name.is_empty() {
            return self.explain_job(job).await;
        }
        let task = self.task(&job, &request.name, request.shard_index).await?;
        self.explain_task(job, task).await
    }

    async fn explain_task(&self, job: Job, task: Task) -> Result<ExplainResponse, Error> {
        let definition = self.definition(&job).await?;
        let config = definition.tasks.get(task.node as usize).cloned().unwrap_or_default();
        let now = self.store.now().await?;
        let mut runners = Vec::new();
        if task.state == TaskState::Queued {
            let page = self.store.runners(&BTreeMap::new(), None, u64::from(SIZE_MAX)).await?;
            runners.extend(page.rows.into_iter().map(|runner| explain::Runner {
                state: self.runner_state(&runner, now),
                id: runner.id,
                labels: runner.labels,
                capabilities: runner.capabilities,
                slots: runner.slots,
                busy: runner.slots_busy,
            }));
        }
        let mut unfinished = Vec::new();
        if task.state == TaskState::Created {
            let nodes: Vec<u32> = config.needs.iter().filter_map(|name| Some(definition.task(name)?.0)).collect();
            let tasks = self.store.unfinished(&job, &nodes, NAMES_MAX as u64).await?;
            unfinished.extend(tasks.into_iter().map(|task| (task.name, task.state)));
        }
        let name = match task.shard_index {
            Some(shard) => format!("{}#{shard}", task.name),
            None => task.name.clone(),
        };
        let explanation = explain::explain(&Facts {
            name: &name,
            kind: task.kind,
            state: task.state,
            reason: &task.reason,
            config: &config,
            job: job.state,
            stopping: job.stopping,
            // A shard has no gate of its own: that of its group has opened.
            parents: if task.kind == Kind::Shard { Parents::default() } else { task.parents },
            unfinished: &unfinished,
            not_before: task.not_before,
            since: since(&task),
            runner: task.runner_id.as_deref(),
            class: task.class.clone(),
            shards: &task.shard_states,
            runners: &runners,
            now,
        });
        let place = format!("{}/{name}", &job.id.simple().to_string()[24..]);
        Ok(ExplainResponse {
            task: Some(convert::task(task)),
            job: Some(convert::job(job)),
            summary: explanation.summary,
            checks: explanation.checks.into_iter().map(check).collect(),
            fixes: explanation.fixes.into_iter().map(|fix| fix.replace("JOB/TASK", &place)).collect(),
            config: Some(convert::task_config(&config)),
        })
    }

    async fn explain_job(&self, job: Job) -> Result<ExplainResponse, Error> {
        let live = TaskState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
        let filter = TaskFilter { states: live, fold_shards: true, ..TaskFilter::default() };
        let page = self.store.tasks_of(&job, &filter, None, NAMES_MAX as u64).await?;
        let mut summary =
            format!("job {} is {}: {} of {} tasks ended", job.name, job.state.word(), job.tasks_ended, job.tasks_total);
        if job.tasks_failed > 0 {
            summary = format!("{summary}, {} failed", job.tasks_failed);
        }
        if !job.reason.is_empty() {
            summary = format!("{summary}; {}", job.reason);
        }
        let short = &job.id.simple().to_string()[24..];
        let fixes = page.rows.iter().map(|task| format!("baton explain {short}/{}", task.name)).collect();
        let checks = page.rows.into_iter().map(|task| {
            let reason = if task.reason.is_empty() { String::new() } else { format!(": {}", task.reason) };
            let state = CheckState::Holds.into();
            Check { detail: format!("{}{reason}", task.state.word()), name: task.name, state }
        });
        let checks = checks.collect();
        Ok(ExplainResponse { task: None, job: Some(convert::job(job)), summary, checks, fixes, config: None })
    }
}

/// When a task came into its state, as far as its row tells.
fn since(task: &Task) -> Option<Timestamp> {
    match task.state {
        TaskState::Queued => task.queued_at,
        TaskState::Dispatched => task.dispatched_at,
        TaskState::Running => task.started_at,
        _ => None,
    }
}

fn check(check: explain::Check) -> Check {
    let state = match check.standing {
        Standing::Passed => CheckState::Passed,
        Standing::Holds => CheckState::Holds,
        Standing::NotApplicable => CheckState::NotApplicable,
    };
    Check { name: check.name.to_owned(), state: state.into(), detail: check.detail }
}
