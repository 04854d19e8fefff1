//! Data on its way between tasks: conditions, items and run specs are worked out from parameters and the outputs of
//! ancestors.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::{DateTime, FixedOffset};
use serde_json::Value;
use uuid::Uuid;

use super::{plan::Plan, work::Work};
use crate::{
    domain::{
        command::RunSpec,
        definition::{Split, Target, TaskConfig, limits},
        reference::{CallbackView, Scope, ShardView, TaskView},
        schedule::Zone,
        task::TaskState,
        template::{self, Renderer},
        time::Timestamp,
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
        let named = references.iter().filter_map(|reference| plan.node(reference.name.task()?)).collect::<Vec<_>>();
        self.load(tx, work, task.job_id, &named).await?;
        let job = &work.job(task.job_id).expect("the job is in hand").row;
        let scope = self.scope(job, &plan, &named, None);
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
        let named: Vec<u32> = template::tasks_named(text).iter().filter_map(|name| plan.node(name)).collect();
        self.load(tx, work, task.job_id, &named).await?;
        let job = &work.job(task.job_id).expect("the job is in hand").row;
        let renderer = Renderer::new(&self.scope(job, &plan, &named, None));
        Ok(renderer.render("shards.items", text).and_then(|rendered| template::items(&rendered)))
    }

    /// The values that a task gives to the job it stands for; `Err` is why they cannot be said.
    pub(super) async fn sub_job_params(
        &mut self,
        tx: &Tx,
        work: &Work,
        task: &TaskRow,
    ) -> Result<Result<BTreeMap<String, String>, String>, store::Error> {
        let plan = work.plan(task.job_id);
        let Some(target) = plan.sub_job(task.node) else { return Ok(Ok(BTreeMap::new())) };
        let Some(named) = plan.named(task.node) else { return Ok(Ok(target.params.clone())) };
        self.load(tx, work, task.job_id, named).await?;
        let job = &work.job(task.job_id).expect("the job is in hand").row;
        let renderer = Renderer::new(&self.scope(job, &plan, named, Some(task)));
        let rendered = target.params.iter().map(|(name, text)| {
            let value = renderer.render(&format!("job.params.{name}"), text)?;
            Ok((name.clone(), value))
        });
        Ok(rendered.collect())
    }

    /// Loads what the templates of tasks that are to be given out name: from the turn's hands, else from the database.
    pub(super) async fn load_outputs(
        &mut self,
        tx: &Tx,
        work: &Work,
        tasks: impl Iterator<Item = (&TaskRow, &Plan)>,
    ) -> Result<(), store::Error> {
        self.tasks.clear();
        let mut wanted: Vec<(Uuid, u32)> = tasks
            .flat_map(|(task, plan)| {
                let named = plan.named(task.node).unwrap_or_default();
                named.iter().map(|node| (task.job_id, *node)).collect::<Vec<_>>()
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        self.take(tx, work, wanted).await
    }

    /// What a task is to run, with nothing left to fill in; `Err` is why that cannot be said.
    pub(super) fn spec(
        &self,
        job: &JobRow,
        plan: &Plan,
        task: &TaskRow,
        self_stop_after: Duration,
        callback: Option<CallbackView>,
    ) -> Result<RunSpec, String> {
        let config = plan.task(task.node);
        // Most tasks have no templates, and cost nothing.
        let (target, env) = match plan.named(task.node) {
            None => (config.target.clone(), config.env.clone()),
            Some(named) => {
                let scope = Scope { callback: callback.clone(), ..self.scope(job, plan, named, Some(task)) };
                filled(config, &Renderer::new(&scope))?
            }
        };
        let variables = env.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        match &target {
            Target::Command(argv) => limits::check_exec(argv.iter().map(String::as_str), variables)?,
            Target::Shell(script) => limits::check_exec([script.as_str()], variables)?,
            Target::Http(http) => http.check_filled()?,
            Target::Job(_) => return Err("it stands for a job, which runs on no runner by itself".to_owned()),
        }
        Ok(RunSpec {
            job_id: job.id,
            namespace: job.namespace.clone(),
            job_name: job.name.clone(),
            task_name: config.name.clone(),
            target,
            env,
            working_dir: config.working_dir.clone(),
            timeout: config.timeout,
            self_stop_after: plan.stops_when_cut_off(task.node).then_some(self_stop_after),
            params: job.params.clone(),
            shard: task.shard_index.map(|index| (index, task.shard_count.unwrap_or_default(), task.shard_item.clone())),
            fire_time: job.fire_time,
            callback,
        })
    }

    /// What a task is routed by; `Err` is why that cannot be said. Without a key of its own it is the task's name, so that it
    /// goes where it went before.
    pub(super) fn routing_key(&self, job: &JobRow, plan: &Plan, task: &TaskRow) -> Result<String, String> {
        let config = plan.task(task.node);
        let text = &config.placement.routing_key;
        if text.is_empty() {
            let shard = task.shard_index.map_or_else(String::new, |index| format!("#{index}"));
            return Ok(format!("{}/{}/{}{shard}", job.namespace, job.name, config.name));
        }
        let named = plan.named(task.node).unwrap_or_default();
        if !template::is_template(text) {
            return Ok(text.clone());
        }
        let key = Renderer::new(&self.scope(job, plan, named, Some(task))).render("runner.routing_key", text)?;
        match key.len() {
            0..=limits::ROUTING_KEY_MAX => Ok(key),
            bytes => Err(format!("runner.routing_key has {bytes} bytes; at most {}", limits::ROUTING_KEY_MAX)),
        }
    }

    /// Loads nodes of a job.
    async fn load(&mut self, tx: &Tx, work: &Work, job: Uuid, nodes: &[u32]) -> Result<(), store::Error> {
        self.take(tx, work, nodes.iter().map(|node| (job, *node)).collect()).await
    }

    /// Loads nodes of jobs: from the turn's hands, else from the database.
    async fn take(&mut self, tx: &Tx, work: &Work, nodes: Vec<(Uuid, u32)>) -> Result<(), store::Error> {
        let mut absent = Vec::new();
        for (job, node) in nodes {
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

    fn scope(&self, job: &JobRow, plan: &Plan, named: &[u32], task: Option<&TaskRow>) -> Scope {
        let mut tasks = BTreeMap::new();
        for &node in named {
            let Some((state, output)) = self.tasks.get(&(job.id, node)) else { continue };
            tasks.insert(plan.task(node).name.clone(), view(*state, output));
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
        Scope {
            params: job.params.clone(),
            tasks,
            shard,
            callback: None,
            job_id: job.id.to_string(),
            job_name: job.name.clone(),
            logical_time: logical_time(job, plan),
            event: Value::Null,
        }
    }
}

/// What a task runs and its environment, with every template filled in.
fn filled(config: &TaskConfig, renderer: &Renderer) -> Result<(Target, BTreeMap<String, String>), String> {
    let target = match &config.target {
        Target::Command(argv) => {
            let items = argv.iter().enumerate().map(|(at, text)| renderer.render(&format!("command[{at}]"), text));
            Target::Command(items.collect::<Result<_, _>>()?)
        }
        Target::Shell(_) | Target::Job(_) => config.target.clone(),
        Target::Http(http) => Target::Http(Box::new(http.filled(|place, text| renderer.render(place, text))?)),
    };
    let env = config
        .env
        .iter()
        .map(|(key, text)| Ok((key.clone(), renderer.render(&format!("env.{key}"), text)?)))
        .collect::<Result<_, String>>()?;
    Ok((target, env))
}

/// What conditions and templates see of a task.
pub(super) fn view(state: TaskState, output: &str) -> TaskView {
    TaskView { state: state.word().to_owned(), output: serde_json::from_str(output).unwrap_or(Value::Null) }
}

/// The time that a job is about, and the zone whose clocks tell it: handed down by the job it is a consequence of, else
/// that of its fire, else when it was asked for.
pub(super) fn logical(job: &JobRow, plan: &Plan) -> (Timestamp, Zone) {
    match &job.logical {
        Some(logical) => (logical.at, Zone::parse(&logical.zone).unwrap_or_else(|_| Zone::utc())),
        None => (job.fire_time.unwrap_or(job.created_at), plan.zone(job.schedule.as_deref())),
    }
}

fn logical_time(job: &JobRow, plan: &Plan) -> DateTime<FixedOffset> {
    let (at, zone) = logical(job, plan);
    zone.time(at)
}
