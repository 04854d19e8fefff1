//! Data on its way between tasks: conditions, items and run specs are worked out from parameters and the outputs of
//! ancestors.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::DateTime;
use serde_json::Value;
use uuid::Uuid;

use super::{plan::Plan, work::Work};
use crate::{
    domain::{
        command::RunSpec,
        definition::{Split, Target, TaskConfig},
        reference::{Reference, Scope, ShardView, TaskView},
        task::TaskState,
        template,
        when::When,
    },
    store::{self, Tx, job::JobRow, task::TaskRow},
};

/// What ancestors left behind, as far as this turn has asked for it.
#[derive(Debug, Default)]
pub(super) struct Data {
    tasks: HashMap<(Uuid, u32), (TaskState, String)>,
}

impl Data {
    /// Decides a task's own condition; `Err` is why it cannot be decided.
    pub(super) async fn condition(
        &mut self,
        tx: &Tx,
        work: &Work,
        task: &TaskRow,
    ) -> Result<Result<bool, String>, store::Error> {
        let plan = work.plan(task.job_id);
        let when = match When::parse(&plan.task(task.node).when) {
            Ok(when) => when,
            Err(fault) => return Ok(Err(format!("when: {}", fault.message))),
        };
        let references = when.references();
        self.load(tx, work, task.job_id, &plan, &references).await?;
        let job = &work.job(task.job_id).expect("the job is in hand").row;
        let scope = self.scope(job, &plan, &references, None);
        Ok(when.holds(&scope).map_err(|fault| format!("when: {fault}")))
    }

    /// The items that a group is made from; `Err` is why there are none.
    pub(super) async fn items(
        &mut self,
        tx: &Tx,
        work: &Work,
        task: &TaskRow,
    ) -> Result<Result<Vec<String>, String>, store::Error> {
        let plan = work.plan(task.job_id);
        let Some(Split::Items(text)) = plan.task(task.node).shards.as_ref().map(|shards| &shards.split) else {
            return Ok(Ok(Vec::new()));
        };
        let references = template::references(text);
        self.load(tx, work, task.job_id, &plan, &references).await?;
        let job = &work.job(task.job_id).expect("the job is in hand").row;
        let scope = self.scope(job, &plan, &references, None);
        Ok(template::items(text, &scope).map_err(|fault| format!("shards.items: {fault}")))
    }

    /// Loads what the templates of tasks that are to be given out name.
    pub(super) async fn load_outputs(
        &mut self,
        tx: &Tx,
        tasks: impl Iterator<Item = (&TaskRow, &Plan)>,
    ) -> Result<(), store::Error> {
        self.tasks.clear();
        let mut wanted: Vec<(Uuid, u32)> = tasks
            .flat_map(|(task, plan)| {
                let references = references(plan.task(task.node));
                nodes(plan, &references).into_iter().map(|node| (task.job_id, node)).collect::<Vec<_>>()
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        for (job, node, state, output) in store::task::outputs(tx, &wanted).await? {
            self.tasks.insert((job, node), (state, output));
        }
        Ok(())
    }

    /// What a task is to run, with nothing left to fill in; `Err` is why that cannot be said.
    pub(super) fn spec(
        &self,
        job: &JobRow,
        plan: &Plan,
        task: &TaskRow,
        self_stop_after: Duration,
    ) -> Result<RunSpec, String> {
        let config = plan.task(task.node);
        let scope = self.scope(job, plan, &references(config), Some(task));
        let target = match &config.target {
            Target::Command(argv) => {
                let items = argv.iter().enumerate().map(|(at, text)| fill(text, &scope, || format!("command[{at}]")));
                Target::Command(items.collect::<Result<_, _>>()?)
            }
            Target::Shell(script) => Target::Shell(script.clone()),
        };
        let env = config
            .env
            .iter()
            .map(|(key, text)| Ok((key.clone(), fill(text, &scope, || format!("env.{key}"))?)))
            .collect::<Result<BTreeMap<_, _>, String>>()?;
        Ok(RunSpec {
            job_id: job.id,
            namespace: job.namespace.clone(),
            job_name: job.name.clone(),
            task_name: config.name.clone(),
            target,
            env,
            working_dir: config.working_dir.clone(),
            timeout: config.timeout,
            self_stop_after: Some(self_stop_after),
            params: job.params.clone(),
            shard: task.shard_index.map(|index| (index, task.shard_count.unwrap_or_default(), task.shard_item.clone())),
            fire_time: job.fire_time,
        })
    }

    /// Loads what some references name: from the turn's hands, else from the database.
    async fn load(
        &mut self,
        tx: &Tx,
        work: &Work,
        job: Uuid,
        plan: &Plan,
        references: &[Reference],
    ) -> Result<(), store::Error> {
        let mut absent = Vec::new();
        for node in nodes(plan, references) {
            match work.node(job, node).and_then(|id| work.task(id)) {
                Some(task) => {
                    self.tasks.insert((job, node), (task.state, task.output.clone()));
                }
                None => absent.push((job, node)),
            }
        }
        for (job, node, state, output) in store::task::outputs(tx, &absent).await? {
            self.tasks.insert((job, node), (state, output));
        }
        Ok(())
    }

    fn scope(&self, job: &JobRow, plan: &Plan, references: &[Reference], task: Option<&TaskRow>) -> Scope {
        let mut tasks = BTreeMap::new();
        for name in references.iter().filter_map(|reference| reference.name.task()) {
            let Some((state, output)) = plan.node(name).and_then(|node| self.tasks.get(&(job.id, node))) else {
                continue;
            };
            let output = serde_json::from_str(output).unwrap_or(Value::Null);
            tasks.insert(name.to_owned(), TaskView { state: state.word().to_owned(), output });
        }
        let shard = task.and_then(|task| {
            let has_items =
                matches!(plan.task(task.node).shards.as_ref()?.split, Split::Items(_) | Split::OnePerRunner);
            Some(ShardView {
                index: task.shard_index?,
                count: task.shard_count.unwrap_or_default(),
                item: has_items.then(|| task.shard_item.clone()),
            })
        });
        let logical = job.fire_time.unwrap_or(job.created_at);
        Scope {
            params: job.params.clone(),
            tasks,
            shard,
            job_id: job.id.to_string(),
            job_name: job.name.clone(),
            logical_time: DateTime::from_timestamp_micros(logical.0).unwrap_or_default().fixed_offset(),
        }
    }
}

/// Every name that the templates of a task use.
fn references(config: &TaskConfig) -> Vec<Reference> {
    let argv = match &config.target {
        Target::Command(argv) => argv.as_slice(),
        Target::Shell(_) => &[],
    };
    argv.iter()
        .chain(config.env.values())
        .filter(|text| is_template(text))
        .flat_map(|text| template::references(text))
        .collect()
}

/// The nodes that some references name.
fn nodes(plan: &Plan, references: &[Reference]) -> Vec<u32> {
    references.iter().filter_map(|reference| plan.node(reference.name.task()?)).collect()
}

fn fill(text: &str, scope: &Scope, field: impl FnOnce() -> String) -> Result<String, String> {
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    template::render(text, scope).map_err(|fault| format!("{}: {fault}", field()))
}

/// Most texts are not templates, and cost nothing.
fn is_template(text: &str) -> bool {
    text.contains('{')
}
