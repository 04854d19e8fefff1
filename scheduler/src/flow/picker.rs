//! A queued task meets a runner that suits it.

use std::{collections::HashMap, sync::Arc};

use uuid::Uuid;

use super::{
    batch::{Context, Dispatch, IdleSession, Input, News, Output},
    data::Data,
    parked,
    plan::Plan,
    work::Work,
};
use crate::{
    domain::{
        pick::{self, Candidate, Class, Offer},
        task::{Event, TaskState},
    },
    store::{self, Tx, job::JobRow, task::TaskRow},
};

/// How many classes one pick looks at.
const CLASSES_MAX: u32 = 200;

/// How many tasks one pick gives out.
const TASKS_MAX: usize = 1_000;

/// Gives queued tasks to idle slots, those that become idle in this very turn included. Returns whether tasks may be
/// left that another scheduler could place.
///
/// It works without the locks of jobs: it writes QUEUED → DISPATCHED and nothing else, and skips rows that another
/// scheduler is picking. Whether a session still counts is asked last, and a runner's row that is locked is skipped,
/// so that a pick never waits for anybody.
pub(super) async fn pass(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    input: &Input,
    output: &mut Output,
) -> Result<bool, store::Error> {
    let mut sessions = input.idle.clone();
    free(&mut sessions, input, output);
    sessions.retain(|session| session.offer.idle > 0);
    let names = store::task::queued_classes(tx, CLASSES_MAX).await?;
    if sessions.is_empty() || names.is_empty() {
        return Ok(!names.is_empty());
    }
    let offers: Vec<Offer> = sessions.iter().map(|session| session.offer.clone()).collect();
    let (mut classes, mut candidates, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    let parked = context.plans.parked();
    let mut left = false;
    for name in names {
        let Some(class) = Class::parse(&name) else { continue };
        let room: usize = offers
            .iter()
            .filter(|offer| class.suits(&offer.runner, &offer.labels, &offer.capabilities))
            .map(|offer| offer.idle)
            .sum();
        if room == 0 {
            left = true;
            continue;
        }
        let room = u32::try_from(room.min(TASKS_MAX)).unwrap_or(u32::MAX);
        for task in store::task::lock_queued(tx, &name, work.now, room, &parked).await? {
            let queued_at = task.queued_at.unwrap_or_default();
            candidates.push(Candidate { class: classes.len(), priority: task.priority, queued_at });
            tasks.push(task);
        }
        classes.push(class);
    }
    let mut pairs = pick::assign(&classes, &candidates, &offers);
    pairs.truncate(TASKS_MAX);
    left |= pairs.len() == TASKS_MAX || pairs.len() < tasks.len();
    output.more |= pairs.len() == TASKS_MAX;
    let chosen: Vec<(String, Uuid)> = {
        let mut chosen: Vec<usize> = pairs.iter().map(|(_, offer)| *offer).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|offer| (offers[offer].runner.clone(), sessions[offer].session)).collect()
    };
    if chosen.is_empty() {
        return Ok(left);
    }
    let counting = store::runner::counting(tx, &chosen).await?;
    if counting.len() < chosen.len() {
        drop_replaced(tx, chosen, &counting, output).await?;
    }

    let jobs = jobs_of(tx, context, work, &tasks, &pairs).await?;
    output.more |= context.plans.parked().len() > parked.len();
    let planned = pairs.iter().filter_map(|(at, _)| Some((&tasks[*at], &*jobs.get(&tasks[*at].job_id)?.1)));
    data.load_outputs(tx, planned).await?;
    let mut dispatched: Vec<TaskRow> = Vec::new();
    for (at, offer) in pairs {
        let session = &mut sessions[offer];
        if !counting.contains(&session.session) {
            left = true;
            continue;
        }
        let mut task = tasks[at].clone();
        let Some((job, plan)) = jobs.get(&task.job_id) else { continue };
        let spec = match data.spec(job, plan, &task, context.timing.self_stop_after(), None) {
            Ok(spec) => spec,
            Err(reason) => {
                output.unrenderable.push((task.reference(), task.job_id, reason));
                continue;
            }
        };
        let slot = session.slots.pop().expect("an offer has as many slots as it says");
        task.state = task.state.after(task.kind, Event::Picked).unwrap_or(TaskState::Dispatched);
        task.counters.lease += 1;
        task.counters.attempt = task.counters.attempt.max(1);
        task.runner_id = Some(session.offer.runner.clone());
        task.slot = Some(slot);
        task.session_id = Some(session.session);
        task.dispatched_at = Some(work.now);
        output.dispatched.push(Dispatch {
            session: session.session,
            slot,
            task: task.reference(),
            job_id: task.job_id,
            warn_after: plan.task(task.node).warn_after,
            spec,
        });
        dispatched.push(task);
    }
    let rows: Vec<&TaskRow> = dispatched.iter().collect();
    let written = store::task::dispatch(tx, &rows).await?;
    if written != rows.len() as u64 {
        return Err(store::Error::Missed { asked: rows.len() as u64, written });
    }
    Ok(left)
}

/// Sessions that were replaced elsewhere are dropped: a dead stream that looks idle must not be offered again and again
/// to tasks that others could run. One whose row is only held by somebody stays.
async fn drop_replaced(
    tx: &Tx,
    chosen: Vec<(String, Uuid)>,
    counting: &[Uuid],
    output: &mut Output,
) -> Result<(), store::Error> {
    let missed: Vec<(String, Uuid)> = chosen.into_iter().filter(|(_, session)| !counting.contains(session)).collect();
    let held = store::runner::still_counting(tx, &missed).await?;
    let replaced = missed.into_iter().map(|(_, session)| session).filter(|session| !held.contains(session));
    let before = output.superseded.len();
    output.superseded.extend(replaced);
    output.more |= output.superseded.len() > before;
    Ok(())
}

/// Adds the slots whose tasks ended in this turn: the result's acknowledgement and the next task go in one frame.
fn free(sessions: &mut [IdleSession], input: &Input, output: &Output) {
    let positions: HashMap<Uuid, usize> =
        sessions.iter().enumerate().map(|(at, session)| (session.session, at)).collect();
    for (fact, outcome) in input.facts.iter().zip(&output.facts) {
        let (Some((session, slot)), News::Result(_)) = (fact.source, &fact.news) else { continue };
        if outcome.untaken {
            continue;
        }
        if let Some(at) = positions.get(&session) {
            sessions[*at].slots.push(slot);
            sessions[*at].offer.idle += 1;
        }
    }
}

/// The jobs of the tasks to be given out, without those whose definition cannot be read: from the turn's hands, else from the database, for what never changes.
async fn jobs_of(
    tx: &Tx,
    context: &mut Context,
    work: &Work,
    tasks: &[TaskRow],
    pairs: &[(usize, usize)],
) -> Result<HashMap<Uuid, (JobRow, Arc<Plan>)>, store::Error> {
    let mut jobs = HashMap::new();
    let mut absent = Vec::new();
    for (at, _) in pairs {
        let id = tasks[*at].job_id;
        if jobs.contains_key(&id) || absent.contains(&id) {
            continue;
        }
        match work.job(id) {
            Some(job) if parked::is_parked(job) => {}
            Some(job) => {
                jobs.insert(id, (job.row.clone(), job.plan.clone()));
            }
            None => absent.push(id),
        }
    }
    for row in store::job::facts(tx, &absent).await? {
        match context.plans.get(tx, row.job_config_id, row.version).await {
            Ok(plan) => drop(jobs.insert(row.id, (row, plan))),
            // It is laid aside by the next look, which has its lock.
            Err(store::Error::Unreadable { .. }) => context.plans.park(row.id),
            Err(error) => return Err(error),
        }
    }
    Ok(jobs)
}
