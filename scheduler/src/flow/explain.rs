//! Gathers what an explanation needs and lets `domain` explain. It only reads, so it works on every scheduler, whichever
//! of them holds the streams of the runners.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::data::view;
use crate::{
    domain::{
        definition::{OnFailure, TaskConfig},
        explain::{
            self, Before, Condition, Earlier, Explanation, Facts, KeyFacts, Owed, Parent, Queue, RunnerFacts,
            SchedulerFacts, ShardsOf, Waits,
        },
        gate::Gate,
        id::short,
        job::JobState,
        placement::{Class, Traits, rank},
        reference::{Name, Scope},
        runner::Signs,
        task::{Kind, TaskState},
        time::Timestamp,
        timing::Timing,
        when::When,
    },
    store::{
        self, Store,
        read::{self, Definition, Job, Task},
    },
};

/// How many runners are looked at; of more, those with the lowest ids.
const RUNNERS_MAX: usize = 10_000;
/// How many runners one question asks for.
const PAGE: u64 = 1_000;
/// How many schedulers are looked at, the newest ones.
const SCHEDULERS_MAX: u64 = 1_000;
/// How many values that a condition reads are shown.
const VALUES_MAX: usize = 8;
/// How many characters of such a value are shown.
const VALUE_CHARS_MAX: usize = 60;
/// How many tasks that hold a key are named.
const HOLDERS_MAX: u32 = 10;
/// How many tasks of a job an explanation leads to.
const LEADS_MAX: u64 = 3;
/// States in which a task is on its way: neither waiting for its gate nor ended.
const ON_THE_WAY: [TaskState; 5] =
    [TaskState::Queued, TaskState::Dispatched, TaskState::Running, TaskState::Callback, TaskState::Terminating];

/// Explains a task, a group or a shard of a job.
pub async fn explain_task(
    store: &Store,
    timing: Timing,
    job: &Job,
    definition: &Definition,
    task: &Task,
) -> Result<Explanation, store::Error> {
    let config = &definition.tasks[task.node as usize];
    let child_id = task.child.as_ref().map(|child| short(child.id)).unwrap_or_default();
    let short = short(job.id);
    let nodes: HashMap<&str, u32> =
        definition.tasks.iter().zip(0..).map(|(task, node)| (task.name.as_str(), node)).collect();
    let now = store.now().await?;
    let queue = match task.state {
        TaskState::Queued => match store.place_in_queue(task.id, now).await? {
            Some(read::Place { class, ahead, more_ahead }) => {
                let holders = key(store, task, &class, now).await?;
                Some(Queue { class, ahead, more_ahead, holders })
            }
            None => None,
        },
        _ => None,
    };
    let runners = match task.state {
        TaskState::Queued => every_runner(store).await?,
        TaskState::Dispatched | TaskState::Terminating => runner_of(store, task).await?,
        _ => Vec::new(),
    };
    let earlier: Vec<Earlier> = match task.attempt {
        0 | 1 => Vec::new(),
        _ => store
            .attempts(task.id)
            .await?
            .into_iter()
            .map(|attempt| Earlier { number: attempt.number, runner: attempt.runner_id, reason: attempt.reason })
            .collect(),
    };
    let mut facts = Facts {
        now: store.now().await?,
        timing,
        job: explain::JobOf { id: &short, name: &job.name, state: job.state, stopping: job.stopping },
        task: explain::Subject {
            kind: task.kind,
            shard_index: task.shard_index,
            state: task.state,
            reason: &task.reason,
            skip_cause: task.skip_cause,
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            earlier: &earlier,
            not_before: task.not_before,
            runner: task.runner_id.as_deref(),
            since: since(task),
            started_at: task.started_at,
        },
        config,
        node: task.node,
        parents: parents(store, job, definition, config, &nodes).await?,
        owed: if task.state == TaskState::Callback { owed(store, task).await? } else { Vec::new() },
        condition: None,
        child: task.child.as_ref().map(|child| explain::Child {
            id: &child_id,
            name: &child.name,
            state: child.state,
            tasks_ended: child.tasks_ended,
            tasks_total: child.tasks_total,
        }),
        shards: shards(store, job, config, task).await?,
        queue,
        runners,
    };
    let decided_by_condition = match task.state {
        TaskState::Created | TaskState::Skipped => facts.gate() == Gate::Open,
        TaskState::Failed => task.attempt == 0,
        _ => false,
    };
    if decided_by_condition && !config.when.is_empty() && config.enabled != Some(false) {
        facts.condition = Some(condition(store, job, config, &nodes).await?);
    }
    Ok(explain::explain(&facts))
}

/// Who holds the key that a task needs, and who waits for it before.
async fn key(store: &Store, task: &Task, class: &Class, now: Timestamp) -> Result<KeyFacts, store::Error> {
    let Some(limit) = &class.limit else { return Ok(KeyFacts::default()) };
    let address = |(job, name): (uuid::Uuid, String)| format!("{}/{name}", short(job));
    let (holders, held_by) = store.key_holders(&limit.key, HOLDERS_MAX).await?;
    let own = rank(task.priority, task.queued_at.unwrap_or_default());
    let first = store.first_for_key(&limit.key, task.id, now).await?.filter(|(rank, ..)| *rank < own);
    Ok(KeyFacts {
        holders,
        held_by: held_by.into_iter().map(address).collect(),
        first: first.map(|(_, at_once, job, name)| (address((job, name)), at_once)),
    })
}

/// Explains a job.
pub async fn explain_job(store: &Store, job: &Job, definition: &Definition) -> Result<Explanation, store::Error> {
    let ended_badly = [TaskState::Failed, TaskState::Terminated];
    let ahead = store.nodes_in(job.id, &ON_THE_WAY, LEADS_MAX).await?;
    let failed = store.nodes_in(job.id, &ended_badly, LEADS_MAX).await?;
    let mut live = Vec::new();
    let waits = job.waiting && job.state == JobState::Created;
    if waits {
        let found = store.with_a_place(job.config_id, LEADS_MAX).await?;
        live = found.into_iter().map(|(id, outlived)| Before { id: short(id), outlived }).collect();
    }
    let waits = match (waits, job.held) {
        (false, _) => None,
        (true, false) => Some(Waits::Turn { live }),
        (true, true) => {
            let (places, before) = store.places(job.config_id, job.id).await?;
            Some(Waits::Place { places, before, live })
        }
    };
    let named = |nodes: Vec<u32>| nodes.iter().map(|node| definition.tasks[*node as usize].name.as_str()).collect();
    Ok(explain::explain_job(&explain::JobFacts {
        id: &short(job.id),
        name: &job.name,
        state: job.state,
        reason: &job.reason,
        waits,
        stopping: job.stopping,
        since: match job.state {
            JobState::Created => Some(job.created_at),
            JobState::Running => job.started_at,
            JobState::Terminating => None,
            _ => job.ended_at,
        },
        deadline: job.deadline_at,
        tasks_total: job.tasks_total,
        states: store.task_states(job.id).await?,
        tasks_failed: job.tasks_failed,
        ahead: named(ahead),
        failed: named(failed),
        now: store.now().await?,
    }))
}

/// What holds a task in CALLBACK.
async fn owed(store: &Store, task: &Task) -> Result<Vec<Owed>, store::Error> {
    let holding = store.callbacks_holding(task.id).await?;
    let owed = |callback: read::Callback| Owed {
        id: short(callback.id),
        what: callback.action.words(),
        tries: callback.tries,
        next_try_at: callback.next_try_at,
        last_error: callback.last_error,
    };
    Ok(holding.into_iter().map(owed).collect())
}

fn since(task: &Task) -> Option<Timestamp> {
    match task.state {
        TaskState::Created => Some(task.created_at),
        TaskState::Queued => task.queued_at,
        TaskState::Dispatched => task.dispatched_at,
        TaskState::Running | TaskState::Callback => task.started_at,
        // Since when it is being ended is not kept.
        TaskState::Terminating => None,
        TaskState::Finished | TaskState::Failed | TaskState::Skipped | TaskState::Terminated => task.ended_at,
    }
}

async fn parents<'a>(
    store: &Store,
    job: &Job,
    definition: &'a Definition,
    config: &TaskConfig,
    nodes: &HashMap<&str, u32>,
) -> Result<Vec<Parent<'a>>, store::Error> {
    // A parent that is named twice is one parent.
    let mut seen = BTreeSet::new();
    let named = config.needs.iter().filter_map(|name| nodes.get(name.as_str()).copied());
    let named: Vec<u32> = named.filter(|node| seen.insert(*node)).collect();
    let standings = store.standings(job.id, &named).await?;
    let parent = |node: u32| {
        let (config, standing) = (&definition.tasks[node as usize], standings.get(&node));
        Parent {
            name: &config.name,
            // One that is not written yet has not ended.
            state: standing.map_or(TaskState::Created, |(state, _)| *state),
            skip_cause: standing.and_then(|(_, cause)| *cause),
            on_failure: config.on_failure.unwrap_or(OnFailure::Fail),
        }
    };
    Ok(named.into_iter().map(parent).collect())
}

/// What a task's condition comes to, and what it reads. It is decided as the engine decides it, from the same values.
async fn condition(
    store: &Store,
    job: &Job,
    config: &TaskConfig,
    nodes: &HashMap<&str, u32>,
) -> Result<Condition, store::Error> {
    let when = match When::parse(&config.when) {
        Ok(when) => when,
        Err(fault) => return Ok(Condition { outcome: Err(format!("when: {}", fault.message)), values: Vec::new() }),
    };
    let names: BTreeSet<Name> = when.references().into_iter().map(|reference| reference.name).collect();
    let of_node: BTreeMap<u32, &str> =
        names.iter().filter_map(Name::task).filter_map(|name| Some((*nodes.get(name)?, name))).collect();
    let asked: Vec<u32> = of_node.keys().copied().collect();
    let outputs = store.outputs(job.id, &asked).await?;
    let tasks = outputs.iter().map(|(node, state, output)| (of_node[node].to_owned(), view(*state, output)));
    let scope = Scope { params: job.params.clone(), tasks: tasks.collect(), ..Scope::default() };
    let values = names.iter().take(VALUES_MAX).filter_map(|name| shown(name, &scope)).collect();
    Ok(Condition { outcome: when.holds(&scope).map_err(|fault| format!("when: {fault}")), values })
}

/// A name with its value.
fn shown(name: &Name, scope: &Scope) -> Option<String> {
    let (name, value) = match name {
        Name::Param(param) => (format!("params.{param}"), format!("{:?}", scope.params.get(param)?)),
        Name::State(task) => (format!("tasks['{task}'].state"), scope.tasks.get(task)?.state.clone()),
        Name::Output(task) => (format!("tasks['{task}'].output"), scope.tasks.get(task)?.output.to_string()),
        _ => return None,
    };
    let value = match value.char_indices().nth(VALUE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value,
    };
    Some(format!("{name} = {value}"))
}

/// The shards of a group, or those of a shard's group.
async fn shards(store: &Store, job: &Job, config: &TaskConfig, task: &Task) -> Result<Option<ShardsOf>, store::Error> {
    let Some(shards) = &config.shards else { return Ok(None) };
    let mut of = ShardsOf {
        max_parallel: shards.max_parallel,
        min_success_percent: shards.min_success_percent,
        ..ShardsOf::default()
    };
    let group = match (task.kind, task.group_id, task.shard_index) {
        (Kind::Shard, Some(group), Some(index)) => {
            of.before = store.shards_waiting_before(group, index).await?;
            store.task(job, task.node, None).await?
        }
        _ => None,
    };
    let group = group.as_ref().unwrap_or(task);
    for (state, count) in &group.shard_states {
        let place = match state {
            TaskState::Created => &mut of.waiting,
            state if state.is_terminal() => &mut of.ended,
            _ => &mut of.live,
        };
        *place += count;
    }
    of.finished = group.shard_states.get(&TaskState::Finished).copied().unwrap_or_default();
    of.count = group.shard_count.unwrap_or_default();
    Ok(Some(of))
}

async fn runner_of(store: &Store, task: &Task) -> Result<Vec<RunnerFacts>, store::Error> {
    let Some(id) = &task.runner_id else { return Ok(Vec::new()) };
    let runner = store.runner(id).await?;
    Ok(runner.into_iter().map(|runner| runner_facts(runner, &HashMap::new())).collect())
}

async fn every_runner(store: &Store) -> Result<Vec<RunnerFacts>, store::Error> {
    let schedulers = store.schedulers(None, SCHEDULERS_MAX).await?.rows;
    let schedulers: HashMap<_, _> = schedulers
        .into_iter()
        .map(|scheduler| (scheduler.id, SchedulerFacts { id: scheduler.id, state: scheduler.state }))
        .collect();
    let mut runners: Vec<RunnerFacts> = Vec::new();
    loop {
        let after = runners.last().map(|runner| runner.traits.id.clone());
        let page = store.runners(&BTreeMap::new(), after.as_deref(), PAGE).await?;
        runners.extend(page.rows.into_iter().map(|runner| runner_facts(runner, &schedulers)));
        if !page.more || runners.len() >= RUNNERS_MAX {
            return Ok(runners);
        }
    }
}

fn runner_facts(runner: read::Runner, schedulers: &HashMap<uuid::Uuid, SchedulerFacts>) -> RunnerFacts {
    RunnerFacts {
        signs: Signs {
            has_session: runner.has_session,
            draining: runner.drained || runner.draining,
            last_seen_at: runner.last_seen_at,
            hold_until: runner.hold_until,
        },
        scheduler: runner.scheduler_id.and_then(|id| schedulers.get(&id).copied()),
        traits: Traits {
            id: runner.id,
            labels: runner.labels,
            capabilities: runner.capabilities,
            version: runner.version,
        },
        slots: runner.slots,
        slots_busy: runner.slots_busy,
        drained: runner.drained,
        drain_reason: runner.drain_reason,
    }
}
