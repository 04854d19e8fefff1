//! The runner's side of the heartbeat protocol as a pure machine: something happens, something is to be done.
//!
//! There is no clock and no I/O in here; time comes in as an argument, so any order of events can be tried. The rules
//! it keeps are those of docs/protocol.md, named by number below. Readings of ours where the text leaves room:
//!
//! - A lease whose story is over here (rejected, acknowledged, answered `NOT_HELD`, replaced) is *burnt*: a later
//!   `RUN_NEW` of it is STALE. That makes every rejection and every `NOT_HELD` the proof that rule 3 takes it for.
//! - A higher lease for a task that still lives in *another* slot waits in its own slot (RUNNING, no pid) until the
//!   old processes are gone. In the same slot the old result is dropped: under its lease it could change nothing.
//! - A RESET with a higher lease than the one held means the one held was taken back: it is stopped too, and `NOT_HELD`
//!   is said only after.
//! - Nothing but the hello is sent before the welcome.
//! - A `RUN_NEW` that carries `self_stop_after` while no frame of ours was ever acknowledged is late: nothing proves
//!   that its time has not passed.

mod burnt;
mod frames;
#[cfg(test)]
mod tests;
mod words;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, SystemTime},
};

use burnt::Burnt;
pub use words::{
    Answer, Drain, Frame, Input, Inventory, Order, Output, Received, Redial, Report, Status, Verdict, VerdictKind,
    Welcome,
};

use crate::{
    clock::Instant,
    task::{End, EndReason, RunSpec, Target, TaskRef, TaskResult},
};

/// A command that changes no slot at once is acknowledged within this time, mostly by a frame that goes anyway.
const ACK_DELAY: Duration = Duration::from_millis(50);

/// The hello may wait this many times longer for its answer than a beat: it is settled in a transaction of its own,
/// and thousands may come at once.
const HELLO_PATIENCE: u32 = 2;

/// Frames remembered with the time of their sending. When more are unacknowledged, later ones renew nothing.
const SENT_MAX: usize = 4096;

/// What the machine must know before it begins.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many tasks it may hold at once.
    pub slots: u32,
    /// How long processes may take to end after SIGTERM, unless told otherwise.
    pub grace: Duration,
    /// The beat, until a scheduler says otherwise.
    pub heartbeat_interval: Duration,
    /// How long a beat may stay unanswered, until a scheduler says otherwise.
    pub answer_timeout: Duration,
}

/// What an earlier boot left behind.
#[derive(Debug, Clone, Default)]
pub struct Leftovers {
    /// Results that were not acknowledged, with their slots.
    pub results: Vec<(u32, TaskRef, TaskResult)>,
    /// Tasks whose processes were ended without a result, with their slots.
    pub ended: Vec<(u32, TaskRef)>,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    now: Instant,
    slots: Vec<Slot>,
    ended: Vec<TaskRef>,
    burnt: Burnt,
    session: Option<Session>,
    beat: Duration,
    answer_timeout: Duration,
    /// When the newest frame that is acknowledged was sent (rule 8).
    renewed: Option<Instant>,
    /// What a planned stop of the scheduler adds to every self-stop, until the next welcome.
    hold: Duration,
    drained: bool,
    leaving: bool,
    left: bool,
    outputs: Vec<Output>,
}

#[derive(Debug, Default)]
struct Slot {
    held: Option<Held>,
    /// The processes of a lower lease of the same task, which must be gone before `held` may start.
    old: Option<Old>,
}

#[derive(Debug)]
struct Held {
    task: TaskRef,
    stage: Stage,
    timeout: Option<Duration>,
    grace: Duration,
    self_stop_after: Option<Duration>,
    /// Why it is being stopped.
    stopping: Option<EndReason>,
    /// Higher leases that were reset while this one's processes lived: `NOT_HELD` is owed once they are gone.
    owed: Vec<TaskRef>,
    /// The result was sent on the present stream.
    told: bool,
}

#[derive(Debug)]
enum Stage {
    /// An older process of the task must be gone first.
    Waiting(Box<RunSpec>),
    Starting,
    Running {
        pid: Option<u32>,
        since: Instant,
        start_time: SystemTime,
    },
    Ended(Box<TaskResult>),
}

#[derive(Debug)]
struct Old {
    task: TaskRef,
    grace: Duration,
    self_stop_after: Option<Duration>,
    self_stopped: bool,
    owed: Vec<TaskRef>,
}

#[derive(Debug)]
struct Session {
    welcomed: bool,
    others: bool,
    seq: u64,
    ack: u64,
    acked: u64,
    /// Frames not yet acknowledged, with the time of their sending.
    sent: VecDeque<(u64, Instant)>,
    /// Since when a frame waits for any answer.
    unanswered_since: Option<Instant>,
    next_beat: Instant,
    changed: BTreeSet<u32>,
    answers: Vec<Report>,
    urgent: bool,
    ack_by: Option<Instant>,
}

impl Held {
    fn alive(&self) -> bool {
        matches!(self.stage, Stage::Starting | Stage::Running { .. })
    }

    fn status(&self) -> Status {
        match &self.stage {
            Stage::Ended(result) if result.succeeded() => Status::Finished,
            Stage::Ended(_) => Status::Failed,
            _ => Status::Running,
        }
    }
}

impl Slot {
    fn is_free(&self) -> bool {
        self.held.is_none() && self.old.is_none()
    }

    fn status(&self) -> Status {
        self.held.as_ref().map_or(Status::Idle, Held::status)
    }
}

impl Machine {
    /// A machine at rest. A slot that keeps a result of an earlier boot is taken until that is acknowledged, even when
    /// the runner now has fewer slots.
    pub fn new(settings: Settings, leftovers: Leftovers) -> Self {
        let count = leftovers.results.iter().map(|(slot, ..)| slot + 1).max().unwrap_or(0).max(settings.slots);
        let mut slots: Vec<Slot> = Vec::new();
        slots.resize_with(count as usize, Slot::default);
        for (slot, task, result) in leftovers.results {
            slots[slot as usize].held = Some(Held {
                task,
                stage: Stage::Ended(Box::new(result)),
                timeout: None,
                grace: settings.grace,
                self_stop_after: None,
                stopping: None,
                owed: Vec::new(),
                told: false,
            });
        }
        Self {
            burnt: Burnt::new(count as usize),
            now: Instant::default(),
            slots,
            ended: leftovers.ended.into_iter().map(|(_, task)| task).collect(),
            session: None,
            beat: settings.heartbeat_interval,
            answer_timeout: settings.answer_timeout,
            renewed: None,
            hold: Duration::ZERO,
            drained: false,
            leaving: false,
            left: false,
            outputs: Vec::new(),
            settings,
        }
    }

    /// What follows from `input`. Time passes first: what is due by `now` happens before the input does.
    pub fn step(&mut self, now: Instant, input: Input) -> Vec<Output> {
        self.now = self.now.max(now);
        self.expire();
        match input {
            Input::Opened { others } => self.open(others),
            Input::Closed => self.session = None,
            Input::Received(frame) => self.receive(frame),
            Input::Started { slot, task, pid, start_time } => self.started(slot, task, pid, start_time),
            Input::Ended { slot, task, end } => self.work_ended(slot, task, end),
            Input::Tick => {}
            Input::Leave => self.leave(),
            Input::StopAll => self.stop_all(),
        }
        self.watch_stream();
        self.flush();
        self.part();
        std::mem::take(&mut self.outputs)
    }

    /// When time alone will make something happen.
    pub fn next_deadline(&self) -> Option<Instant> {
        let slots = self.slots.iter().flat_map(|slot| {
            let held = slot.held.as_ref().map(|held| [self.self_stop_due(held), timeout_due(held)]);
            let old = slot.old.as_ref().and_then(|old| self.old_due(old));
            held.into_iter().flatten().chain([old]).flatten()
        });
        let session = self.session.as_ref().into_iter().flat_map(|session| {
            let beat = session.welcomed.then_some(session.next_beat);
            [beat, session.ack_by, self.deaf_due(session)].into_iter().flatten()
        });
        slots.chain(session).min()
    }

    /// A task with `self_stop_after` is to be ended at this instant plus that time. None before the first
    /// acknowledgement, when no such task can be held.
    pub fn lifeline(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + self.hold)
    }

    /// How many slots hold something.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| !slot.is_free()).count()
    }

    /// Whether the machine takes new work.
    pub fn draining(&self) -> bool {
        self.leaving || self.drained
    }

    // --- the stream -------------------------------------------------------------------------------------------

    fn open(&mut self, others: bool) {
        for held in self.slots.iter_mut().filter_map(|slot| slot.held.as_mut()) {
            held.told = false;
        }
        let (held, later) = self.inventory();
        let frame = Frame {
            seq: 1,
            ack: 0,
            hello: Some(Inventory { held, ended: self.ended.clone() }),
            slots: Vec::new(),
            drain: self.drain(),
        };
        self.session = Some(Session {
            welcomed: false,
            others,
            seq: 1,
            ack: 0,
            acked: 0,
            sent: VecDeque::from([(1, self.now)]),
            unanswered_since: Some(self.now),
            next_beat: self.now + self.beat,
            changed: later,
            answers: Vec::new(),
            urgent: false,
            ack_by: None,
        });
        self.outputs.push(Output::Send(frame));
    }

    fn receive(&mut self, frame: Received) {
        let now = self.now;
        let Some(session) = self.session.as_mut() else { return };
        session.unanswered_since = None;
        // Rule 8: only an ack that moves renews, and it renews from when the frame was sent. An ack of what was never
        // sent proves nothing.
        if frame.ack > session.acked && frame.ack <= session.seq {
            session.acked = frame.ack;
            while let Some((_, sent)) = session.sent.pop_front_if(|(seq, _)| *seq <= frame.ack) {
                self.renewed = self.renewed.max(Some(sent));
            }
        }
        if frame.orders.iter().any(|order| !matches!(order, Order::GoOn)) {
            session.ack_by = session.ack_by.or(Some(now + ACK_DELAY));
        }
        session.ack = session.ack.max(frame.seq);
        if let Some(welcome) = frame.welcome {
            self.welcomed(welcome);
        }
        for order in frame.orders {
            if self.session.is_none() {
                return;
            }
            self.carry_out(order);
        }
    }

    fn welcomed(&mut self, welcome: Welcome) {
        let Some(session) = self.session.as_mut().filter(|session| !session.welcomed) else { return };
        session.welcomed = true;
        // Rule 6: nothing is assigned before the verdicts are acknowledged, so that is done at once.
        session.urgent = true;
        session.next_beat = self.now + welcome.heartbeat_interval;
        self.beat = welcome.heartbeat_interval;
        self.answer_timeout = welcome.answer_timeout;
        self.hold = Duration::ZERO;
        self.drained = welcome.drained;
        if !self.ended.is_empty() {
            self.ended.clear();
            self.outputs.push(Output::EndedTold);
        }
        for verdict in welcome.verdicts {
            match verdict.kind {
                VerdictKind::Adopt => {}
                VerdictKind::Reset => self.reset(0, verdict.task, verdict.grace),
                VerdictKind::Ack => self.verdict_ack(verdict.task, verdict.grace),
            }
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::GoOn => {}
            Order::RunNew { slot, task, spec } => self.run_new(slot, task, spec),
            Order::Reset { slot, task, grace } => self.reset(slot, task, grace),
            Order::ResultAck { task } => self.result_ack(task),
            Order::Drain => self.set_drained(true),
            Order::Resume => self.set_drained(false),
            Order::Disconnect { hold_for } => {
                self.hold = self.hold.max(hold_for);
                self.redial(Redial::Told);
            }
            Order::Unknown { kind, slot, task } => {
                self.answer(slot, task, Answer::Unsupported, format!("command kind {kind} is unknown to this version"));
            }
        }
    }

    /// Rules 1 and 10: beats when it is time, and leaves a scheduler that does not answer.
    fn watch_stream(&mut self) {
        let (now, beat) = (self.now, self.beat);
        let Some(session) = self.session.as_ref() else { return };
        if self.deaf_due(session).is_some_and(|due| now >= due) {
            return self.redial(Redial::Deaf);
        }
        if !session.welcomed || now < session.next_beat {
            return;
        }
        if session.others && session.sent.front().is_some_and(|(_, sent)| now - *sent >= beat) {
            return self.redial(Redial::NotAcked);
        }
        let all = 0..self.slots.len() as u32;
        let Some(session) = self.session.as_mut() else { return };
        session.changed.extend(all);
        session.urgent = true;
        session.unanswered_since.get_or_insert(now);
        session.next_beat = now + beat;
    }

    fn deaf_due(&self, session: &Session) -> Option<Instant> {
        let patience = if session.welcomed { self.answer_timeout } else { self.answer_timeout * HELLO_PATIENCE };
        session.unanswered_since.map(|since| since + patience)
    }

    fn redial(&mut self, why: Redial) {
        self.session = None;
        self.outputs.push(Output::Redial(why));
    }

    fn drain(&self) -> Drain {
        if self.draining() { Drain::Draining } else { Drain::Working }
    }

    fn changed(&mut self, slot: u32, urgent: bool) {
        if let Some(session) = self.session.as_mut() {
            session.changed.insert(slot);
            session.urgent |= urgent;
        }
    }

    fn answer(&mut self, slot: u32, task: Option<TaskRef>, answer: Answer, message: impl Into<String>) {
        let status = self.slots.get(slot as usize).map_or(Status::Idle, Slot::status);
        if let Some(session) = self.session.as_mut() {
            let (answer, message) = (Some(answer), message.into());
            session.answers.push(Report { status, task, answer, message, ..Report::running(slot) });
            session.urgent = true;
        }
    }

    // --- tasks ------------------------------------------------------------------------------------------------

    fn run_new(&mut self, slot: u32, task: TaskRef, spec: Result<Box<RunSpec>, String>) {
        // Rule 4: the same lease is answered with the present state, a lower one is stale.
        if let Some(place) = self.place_of(task) {
            if let Some(held) = self.slots[place as usize].held.as_mut() {
                held.told = false;
            }
            return self.changed(place, true);
        }
        let newest = self.slots.iter().filter_map(|slot| slot.held.as_ref().map(|held| held.task));
        let newest = newest.filter(|held| held.id == task.id).map(|held| held.lease).max();
        if newest.is_some_and(|lease| lease > task.lease) || self.burnt.covers(task) {
            return self.answer(slot, Some(task), Answer::Stale, "a higher lease of this task, or its end, is known");
        }
        let refusal = self.refusal(slot, task, &spec);
        let spec = match (refusal, spec) {
            (None, Ok(spec)) => spec,
            (Some((answer, message)), _) => {
                self.burnt.insert(task);
                return self.answer(slot, Some(task), answer, message);
            }
            (None, Err(message)) => {
                self.burnt.insert(task);
                return self.answer(slot, Some(task), Answer::RejectedSpec, message);
            }
        };
        self.stop_older(slot, task);
        let held = Held {
            task,
            timeout: spec.timeout,
            grace: spec.grace.unwrap_or(self.settings.grace),
            self_stop_after: spec.self_stop_after,
            stage: Stage::Waiting(spec),
            stopping: None,
            owed: Vec::new(),
            told: false,
        };
        self.slots[slot as usize].held = Some(held);
        let started = self.start_if_clear(slot);
        // The frame that says RUNNING with a pid follows within milliseconds and acknowledges as well; one is enough.
        // A task that must wait for older processes says so at once.
        self.changed(slot, !started);
    }

    fn refusal(&self, slot: u32, task: TaskRef, spec: &Result<Box<RunSpec>, String>) -> Option<(Answer, String)> {
        let say = |answer, message: &str| Some((answer, message.to_owned()));
        if slot >= self.settings.slots {
            let message = format!("there is no slot {slot}; this runner has {}", self.settings.slots);
            return Some((Answer::RejectedSpec, message));
        }
        if self.draining() {
            return say(Answer::RejectedDraining, "the runner takes no new work");
        }
        let Ok(spec) = spec else { return None };
        if spec.target == Target::Unknown {
            return say(Answer::RejectedTarget, "this runner knows the targets command, shell and http");
        }
        let in_time = |after| self.lifeline().is_some_and(|lifeline| self.now < lifeline + after);
        if spec.self_stop_after.is_some_and(|after| !in_time(after)) {
            return say(Answer::RejectedLate, "the runner has been cut off for longer than self_stop_after");
        }
        let place = &self.slots[slot as usize];
        let other = place.held.as_ref().is_some_and(|held| held.task.id != task.id);
        let stopping = place.old.as_ref().is_some_and(|old| old.task.id != task.id);
        if other || stopping {
            return say(Answer::RejectedBusy, "the slot holds another task, or a result that is not acknowledged");
        }
        None
    }

    /// Ends what is left of lower leases of this task before a higher one may start (rule 4).
    fn stop_older(&mut self, slot: u32, task: TaskRef) {
        for place in 0..self.slots.len() as u32 {
            let held = self.slots[place as usize].held.as_ref().filter(|held| held.task.id == task.id);
            let Some(held) = held else { continue };
            let (alive, waiting, grace) = (held.alive(), matches!(held.stage, Stage::Waiting(_)), held.grace);
            if place != slot {
                if alive || waiting {
                    self.stop(place, EndReason::Reset, grace);
                }
                continue;
            }
            let Some(held) = self.slots[place as usize].held.take() else { continue };
            self.burnt.insert(held.task);
            if alive {
                self.outputs.push(Output::Stop { slot, task: held.task, grace });
                self.slots[place as usize].old = Some(Old {
                    task: held.task,
                    grace,
                    self_stop_after: held.self_stop_after,
                    self_stopped: held.stopping == Some(EndReason::SelfStop),
                    owed: held.owed,
                });
            } else {
                self.outputs.push(Output::Forget { slot });
            }
        }
    }

    /// Starts what waits in a slot when no process of its task is left anywhere.
    fn start_if_clear(&mut self, slot: u32) -> bool {
        let Some(held) = self.slots[slot as usize].held.as_ref() else { return false };
        let (task, Stage::Waiting(_)) = (held.task, &held.stage) else { return false };
        let lives = self.slots.iter().any(|other| {
            other.old.as_ref().is_some_and(|old| old.task.id == task.id)
                || other.held.as_ref().is_some_and(|held| held.task.id == task.id && held.alive())
        });
        if lives {
            return false;
        }
        let Some(held) = self.slots[slot as usize].held.as_mut() else { return false };
        if let Stage::Waiting(spec) = std::mem::replace(&mut held.stage, Stage::Starting) {
            self.outputs.push(Output::Start { slot, task, spec });
        }
        true
    }

    fn started(&mut self, slot: u32, task: TaskRef, pid: Option<u32>, start_time: SystemTime) {
        let since = self.now;
        let held = self.slots.get_mut(slot as usize).and_then(|slot| slot.held.as_mut());
        let Some(held) = held.filter(|held| held.task == task && matches!(held.stage, Stage::Starting)) else { return };
        held.stage = Stage::Running { pid, since, start_time };
        self.changed(slot, true);
    }

    fn work_ended(&mut self, slot: u32, task: TaskRef, end: End) {
        let Some(state) = self.slots.get_mut(slot as usize) else { return };
        if let Some(old) = state.old.take_if(|old| old.task == task) {
            self.pay(slot, old.owed);
        } else if let Some(held) = state.held.as_mut().filter(|held| held.task == task && held.alive()) {
            let result = Box::new(end.into_result(held.stopping));
            let owed = std::mem::take(&mut held.owed);
            held.stage = Stage::Ended(result.clone());
            held.told = false;
            self.outputs.push(Output::Keep { slot, task, result });
            self.pay(slot, owed);
            self.changed(slot, true);
        } else {
            return;
        }
        for waiting in 0..self.slots.len() as u32 {
            self.start_if_clear(waiting);
        }
    }

    /// Says `NOT_HELD` of the leases whose RESET had to wait for these processes.
    fn pay(&mut self, slot: u32, owed: Vec<TaskRef>) {
        for task in owed {
            self.answer(slot, Some(task), Answer::NotHeld, "");
        }
    }

    /// Orders the processes of a slot to end. The first reason stays; of several graces the one that ends first counts.
    fn stop(&mut self, slot: u32, reason: EndReason, grace: Duration) {
        let Some(held) = self.slots[slot as usize].held.as_mut() else { return };
        match held.stage {
            Stage::Ended(_) => {}
            Stage::Waiting(_) => {
                let task = held.task;
                let result = Box::new(End::not_started("it was ended before it started").into_result(Some(reason)));
                held.stage = Stage::Ended(result.clone());
                self.outputs.push(Output::Keep { slot, task, result });
                self.changed(slot, true);
            }
            Stage::Starting | Stage::Running { .. } => {
                held.stopping.get_or_insert(reason);
                self.outputs.push(Output::Stop { slot, task: held.task, grace });
            }
        }
    }

    /// RESET: ends every process of this ref, and is answered by its result or by `NOT_HELD` (rule 4).
    fn reset(&mut self, slot: u32, task: TaskRef, grace: Option<Duration>) {
        if let Some(place) = self.place_of(task) {
            let Some(held) = self.slots[place as usize].held.as_mut() else { return };
            let grace = grace.unwrap_or(held.grace);
            if let Stage::Ended(_) = held.stage {
                held.told = false;
                return self.changed(place, true);
            }
            return self.stop(place, EndReason::Reset, grace);
        }
        self.burnt.insert(task);
        // What still lives of this lease or a lower one goes first; NOT_HELD is proof only after that.
        let mut waits = false;
        for place in 0..self.slots.len() as u32 {
            let state = &mut self.slots[place as usize];
            if let Some(old) = state.old.as_mut().filter(|old| old.task.id == task.id && old.task.lease <= task.lease) {
                if !waits {
                    old.owed.push(task);
                }
                waits = true;
                let (task, grace) = (old.task, grace.unwrap_or(old.grace));
                self.outputs.push(Output::Stop { slot: place, task, grace });
            }
            let older = |held: &&mut Held| held.task.id == task.id && held.task.lease < task.lease;
            let Some(held) = self.slots[place as usize].held.as_mut().filter(older) else { continue };
            if held.alive() && !waits {
                held.owed.push(task);
                waits = true;
            }
            let grace = grace.unwrap_or(held.grace);
            self.stop(place, EndReason::Reset, grace);
        }
        if !waits {
            self.answer(slot, Some(task), Answer::NotHeld, "");
        }
    }

    fn result_ack(&mut self, task: TaskRef) {
        let Some(slot) = self.place_of(task) else { return };
        let held = &mut self.slots[slot as usize].held;
        if held.take_if(|held| matches!(held.stage, Stage::Ended(_))).is_some() {
            self.burnt.insert(task);
            self.outputs.push(Output::Forget { slot });
            self.changed(slot, false);
        }
    }

    /// The verdict `ack`: the result is stored or not wanted. Said of something that still runs, it is not wanted.
    fn verdict_ack(&mut self, task: TaskRef, grace: Option<Duration>) {
        let Some(slot) = self.place_of(task) else { return };
        let ended = self.slots[slot as usize].held.as_ref().is_some_and(|held| matches!(held.stage, Stage::Ended(_)));
        if ended {
            self.result_ack(task);
        } else {
            self.reset(slot, task, grace);
        }
    }

    fn place_of(&self, task: TaskRef) -> Option<u32> {
        let same = |held: &Held| held.task.id == task.id && held.task.lease == task.lease;
        self.slots.iter().position(|slot| slot.held.as_ref().is_some_and(same)).map(|slot| slot as u32)
    }

    // --- time -------------------------------------------------------------------------------------------------

    fn self_stop_due(&self, held: &Held) -> Option<Instant> {
        if matches!(held.stage, Stage::Ended(_)) || held.stopping == Some(EndReason::SelfStop) {
            return None;
        }
        Some(self.lifeline()? + held.self_stop_after?)
    }

    fn old_due(&self, old: &Old) -> Option<Instant> {
        if old.self_stopped { None } else { Some(self.lifeline()? + old.self_stop_after?) }
    }

    /// Does what time alone brings: timeouts and self-stops. It goes before every other event, so that a runner that
    /// was frozen past self-stop says so, whatever it finds first when it wakes.
    fn expire(&mut self) {
        let now = self.now;
        for slot in 0..self.slots.len() as u32 {
            let state = &self.slots[slot as usize];
            let due = state.old.as_ref().and_then(|old| self.old_due(old));
            if due.is_some_and(|due| now >= due)
                && let Some(old) = self.slots[slot as usize].old.as_mut()
            {
                old.self_stopped = true;
                self.outputs.push(Output::Stop { slot, task: old.task, grace: old.grace });
            }
            let Some(held) = self.slots[slot as usize].held.as_ref() else { continue };
            let (grace, self_stop, timeout) = (held.grace, self.self_stop_due(held), timeout_due(held));
            if self_stop.is_some_and(|due| now >= due) {
                self.self_stop(slot, grace);
            } else if timeout.is_some_and(|due| now >= due) {
                self.stop(slot, EndReason::Timeout, grace);
            }
        }
    }

    /// A longer grace, given on a RESET or for a timeout, ends at self-stop plus the set grace (section 5). The task is
    /// lost to the scheduler by then, so `SELF_STOP` is what it must be told, whatever began the stop.
    fn self_stop(&mut self, slot: u32, grace: Duration) {
        if let Some(held) = self.slots[slot as usize].held.as_mut() {
            held.stopping = Some(EndReason::SelfStop);
        }
        self.stop(slot, EndReason::SelfStop, grace);
    }

    // --- leaving ----------------------------------------------------------------------------------------------

    fn set_drained(&mut self, drained: bool) {
        self.drained = drained;
        if let Some(session) = self.session.as_mut() {
            session.urgent = true;
        }
    }

    fn leave(&mut self) {
        self.leaving = true;
        if let Some(session) = self.session.as_mut() {
            session.urgent = true;
        }
    }

    fn stop_all(&mut self) {
        self.leave();
        for slot in 0..self.slots.len() as u32 {
            let Some(held) = self.slots[slot as usize].held.as_ref() else { continue };
            let grace = held.grace;
            self.stop(slot, EndReason::RunnerStop, grace);
        }
    }

    /// Says goodbye once nothing is held (rule 12). Without a stream there is nobody to say it to.
    fn part(&mut self) {
        if !self.leaving || self.left || self.slots.iter().any(|slot| !slot.is_free()) {
            return;
        }
        match &self.session {
            Some(session) if !session.welcomed => return,
            Some(_) => self.send(Vec::new(), Drain::Leaving),
            None => {}
        }
        self.left = true;
        self.outputs.push(Output::Left);
    }
}

fn timeout_due(held: &Held) -> Option<Instant> {
    match held.stage {
        Stage::Running { since, .. } if held.stopping.is_none() => Some(since + held.timeout?),
        _ => None,
    }
}
