//! The engine: everything that changes a state comes in here as an event, is taken into the next turn, and leaves again
//! once the turn is committed.
//!
//! Two things go on side by side. The loop below owns the sessions, takes events in and sends what is to be sent; it
//! never waits for the database, so that a beat is answered even while a turn is stuck. The turn runs in a task of its
//! own, one at a time; what comes in meanwhile is the next batch. There is no timer in that: an idle system waits for
//! nothing, a busy one commits many changes at once.

mod deliveries;
mod door;
mod handle;

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tracing::{debug, error, info, warn};
use uuid::Uuid;

use self::deliveries::Deliveries;
use super::{
    batch::{Agenda, Context, Fact, HelloInput, Input, Leaving, News, Output, Reset},
    callbacker::Attempt,
    changes::Changes,
    courier::{self, Courier},
    order::{Order, OrderAnswer},
    picker::Memory,
    plan::Plans,
    pulse::{Pulse, Seen},
    request,
    sessions::{self, Given, Heard, Sessions, ToEnd, Told},
    sub_jobs::Handover,
    turn,
};
use crate::{
    domain::{
        command::{Command, Disconnect, DisconnectReason, Down},
        heartbeat::{Drain, Frame, Hello, TaskRef},
        task::Ending,
        time::Timestamp,
        timing::Timing,
    },
    store::{self, Store, log::Logs},
};

/// How many events may wait to be taken in.
const EVENTS_MAX: usize = 4_096;
/// How many orders may wait for a turn; the next caller is told to come again.
const ORDERS_WAITING_MAX: usize = 4_096;
/// How many runners may wait to be let in; the next is told to dial another scheduler, or again.
const CALLERS_WAITING_MAX: usize = 20_000;
/// How many orders one turn carries out.
const ORDERS_MAX: usize = 256;
/// How many hellos one turn settles.
const HELLOS_MAX: usize = 128;
/// How many reports one turn decides.
const FACTS_MAX: usize = 2_000;
/// How often the engine looks at the database unasked: it only repairs what a lost signal left undone.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the report that a task runs may wait for something else to make a turn with. Nobody waits for it, and of a
/// task that is over within this time it costs no commit of its own, nor does its result wait for one.
const STARTED_PATIENCE: Duration = Duration::from_millis(10);
/// The wait before a failed turn is tried again, doubled with each failure.
const RETRY_BASE: Duration = Duration::from_millis(20);
/// The longest sleep: what is further away is asked for again.
const WAKE_MAX: Duration = Duration::from_hours(1);
/// How far the clock of the database may go back against ours before it counts as set back.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);
/// Its cap.
const RETRY_MAX: Duration = Duration::from_secs(2);
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

/// What a turn under way was given, beside what it reads.
struct Under {
    task: JoinHandle<(Context, Arc<Input>, Result<Output, store::Error>)>,
    input: Arc<Input>,
    replies: Vec<oneshot::Sender<OrderAnswer>>,
    callers: Vec<Caller>,
    offered: Vec<Uuid>,
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
        // A slot that became idle without a word about a task may be given one. A beat that brings nothing new is no
        // reason for a turn: thousands of idle runners beat.
        self.due |= freed || !told.iter().all(started);
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
        self.due |= self.fire_at.is_some_and(|at| at <= now) || self.deliveries.due(now).is_some_and(|at| at <= now);
        let waiting = !self.orders.is_empty() || !self.callers.is_empty();
        waiting || self.due || self.look_at <= now || !self.leaving.is_empty() || !self.draining.is_empty()
    }

    fn sleep(&self, under_way: bool, now: Instant) -> Duration {
        if under_way {
            return LOOK_INTERVAL;
        }
        let mut until = self.look_at;
        for at in [self.wake_at, self.started_until, self.fire_at, self.deliveries.due(now)].into_iter().flatten() {
            until = until.min(at);
        }
        if let Some(at) = self.retry_at {
            until = until.max(at);
        }
        until.saturating_duration_since(now)
    }

    /// Starts a turn with what is waiting.
    fn begin(&mut self) -> Under {
        let now = Instant::now();
        let (mut orders_max, mut hellos_max, mut facts_max) = (ORDERS_MAX, HELLOS_MAX, FACTS_MAX);
        if self.singly > 0 {
            // One thing a turn, so that the one the database refuses is found.
            orders_max = 1;
            hellos_max = usize::from(self.orders.is_empty());
            facts_max = usize::from(self.orders.is_empty() && self.callers.is_empty());
        }
        let (orders, replies): (Vec<_>, Vec<_>) = self.orders.drain(..self.orders.len().min(orders_max)).unzip();
        // Who gave up waiting has dialed again, and must not take the place of its own newer stream.
        self.callers.retain(|caller| !caller.out.is_closed());
        let callers: Vec<Caller> = self.callers.drain(..self.callers.len().min(hellos_max)).collect();
        let facts: Vec<Fact> = self.facts.drain(..self.facts.len().min(facts_max)).collect();
        let look = self.look_at <= now;
        if look {
            self.look_at = now + LOOK_INTERVAL;
        }
        let mut sweep = None;
        if self.sweep_at <= now {
            self.sweep_at = now + self.timing.sweep_interval;
            sweep = self.pulse.judge(now);
        }
        // What the last turn may have given out is settled before its slots are offered again.
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let idle = if self.stopping.is_some() || self.drained || in_doubt {
            Vec::new()
        } else {
            let busy: HashSet<Uuid> = facts.iter().filter_map(|fact| fact.source).map(|(session, _)| session).collect();
            self.sessions.offer(&busy)
        };
        let fire = (look || self.job_ended || self.fire_at.is_some_and(|at| at <= now)) && self.stopping.is_none();
        if fire {
            self.fire_at = None;
        }
        let mut input = Input {
            orders,
            hellos: callers.iter().map(|caller| caller.input.clone()).collect(),
            facts,
            // What a runner said before it left counts first.
            leaving: if self.facts.is_empty() { std::mem::take(&mut self.leaving) } else { Vec::new() },
            draining: std::mem::take(&mut self.draining),
            idle,
            look: (look || in_doubt).then(|| self.sessions.ids()),
            in_doubt,
            sweep,
            fire,
            job_ended: std::mem::take(&mut self.job_ended),
            handover: std::mem::take(&mut self.handover),
            clock_set_back: fire && std::mem::take(&mut self.clock_set_back),
            ..Input::default()
        };
        self.deliveries.offer(&mut input, now, self.stopping.is_some());
        let input = Arc::new(input);
        // What one turn has no room for is a reason for the next.
        self.due = !self.facts.is_empty();
        self.started_until = None;
        let mut context = self.context.take().expect("no turn is under way");
        let offered = input.idle.iter().map(|idle| idle.session).collect();
        let given = input.clone();
        let carrier = context.store.carrier();
        let task = carrier.spawn(async move {
            let outcome = turn::within(TURN_MAX, &mut context, &given).await;
            (context, given, outcome)
        });
        Under { task, input, replies, callers, offered }
    }

    /// Lets out what a turn came to.
    fn finish(&mut self, under: Under, outcome: Result<Output, store::Error>) {
        let now = Instant::now();
        let Under { input, replies, callers, offered, .. } = under;
        match outcome {
            Ok(output) => {
                self.retry_wait = RETRY_BASE;
                self.retry_at = None;
                self.singly = self.singly.saturating_sub(1);
                self.pulse.touched(now);
                self.perform(&input, replies, callers, output, now);
                self.sessions.withdraw(&offered);
            }
            Err(error) => {
                self.in_doubt |= input.in_doubt || error.is_unreachable();
                self.sessions.withdraw(&offered);
                self.recover(&input, replies, callers, &error, now);
            }
        }
    }

    /// After a turn that failed: everything waits for the next, but what cannot wait is refused.
    fn recover(
        &mut self,
        input: &Input,
        replies: Vec<oneshot::Sender<OrderAnswer>>,
        callers: Vec<Caller>,
        error: &store::Error,
        now: Instant,
    ) {
        let things = input.orders.len() + input.hellos.len() + input.facts.len();
        self.due = true;
        self.job_ended |= input.job_ended;
        self.handover = input.handover.clone();
        self.fire_at = if input.fire { Some(now) } else { self.fire_at };
        self.clock_set_back |= input.clock_set_back;
        if input.look.is_some() {
            self.look_at = now;
        }
        self.leaving.extend(input.leaving.iter().cloned());
        self.draining.extend(input.draining.iter().cloned());
        if error.is_contended() {
            self.deliveries.give_back(input);
            debug!(%error, "turn repeated");
            self.give_back(input, replies, callers);
            self.back_off(now);
            return;
        }
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        if error.is_unreachable() {
            warn!(%error, cause, "turn failed");
            self.deliveries.give_back(input);
            self.pulse.lost_touch(now);
            let sorry = match error {
                store::Error::Full(_) => error.to_string(),
                _ => "the scheduler cannot reach its database; try again in a moment".to_owned(),
            };
            for (order, reply) in input.orders.iter().zip(replies) {
                let _ = reply.send(order.failed(request::Error::Unavailable(sorry.clone())));
            }
            for caller in callers {
                let _ = caller.reply.send(Err(Refusal::Unavailable));
            }
            self.keep_facts(input);
            self.back_off(now);
            return;
        }
        // What they came to may be what was refused; their claims expire, and they are tried again.
        self.deliveries.forsake(input);
        error!(%error, cause, things, "turn refused");
        if things > 1 {
            self.singly = things;
            self.give_back(input, replies, callers);
            self.back_off(now);
            return;
        }
        for (order, reply) in input.orders.iter().zip(replies) {
            let _ = reply.send(order.failed(request::Error::Internal(format!("{error}: {cause}"))));
        }
        for caller in callers {
            let _ = caller.reply.send(Err(Refusal::Unavailable));
        }
        for fact in &input.facts {
            if matches!(fact.news, News::Result(_)) {
                // Told anew without what the runner said, which is what the database may have refused.
                let news = News::Ended(Ending::Failure, format!("result refused: {error}"));
                self.facts.push_front(Fact { news, ..fact.clone() });
            } else {
                error!(task.id = %fact.task.task, "a report could not be recorded");
                // The hello that follows settles what it was about.
                if let Some((session, _)) = fact.source {
                    let message = "a report could not be recorded; say hello again";
                    self.disconnect(session, DisconnectReason::Unresponsive, message, now);
                }
            }
        }
        self.back_off(now);
    }

    fn give_back(&mut self, input: &Input, replies: Vec<oneshot::Sender<OrderAnswer>>, callers: Vec<Caller>) {
        for order in input.orders.iter().cloned().zip(replies).rev() {
            self.orders.push_front(order);
        }
        for caller in callers.into_iter().rev() {
            self.callers.push_front(caller);
        }
        self.keep_facts(input);
    }

    fn keep_facts(&mut self, input: &Input) {
        for fact in input.facts.iter().rev() {
            self.facts.push_front(fact.clone());
        }
    }

    fn back_off(&mut self, now: Instant) {
        self.retry_at = Some(now + self.retry_wait);
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
    }

    /// Everything that follows from a committed turn.
    fn perform(
        &mut self,
        input: &Input,
        replies: Vec<oneshot::Sender<OrderAnswer>>,
        callers: Vec<Caller>,
        output: Output,
        now: Instant,
    ) {
        let mut commands: Vec<(Uuid, Command)> = Vec::new();
        for (fact, outcome) in input.facts.iter().zip(&output.facts) {
            let Some((id, slot)) = fact.source else { continue };
            let Some(session) = self.sessions.get_mut(id) else { continue };
            if outcome.untaken {
                session.forget_report(slot, fact.task);
                continue;
            }
            match &fact.news {
                News::Started if !outcome.counted => {
                    let ending = ToEnd { slot, task: fact.task, job_id: fact.job_id, grace: None, told: false };
                    session.reset(ending, now);
                }
                News::Started | News::TakesLong | News::Unrenderable(_) => {}
                News::Result(_) => {
                    session.release(slot, fact.task, true);
                    let message = outcome.refused.clone();
                    commands.push((id, Command::ResultAck { slot, task: fact.task, message }));
                }
                News::Ended(ending, _) => session.release(slot, fact.task, sessions::idle_after(*ending, &fact.news)),
                News::IdlePastAck => session.release(slot, fact.task, true),
            }
        }
        for dispatch in output.dispatched {
            let TaskRef { task, lease, .. } = dispatch.task;
            self.logs.expect(task, lease, dispatch.job_id);
            let Some(session) = self.sessions.get_mut(dispatch.session) else { continue };
            let given = Given {
                slot: dispatch.slot,
                task: dispatch.task,
                job_id: dispatch.job_id,
                timeout: dispatch.spec.timeout,
                warn_after: dispatch.warn_after,
            };
            session.give(given, session.next_seq(), false, &self.timing, now);
            let (slot, task, spec) = (dispatch.slot, dispatch.task, Box::new(dispatch.spec));
            commands.push((dispatch.session, Command::RunNew { slot, task, spec }));
        }
        // One frame a session: the acknowledgement of a result and the next task go together.
        commands.sort_by_key(|(session, _)| *session);
        for group in commands.chunk_by(|a, b| a.0 == b.0) {
            if let Some(session) = self.sessions.get_mut(group[0].0) {
                session.send(group.iter().map(|(_, command)| command.clone()).collect(), now);
            }
        }
        for (order, (reply, answer)) in input.orders.iter().zip(replies.into_iter().zip(output.orders)) {
            if let Order::DrainRunner { runner, drained, reason } = order {
                self.drain_runner(runner, *drained, reason, now);
            }
            let _ = reply.send(answer);
        }
        for id in output.superseded {
            self.disconnect(id, DisconnectReason::Replaced, "this stream of the runner no longer counts", now);
        }
        for (caller, answer) in callers.into_iter().zip(output.hellos) {
            self.let_in(caller, answer, output.now, now);
        }
        for reset in output.resets {
            if let Some(session) = self.sessions.get_mut(reset.session) {
                let (slot, task, job_id, grace) = (reset.slot, reset.task, reset.job_id, reset.grace);
                session.reset(ToEnd { slot, task, job_id, grace, told: false }, now);
            }
        }
        if output.sweep_again {
            (self.look_at, self.sweep_at) = (now, now);
        }
        for Reset { session, slot, task, job_id, grace } in output.doubtful {
            if let Some(session) = self.sessions.get_mut(session).filter(|session| !session.holds(slot, task)) {
                warn!(task.id = %task.task, "given out by a turn whose outcome was not known, and taken back");
                session.reset(ToEnd { slot, task, job_id, grace, told: false }, now);
            }
        }
        self.untaken.extend(output.untaken);
        if output.unparked {
            for id in std::mem::take(&mut self.untaken) {
                self.disconnect(
                    id,
                    DisconnectReason::Unresponsive,
                    "what you told can be taken now; say it again",
                    now,
                );
            }
        }
        for (_, id) in output.lost {
            self.disconnect(id, DisconnectReason::Lost, "not heard for too long; say hello again", now);
        }
        if let Some(drained) = output.drained {
            let changed: Vec<(String, bool)> = self
                .sessions
                .iter_mut()
                .filter(|session| session.drained != drained.contains(&session.runner))
                .map(|session| (session.runner.clone(), !session.drained))
                .collect();
            for (runner, drained) in changed {
                self.drain_runner(&runner, drained, "", now);
            }
        }
        self.due |= !output.unrenderable.is_empty();
        self.facts.extend(output.unrenderable.into_iter().map(|(task, job_id, reason)| Fact {
            source: None,
            task,
            job_id,
            news: News::Unrenderable(reason),
        }));
        let read_at = output.read_at.unwrap_or(now);
        let instant = |at: Timestamp| read_at + at.since(output.now).min(WAKE_MAX);
        if let Some(at) = output.next_wake.map(instant) {
            self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
        }
        if let Some(next) = output.next_callback {
            self.deliveries.wait_for(next.0.map(instant));
        }
        self.deliveries.perform(&self.engine, input, output.claimed);
        if let Some(Agenda { due, waiters }) = output.agenda {
            self.fire_at = due.map(instant);
            self.waiters = waiters;
        }
        self.waiters |= output.waits;
        self.watch_clock(output.now, read_at);
        if output.more_ahead {
            (self.clock_set_back, self.look_at) = (true, now);
        }
        if output.followed || (output.job_ended && self.waiters) {
            self.job_ended = true;
            self.due = true;
        }
        self.due |= !output.handover.is_empty();
        self.handover = output.handover;
        if output.more {
            self.look_at = now;
        }
        self.engine.changes.publish(output.changed);
    }

    /// Notices when the clock of the database goes back against the one of this machine.
    fn watch_clock(&mut self, time: Timestamp, read_at: Instant) {
        if let Some((before, at)) = self.clock {
            let expected = before + read_at.saturating_duration_since(at);
            if expected.since(time) > CLOCK_TOLERANCE {
                warn!(back_by = ?expected.since(time), "the clock of the database was set back");
                (self.clock_set_back, self.look_at) = (true, read_at);
            }
        }
        self.clock = Some((time, read_at));
    }

    fn drain_runner(&mut self, runner: &str, drained: bool, reason: &str, now: Instant) {
        for session in self.sessions.iter_mut().filter(|session| session.runner == runner) {
            if session.drained != drained {
                info!(runner.id = %runner, drained, reason, "runner drained or resumed");
                session.drained = drained;
                session.send(vec![if drained { Command::Drain } else { Command::Resume }], now);
            }
        }
        self.due = true;
    }

    fn disconnect(&mut self, id: Uuid, reason: DisconnectReason, message: &str, now: Instant) {
        if let Some(mut session) = self.sessions.remove(id) {
            session.close(Disconnect::because(reason, message), now);
        }
    }

    /// Once each `seen_interval`: what was heard is to be committed, what is overdue is looked at.
    fn beat(&mut self) {
        let now = Instant::now();
        let mut closing = Vec::new();
        let mut long: Vec<Fact> = Vec::new();
        for session in self.sessions.iter_mut() {
            long.extend(session.taking_long(now).into_iter().map(|told| told.of(session.id)));
            if session.is_closed() {
                closing.push((session.id, None));
            } else if let Some(disconnect) = session.check(&self.timing, now) {
                closing.push((session.id, Some(disconnect)));
            }
        }
        self.due |= !long.is_empty();
        self.facts.extend(long);
        for (id, disconnect) in closing {
            if let Some(mut session) = self.sessions.remove(id)
                && let Some(disconnect) = disconnect
            {
                warn!(runner.id = %session.runner, reason = disconnect.message, "stream closed");
                session.close(disconnect, now);
            }
        }
        let heard: Vec<(String, Uuid, u64)> = self
            .sessions
            .iter_mut()
            .filter_map(|session| session.unseen().map(|seq| (session.runner.clone(), session.id, seq)))
            .collect();
        self.pulse.beat(heard, self.engine.clone(), now);
    }

    /// What the last beat came to.
    fn seen(&mut self, seen: Seen, now: Instant) {
        self.pulse.seen(&seen, now);
        match seen {
            Seen::Committed { sessions, superseded, drained, .. } => {
                for (id, seq) in sessions {
                    if let Some(session) = self.sessions.get_mut(id) {
                        session.seen(seq, now);
                    }
                }
                for id in superseded {
                    self.disconnect(id, DisconnectReason::Replaced, "another stream of this runner counts", now);
                }
                if let Some(drained) = drained {
                    self.due |= self.drained && !drained;
                    self.drained = drained;
                }
            }
            // It keeps its streams, and says that it cannot commit: the ack does not move.
            Seen::Failed { sessions } => {
                for id in sessions {
                    if let Some(session) = self.sessions.get_mut(id) {
                        session.send(vec![Command::GoOn { degraded: true }], now);
                    }
                }
            }
        }
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
            let sorry = "the scheduler is stopping; try another, or again".to_owned();
            let _ = reply.send(order.failed(request::Error::Unavailable(sorry)));
        }
        if let Some(reply) = self.stopping.take() {
            let _ = reply.send(());
        }
    }
}
