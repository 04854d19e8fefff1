//! The sessions of this scheduler's runners, in memory: what each slot was given, what was sent, what was taken in.
//!
//! Memory only spares questions; the database decides. What is held here is lost with the scheduler and made anew from
//! the hellos of the runners.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::batch::{Fact, IdleSession, News};
use crate::domain::{
    command::{Command, Disconnect, DisconnectReason, Down},
    heartbeat::{self, Answer, Drain, EndReason, Frame, Held, Hello, Reading, SlotReport, SlotStatus, TaskRef},
    placement::{Offer, Traits},
    task::Ending,
    timing::Timing,
};

/// How many frames may wait for a runner to read them.
pub const QUEUE_FRAMES_MAX: usize = 256;

/// How many commands may wait for room in that queue, beside four for each slot: a runner with more than these unread is
/// disconnected at once.
const WAITING_MAX: usize = 64;

/// What the specs of one frame may take together, beside one that takes more by itself. A runner takes in frames of sixteen
/// times that.
const SPECS_BYTES_MAX: usize = 4 << 20;

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

/// What a frame brought.
#[derive(Default)]
pub(super) struct Heard {
    /// News about tasks.
    pub told: Vec<Told>,
    /// Whether the runner takes new work, if that has changed.
    pub drain: Option<Drain>,
    /// Slots became idle.
    pub freed: bool,
}

/// News that a frame brought, with the slot it came from.
pub(super) struct Told {
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub news: News,
}

impl Told {
    /// The same as a fact that this session told.
    pub(super) fn of(self, session: Uuid) -> Fact {
        Fact { source: Some((session, self.slot)), task: self.task, job_id: self.job_id, news: self.news }
    }
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

    /// Sends a frame with these commands, after what still waits for room.
    pub(super) fn send(&mut self, commands: Vec<Command>, now: Instant) {
        // Who has not read what waits already learns nothing from one more answer.
        let says_nothing = commands.iter().all(|command| matches!(command, Command::GoOn { .. }));
        if !says_nothing || self.waiting.is_empty() {
            self.waiting.extend(commands);
        }
        self.flush(None, now);
    }

    /// Sends the first frame.
    pub(super) fn welcome(&mut self, welcome: crate::domain::command::Welcome, now: Instant) {
        self.flush(Some(Box::new(welcome)), now);
    }

    fn flush(&mut self, mut welcome: Option<Box<crate::domain::command::Welcome>>, now: Instant) {
        loop {
            let Ok(place) = self.out.try_reserve() else {
                self.waiting_since.get_or_insert(now);
                return;
            };
            self.waiting_since = None;
            self.seq += 1;
            let commands = portion(&mut self.waiting);
            for command in &commands {
                // Nothing may be inferred from a frame that was sent before the one that gives the task out [2].
                if let Command::RunNew { slot, task, .. } = command
                    && let Some(Slot::Held(held)) = self.slots.get_mut(*slot as usize)
                    && held.held.task == *task
                {
                    held.held.run_seq = self.seq;
                }
            }
            let welcome = welcome.take();
            if welcome.is_some() || commands.iter().any(|command| !matches!(command, Command::GoOn { .. })) {
                self.unacked.push_back((self.seq, now));
            }
            place.send(Down { seq: self.seq, ack: self.committed, welcome, commands });
            if self.waiting.is_empty() {
                return;
            }
        }
    }

    /// Ends the stream; the runner is told why if there is room to.
    pub(super) fn close(&mut self, disconnect: Disconnect, now: Instant) {
        if !self.closed {
            self.send(vec![Command::Disconnect(disconnect)], now);
            self.closed = true;
        }
    }

    /// The seq of the next frame.
    pub(super) fn next_seq(&self) -> u64 {
        self.seq + 1
    }

    /// Whether frames were heard whose sign of life is not committed.
    pub(super) fn unseen(&self) -> Option<u64> {
        (self.heard > self.committed).then_some(self.heard)
    }

    /// Signs of life up to this frame are committed: tells the runner so.
    pub(super) fn seen(&mut self, seq: u64, now: Instant) {
        self.committed = self.committed.max(seq);
        self.unseen_since = self.unseen().map(|_| now);
        self.send(vec![Command::GoOn { degraded: false }], now);
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

    /// Takes a frame in: what it tells, and at once what to answer to strays.
    pub(super) fn hear(&mut self, frame: &Frame, now: Instant) -> Heard {
        let mut heard = Heard::default();
        self.heard = self.heard.max(frame.seq);
        if self.unseen().is_some() {
            self.unseen_since.get_or_insert(now);
        }
        while self.unacked.front().is_some_and(|(seq, _)| *seq <= frame.ack) {
            self.unacked.pop_front();
        }
        let idle_before = self.count_free();
        if !self.settled && frame.ack >= 1 {
            self.settled = true;
            for slot in &mut self.slots {
                if matches!(slot, Slot::Unknown) {
                    *slot = Slot::Free;
                }
            }
        }
        // A runner says it in every frame; only a change is news, and a slot of one that works again is free anew.
        if frame.drain.is_some() && frame.drain != self.said {
            self.said = frame.drain;
            heard.drain = frame.drain;
            heard.freed = frame.drain == Some(Drain::Working);
        }
        match frame.drain {
            Some(Drain::Working) => self.draining = false,
            Some(_) => self.draining = true,
            None => {}
        }
        let mut commands = Vec::new();
        for report in &frame.slots {
            if let Some(news) = self.hear_slot(report, frame.ack, &mut commands) {
                heard.told.push(news);
            }
        }
        if !commands.is_empty() {
            self.send(commands, now);
        }
        heard.freed |= self.count_free() > idle_before;
        heard
    }

    fn count_free(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Free)).count()
    }

    fn hear_slot(&mut self, report: &SlotReport, ack: u64, commands: &mut Vec<Command>) -> Option<Told> {
        let settled = self.settled;
        let slot = report.slot;
        let place = self.slots.get_mut(slot as usize)?;
        let held = match place {
            Slot::Held(held) => Some(held),
            _ => None,
        };
        let reading = heartbeat::read(held.as_ref().map(|held| &held.held), report, ack);
        match (reading, report.task) {
            (Reading::Stray, Some(task)) => {
                commands.push(Command::Reset { slot, task, grace: None });
                if !matches!(place, Slot::Held(_) | Slot::Offered) {
                    *place = Slot::Stray;
                }
                return None;
            }
            (Reading::StrayResult, Some(task)) => {
                commands.push(Command::ResultAck { slot, task, message: "nobody waits for it".to_owned() });
                if settled && !matches!(place, Slot::Held(_) | Slot::Offered) {
                    *place = Slot::Free;
                }
                return None;
            }
            _ => {}
        }
        let Slot::Held(held) = place else {
            if settled && report.status == SlotStatus::Idle && matches!(place, Slot::Unknown | Slot::Stray) {
                *place = Slot::Free;
            }
            return None;
        };
        if report.task == Some(held.held.task) {
            held.unanswered_since = None;
        }
        if report.answer == Some(Answer::RejectedDraining) {
            self.draining = true;
        }
        let news = match reading {
            Reading::Started => {
                held.held.started = true;
                News::Started
            }
            Reading::Result if !held.reported => {
                let mut result = report.result.clone()?;
                // It ran into its timeout, which its runner should have seen itself.
                if held.overdue && result.end_reason == EndReason::Reset {
                    result.end_reason = EndReason::Timeout;
                }
                News::Result(result.into())
            }
            Reading::Ended(ending) if !held.reported => News::Ended(ending, words(report)),
            Reading::IdlePastAck if !held.reported => News::IdlePastAck,
            _ => return None,
        };
        if !matches!(news, News::Started) {
            held.reported = true;
        }
        Some(Told { slot, task: held.held.task, job_id: held.job_id, news })
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

    /// Answers what was heard although its sign of life is not committed yet: the writer of the database may be busy with a
    /// long turn, and a runner without an answer would take the stream for deaf [10]. The ack does not move.
    fn answer_late(&mut self, timing: &Timing, now: Instant) {
        let late = self.unseen_since.is_some_and(|since| now - since > timing.answer_timeout / 2);
        if late && self.heard > self.answered {
            self.answered = self.heard;
            self.send(vec![Command::GoOn { degraded: true }], now);
        }
    }

    /// Looks at what is overdue: commands without an answer, tasks past their time. Returns why the stream is to be
    /// closed, if it is.
    pub(super) fn check(&mut self, timing: &Timing, now: Instant) -> Option<Disconnect> {
        let unresponsive = |message: &str| Some(Disconnect::because(DisconnectReason::Unresponsive, message));
        if self.waiting_since.is_some() {
            self.flush(None, now);
        }
        let overdue_read = self.waiting_since.is_some_and(|since| now - since > timing.heartbeat_interval);
        if overdue_read || self.waiting.len() > WAITING_MAX + self.slots.len() * 4 {
            return unresponsive("it does not read its commands");
        }
        self.answer_late(timing, now);
        let patience = timing.accept_timeout + timing.heartbeat_interval;
        if self.unacked.front().is_some_and(|(_, since)| now - *since > patience) {
            return unresponsive("it does not take its commands in");
        }
        let (mut overdue, mut silent) = (Vec::new(), false);
        for (at, slot) in (0..).zip(&mut self.slots) {
            let Slot::Held(held) = slot else { continue };
            if let Some(since) = held.unanswered_since {
                // Silence is no proof: ask, then part [3].
                match held.reset_at {
                    None if now - since > timing.accept_timeout => overdue.push((at, held.held.task, held.job_id)),
                    Some(reset) if now - reset > timing.accept_timeout => silent = true,
                    _ => {}
                }
            } else if held.reset_at.is_none() && held.deadline.is_some_and(|deadline| now > deadline) {
                held.overdue = true;
                overdue.push((at, held.held.task, held.job_id));
            }
        }
        if silent {
            return unresponsive("it does not answer RESET");
        }
        for (slot, task, job_id) in overdue {
            self.reset(ToEnd { slot, task, job_id, grace: None, told: false }, now);
        }
        None
    }

    /// Whether the stream has ended, or is to.
    pub(super) fn is_closed(&self) -> bool {
        self.closed || self.out.is_closed()
    }
}

/// Takes what goes into the next frame: in its order, up to the spec that would be too much.
fn portion(waiting: &mut Vec<Command>) -> Vec<Command> {
    let mut bytes = 0;
    let mut fits = |command: &Command| {
        if let Command::RunNew { spec, .. } = command {
            bytes += spec.bytes();
        }
        bytes <= SPECS_BYTES_MAX
    };
    let count = waiting.iter().take_while(|command| fits(command)).count();
    let rest = waiting.split_off(count.max(1).min(waiting.len()));
    std::mem::replace(waiting, rest)
}

fn words(report: &SlotReport) -> String {
    let said = match report.answer {
        Some(Answer::RejectedBusy) => "the slot was busy",
        Some(Answer::RejectedDraining) => "the runner is draining",
        Some(Answer::RejectedLate) => "the command came too late",
        Some(Answer::RejectedTarget) => "the runner cannot run this target",
        Some(Answer::RejectedSpec) => "the runner refused what it was to run",
        Some(Answer::Stale) => "the runner knows a newer dispatch",
        Some(Answer::NotHeld) => "the runner does not have it",
        Some(Answer::Unsupported) => "the runner does not know the command",
        None => "it ended",
    };
    if report.message.is_empty() { said.to_owned() } else { format!("{said}: {}", report.message) }
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
