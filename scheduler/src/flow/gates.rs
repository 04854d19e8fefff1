//! What an end sets free: the children of a task, the next shard of a group, the end of a job.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{
    batch::Context,
    data::Data,
    plan::Plan,
    shards::{self, Piece},
    sub_jobs,
    work::Work,
};
use crate::{
    domain::{
        definition::{OnFailure, Split},
        gate::{self, End, Gate, Outcome, SkipCause},
        job::JobState,
        placement::Traits,
        task::{Event, Kind, TaskState},
    },
    store::{self, Tx, task::TaskRow},
};

/// After so many waves of ends a job is read whole: a long chain of skips costs one question, not one a link.
const WAVES_APART: u32 = 3;

/// How many bytes the outputs of a group's shards may have together.
pub(super) const GROUP_OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Lets every end have its consequences, until nothing more ends. `opening` are tasks whose gates are open from the
/// start. Returns whether some tasks that stand for a job are left to be given it.
pub(super) async fn settle(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    mut opening: Vec<Uuid>,
) -> Result<bool, store::Error> {
    opening.extend(work.take_opening());
    let mut waves = 0;
    let mut more = false;
    loop {
        work.let_go(tx).await?;
        open(tx, work, data, &opening).await?;
        opening.clear();
        more |= sub_jobs::make(tx, context, work, data).await?;
        let wave = work.take_ended();
        if wave.is_empty() {
            break;
        }
        waves += 1;
        take_concerned(tx, work, &wave, waves > WAVES_APART).await?;
        let mut room: BTreeMap<Uuid, u32> = BTreeMap::new();
        let mut stopped: BTreeSet<Uuid> = BTreeSet::new();
        for id in wave {
            let task = work.task(id).expect("what ended is in hand").clone();
            if task.kind == Kind::Shard {
                count_in_group(tx, work, &task, &mut room).await?;
                continue;
            }
            if count_in_job(work, &task) {
                stopped.insert(task.job_id);
            }
            count_in_children(work, &task, &mut opening);
        }
        for (group, room) in room {
            let next = store::task::lock_waiting_shards(tx, group, room).await?;
            let mut ids: Vec<Uuid> = next.iter().map(|shard| shard.id).collect();
            work.take_tasks(next);
            // Those that wait again since this turn are in hand and nowhere else.
            ids.extend(work.waiting_again(group).into_iter().take(room as usize));
            ids.sort_unstable();
            ids.dedup();
            let waits = |id: &Uuid| work.task(*id).is_some_and(|shard| shard.state == TaskState::Created);
            let next: Vec<Uuid> = ids.into_iter().filter(waits).take(room as usize).collect();
            for id in next {
                work.happen(id, Event::GateOpened, "");
            }
        }
        for job in stopped {
            stop(tx, work, job).await?;
        }
    }
    work.end_jobs();
    Ok(more)
}

/// Takes in hand whom the ends concern: groups of shards, children of tasks.
async fn take_concerned(tx: &Tx, work: &mut Work, wave: &[Uuid], whole: bool) -> Result<(), store::Error> {
    let (mut groups, mut nodes, mut jobs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for id in wave {
        let task = work.task(*id).expect("what ended is in hand");
        match task.group_id {
            Some(group) if work.task(group).is_none() => {
                groups.insert(group);
            }
            Some(_) => {}
            None => {
                let plan = work.plan(task.job_id);
                for &child in plan.graph.children(task.node) {
                    if work.node(task.job_id, child).is_none() {
                        nodes.insert((task.job_id, child));
                        jobs.insert(task.job_id);
                    }
                }
            }
        }
    }
    let groups: Vec<Uuid> = groups.into_iter().collect();
    work.take_tasks(store::task::lock(tx, &groups).await?);
    if whole {
        for job in jobs {
            work.take_tasks(store::task::lock_live(tx, job).await?);
        }
        nodes.retain(|(job, node)| work.node(*job, *node).is_none());
    }
    let nodes: Vec<(Uuid, u32)> = nodes.into_iter().collect();
    work.take_tasks(store::task::lock_nodes(tx, &nodes).await?);
    Ok(())
}

/// Counts an ended shard in its group, which ends with its last one; otherwise the next shard may start.
async fn count_in_group(
    tx: &Tx,
    work: &mut Work,
    shard: &TaskRow,
    room: &mut BTreeMap<Uuid, u32>,
) -> Result<(), store::Error> {
    let id = shard.group_id.expect("a shard has a group");
    let finished = shard.state == TaskState::Finished;
    let group = work.edit(id);
    group.shards_ended += 1;
    group.shards_succeeded += u32::from(finished);
    let (ended, succeeded) = (group.shards_ended, group.shards_succeeded);
    let count = group.shard_count.unwrap_or_default();
    if ended < count {
        // One that was ended while it waited leaves no room behind.
        if shard.queued_at.is_some() {
            *room.entry(id).or_default() += 1;
        }
        return Ok(());
    }
    room.remove(&id);
    end_group(tx, work, id, succeeded, count).await
}

/// Ends a group that runs if all its shards have ended.
pub(super) async fn end_if_all_ended(tx: &Tx, work: &mut Work, group: Uuid) -> Result<(), store::Error> {
    let row = work.task(group).expect("the group is in hand");
    let (succeeded, count) = (row.shards_succeeded, row.shard_count.unwrap_or_default());
    if row.state == TaskState::Running && row.shards_ended >= count {
        end_group(tx, work, group, succeeded, count).await?;
    }
    Ok(())
}

/// Ends a group whose shards all have ended.
async fn end_group(tx: &Tx, work: &mut Work, id: Uuid, succeeded: u32, count: u32) -> Result<(), store::Error> {
    let row = work.task(id).expect("the group is in hand");
    let (node, job) = (row.node, row.job_id);
    let plan = work.plan(job);
    let percent = plan.task(node).shards.as_ref().map_or(100, |shards| shards.min_success_percent);
    let enough = gate::group_finishes(succeeded, count, percent);
    let reason = if enough {
        collect_output(tx, work, id).await?
    } else {
        format!("{succeeded} of {count} shards finished, {percent} % must")
    };
    let reason = if work.task(id).is_some_and(|group| group.state == TaskState::Terminating) {
        work.task(id).expect("the group is in hand").reason.clone()
    } else {
        reason
    };
    work.happen(id, Event::ShardsEnded { enough }, reason);
    Ok(())
}

/// Gives a group the list of its shards' outputs, `null` for a shard without. Returns a remark when it is too large.
async fn collect_output(tx: &Tx, work: &mut Work, group: Uuid) -> Result<String, store::Error> {
    let count = work.task(group).and_then(|task| task.shard_count).unwrap_or_default() as usize;
    let mut outputs = vec![String::new(); count];
    for (index, output) in store::task::shard_outputs(tx, group).await? {
        if let Some(place) = outputs.get_mut(index as usize) {
            *place = output;
        }
    }
    for shard in work.tasks().filter(|task| task.group_id == Some(group)) {
        if let Some(place) = shard.shard_index.and_then(|index| outputs.get_mut(index as usize)) {
            *place = if shard.state == TaskState::Finished { shard.output.clone() } else { String::new() };
        }
    }
    if outputs.iter().all(String::is_empty) {
        return Ok(String::new());
    }
    let written: Vec<&str> = outputs.iter().map(|text| if text.is_empty() { "null" } else { text }).collect();
    let list = format!("[{}]", written.join(","));
    if list.len() > GROUP_OUTPUT_BYTES_MAX {
        return Ok(format!(
            "the outputs of its shards are over {GROUP_OUTPUT_BYTES_MAX} bytes together and were dropped"
        ));
    }
    work.edit(group).output = list;
    Ok(String::new())
}

/// Counts an ended task in its job. Returns whether it stops the job.
fn count_in_job(work: &mut Work, task: &TaskRow) -> bool {
    let policy = work.plan(task.job_id).on_failure(task.node);
    let fails = end_of(task).is_some_and(|end| gate::fails_job(end, policy));
    let job = work.job_mut(task.job_id).expect("the job of an ended task is in hand");
    job.tasks_ended += 1;
    if !fails {
        return false;
    }
    job.tasks_failed += 1;
    let stops = policy == OnFailure::Stop && job.state == JobState::Running && !job.stopping;
    job.stopping |= stops;
    stops
}

/// Counts an ended task for the gates of its children, and decides those.
fn count_in_children(work: &mut Work, task: &TaskRow, opening: &mut Vec<Uuid>) {
    let plan = work.plan(task.job_id);
    let policy = plan.on_failure(task.node);
    let Some(end) = end_of(task) else { return };
    let outcome = gate::counts_as(end, policy);
    for &child in plan.graph.children(task.node) {
        let Some(id) = work.node(task.job_id, child) else { continue };
        let row = work.edit(id);
        row.parents.count(outcome);
        if row.state != TaskState::Created {
            continue;
        }
        match row.parents.gate(plan.rule(child)) {
            Gate::Wait => {}
            Gate::Open => opening.push(id),
            Gate::Closed { cause, by } => {
                // What closed it may have ended long before the parent that made it certain.
                let parent = if outcome == by { Some(task.node) } else { closed_by(work, task.job_id, child, by) };
                let name = parent.map_or("a parent", |parent| &plan.task(parent).name);
                let reason = gate::closed_because(plan.rule(child), by, name);
                work.skip(id, Event::GateClosed, cause, reason);
            }
        }
    }
}

/// A parent in hand that counts so.
fn closed_by(work: &Work, job: Uuid, child: u32, by: Outcome) -> Option<u32> {
    let plan = work.plan(job);
    plan.graph.parents(child).iter().copied().find(|&parent| {
        let end = work.node(job, parent).and_then(|id| work.task(id)).and_then(end_of);
        end.is_some_and(|end| gate::counts_as(end, plan.on_failure(parent)) == by)
    })
}

/// How a task's end counts for the gates of its children, if it has ended.
pub(super) fn outcome_of(plan: &Plan, task: &TaskRow) -> Option<Outcome> {
    end_of(task).map(|end| gate::counts_as(end, plan.on_failure(task.node)))
}

/// How a task ended, if it has.
fn end_of(task: &TaskRow) -> Option<End> {
    End::of(task.state, task.skip_cause)
}

/// Opens gates: what a task asks for itself is decided now.
async fn open(tx: &Tx, work: &mut Work, data: &mut Data, opening: &[Uuid]) -> Result<(), store::Error> {
    for &id in opening {
        let task = work.task(id).expect("what opens is in hand").clone();
        let Some(job) = work.job(task.job_id).filter(|_| task.state == TaskState::Created) else { continue };
        let (state, stopping, plan) = (job.row.state, job.row.stopping, job.plan.clone());
        let pin = job.row.pin.clone();
        let config = plan.task(task.node);
        if state != JobState::Running {
            work.happen(id, Event::Terminate, "its job is being terminated");
            continue;
        }
        if stopping && !plan.rule(task.node).outlives_stop() {
            work.skip(id, Event::Stopped, SkipCause::UpstreamFailed, "its job stopped".to_owned());
            continue;
        }
        if config.enabled == Some(false) {
            work.skip(id, Event::ConditionFalse, SkipCause::Condition, "it is disabled".to_owned());
            continue;
        }
        if !config.when.is_empty() {
            match data.condition(tx, work, &task).await? {
                Ok(true) => {}
                Ok(false) => {
                    let reason = format!("its condition is false: {}", config.when);
                    work.skip(id, Event::ConditionFalse, SkipCause::Condition, reason);
                    continue;
                }
                Err(reason) => {
                    work.happen(id, Event::NotEvaluable, reason);
                    continue;
                }
            }
        }
        let Some(shards) = &config.shards else {
            work.happen(id, Event::GateOpened, "");
            continue;
        };
        let pieces = match &shards.split {
            Split::Count(count) => vec![Piece::default(); *count as usize],
            Split::Items(_) => match data.items(tx, work, &task).await? {
                Ok(items) => items.into_iter().map(|item| Piece { item, runner: None }).collect(),
                Err(reason) => {
                    work.happen(id, Event::NotEvaluable, reason);
                    continue;
                }
            },
            Split::OnePerRunner => {
                let alive = store::runner::alive(tx).await?;
                alive
                    .into_iter()
                    .filter(|runner| plan.pinned_class(task.node, pin.as_ref().unwrap_or(&runner.id)).suits(runner))
                    .map(|Traits { id, .. }| Piece { item: id.clone(), runner: Some(id) })
                    .collect()
            }
        };
        // A group that is run again has shards already.
        if task.shard_count.is_some() {
            work.take_tasks(store::repair::lock_shards(tx, id).await?);
        }
        let kept = shards::split(work, id, pieces);
        let kept: Vec<&TaskRow> = kept.iter().filter_map(|shard| work.task(*shard)).collect();
        store::repair::resplit(tx, &kept).await?;
    }
    Ok(())
}

/// Stops a job: what has not started will not, but for tasks that are there to clean up; with `fail_fast` what runs is
/// ended too.
async fn stop(tx: &Tx, work: &mut Work, job: Uuid) -> Result<(), store::Error> {
    let plan = work.plan(job);
    let live = store::task::lock_live(tx, job).await?;
    work.take_tasks(live);
    let mut concerned: Vec<Uuid> = work
        .tasks()
        .filter(|task| task.job_id == job && !task.state.is_terminal() && !plan.rule(task.node).outlives_stop())
        .map(|task| task.id)
        .collect();
    concerned.sort_unstable();
    for id in concerned {
        let task = work.task(id).expect("the task is in hand").clone();
        match task.state {
            TaskState::Queued if task.counters.attempt > 0 => {
                work.happen(id, Event::GivenUp, format!("{} (its job stopped)", task.reason));
            }
            TaskState::Created | TaskState::Queued => {
                work.skip(id, Event::Stopped, SkipCause::UpstreamFailed, "its job stopped".to_owned());
            }
            // Its work is over; others wait to hear of it.
            TaskState::Callback => {}
            _ if plan.config.fail_fast => {
                work.happen(id, Event::Terminate, "its job stopped, and fails fast");
            }
            _ => {}
        }
    }
    Ok(())
}
