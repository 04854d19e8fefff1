//! The plan of a job: a version of a definition with every default filled in and its graph, kept in memory because it
//! never changes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use crate::{
    domain::{
        callback::Event,
        definition::{JobConfig, OnFailure, SubJob, Target, TaskConfig, TriggerRule},
        graph::Graph,
        placement::Class,
        policy::{self, Policy},
        schedule::Zone,
        template,
    },
    store::{self, Tx, job::JobRow},
};

/// How many plans are kept; the least recently used goes first.
const PLANS_MAX: usize = 256;

/// How many tasks they have together, but for the newest plan: four of the largest jobs, which take 1.5 kB a task.
const PLANNED_TASKS_MAX: usize = 400_000;

/// How many jobs that are laid aside are remembered, so that they take no place in what is looked at first.
const PARKED_MAX: usize = 1_000;

/// A version of a definition, ready to be run.
#[derive(Debug)]
pub(super) struct Plan {
    /// The definition as it was applied.
    pub config: JobConfig,
    /// Its tasks with every default filled in, by node.
    pub tasks: Vec<TaskConfig>,
    /// The ids of its task configs, by node.
    pub task_config_ids: Vec<Uuid>,
    /// Its graph.
    pub graph: Graph,
    /// Whether a task goes from one runner to another when it fails.
    pub transfers: bool,
    /// Something is told to others about its jobs or tasks.
    pub tells: bool,
    /// The node of each name.
    nodes: HashMap<String, u32>,
    /// What a runner must have, by node, and its text.
    classes: Vec<(Class, String)>,
    /// The nodes that the templates of a node name, by node; `None` for a node without templates.
    named: Vec<Option<Vec<u32>>>,
    /// Why the definition cannot be read by this version: what is here is its shape alone, names and edges.
    pub unreadable: Option<String>,
}

impl Plan {
    fn of(row: store::config::VersionRow) -> Result<Self, store::Error> {
        let tasks = row.definition.resolved();
        let graph = Graph::from_edges(tasks.len(), row.edges).map_err(|_| store::Error::Unreadable {
            table: "task_dependency",
            row: row.definition.name.clone(),
            problem: "its edges form a cycle".to_owned(),
        })?;
        let nodes: HashMap<String, u32> = tasks.iter().zip(0..).map(|(task, node)| (task.name.clone(), node)).collect();
        let named = tasks.iter().map(|task| named(task, &nodes)).collect();
        let classes = tasks
            .iter()
            .map(|task| {
                let (capability, namespace) = (task.target.capability(), &row.definition.namespace);
                let class = task.placement.class(capability, &task.match_labels, namespace, task.concurrency.as_ref());
                let text = class.to_string();
                (class, text)
            })
            .collect();
        let transfers = tasks.iter().any(|task| policy::of(task).on_failure.transfers());
        let tells = !row.definition.callbacks.is_empty() || tasks.iter().any(|task| !task.callbacks.is_empty());
        Ok(Self {
            config: row.definition,
            tells,
            transfers,
            tasks,
            task_config_ids: row.task_config_ids,
            graph,
            nodes,
            classes,
            named,
            unreadable: None,
        })
    }

    /// What is left of a version whose definition cannot be read: enough to end its jobs by, and nothing else.
    fn shape(row: store::config::ShapeRow, tasks_total: u32, problem: String) -> Self {
        let mut names = row.names.into_iter();
        let tasks: Vec<TaskConfig> = (0..tasks_total)
            .map(|node| TaskConfig { name: names.next().unwrap_or(format!("task-{node}")), ..TaskConfig::default() })
            .collect();
        let edges = row.edges.into_iter().filter(|(parent, child)| (*parent).max(*child) < tasks_total).collect();
        let graph = Graph::from_edges(tasks.len(), edges)
            .or_else(|_| Graph::from_edges(tasks.len(), Vec::new()))
            .expect("a graph without edges has no cycle");
        Self {
            config: JobConfig::default(),
            tells: false,
            transfers: false,
            nodes: tasks.iter().zip(0..).map(|(task, node)| (task.name.clone(), node)).collect(),
            task_config_ids: row.task_config_ids,
            graph,
            classes: vec![Default::default(); tasks.len()],
            named: vec![None; tasks.len()],
            tasks,
            unreadable: Some(problem),
        }
    }

    /// The zone of a schedule; UTC for jobs of none.
    pub(super) fn zone(&self, schedule: Option<&str>) -> Zone {
        let found = schedule.and_then(|key| self.config.keyed_schedules().find(|(known, _)| known == key));
        found.and_then(|(_, schedule)| Zone::parse(&schedule.spec.time_zone).ok()).unwrap_or_else(Zone::utc)
    }

    /// The task of a node.
    pub(super) fn task(&self, node: u32) -> &TaskConfig {
        &self.tasks[node as usize]
    }

    /// The node of a task's name.
    pub(super) fn node(&self, name: &str) -> Option<u32> {
        self.nodes.get(name).copied()
    }

    /// The trigger rule of a node.
    pub(super) fn rule(&self, node: u32) -> TriggerRule {
        self.task(node).trigger_rule.unwrap_or(TriggerRule::AllSuccess)
    }

    /// What a failure of a node does.
    pub(super) fn on_failure(&self, node: u32) -> OnFailure {
        self.task(node).on_failure.unwrap_or(OnFailure::Fail)
    }

    /// What follows a failed attempt at a node.
    pub(super) fn policy(&self, node: u32) -> Policy<'_> {
        policy::of(self.task(node))
    }

    /// Whether a task of a node ends by itself when its runner is cut off, so that none is left when it counts as lost.
    /// Of a definition that cannot be read nobody knows.
    pub(super) fn stops_when_cut_off(&self, node: u32) -> bool {
        self.unreadable.is_none() && policy::stops_when_cut_off(&self.config, self.task(node))
    }

    /// Whether an end of a node's work is held until a callback of it is delivered.
    pub(super) fn holds(&self, node: u32, event: Event) -> bool {
        let callbacks = &self.task(node).callbacks;
        callbacks.iter().any(|callback| callback.blocking && callback.events.contains(&event))
    }

    /// What a runner must have to take a task of a node, if only this one may. What stands for a job needs none.
    pub(super) fn class(&self, node: u32, pin: Option<&str>) -> String {
        match pin {
            Some(runner) if self.sub_job(node).is_none() => self.pinned_class(node, runner).to_string(),
            _ => self.classes[node as usize].1.clone(),
        }
    }

    /// What the one runner must have that may take a task pinned to it.
    pub(super) fn pinned_class(&self, node: u32, runner: &str) -> Class {
        Class { pin: Some(runner.to_owned()), ..self.classes[node as usize].0.clone() }
    }

    /// The job that a node stands for, if it does.
    pub(super) fn sub_job(&self, node: u32) -> Option<&SubJob> {
        match &self.task(node).target {
            Target::Job(job) => Some(job),
            _ => None,
        }
    }

    /// The nodes that what a task runs names in its templates; `None` when it has no templates.
    pub(super) fn named(&self, node: u32) -> Option<&[u32]> {
        self.named[node as usize].as_deref()
    }

    /// Whether all that an open gate does to a node's task is to queue it: nothing is to be worked out, made or watched.
    pub(super) fn only_queues(&self, node: u32) -> bool {
        let task = self.task(node);
        let (condition, watched) = (!task.when.is_empty(), task.queue_timeout.is_some());
        task.enabled != Some(false) && !condition && !watched && !self.is_group(node) && self.sub_job(node).is_none()
    }

    /// Whether a node is a group of shards.
    pub(super) fn is_group(&self, node: u32) -> bool {
        self.task(node).shards.is_some()
    }
}

/// What was found, or why its definition cannot be read: that is the trouble of whoever needs it, and must not hold up the
/// others.
pub(super) fn readable<T>(found: Result<T, store::Error>) -> Result<Result<T, String>, store::Error> {
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(error @ store::Error::Unreadable { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// The nodes that the templates name of what a task runs and is routed by.
fn named(task: &TaskConfig, nodes: &HashMap<String, u32>) -> Option<Vec<u32>> {
    let texts: Vec<&String> = match &task.target {
        Target::Command(argv) => argv.iter().collect(),
        Target::Shell(_) => Vec::new(),
        Target::Job(job) => job.params.values().collect(),
        Target::Http(http) => http.texts().map(|(_, text)| text).collect(),
    };
    let texts = texts.into_iter().chain(task.env.values()).chain([&task.placement.routing_key]);
    let mut templates = texts.filter(|text| template::is_template(text)).peekable();
    templates.peek()?;
    let names = templates.flat_map(|text| template::tasks_named(text));
    let mut named: Vec<u32> = names.filter_map(|name| nodes.get(&name).copied()).collect();
    named.sort_unstable();
    named.dedup();
    Some(named)
}

/// The plans in memory.
#[derive(Debug, Default)]
pub(super) struct Plans {
    kept: HashMap<(Uuid, u32), (Arc<Plan>, u64)>,
    /// How many tasks they have together.
    tasks: usize,
    uses: u64,
    /// Jobs laid aside because their definition cannot be read.
    parked: BTreeSet<Uuid>,
}

impl Plans {
    /// The plan of a job that is locked. One whose definition cannot be read gets the shape of it, and is remembered.
    pub(super) async fn of_job(&mut self, tx: &Tx, job: &JobRow) -> Result<Arc<Plan>, store::Error> {
        match self.get(tx, job.job_config_id, job.version).await {
            Err(error @ store::Error::Unreadable { .. }) => {
                if !job.state.is_terminal() {
                    self.park(job.id);
                }
                let row = store::config::shape(tx, job.job_config_id, job.version).await?;
                Ok(Arc::new(Plan::shape(row, job.tasks_total, error.to_string())))
            }
            other => other,
        }
    }

    /// Remembers a job whose definition cannot be read.
    pub(super) fn park(&mut self, job: Uuid) {
        if self.parked.len() < PARKED_MAX {
            self.parked.insert(job);
        }
    }

    /// The jobs that are laid aside.
    pub(super) fn parked(&self) -> Vec<Uuid> {
        self.parked.iter().copied().collect()
    }

    /// Hands the jobs over that are laid aside, to be looked at again: those that still cannot be read come back.
    pub(super) fn take_parked(&mut self) -> BTreeSet<Uuid> {
        std::mem::take(&mut self.parked)
    }

    /// The plan of a version, from memory or from the database.
    pub(super) async fn get(&mut self, tx: &Tx, config: Uuid, version: u32) -> Result<Arc<Plan>, store::Error> {
        let mut found = self.load(tx, [(config, version)]).await?;
        found.remove(&(config, version)).expect("what is asked for is answered")
    }

    /// The plans of versions, from memory or from the database: a burst of fires reads all of them together. One that
    /// cannot be read tells so and holds up no other.
    pub(super) async fn load(
        &mut self,
        tx: &Tx,
        wanted: impl IntoIterator<Item = (Uuid, u32)>,
    ) -> Result<HashMap<(Uuid, u32), Result<Arc<Plan>, store::Error>>, store::Error> {
        self.uses += 1;
        let uses = self.uses;
        let mut found = HashMap::new();
        let mut unknown: BTreeSet<(Uuid, u32)> = BTreeSet::new();
        for key in wanted {
            match self.kept.get_mut(&key) {
                Some((plan, used)) => {
                    *used = uses;
                    found.insert(key, Ok(plan.clone()));
                }
                None => drop(unknown.insert(key)),
            }
        }
        let unknown: Vec<(Uuid, u32)> = unknown.into_iter().collect();
        for (key, version) in store::config::versions(tx, &unknown).await? {
            let plan = version.and_then(Plan::of).map(Arc::new);
            if let Ok(plan) = &plan {
                self.keep(key, plan.clone());
            }
            found.insert(key, plan);
        }
        for (config, version) in unknown {
            found.entry((config, version)).or_insert_with(|| {
                Err(store::Error::Unreadable {
                    table: "job_config_version",
                    row: format!("{config} v{version}"),
                    problem: "it is missing".to_owned(),
                })
            });
        }
        Ok(found)
    }

    fn keep(&mut self, key: (Uuid, u32), plan: Arc<Plan>) {
        self.tasks += plan.tasks.len();
        while self.kept.len() >= PLANS_MAX || (self.tasks > PLANNED_TASKS_MAX && !self.kept.is_empty()) {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            if let Some((plan, _)) = oldest.and_then(|key| self.kept.remove(&key)) {
                self.tasks -= plan.tasks.len();
            }
        }
        self.kept.insert(key, (plan, self.uses));
    }
}
