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
mod leaving;
mod limits;
mod places;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod words;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, SystemTime},
};

use burnt::Burnt;
use limits::timeout_due;
use places::Places;
pub use words::{
    Answer, Drain, Frame, Input, Inventory, Order, Output, Received, Redial, Report, Status, Verdict, VerdictKind,
    Welcome,
};

use crate::{
    clock::Instant,
    task::{EndReason, RunSpec, TaskRef, TaskResult},
};

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
    /// By task, every slot that is not free.
    places: Places,
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
    /// What has changed, or is to be acknowledged, goes by then, with whatever goes sooner.
    send_by: Option<Instant>,
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
        let mut places = Places::default();
        for (slot, task, result) in leftovers.results {
            places.insert(task.id, slot);
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
            places,
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
        self.step_all(now, [input])
    }

    /// What follows from several inputs that came together. What they change is told in one frame where it fits into one.
    pub fn step_all(&mut self, now: Instant, inputs: impl IntoIterator<Item = Input>) -> Vec<Output> {
        self.now = self.now.max(now);
        self.expire();
        for input in inputs {
            self.take(input);
        }
        self.watch_stream();
        self.flush();
        self.part();
        std::mem::take(&mut self.outputs)
    }

    fn take(&mut self, input: Input) {
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
            [beat, session.send_by, self.deaf_due(session)].into_iter().flatten()
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
}
