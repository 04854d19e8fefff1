//! What was asked for through the API: definitions are stored, jobs are born, terminated, and runners drained.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use uuid::Uuid;

use super::{
    audit::Before,
    backfill,
    batch::Context,
    birth::{self, Cause, Kin},
    calendars, callbacker, completions,
    data::Data,
    ending::{terminate_job, terminate_tasks},
    gates, keeper,
    order::{Order, OrderAnswer},
    plan::Plan,
    repair,
    request::{Applied, Apply, Caller, Change, Delete, Error, Run, Terminate},
    schedules, switch, uses,
    work::Work,
};
use crate::{
    domain::{
        definition::{JobConfig, diff},
        graph::Graph,
        job::JobState,
        task::Kind,
        time::{Timestamp, micros},
    },
    store::{
        self, Tx,
        config::ConfigRow,
        request::{Answer, Asked, Claim},
    },
};

/// The job configs that a turn has locked, by namespace and name.
pub(super) type Configs = BTreeMap<(String, String), ConfigRow>;

/// Claims the request ids of orders, first of all: a twin that is under way elsewhere is waited for. None for an order whose
/// twin comes earlier in this turn: it is claimed once that one is carried out.
pub(super) async fn claim(tx: &Tx, orders: &[Order]) -> Result<Vec<Option<Claim>>, store::Error> {
    let mut claims = vec![Some(Claim::New); orders.len()];
    let mut first = BTreeMap::new();
    for (at, order) in orders.iter().enumerate() {
        let Some((method, caller)) = order.request() else { continue };
        match first.entry((&caller.principal, method, &caller.request_id)) {
            Entry::Vacant(place) => drop(place.insert(at)),
            Entry::Occupied(_) => claims[at] = None,
        }
    }
    let asked: Vec<(usize, Asked<'_>)> = first.into_values().filter_map(|at| Some((at, asked(&orders[at])?))).collect();
    let stand = store::request::claim(tx, &asked.iter().map(|(_, asked)| *asked).collect::<Vec<_>>()).await?;
    for ((at, _), claim) in asked.into_iter().zip(stand) {
        claims[at] = Some(claim);
    }
    Ok(claims)
}

fn asked(order: &Order) -> Option<Asked<'_>> {
    let (method, Caller { principal, request_id, body_hash }) = order.request()?;
    Some(Asked { principal, method, request_id, body_hash })
}

/// Locks the job configs that orders are about, in one order everywhere. Those that are to be stored for the first time
/// are made here, without a version: to wait for somebody who makes the same one comes before every other lock.
pub(super) async fn lock_configs(tx: &Tx, orders: &[Order], claims: &[Option<Claim>]) -> Result<Configs, store::Error> {
    let (mut names, mut applied) = (BTreeSet::new(), BTreeSet::new());
    for (order, claim) in orders.iter().zip(claims) {
        // A twin has to be carried out itself when the one before it fails.
        if matches!(claim, Some(Claim::New) | None) {
            names.extend(order.configs());
            if matches!(order, Order::Apply(_)) {
                applied.extend(order.configs());
            }
        }
    }
    if !applied.is_empty() {
        let now = store::scheduler::now(tx).await?;
        store::config::ensure(tx, &applied, now).await?;
    }
    let names: Vec<(String, String)> = names.into_iter().collect();
    store::config::lock(tx, &names).await
}

/// Carries orders out.
pub(super) async fn pass(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    orders: &[Order],
    claims: Vec<Option<Claim>>,
    configs: &mut Configs,
) -> Result<Vec<OrderAnswer>, store::Error> {
    let mut answers: Vec<OrderAnswer> = Vec::with_capacity(orders.len());
    let (mut events, mut kept) = (Vec::new(), Vec::new());
    for (order, claim) in orders.iter().zip(claims) {
        let claim = match (claim, asked(order)) {
            (Some(claim), _) => claim,
            (None, None) => Claim::New,
            (None, Some(asked)) => {
                // What its twin came to is read from there.
                store::request::answer(tx, &std::mem::take(&mut kept)).await?;
                store::request::claim(tx, &[asked]).await?.pop().expect("one claim for one request")
            }
        };
        let answer = match claim {
            Claim::New => {
                let before = Before::of(order, work, configs);
                let answer = carry_out(tx, context, work, data, order, configs).await?;
                events.extend(before.events(order, &answer, work));
                kept.extend(keep(tx, order, &answer).await?);
                answer
            }
            Claim::Repeated(kept) => recall(order, &kept),
            Claim::OtherBody => order.failed(Error::Conflict {
                reason: "REQUEST_ID_REUSED",
                message: "this request_id was used for another request; use a new one".to_owned(),
            }),
        };
        answers.push(answer);
    }
    store::request::answer(tx, &kept).await?;
    store::audit::insert(tx, &events).await?;
    let unused: Vec<Uuid> = configs.values().filter(|config| config.version == 0).map(|config| config.id).collect();
    store::config::take_back(tx, &unused).await?;
    Ok(answers)
}

/// What of an order is to be kept for its repetitions. A failure is not: it may be repeated and succeed.
async fn keep<'a>(tx: &Tx, order: &'a Order, answer: &OrderAnswer) -> Result<Option<Answer<'a>>, store::Error> {
    let Some((method, caller)) = order.request() else { return Ok(None) };
    let kept = match answer {
        OrderAnswer::Applied(Ok(applied)) => serde_json::to_string(applied),
        OrderAnswer::Calendars(Ok(put)) => serde_json::to_string(put),
        OrderAnswer::Job(Ok(job)) => serde_json::to_string(job),
        OrderAnswer::Count(Ok(count)) => serde_json::to_string(count),
        OrderAnswer::Repaired(Ok(repaired)) => serde_json::to_string(repaired),
        _ => {
            store::request::release(tx, &caller.principal, method, &caller.request_id).await?;
            return Ok(None);
        }
    };
    let response = kept.expect("an answer has a JSON form");
    Ok(Some(Answer { principal: &caller.principal, method, request_id: &caller.request_id, response }))
}

/// The answer that was kept.
fn recall(order: &Order, kept: &str) -> OrderAnswer {
    let unreadable = |error: serde_json::Error| Error::Internal(format!("the kept answer cannot be read: {error}"));
    match order {
        Order::Apply(_) => OrderAnswer::Applied(serde_json::from_str(kept).map_err(unreadable)),
        Order::PutCalendars(_) => OrderAnswer::Calendars(serde_json::from_str(kept).map_err(unreadable)),
        Order::Run(_) | Order::Backfill(_) => OrderAnswer::Job(serde_json::from_str(kept).map_err(unreadable)),
        Order::Rerun(_) | Order::Mark(_) => OrderAnswer::Repaired(serde_json::from_str(kept).map_err(unreadable)),
        _ => OrderAnswer::Count(serde_json::from_str(kept).map_err(unreadable)),
    }
}

async fn carry_out(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    order: &Order,
    configs: &mut Configs,
) -> Result<OrderAnswer, store::Error> {
    Ok(match order {
        Order::Apply(order) => OrderAnswer::Applied(apply(tx, work.now, order, configs).await?),
        Order::Run(order) => OrderAnswer::Job(run(tx, context, work, order, configs).await?),
        Order::Terminate(order) => OrderAnswer::Count(terminate(tx, work, order).await?),
        Order::Keep(keep) => OrderAnswer::Kept(Ok(keeper::pass(tx, work.now, keep).await?)),
        Order::Complete(order) => OrderAnswer::Done(completions::complete(tx, work, order).await?),
        // A repair counts the whole graph anew: what ended in this turn has to have had its consequences.
        Order::Rerun(order) => {
            gates::settle(tx, context, work, data, Vec::new()).await?;
            OrderAnswer::Repaired(repair::rerun(tx, work, order).await?)
        }
        Order::Mark(order) => {
            gates::settle(tx, context, work, data, Vec::new()).await?;
            OrderAnswer::Repaired(repair::mark(tx, work, order).await?)
        }
        Order::Delete(order) => OrderAnswer::Count(delete(tx, work.now, order, configs).await?),
        Order::Switch(order) => OrderAnswer::Count(switch::pass(tx, work.now, order, configs).await?),
        Order::Backfill(order) => OrderAnswer::Job(backfill::begin(tx, work.now, order, configs).await?),
        Order::CancelBackfill(order) => OrderAnswer::Count(backfill::cancel(tx, work.now, order).await?),
        Order::PutCalendars(order) => OrderAnswer::Calendars(Ok(calendars::put(tx, work.now, order).await?)),
        Order::DeleteCalendar(order) => OrderAnswer::Count(calendars::delete(tx, order).await?),
        Order::DrainRunner { runner, drained, reason } => {
            let found = store::runner::set_drained(tx, runner, *drained, reason).await?;
            OrderAnswer::Done(found.then_some(()).ok_or_else(|| missing("runner", runner)))
        }
        Order::Resend(id) => OrderAnswer::Done(callbacker::resend(tx, work, *id).await?),
        Order::DrainScheduler { scheduler, drained } => {
            let found = store::scheduler::set_drained(tx, *scheduler, *drained).await?;
            OrderAnswer::Done(found.then_some(()).ok_or_else(|| missing("scheduler", &scheduler.to_string())))
        }
    })
}

fn missing(kind: &'static str, name: &str) -> Error {
    Error::NotFound { kind, name: name.to_owned() }
}

/// Stores definitions: a new version for each that changed.
async fn apply(
    tx: &Tx,
    now: Timestamp,
    order: &Apply,
    configs: &mut Configs,
) -> Result<Result<Vec<Applied>, Error>, store::Error> {
    let mut applied = Vec::with_capacity(order.configs.len());
    let (mut changes, mut wrong) = (Vec::with_capacity(order.configs.len()), uses::check(tx, order).await?);
    for (definition, _) in &order.configs {
        let config = configs.get(&(definition.namespace.clone(), definition.name.clone()));
        match schedules::prepare(tx, config, definition, now).await? {
            Ok(change) => changes.push(change),
            Err(fields) => wrong.extend(fields),
        }
    }
    if !wrong.is_empty() {
        return Ok(Err(Error::Invalid(wrong)));
    }
    for ((definition, source), schedules) in order.configs.iter().zip(changes) {
        let key = (definition.namespace.clone(), definition.name.clone());
        let Ok(graph) = Graph::of(&definition.resolved()) else {
            let message = "its tasks do not form a graph without cycles".to_owned();
            return Ok(Err(Error::Invalid(vec![(definition.name.clone(), message)])));
        };
        if !configs.contains_key(&key) {
            // It was deleted in this very turn, which has its name: nobody else can be making it.
            store::config::ensure(tx, &BTreeSet::from([key.clone()]), now).await?;
            configs.extend(store::config::lock(tx, std::slice::from_ref(&key)).await?);
        }
        let config = configs.get_mut(&key).expect("the config was locked or made");
        let mut change = if config.version == 0 { Change::Created } else { Change::Updated };
        let before = match store::config::definition(tx, config.id, config.version).await {
            // What cannot be read is replaced.
            Err(store::Error::Unreadable { .. }) => None,
            other => other?,
        };
        if before.as_ref().is_some_and(|before| diff(before, definition).is_empty()) {
            change = Change::Unchanged;
        } else {
            config.version += 1;
            let edges: Vec<(u32, u32)> = (0..u32::try_from(graph.len()).unwrap_or(u32::MAX))
                .flat_map(|parent| graph.children(parent).iter().map(move |child| (parent, *child)))
                .collect();
            store::config::insert_version(tx, config.id, config.version, definition, source, &edges, now).await?;
            // One that is new has named nothing.
            let nothing = (change == Change::Created).then(JobConfig::default);
            uses::write(tx, config.id, before.as_ref().or(nothing.as_ref()), definition).await?;
        }
        schedules::write(tx, config.id, schedules).await?;
        let jobs_on_earlier_versions = store::config::live_jobs_before(tx, config.id, config.version).await?;
        applied.push(Applied { id: config.id, version: config.version, change, jobs_on_earlier_versions });
    }
    Ok(Ok(applied))
}

/// A job is born.
async fn run(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    order: &Run,
    configs: &Configs,
) -> Result<Result<Uuid, Error>, store::Error> {
    let config = configs.get(&(order.namespace.clone(), order.name.clone()));
    let Some(config) = config.filter(|config| config.version > 0) else {
        return Ok(Err(missing("job config", &order.name)));
    };
    let plan = match context.plans.get(tx, config.id, config.version).await {
        Ok(plan) => plan,
        Err(error @ store::Error::Unreadable { .. }) => {
            let message = format!("{error}; apply it again, or use a scheduler of the version that stored it");
            return Ok(Err(Error::Conflict { reason: "DEFINITION_UNREADABLE", message }));
        }
        Err(error) => return Err(error),
    };
    if let Some(runner) = &order.runner
        && let Err(refusal) = may_run_on(tx, &plan, runner).await?
    {
        return Ok(Err(refusal));
    }
    let Run { namespace, name, params, .. } = order;
    let kin =
        Kin { config: config.id, version: config.version, namespace: namespace.clone(), name: name.clone(), plan };
    Ok(birth::bear(work, kin, params, Cause::Request { pin: order.runner.clone() }).map_err(|wrong| {
        let invalid = wrong.into_iter().map(|param| (format!("params[{}]", param.name), param.message));
        Error::Invalid(invalid.collect())
    }))
}

/// Whether every task of a plan that needs a runner may be pinned to one that is there: what can never start is refused at
/// once.
async fn may_run_on(tx: &Tx, plan: &Plan, runner: &str) -> Result<Result<(), Error>, store::Error> {
    let Some((traits, is_there)) = store::runner::one(tx, runner).await? else {
        return Ok(Err(missing("runner", runner)));
    };
    if !is_there {
        let message = format!("runner {runner} is offline; start it again, or run without naming a runner");
        return Ok(Err(Error::Conflict { reason: "RUNNER_OFFLINE", message }));
    }
    let wrong = (0..).zip(&plan.tasks).filter(|(node, _)| plan.sub_job(*node).is_none()).find_map(|(node, task)| {
        let mismatch = plan.pinned_class(node, runner).mismatch(&traits)?;
        Some(format!("runner {runner} may not take task {:?}: {}", task.name, mismatch.why))
    });
    Ok(match wrong {
        None => Ok(()),
        Some(message) => {
            let message = format!("{message}; name another runner, or run without naming one");
            Err(Error::Conflict { reason: "RUNNER_UNSUITABLE", message })
        }
    })
}

/// Ends a job or a task: what waits is TERMINATED at once, what runs is TERMINATING until its processes are gone.
/// Returns how many tasks it concerned; shards count, groups do not.
async fn terminate(tx: &Tx, work: &mut Work, order: &Terminate) -> Result<Result<u32, Error>, store::Error> {
    let Some(job) = work.job(order.job_id) else {
        return Ok(Err(missing("job", &order.job_id.to_string())));
    };
    if job.row.state.is_terminal() {
        let message = format!("the job has ended already: it is {}", job.row.state.word());
        return Ok(Err(Error::Conflict { reason: "JOB_ENDED", message }));
    }
    let reason = if order.reason.is_empty() {
        "terminated on request".to_owned()
    } else {
        format!("terminated: {}", order.reason)
    };
    let grace = order.grace.map(micros);
    let Some(name) = &order.task else {
        return Ok(Ok(terminate_job(tx, work, order.job_id, &reason, grace).await?));
    };
    if job.plan.unreadable.is_some() {
        let message = format!("{}: terminate it as a whole", job.row.reason);
        return Ok(Err(Error::Conflict { reason: "JOB_PARKED", message }));
    }
    let Some(node) = job.plan.node(name) else { return Ok(Err(missing("task", name))) };
    if job.row.state == JobState::Created {
        let message = "the job's tasks are still being written; try again in a moment".to_owned();
        return Ok(Err(Error::Conflict { reason: "JOB_NOT_STARTED", message }));
    }
    let tasks = match order.shard_index {
        Some(shard) => store::task::lock_shard(tx, order.job_id, node, shard).await?.into_iter().collect(),
        None => store::task::lock_nodes(tx, &[(order.job_id, node)]).await?,
    };
    let Some(task) = tasks.first().cloned() else {
        return Ok(Err(missing("shard", &format!("{name}#{}", order.shard_index.unwrap_or_default()))));
    };
    work.take_tasks(tasks);
    if work.task(task.id).is_some_and(|task| task.state.is_terminal()) {
        let message = format!("the task has ended already: it is {}", task.state.word());
        return Ok(Err(Error::Conflict { reason: "TASK_ENDED", message }));
    }
    let mut concerned = vec![task.id];
    if task.kind == Kind::Group {
        let shards = store::task::lock_live_shards(tx, task.id).await?;
        concerned.extend(shards.iter().map(|shard| shard.id));
        work.take_tasks(shards);
    }
    Ok(Ok(terminate_tasks(work, &concerned, &reason, grace)))
}

/// Takes a job config out of use. Returns how many of its jobs are live; they go on.
async fn delete(
    tx: &Tx,
    now: Timestamp,
    order: &Delete,
    configs: &mut Configs,
) -> Result<Result<u32, Error>, store::Error> {
    let name = (order.namespace.clone(), order.name.clone());
    if configs.get(&name).is_none_or(|config| config.version == 0) {
        return Ok(Err(missing("job config", &order.name)));
    }
    if let Some(refusal) = uses::in_the_way(tx, order).await? {
        return Ok(Err(refusal));
    }
    let config = configs.remove(&name).expect("it was just seen");
    store::config::delete(tx, config.id, now).await?;
    store::uses::put(tx, config.id, &order.namespace, &[]).await?;
    store::schedule::remove_of(tx, config.id).await?;
    Ok(Ok(store::config::live_jobs_before(tx, config.id, u32::MAX >> 1).await?))
}
