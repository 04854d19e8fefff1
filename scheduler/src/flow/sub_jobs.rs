//! Tasks that stand for a job: their children are made, and the ends of these are told to them.
//!
//! A child is born in the turn that lets its task run, CREATED, and becomes tasks in the next one. Its end is committed
//! first; then a turn that holds the locks of both reads it off the rows and ends the task. The same turn terminates the
//! child of a task that is to be ended. What calls for it is handed from turn to turn in memory, and found again in the
//! rows once a second, so that a crash in between costs a second and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{
    batch::Context,
    birth::{self, Cause, Kin},
    data::{self, Data},
    ending,
    plan::readable,
    work::Work,
};
use crate::{
    domain::{
        id::short,
        job::JobState,
        origin::{self, Logical},
        sub_job::{self, Meaning},
        task::{Ending, Event, TaskState},
    },
    store::{
        self, Tx,
        sub_job::{Child, Place},
        task::TaskRow,
    },
};

/// How many children one turn makes at most.
const CHILDREN_MAX: usize = 200;
/// How many tasks whose children ended one turn takes up unasked.
const UNSETTLED_MAX: u32 = 500;

/// What a turn leaves for the next, because it takes locks that this one did not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Handover {
    /// Jobs that were born and are to become tasks.
    pub newborn: Vec<Uuid>,
    /// Tasks whose child ended, and tasks to be ended with their child.
    pub places: Vec<Place>,
}

impl Handover {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.newborn.is_empty() && self.places.is_empty()
    }
}

/// What a turn takes up: tasks whose children are to be looked at, and tasks to be given one.
#[derive(Debug, Default)]
pub(super) struct Claims {
    places: Vec<Place>,
    due: Vec<Place>,
    /// There may be more of them.
    pub more: bool,
}

/// What was handed over, and when it is time to look, whatever else is due.
pub(super) async fn claim(tx: &Tx, handover: &Handover, look: bool) -> Result<Claims, store::Error> {
    let mut claims = Claims { places: handover.places.clone(), ..Claims::default() };
    if look {
        let now = store::scheduler::now(tx).await?;
        let unsettled = store::sub_job::unsettled(tx, UNSETTLED_MAX).await?;
        claims.due = store::sub_job::due(tx, now, u32::try_from(CHILDREN_MAX).unwrap_or(u32::MAX)).await?;
        claims.more = unsettled.len() == UNSETTLED_MAX as usize;
        claims.places.extend(unsettled);
        claims.places.sort_unstable();
        claims.places.dedup();
    }
    Ok(claims)
}

/// The jobs that this turn must lock for its claims: those of the tasks, and their children.
pub(super) async fn jobs_of(tx: &Tx, claims: &Claims) -> Result<BTreeSet<Uuid>, store::Error> {
    let tasks: Vec<Uuid> = claims.places.iter().map(|place| place.task).collect();
    let mut jobs: BTreeSet<Uuid> = claims.places.iter().chain(&claims.due).map(|place| place.job).collect();
    jobs.extend(store::sub_job::children(tx, &tasks).await?.into_iter().map(|(_, child)| child.id));
    Ok(jobs)
}

/// Tells tasks how their children ended, and ends the children of tasks that are to be ended.
pub(super) async fn pass(tx: &Tx, context: &mut Context, work: &mut Work, claims: &Claims) -> Result<(), store::Error> {
    if claims.places.is_empty() && claims.due.is_empty() {
        return Ok(());
    }
    let held = |places: &[Place]| -> Vec<Uuid> {
        places.iter().filter(|place| work.job(place.job).is_some()).map(|place| place.task).collect()
    };
    let (settled, due) = (held(&claims.places), held(&claims.due));
    let mut tasks: Vec<Uuid> = settled.iter().chain(&due).copied().collect();
    tasks.sort_unstable();
    tasks.dedup();
    work.take_tasks(store::task::lock(tx, &tasks).await?);
    // What waits for its child since an earlier turn is taken up again.
    for task in due {
        work.ask_for_child(task);
    }
    for (id, child) in store::sub_job::children(tx, &settled).await? {
        let Some(task) = work.task(id).cloned() else { continue };
        if !matches!(task.state, TaskState::Running | TaskState::Terminating) {
            continue;
        }
        if child.state.is_terminal() {
            tell(tx, context, work, &task, &child).await?;
        } else if task.state == TaskState::Terminating && work.job(child.id).is_some() {
            ending::terminate_job(tx, work, child.id, &task.reason, task.end_grace).await?;
        }
    }
    Ok(())
}

/// Ends a task as its child ended.
async fn tell(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    task: &TaskRow,
    child: &Child,
) -> Result<(), store::Error> {
    let reason = sub_job::because(&child.name, &short(child.id), child.state, &child.reason);
    let meaning = sub_job::meaning(child.state, child.timed_out);
    if task.state == TaskState::Terminating {
        ending::end(work, task.id, Ending::Gone, &reason, None);
        return Ok(());
    }
    match meaning {
        Meaning::Wait => {}
        Meaning::Success => {
            let output = output(tx, context, child).await?;
            let remark = output.as_ref().err().cloned().unwrap_or_default();
            ending::end(work, task.id, Ending::Success, &remark, None);
            work.edit(task.id).output = output.unwrap_or_default();
        }
        Meaning::Failure => ending::end(work, task.id, Ending::Failure, &reason, None),
        Meaning::FinalFailure => {
            work.happen(task.id, Event::AttemptFailed { again: false }, ending::cut(&reason));
        }
    }
    Ok(())
}

/// What a job leaves behind for the task that stands for it; `Err` is a remark.
async fn output(tx: &Tx, context: &mut Context, child: &Child) -> Result<Result<String, String>, store::Error> {
    let plan = match readable(context.plans.get(tx, child.config, child.version).await)? {
        Ok(plan) => plan,
        Err(reason) => return Ok(Err(format!("the output of its job was dropped: {reason}"))),
    };
    let nodes = u32::try_from(plan.graph.len()).unwrap_or(u32::MAX);
    let last: Vec<(Uuid, u32)> =
        (0..nodes).filter(|&node| plan.graph.children(node).is_empty()).map(|node| (child.id, node)).collect();
    let mut written: Vec<(u32, String)> = store::task::outputs(tx, &last)
        .await?
        .into_iter()
        .filter(|(_, _, state, _)| *state == TaskState::Finished)
        .map(|(_, node, _, output)| (node, output))
        .collect();
    written.sort_unstable_by_key(|(node, _)| *node);
    Ok(sub_job::output(written.iter().map(|(node, output)| (plan.task(*node).name.as_str(), output.as_str()))))
}

/// Makes the children of tasks that are to have one now. A task that can have none fails, saying why. Returns whether
/// some are left to the next turn.
pub(super) async fn make(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
) -> Result<bool, store::Error> {
    let mut kin: BTreeMap<(String, String), Result<Option<Kin>, String>> = BTreeMap::new();
    for id in work.take_childless() {
        let Some(task) = work.task(id).filter(|task| task.state == TaskState::Queued).cloned() else { continue };
        let Some(job) = work.job(task.job_id).filter(|job| job.row.state == JobState::Running) else { continue };
        if task.counters.not_before > work.now {
            continue;
        }
        if work.born_of_tasks() >= CHILDREN_MAX {
            return Ok(true);
        }
        let (namespace, plan) = (job.row.namespace.clone(), job.plan.clone());
        let Some(target) = plan.sub_job(task.node) else { continue };
        let key = (namespace, target.name.clone());
        if !kin.contains_key(&key) {
            let found = readable(Kin::newest(tx, context, &key.0, &key.1).await)?;
            kin.insert(key.clone(), found);
        }
        let born = match &kin[&key] {
            Ok(Some(kin)) => child(tx, work, data, &task, kin.clone()).await?,
            Err(reason) => Err(reason.clone()),
            Ok(None) => Err(format!("job config {:?} does not exist; apply it, and run this job again", key.1)),
        };
        match born {
            Ok(attempt) => {
                let row = work.edit(id);
                row.counters.attempt = attempt;
                row.counters.lease += 1;
                row.runner_id = None;
                work.happen(id, Event::ChildMade, "");
            }
            Err(reason) => {
                work.happen(id, Event::NotEvaluable, ending::cut(&reason));
            }
        }
    }
    Ok(false)
}

/// Makes the child of a task. Returns the attempt that it stands for; `Err` is why there can be none.
async fn child(
    tx: &Tx,
    work: &mut Work,
    data: &mut Data,
    task: &TaskRow,
    kin: Kin,
) -> Result<Result<u32, String>, store::Error> {
    let given = match data.sub_job_params(tx, work, task).await? {
        Ok(given) => given,
        Err(reason) => return Ok(Err(reason)),
    };
    let job = work.job(task.job_id).expect("a task in hand has its job in hand");
    let depth = match origin::deeper(job.row.depth) {
        Ok(depth) => depth,
        Err(reason) => return Ok(Err(reason)),
    };
    let (at, zone) = data::logical(&job.row, &job.plan);
    let timeout = job.plan.task(task.node).timeout;
    let attempt = task.counters.attempt.max(1);
    let cause = Cause::SubJob {
        parent: (task.job_id, task.id, attempt),
        depth,
        logical: Logical { at, zone: zone.name().to_owned() },
        deadline_at: timeout.map(|timeout| work.now + timeout),
    };
    let born = birth::bear(work, kin, &given, cause);
    Ok(born.map(|_| attempt).map_err(|wrong| birth::in_words("job.params", wrong)))
}
