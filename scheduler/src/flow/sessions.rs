//! The sessions of this scheduler's runners, in memory: what each slot was given, what was sent, what was taken in.
//!
//! Memory only spares questions; the database decides. What is held here is lost with the scheduler and made anew from
//! the hellos of the runners.

pub(super) mod hearing;
pub(super) mod stream;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use uuid::Uuid;

use self::hearing::Told;
use super::batch::{IdleSession, News};
use crate::domain::{
    command::{Command, Down},
    heartbeat::{self, Drain, Held, Hello, TaskRef},
    placement::{Offer, Traits},
    task::Ending,
    timing::Timing,
};

/// How many sessions are offered to one turn; the others have their turn in the next ones.
const OFFERS_MAX: usize = 512;

/// What a slot was given.
#[derive(Debug)]
enum Slot {
    /// Not known to be idle yet.
    Unknown,
    /// Idle.
    Free,
    /// Offered to the turn under way.
    Offered,
    /// Given a task.
    Held(Box<HeldTask>),
    /// Holds something it was not given; it was told to end it.
    Stray,
}

#[derive(Debug)]
struct HeldTask {
    held: Held,
    job_id: Uuid,
    /// When RUN_NEW was sent, until the first answer.
    unanswered_since: Option<Instant>,
    /// When it was told to end.
    reset_at: Option<Instant>,
    /// When its own timeout and twice the grace are over.
    deadline: Option<Instant>,
    /// It was past that time when it was told to end.
    overdue: bool,
    /// When to report that it takes long, until that was done.
    warn_at: Option<Instant>,
    /// Its end was reported and is on its way into the database.
    reported: bool,
}

/// A runner's stream.
#[derive(Debug)]
pub(super) struct Session {
    pub id: Uuid,
    pub runner: String,
    traits: Arc<Traits>,
    slots: Vec<Slot>,
    out: mpsc::Sender<Down>,
    seq: u64,
    /// The highest frame heard.
    heard: u64,
    /// The highest frame whose sign of life is committed.
    committed: u64,
    /// Since when there is a frame whose sign of life is not.
    unseen_since: Option<Instant>,
    /// The highest frame that was answered without that.
    answered: u64,
    /// The verdicts were taken in.
    settled: bool,
    /// It finishes what it has by its own wish.
    draining: bool,
    /// What it said last about that, and the database knows.
    said: Option<Drain>,
    /// It was drained by an operator.
    pub drained: bool,
    /// Frames with commands that were not taken in yet.
    unacked: VecDeque<(u64, Instant)>,
    /// Commands that found no room in the queue.
    waiting: Vec<Command>,
    waiting_since: Option<Instant>,
    closed: bool,
}

/// What a session begins with.
pub(super) struct Opening {
    pub id: Uuid,
    pub hello: heartbeat::Hello,
    pub out: mpsc::Sender<Down>,
    pub first_seq: u64,
    pub drained: bool,
}

/// A task as it was given to a slot, or taken over by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub timeout: Option<Duration>,
    pub warn_after: Option<Duration>,
}

/// A task that its runner has to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToEnd {
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub grace: Option<Duration>,
    /// The runner was told already, by a verdict.
    pub told: bool,
}

impl Session {
    pub(super) fn new(opening: Opening) -> Self {
        let Opening { id, hello, out, first_seq, drained } = opening;
        let Hello { runner_id, labels, capabilities, version, .. } = hello;
        Self {
            id,
            runner: runner_id.clone(),
            traits: Arc::new(Traits { id: runner_id, labels, capabilities, version }),
            slots: (0..hello.slots).map(|_| Slot::Unknown).collect(),
            out,
            seq: 0,
            heard: first_seq,
            committed: first_seq,
            unseen_since: None,
            answered: first_seq,
            settled: false,
            draining: hello.drain.is_some_and(|drain| drain != Drain::Working),
            said: hello.drain,
            drained,
            unacked: VecDeque::new(),
            waiting: Vec::new(),
            waiting_since: None,
            closed: false,
        }
    }

    /// The idle slots, if the runner may be given work.
    fn idle(&self) -> Vec<u32> {
        if !self.settled || self.draining || self.drained || self.closed || self.waiting_since.is_some() {
            return Vec::new();
        }
        (0..).zip(&self.slots).filter(|(_, slot)| matches!(slot, Slot::Free)).map(|(at, _)| at).collect()
    }

    fn may_be_given_work(&self) -> bool {
        self.settled && !self.draining && !self.drained && !self.closed
    }

    /// A slot was given a task, or goes on with one it brought along.
    pub(super) fn give(&mut self, given: Given, run_seq: u64, adopted: bool, timing: &Timing, now: Instant) {
        let Some(slot) = self.slots.get_mut(given.slot as usize) else { return };
        *slot = Slot::Held(Box::new(HeldTask {
            held: Held { task: given.task, run_seq, started: adopted },
            job_id: given.job_id,
            unanswered_since: (!adopted).then_some(now),
            reset_at: None,
            deadline: given.timeout.map(|timeout| now + timeout + timing.grace * 2),
            overdue: false,
            warn_at: given.warn_after.map(|after| now + after),
            reported: false,
        }));
    }

    /// A slot holds something that it is told to end by a verdict.
    pub(super) fn stray(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize) {
            *place = Slot::Stray;
        }
    }

    /// Has a task ended, once. A slot that seems to hold something else is asked all the same: its answer decides.
    pub(super) fn reset(&mut self, ending: ToEnd, now: Instant) {
        let run_seq = self.next_seq();
        let ToEnd { slot, task, job_id, grace, told } = ending;
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        match place {
            Slot::Held(held) if held.held.task == task => {
                if held.reset_at.is_some() || held.reported {
                    return;
                }
                held.reset_at = Some(now);
            }
            Slot::Held(_) | Slot::Offered => return,
            Slot::Free | Slot::Unknown | Slot::Stray => {
                *place = Slot::Held(Box::new(HeldTask {
                    held: Held { task, run_seq, started: true },
                    job_id,
                    unanswered_since: None,
                    reset_at: Some(now),
                    deadline: None,
                    overdue: false,
                    warn_at: None,
                    reported: false,
                }));
            }
        }
        if !told {
            self.send(vec![Command::Reset { slot, task, grace }], now);
        }
    }

    /// Whether this is what a slot was given.
    pub(super) fn holds(&self, slot: u32, task: TaskRef) -> bool {
        matches!(self.slots.get(slot as usize), Some(Slot::Held(held)) if held.held.task == task)
    }

    /// What was told about the end of a task could not be taken: it may be told again.
    pub(super) fn forget_report(&mut self, slot: u32, task: TaskRef) {
        if let Some(Slot::Held(held)) = self.slots.get_mut(slot as usize)
            && held.held.task == task
        {
            held.reported = false;
        }
    }

    /// What a slot held is settled.
    pub(super) fn release(&mut self, slot: u32, task: TaskRef, idle: bool) {
        if let Some(place) = self.slots.get_mut(slot as usize)
            && matches!(place, Slot::Held(held) if held.held.task == task)
        {
            *place = if idle { Slot::Free } else { Slot::Unknown };
        }
    }

    /// The tasks that run for longer than their `warn_after`, each once.
    pub(super) fn taking_long(&mut self, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        for (slot, place) in (0..).zip(&mut self.slots) {
            let Slot::Held(held) = place else { continue };
            let runs = held.held.started && held.reset_at.is_none() && !held.reported;
            if runs && held.warn_at.is_some_and(|at| at <= now) {
                held.warn_at = None;
                told.push(Told { slot, task: held.held.task, job_id: held.job_id, news: News::TakesLong });
            }
        }
        told
    }
}

/// How a slot stands after an end that came without a result.
pub(super) fn idle_after(ending: Ending, report: &News) -> bool {
    match report {
        // Busy means that it holds something else.
        News::Ended(..) => !matches!(ending, Ending::NeverStarted { counted: false }),
        _ => true,
    }
}

/// All sessions, by id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: HashMap<Uuid, Session>,
    order: VecDeque<Uuid>,
}

impl Sessions {
    pub(super) fn insert(&mut self, session: Session) {
        self.order.push_back(session.id);
        self.by_id.insert(session.id, session);
    }

    pub(super) fn remove(&mut self, id: Uuid) -> Option<Session> {
        self.order.retain(|other| *other != id);
        self.by_id.remove(&id)
    }

    pub(super) fn get_mut(&mut self, id: Uuid) -> Option<&mut Session> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.by_id.values_mut()
    }

    pub(super) fn ids(&self) -> Vec<Uuid> {
        self.by_id.keys().copied().collect()
    }

    /// How many slots have a task.
    pub(super) fn given_out(&self) -> usize {
        let held = |session: &Session| session.slots.iter().filter(|slot| matches!(slot, Slot::Held(_))).count();
        self.by_id.values().map(held).sum()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Offers idle slots to a turn, and those sessions too whose slots may become idle in it. Sessions take turns at
    /// being offered first.
    pub(super) fn offer(&mut self, busy: &HashSet<Uuid>) -> Vec<IdleSession> {
        let mut offered = Vec::new();
        for _ in 0..self.order.len() {
            if offered.len() >= OFFERS_MAX {
                break;
            }
            let Some(id) = self.order.pop_front() else { break };
            self.order.push_back(id);
            let session = self.by_id.get_mut(&id).expect("the order names sessions that are there");
            let idle = session.idle();
            if idle.is_empty() && !(busy.contains(&id) && session.may_be_given_work()) {
                continue;
            }
            for slot in &idle {
                session.slots[*slot as usize] = Slot::Offered;
            }
            offered.push(IdleSession {
                session: id,
                offer: Offer { traits: session.traits.clone(), slots: session.slots.len(), idle: idle.len() },
                // The lowest slot goes first.
                slots: idle.into_iter().rev().collect(),
            });
        }
        offered
    }

    /// Takes back what was offered to these sessions' turn and not used.
    pub(super) fn withdraw(&mut self, offered: &[Uuid]) {
        for id in offered {
            let Some(session) = self.by_id.get_mut(id) else { continue };
            for slot in &mut session.slots {
                if matches!(slot, Slot::Offered) {
                    *slot = Slot::Free;
                }
            }
        }
    }
}
