//! The engine: everything that changes a state comes in here as an event, is taken into the next turn, and leaves again
//! once the turn is committed.
//!
//! Two things go on side by side. The loop below owns the sessions, takes events in and sends what is to be sent; it
//! never waits for the database, so that a beat is answered even while a turn is stuck. The turn runs in a task of its
//! own, one at a time; what comes in meanwhile is the next batch. An idle system waits for nothing, a busy one commits
//! many changes at once: while tasks end one upon the other, the next turn waits a moment for more of them.

mod beats;
mod deliveries;
mod door;
mod effects;
mod handle;
mod tries;

use std::{
    collections::{HashSet, VecDeque},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use self::{
    deliveries::Deliveries,
    tries::{RETRY_BASE, Under},
};
use super::{
    batch::{Context, Fact, HelloInput, Leaving, News},
    callbacker::Attempt,
    changes::Changes,
    courier::{self, Courier},
    order::{Order, OrderAnswer},
    picker::Memory,
    plan::Plans,
    pulse::{Pulse, Seen},
    sessions::{
        Sessions,
        hearing::{Heard, Told},
    },
    sub_jobs::Handover,
};
use crate::{
    domain::{
        command::{Disconnect, DisconnectReason, Down},
        gathering::Gathered,
        heartbeat::{Drain, Frame, Hello},
        time::Timestamp,
        timing::Timing,
    },
    store::{Store, log::Logs},
};

/// How many events may wait to be taken in.
const EVENTS_MAX: usize = 4_096;
/// How many orders may wait for a turn; the next caller is told to come again.
const ORDERS_WAITING_MAX: usize = 4_096;
/// How many runners may wait to be let in; the next is told to dial another scheduler, or again.
const CALLERS_WAITING_MAX: usize = 20_000;
/// How often the engine looks at the database unasked: it only repairs what a lost signal left undone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the report that a task runs may wait for something else to make a turn with. Nobody waits for it, and of a
/// task that is over within this time it costs no commit of its own, nor does its result wait for one.
const STARTED_PATIENCE: Duration = Duration::from_millis(10);
/// A turn that takes longer than this waits for an answer that will not come: its connection is given up.
pub(super) const TURN_MAX: Duration = Duration::from_mins(1);

/// Why a hello was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A newer stream of the same process counts.
    Superseded,
    /// Another host with this id is alive.
    Duplicate,
    /// The scheduler cannot reach its database, or is stopping.
    Unavailable,
}

#[derive(Debug)]
enum Event {
    Order(Order, oneshot::Sender<OrderAnswer>),
    Hello { hello: Box<Hello>, first_seq: u64, out: mpsc::Sender<Down>, reply: oneshot::Sender<Result<Uuid, Refusal>> },
    Frame(Uuid, Frame),
    Closed(Uuid),
    Seen(Seen),
    Tried(Box<Attempt>),
    Wake,
    Stop(oneshot::Sender<()>),
}

/// The engine of a scheduler. Clones share it.
#[derive(Debug, Clone)]
pub struct Engine {
    events: mpsc::Sender<Event>,
    changes: Changes,
}

/// What an engine is started with.
#[derive(Debug)]
pub struct Settings {
    /// The database.
    pub store: Store,
    /// The times of the protocol.
    pub timing: Timing,
    /// This scheduler's id.
    pub scheduler: Uuid,
    /// Where runners reach this scheduler.
    pub address: String,
    /// Where services find a scheduler for their callbacks, such as `https://baton.example.com`.
    pub public_url: String,
    /// How callbacks are carried out.
    pub courier: courier::Settings,
}

impl Engine {
    /// Starts an engine. It ends when [`Engine::stop`] has been called.
    pub fn start(settings: Settings) -> (Self, JoinHandle<()>) {
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let changes = Changes::default();
        let engine = Self { events, changes: changes.clone() };
        let handle = tokio::spawn(Loop::new(settings, engine.clone(), inbox).run());
        (engine, handle)
    }
}

/// A runner that waits to be let in.
struct Caller {
    input: HelloInput,
    first_seq: u64,
    out: mpsc::Sender<Down>,
    reply: oneshot::Sender<Result<Uuid, Refusal>>,
}

struct Loop {
    engine: Engine,
    inbox: mpsc::Receiver<Event>,
    timing: Timing,
    scheduler: Uuid,
    /// What a turn needs; with the turn while one is under way.
    context: Option<Context>,
    sessions: Sessions,
    pulse: Pulse,
    deliveries: Deliveries,
    /// Hears of what is given out before any output of it comes.
    logs: Logs,

    orders: VecDeque<(Order, oneshot::Sender<OrderAnswer>)>,
    callers: VecDeque<Caller>,
    facts: VecDeque<Fact>,
    leaving: Vec<Leaving>,
    draining: Vec<(String, Uuid, bool)>,

    /// Something is there for a turn to do.
    due: bool,
    /// Until when the reports that tasks run may wait for that.
    started_until: Option<Instant>,
    /// Ends that were reported since the last turn began.
    gathered: Option<Gathered>,
    /// How many the last turn took in.
    ends_before: usize,
    /// How many slots had a task after it.
    given_out: usize,
    look_at: Instant,
    sweep_at: Instant,
    retry_wait: Duration,
    retry_at: Option<Instant>,
    /// The last turn was refused: the next ones carry one thing each, until this many have gone well.
    singly: usize,
    /// Whether the last turn was committed is not known: what it gave out, if it was, nobody was told.
    in_doubt: bool,
    wake_at: Option<Instant>,
    /// When the next schedule is due.
    fire_at: Option<Instant>,
    /// Something waits for the end of a job.
    waiters: bool,
    /// A job ended in the last turn: the next one looks who waited for that.
    job_ended: bool,
    /// What the last turn left for the next.
    handover: Handover,
    /// The time of the last turn, by the database and by this machine.
    clock: Option<(Timestamp, Instant)>,
    /// The clock of the database went back, or may have before this scheduler started.
    clock_set_back: bool,
    drained: bool,
    /// Sessions whose runners told something about jobs that are laid aside.
    untaken: HashSet<Uuid>,
    stopping: Option<oneshot::Sender<()>>,
    /// The turn that takes in what came before the stop was begun.
    last_turn: bool,
}

impl Loop {
    fn new(settings: Settings, engine: Engine, inbox: mpsc::Receiver<Event>) -> Self {
        let Settings { store, timing, scheduler, address, public_url, courier } = settings;
        let courier = Courier::new(courier);
        let now = Instant::now();
        let clustered = store.is_clustered();
        let pulse = Pulse::new(store.clone(), timing, scheduler, address);
        let logs = store.logs().clone();
        Self {
            engine,
            inbox,
            timing,
            scheduler,
            context: Some(Context {
                store,
                timing,
                scheduler,
                plans: Plans::default(),
                memory: Memory::default(),
                backoff: courier.backoff(),
                clustered,
                public_url,
                followed: None,
            }),
            sessions: Sessions::default(),
            pulse,
            deliveries: Deliveries::new(courier),
            logs,
            orders: VecDeque::new(),
            callers: VecDeque::new(),
            facts: VecDeque::new(),
            leaving: Vec::new(),
            draining: Vec::new(),
            due: true,
            started_until: None,
            gathered: None,
            ends_before: 0,
            given_out: 0,
            look_at: now,
            sweep_at: now + timing.sweep_interval,
            retry_wait: RETRY_BASE,
            retry_at: None,
            singly: 0,
            in_doubt: false,
            wake_at: None,
            fire_at: None,
            waiters: false,
            job_ended: false,
            handover: Handover::default(),
            clock: None,
            clock_set_back: true,
            drained: false,
            untaken: HashSet::new(),
            stopping: None,
            last_turn: false,
        }
    }

    async fn run(mut self) {
        let mut under: Option<Under> = None;
        let mut pulse = tokio::time::interval(self.timing.seen_interval);
        pulse.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if under.is_none() && !self.last_turn && self.is_due(Instant::now()) {
                self.last_turn = self.stopping.is_some();
                under = Some(self.begin());
            }
            if under.is_none() && self.stopping.is_some() {
                break;
            }
            let sleep = self.sleep(under.is_some(), Instant::now());
            tokio::select! {
                biased;
                done = async { (&mut under.as_mut().expect("guarded").task).await }, if under.is_some() => {
                    let under = under.take().expect("a turn was under way");
                    match done {
                        Ok((context, _, outcome)) => {
                            self.context = Some(context);
                            self.finish(under, outcome);
                        }
                        // A turn that panics has changed nothing, but its context is gone: there is no going on.
                        Err(panic) => {
                            error!(%panic, "a turn of the engine panicked");
                            return;
                        }
                    }
                }
                // Before what comes in, so that a flood of frames cannot keep signs of life from being committed.
                _ = pulse.tick() => self.beat(),
                event = self.inbox.recv() => match event {
                    Some(event) => self.absorb_all(event),
                    None => return,
                },
                () = tokio::time::sleep(sleep) => {}
            }
        }
        self.part().await;
    }

    /// Takes an event in, and whatever else is waiting.
    fn absorb_all(&mut self, first: Event) {
        self.absorb(first);
        for _ in 0..EVENTS_MAX {
            match self.inbox.try_recv() {
                Ok(event) => self.absorb(event),
                Err(_) => break,
            }
        }
    }

    fn absorb(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Order(order, reply) if self.orders.len() >= ORDERS_WAITING_MAX => {
                let _ = reply.send(order.failed(handle::too_many()));
            }
            Event::Order(order, reply) => self.orders.push_back((order, reply)),
            Event::Hello { reply, .. } if self.callers.len() >= CALLERS_WAITING_MAX => {
                let _ = reply.send(Err(Refusal::Unavailable));
            }
            Event::Hello { hello, first_seq, out, reply } => {
                let input = HelloInput { hello: *hello, session: Uuid::now_v7() };
                self.callers.push_back(Caller { input, first_seq, out, reply });
            }
            Event::Frame(id, frame) => self.hear(id, &frame, now),
            Event::Closed(id) => {
                self.untaken.remove(&id);
                if let Some(session) = self.sessions.remove(id) {
                    debug!(runner.id = %session.runner, session.id = %id, "stream ended");
                }
            }
            Event::Seen(seen) => self.seen(seen, now),
            Event::Tried(attempt) => self.deliveries.tried(*attempt),
            Event::Wake => {
                self.look_at = now;
            }
            Event::Stop(reply) => self.stopping = Some(reply),
        }
    }

    fn hear(&mut self, id: Uuid, frame: &Frame, now: Instant) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Heard { told, drain, freed } = session.hear(frame, now);
        match drain {
            Some(Drain::Leaving) => self.leaving.push(Leaving { runner: session.runner.clone(), session: id }),
            Some(drain) => self.draining.push((session.runner.clone(), id, drain == Drain::Draining)),
            None => {}
        }
        let started = |told: &Told| matches!(told.news, News::Started);
        if told.iter().any(started) {
            self.started_until.get_or_insert(now + STARTED_PATIENCE);
        }
        let ends = told.iter().filter(|told| told.news.is_an_end()).count();
        if ends > 0 {
            self.gathered = Some(Gathered::and(self.gathered, ends, now));
        }
        // A slot that became idle without a word about a task may be given one. A beat that brings nothing new is no
        // reason for a turn: thousands of idle runners beat.
        self.due |= freed || !told.iter().all(|told| started(told) || told.news.is_an_end());
        self.facts.extend(told.into_iter().map(|told| told.of(id)));
    }

    /// Whether there is something for a turn to do.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.retry_at.is_some_and(|at| at > now) {
            return false;
        }
        if self.wake_at.is_some_and(|at| at <= now) {
            self.wake_at = None;
            self.look_at = now;
        }
        if self.started_until.is_some_and(|until| until <= now) {
            self.due = true;
        }
        self.due |= self.gather_until(now).is_some_and(|until| until <= now);
        self.due |= self.fire_at.is_some_and(|at| at <= now) || self.deliveries.due(now).is_some_and(|at| at <= now);
        let waiting = !self.orders.is_empty() || !self.callers.is_empty();
        waiting || self.due || self.look_at <= now || !self.leaving.is_empty() || !self.draining.is_empty()
    }

    /// Until when ends that were reported wait for others, if there are any.
    fn gather_until(&self, now: Instant) -> Option<Instant> {
        let gathered = self.gathered?;
        Some(gathered.wait_until(self.ends_before, self.given_out).unwrap_or(now))
    }

    fn sleep(&self, under_way: bool, now: Instant) -> Duration {
        if under_way {
            return LOOK_INTERVAL;
        }
        let mut until = self.look_at;
        let (gathered, delivery) = (self.gather_until(now), self.deliveries.due(now));
        for at in [self.wake_at, self.started_until, gathered, self.fire_at, delivery].into_iter().flatten() {
            until = until.min(at);
        }
        if let Some(at) = self.retry_at {
            until = until.max(at);
        }
        until.saturating_duration_since(now)
    }

    /// The end of a planned stop: the tasks of its runners are held, and those are told to dial another scheduler, or
    /// this one's successor.
    async fn part(mut self) {
        let context = self.context.take().expect("no turn is under way");
        let held = self.pulse.part(&context.store, self.timing.hold_for).await;
        if let Err(error) = &held {
            warn!(%error, "the tasks of this scheduler's runners could not be held");
        }
        let now = Instant::now();
        let disconnect = Disconnect {
            reason: DisconnectReason::Shutdown,
            reconnect_after: None,
            hold_for: held.is_ok().then_some(self.timing.hold_for),
            message: "the scheduler is stopping".to_owned(),
        };
        self.deliveries.abandon(&context).await;
        info!(runners = self.sessions.len(), "telling runners to go");
        for session in self.sessions.iter_mut() {
            session.close(disconnect.clone(), now);
        }
        for (order, reply) in self.orders.drain(..) {
            let _ = reply.send(order.failed(handle::stopping()));
        }
        if let Some(reply) = self.stopping.take() {
            let _ = reply.send(());
        }
    }
}
