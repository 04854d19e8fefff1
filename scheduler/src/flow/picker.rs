//! A queued task meets a runner that suits it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use uuid::Uuid;

use super::{
    batch::{Context, Dispatch, IdleSession, Input, News, Output},
    completions,
    data::Data,
    parked,
    plan::Plan,
    work::Work,
};
use crate::{
    domain::{
        completion,
        placement::{self, Candidate, Class, Holders, Limit, Offer, Routing, Usage},
        task::{Event, TaskState},
    },
    store::{self, Tx, completion::Right, job::JobRow, task::TaskRow},
};

/// How many classes one pick looks at. Of more, the next pick looks at the next ones.
const CLASSES_MAX: u32 = 200;

/// How soon to come back to keys that another scheduler has in its hands.
pub(super) const KEYS_AGAIN: Duration = Duration::from_millis(5);

/// Of how many sessions it is asked at once with the classes whether they count; of more, once it is known who is chosen.
const SESSIONS_AT_ONCE: usize = 16;

/// How many tasks one pick gives out.
const TASKS_MAX: usize = 1_000;

/// What the picker of a scheduler remembers from one turn to the next. It is lost with the scheduler, and does no harm.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Who was given what.
    usage: Usage,
    /// The last class looked at, when there were more than one pick looks at.
    cursor: String,
}

/// A pick under way.
#[derive(Debug)]
pub(super) enum Pick {
    /// Who is given what was decided before what the turn has in hand is written.
    Chosen(Chosen),
    /// It is to be decided once that is written; with the classes that wait then, if they are known.
    Later(Option<Waiting>),
}

/// What waits, as far as it is known.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The classes.
    names: Vec<String>,
    /// Those of them that the database knows to wait, while what the turn has in hand counts as well.
    known: Option<BTreeSet<String>>,
    /// The idle sessions that may be given work, if that was asked.
    counting: Option<Vec<Uuid>>,
}

/// What a pick came to.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Tasks of the queue, as they shall be. Those that the turn has in hand are changed there.
    dispatched: Vec<TaskRow>,
    rights: Vec<Right>,
    /// Whether tasks may be left that another scheduler could place.
    left: bool,
    holding: Vec<(Uuid, Limit)>,
}

/// Begins to give queued tasks to idle slots, those that become idle in this very turn included. Called before the turn
/// writes what it has in hand: of that, what has just begun to wait and is given out is written once.
///
/// What is in the database decides together with what is in hand, each class by its rank. Where that is not the queue as it
/// shall be, all is left to [`end`]: a turn that takes tasks out of the queue, classes that are too many for one look, and
/// keys, of which the turn may set some free.
pub(super) async fn begin(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    input: &Input,
    output: &mut Output,
) -> Result<Pick, store::Error> {
    if !context.memory.cursor.is_empty() || work.changed_queue() {
        return Ok(Pick::Later(None));
    }
    let sessions = idle(input, output);
    let (known, counting) = if sessions.len() <= SESSIONS_AT_ONCE {
        let ids: Vec<(String, Uuid)> =
            sessions.iter().map(|idle| (idle.offer.traits.id.clone(), idle.session)).collect();
        let in_hand = work.newly_queued().next().is_some();
        let (known, counting) = store::runner::classes_and_counting(tx, CLASSES_MAX, &ids, in_hand).await?;
        (known, Some(counting))
    } else {
        (store::task::queued_classes(tx, "", CLASSES_MAX).await?, None)
    };
    if known.len() >= CLASSES_MAX as usize {
        return Ok(Pick::Later(None));
    }
    let known: BTreeSet<String> = known.into_iter().collect();
    let mut names = known.clone();
    names.extend(work.newly_queued().map(|task| task.class.clone()));
    let limited = |name: &String| Class::parse(name).is_some_and(|class| class.limit.is_some());
    let keyed = names.iter().any(limited);
    let waiting = Waiting { names: names.into_iter().collect(), known: Some(known).filter(|_| !keyed), counting };
    if keyed {
        return Ok(Pick::Later(Some(waiting)));
    }
    Ok(Pick::Chosen(choose(tx, context, work, data, output, sessions, waiting).await?))
}

/// Ends a pick, once what the turn has in hand is written. Returns whether tasks may be left that another scheduler could
/// place.
///
/// It works without the locks of jobs: it writes QUEUED → DISPATCHED and nothing else, and skips rows that another
/// scheduler is picking. Whether a session still counts is asked last, and a runner's row that is locked is skipped,
/// so that a pick never waits for anybody.
pub(super) async fn end(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    input: &Input,
    output: &mut Output,
    pick: Pick,
) -> Result<bool, store::Error> {
    let Chosen { dispatched, rights, left, holding } = match pick {
        Pick::Chosen(chosen) => chosen,
        Pick::Later(waiting) => {
            let waiting = match waiting {
                Some(waiting) => waiting,
                None => {
                    Waiting { names: next_classes(tx, &mut context.memory.cursor).await?, known: None, counting: None }
                }
            };
            let sessions = idle(input, output);
            choose(tx, context, work, data, output, sessions, waiting).await?
        }
    };
    let rows: Vec<&TaskRow> = dispatched.iter().collect();
    let written = store::task::dispatch(tx, &rows).await?;
    if written != rows.len() as u64 {
        return Err(store::Error::Missed { asked: rows.len() as u64, written });
    }
    store::completion::insert(tx, &rights, work.now).await?;
    let holding: Vec<(Uuid, &Limit)> = holding.iter().map(|(task, limit)| (*task, limit)).collect();
    store::concurrency::hold(tx, &holding).await?;
    Ok(left)
}

/// Decides which of these idle sessions is given what of what waits.
async fn choose(
    tx: &Tx,
    context: &mut Context,
    work: &mut Work,
    data: &mut Data,
    output: &mut Output,
    mut sessions: Vec<IdleSession>,
    waiting: Waiting,
) -> Result<Chosen, store::Error> {
    let Waiting { mut names, known, counting } = waiting;
    // What stands for a job waits for its next attempt, and for no slot.
    names.retain(|name| name != placement::SUB_JOB);
    if sessions.is_empty() || names.is_empty() {
        return Ok(Chosen { left: !names.is_empty(), ..Chosen::default() });
    }
    let offers: Vec<Offer> = sessions.iter().map(|session| session.offer.clone()).collect();
    let parked = context.plans.parked();
    let mut left = false;
    let mut wanted: Vec<(Class, String, usize)> = Vec::new();
    for name in names {
        let Some(class) = Class::parse(&name) else { continue };
        let room: usize = offers.iter().filter(|offer| class.suits(&offer.traits)).map(|offer| offer.idle).sum();
        if room == 0 {
            left = true;
        } else {
            wanted.push((class, name, room));
        }
    }
    let mut keys = Keys::take(tx, &wanted).await?;
    output.keys_busy = keys.busy;
    let (mut classes, mut candidates, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
    for (class, name, room) in &wanted {
        let room = keys.room(class, *room, &wanted);
        if room == 0 {
            continue;
        }
        let room = room.min(TASKS_MAX);
        let mut next = Vec::new();
        if known.as_ref().is_none_or(|known| known.contains(name)) {
            let limit = u32::try_from(room).unwrap_or(u32::MAX);
            next = store::task::lock_queued(tx, name, work.now, limit, &parked).await?;
        }
        if known.is_some() {
            next.extend(next_in_hand(work, name, room, &parked));
        }
        for task in next {
            let chance = if class.routing == Routing::Random { Uuid::new_v4().as_u64_pair().1 } else { 0 };
            candidates.push(Candidate {
                class: classes.len(),
                priority: task.priority,
                queued_at: task.queued_at.unwrap_or_default(),
                key: String::new(),
                chance,
            });
            tasks.push(task);
        }
        classes.push(class.clone());
    }
    let mut jobs = HashMap::new();
    if classes.iter().any(|class| class.routing == Routing::ConsistentHash) {
        let keyed = |at: &usize| classes[candidates[*at].class].routing == Routing::ConsistentHash;
        let keyed: Vec<usize> = (0..tasks.len()).filter(keyed).collect();
        load(tx, context, work, data, keyed.iter().map(|at| &tasks[*at]), &mut jobs).await?;
        let mut nowhere = BTreeSet::new();
        for at in keyed {
            let task = &tasks[at];
            match jobs.get(&task.job_id).map(|(job, plan)| data.routing_key(job, plan, task)) {
                Some(Ok(key)) => candidates[at].key = key,
                Some(Err(reason)) => {
                    output.unrenderable.push((task.reference(), task.job_id, reason));
                    nowhere.insert(task.id);
                }
                // Its definition cannot be read.
                None => drop(nowhere.insert(task.id)),
            }
        }
        let mut keep = tasks.iter().map(|task| !nowhere.contains(&task.id));
        candidates.retain(|_| keep.next().unwrap_or(true));
        tasks.retain(|task| !nowhere.contains(&task.id));
    }
    let memory = &mut context.memory.usage;
    let mut pairs = placement::assign(&classes, &candidates, &offers, &mut keys.holders, memory, work.now);
    pairs.truncate(TASKS_MAX);
    let placed: BTreeSet<usize> = pairs.iter().map(|(at, _)| *at).collect();
    // Whoever waits for a key waits everywhere.
    let elsewhere = |at: usize| !placed.contains(&at) && !keys.is_full(&classes[candidates[at].class]);
    left |= pairs.len() == TASKS_MAX || (0..tasks.len()).any(elsewhere);
    output.more |= pairs.len() == TASKS_MAX;
    let chosen: Vec<(String, Uuid)> = {
        let mut chosen: Vec<usize> = pairs.iter().map(|(_, offer)| *offer).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen.into_iter().map(|offer| (offers[offer].traits.id.clone(), sessions[offer].session)).collect()
    };
    if chosen.is_empty() {
        return Ok(Chosen { left, ..Chosen::default() });
    }
    let counting = match counting {
        Some(counting) => counting,
        None => store::runner::counting(tx, &chosen).await?,
    };
    if chosen.iter().any(|(_, session)| !counting.contains(session)) {
        drop_replaced(tx, chosen, &counting, output).await?;
    }

    load(tx, context, work, data, pairs.iter().map(|(at, _)| &tasks[*at]), &mut jobs).await?;
    output.more |= context.plans.parked().len() > parked.len();
    let mut dispatched: Vec<TaskRow> = Vec::new();
    let mut rights: Vec<Right> = Vec::new();
    let mut holding = Vec::new();
    for (at, offer) in pairs {
        let session = &mut sessions[offer];
        if !counting.contains(&session.session) {
            left = true;
            continue;
        }
        let mut task = tasks[at].clone();
        let Some((job, plan)) = jobs.get(&task.job_id) else { continue };
        let waits = plan.task(task.node).target.waits_for_callback();
        let callback = waits.then(|| completions::issue(&context.public_url));
        let spec = match data.spec(job, plan, &task, context.timing.self_stop_after(), callback) {
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
        task.runner_id = Some(session.offer.traits.id.clone());
        task.slot = Some(slot);
        task.session_id = Some(session.session);
        task.dispatched_at = Some(work.now);
        (task.started_at, task.end_grace) = (None, None);
        rights.extend(spec.callback.as_ref().map(|callback| Right {
            token_hash: completion::hash(&callback.token),
            task: task.reference(),
            job_id: task.job_id,
        }));
        output.dispatched.push(Dispatch {
            session: session.session,
            slot,
            task: task.reference(),
            job_id: task.job_id,
            warn_after: plan.task(task.node).warn_after,
            spec,
        });
        if let Some(limit) = &classes[candidates[at].class].limit {
            holding.push((task.id, limit.clone()));
        }
        if known.is_some() && work.is_newly_queued(task.id) {
            work.give_out(task);
        } else {
            dispatched.push(task);
        }
    }
    Ok(Chosen { dispatched, rights, left, holding })
}

/// The tasks in hand that go first among those of a class that have just begun to wait, at most as many as there is room for.
fn next_in_hand(work: &Work, class: &str, room: usize, laid_aside: &[Uuid]) -> Vec<TaskRow> {
    let ready = |task: &&TaskRow| {
        task.class == class
            && task.counters.not_before <= work.now
            && !laid_aside.contains(&task.job_id)
            && !work.is_parked(task.job_id)
    };
    let mut next: Vec<&TaskRow> = work.newly_queued().filter(ready).collect();
    next.sort_unstable_by_key(|task| (placement::rank(task.priority, task.queued_at.unwrap_or_default()), task.id));
    next.into_iter().take(room).cloned().collect()
}

/// The classes to look at. Where there are too many for one pick, they have their turns: nothing waits for ever because of
/// how it is spelt.
async fn next_classes(tx: &Tx, cursor: &mut String) -> Result<Vec<String>, store::Error> {
    let mut names = store::task::queued_classes(tx, cursor, CLASSES_MAX).await?;
    if !cursor.is_empty() && names.len() < CLASSES_MAX as usize {
        let first = store::task::queued_classes(tx, "", CLASSES_MAX - u32::try_from(names.len()).unwrap_or(0)).await?;
        names.extend(first.into_iter().filter(|name| *name <= *cursor));
    }
    *cursor = if names.len() < CLASSES_MAX as usize { String::new() } else { names[names.len() - 1].clone() };
    Ok(names)
}

/// The keys that the classes in hand need: locked, and then counted. A pick without any costs nothing.
#[derive(Debug, Default)]
struct Keys {
    locked: BTreeSet<String>,
    holders: BTreeMap<String, Holders>,
    /// Another scheduler has some of them.
    busy: bool,
}

impl Keys {
    async fn take(tx: &Tx, wanted: &[(Class, String, usize)]) -> Result<Self, store::Error> {
        let keys: BTreeSet<String> =
            wanted.iter().filter_map(|(class, ..)| Some(class.limit.as_ref()?.key.clone())).collect();
        let locked = store::concurrency::lock(tx, &keys).await?;
        let holders = store::concurrency::holders(tx, &locked).await?;
        Ok(Self { busy: locked.len() < keys.len(), locked, holders })
    }

    /// How many tasks of a class there may be room for, where there are so many slots. When another class of the same key
    /// is admitted, the first of this one is asked for all the same: nobody must overtake it.
    fn room(&self, class: &Class, slots: usize, wanted: &[(Class, String, usize)]) -> usize {
        let Some(limit) = &class.limit else { return slots };
        if !self.locked.contains(&limit.key) {
            return 0;
        }
        let held = self.holders.get(&limit.key).copied().unwrap_or_default();
        let mut others = wanted.iter().filter_map(|(class, ..)| class.limit.as_ref());
        if !others.any(|other| other.key == limit.key && held.admits(other.at_once)) {
            return 0;
        }
        slots.min((held.bound(limit.at_once).saturating_sub(held.count) as usize).max(1))
    }

    /// Whether tasks of a class wait for their key.
    fn is_full(&self, class: &Class) -> bool {
        class.limit.as_ref().is_some_and(|limit| {
            let held = self.holders.get(&limit.key).copied().unwrap_or_default();
            !held.admits(limit.at_once)
        })
    }
}

/// Loads the jobs of tasks, as far as they are not there and their definitions can be read: from the turn's hands, else from
/// the database, for what never changes. And what the templates of those tasks name.
async fn load(
    tx: &Tx,
    context: &mut Context,
    work: &Work,
    data: &mut Data,
    tasks: impl Iterator<Item = &TaskRow> + Clone,
    jobs: &mut HashMap<Uuid, (JobRow, Arc<Plan>)>,
) -> Result<(), store::Error> {
    let mut absent = Vec::new();
    for task in tasks.clone() {
        let id = task.job_id;
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
    data.load_outputs(tx, work, tasks.filter_map(|task| Some((task, &*jobs.get(&task.job_id)?.1)))).await
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

/// The sessions with idle slots, those whose tasks ended in this turn included: the result's acknowledgement and the next task
/// go in one frame.
fn idle(input: &Input, output: &Output) -> Vec<IdleSession> {
    let mut sessions = input.idle.clone();
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
    sessions.retain(|session| session.offer.idle > 0);
    sessions
}
