//! Terminate races with the end of the task, over a stream that may break and a turn whose commit may not be known.
//! However they meet: the task ends, FINISHED or TERMINATED, and TERMINATED is true when it is read.

use std::collections::VecDeque;

use baton_scheduler::domain::{
    heartbeat::{
        self, Admission, Answer, EndReason, Held, Reading, SlotReport, SlotStatus, TaskRef, TaskResult, Verdict,
    },
    task::{Ending, Event, Kind, TaskState},
};
use stateright::{Model, Property};
use uuid::Uuid;

use crate::{
    fails, holds,
    runner::{counters, decide},
};

/// How often the stream breaks.
const CUTS_MAX: u8 = 2;
/// How often a runner beats unasked.
const BEATS_MAX: u8 = 2;
/// How often the outcome of a dispatch is not known.
const DOUBTS_MAX: u8 = 1;

#[derive(Debug, Clone, Copy)]
struct Guards {
    /// IDLE means something only past the ack of RUN_NEW.
    past_ack: bool,
    /// Each scheduler looks which of its sessions' tasks are to be ended.
    look: bool,
    /// RESET of what the runner does not hold is answered.
    not_held: bool,
    /// After a turn whose outcome is not known, what was given out is compared with what was sent.
    doubt: bool,
    /// A hello that brings a task that is being terminated is told to end it.
    cancel: bool,
}

const ALL: Guards = Guards { past_ack: true, look: true, not_held: true, doubt: true, cancel: true };

#[derive(Debug)]
struct Race(Guards);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Down {
    Run(u64),
    Reset(u64),
    Ack(u64),
    /// The verdict on the lease that the hello brought.
    Welcome(Option<(u64, Told)>),
}

/// What a verdict has the runner do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Told {
    GoOn,
    End,
    Forget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Up {
    Idle,
    Running(u64),
    Result(u64, bool),
    NotHeld(u64),
    Hello(Slot),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Slot {
    Empty,
    Runs(u64),
    /// With whether it exited by itself.
    Ended(u64, bool),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    task: TaskState,
    lease: u64,
    refusals: u32,
    /// The task never ends by itself.
    endless: bool,
    terminated: bool,
    /// What the scheduler believes the slot to hold: lease, seq, started, told to end.
    held: Option<(u64, u64, bool, bool)>,
    connected: bool,
    settled: bool,
    in_doubt: bool,
    seq: u64,
    ack: u64,
    down: VecDeque<(u64, Down)>,
    up: VecDeque<(u64, Up)>,
    slot: Slot,
    cuts: u8,
    beats: u8,
    doubts: u8,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Dispatch,
    DispatchUnknown,
    Compare,
    Terminate,
    Look,
    TakeIn,
    Hear,
    Exit,
    Beat,
    Cut,
    Dial,
}

fn reference(lease: u64) -> TaskRef {
    TaskRef { task: Uuid::nil(), attempt: 1, lease }
}

fn result(by_itself: bool) -> TaskResult {
    TaskResult {
        end_reason: if by_itself { EndReason::Exit } else { EndReason::Reset },
        exit_code: Some(0),
        signal: None,
        message: String::new(),
        output: Vec::new(),
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

fn report(said: Up) -> SlotReport {
    let (status, lease, answer, result) = match said {
        Up::Idle | Up::Hello(_) => (SlotStatus::Idle, None, None, None),
        Up::Running(lease) => (SlotStatus::Running, Some(lease), None, None),
        Up::Result(lease, by_itself) => (SlotStatus::Finished, Some(lease), None, Some(result(by_itself))),
        Up::NotHeld(lease) => (SlotStatus::Idle, Some(lease), Some(Answer::NotHeld), None),
    };
    SlotReport { slot: 0, status, task: lease.map(reference), answer, message: String::new(), result }
}

impl State {
    fn send(&mut self, down: Down) {
        self.seq += 1;
        self.down.push_back((self.seq, down));
    }

    fn say(&mut self, up: Up) {
        self.up.push_back((self.ack, up));
    }

    fn end(&mut self, ending: Ending) {
        let counters = counters(self.lease, self.refusals);
        let decision = decide(self.task, counters, 1, ending);
        if let Some(after) = decision {
            (self.task, self.lease, self.refusals) = (after.state, after.counters.lease, after.counters.refusals);
        }
    }

    /// Sends RESET, once.
    fn reset(&mut self, lease: u64) {
        match &mut self.held {
            Some((held, .., told)) if *held == lease && !*told => *told = true,
            Some(_) => return,
            None => self.held = Some((lease, self.seq + 1, true, true)),
        }
        self.send(Down::Reset(lease));
    }

    /// The scheduler hears a frame of the session.
    fn hear(&mut self, guards: Guards, ack: u64, said: Up) {
        if let Up::Hello(slot) = said {
            return self.settle(guards, slot);
        }
        self.settled |= ack > 0;
        let held = self.held.map(|(lease, run_seq, started, _)| Held { task: reference(lease), run_seq, started });
        let past = if guards.past_ack { ack } else { u64::MAX };
        let present = self.held.is_some_and(|(lease, ..)| lease == self.lease) && self.task.holds_slot();
        match heartbeat::read(held.as_ref(), &report(said), past) {
            Reading::Nothing => {}
            Reading::Started => {
                if let Some((.., started, _)) = &mut self.held {
                    *started = true;
                }
                if present {
                    self.task = self.task.after(Kind::Task, Event::Started).unwrap_or(self.task);
                }
            }
            Reading::Result => {
                let Up::Result(lease, by_itself) = said else { unreachable!("a result") };
                self.held = None;
                if present {
                    self.end(result(by_itself).ending());
                }
                self.send(Down::Ack(lease));
            }
            Reading::Ended(ending) => {
                self.held = None;
                if present {
                    self.end(ending);
                }
            }
            Reading::IdlePastAck => {
                self.held = None;
                if present {
                    self.end(heartbeat::idle_past_ack(self.task));
                }
            }
            Reading::Stray => {
                let Up::Running(lease) = said else { unreachable!("a task that runs") };
                self.send(Down::Reset(lease));
            }
            Reading::StrayResult => {
                let Up::Result(lease, _) = said else { unreachable!("a result") };
                self.send(Down::Ack(lease));
            }
        }
    }

    fn settle(&mut self, guards: Guards, slot: Slot) {
        let brought = match slot {
            Slot::Empty => None,
            Slot::Runs(lease) => Some((lease, SlotStatus::Running, false)),
            Slot::Ended(lease, by_itself) => Some((lease, SlotStatus::Finished, by_itself)),
        };
        let mut verdict = None;
        if self.task.holds_slot() && brought.is_none_or(|(lease, ..)| lease != self.lease) {
            self.end(heartbeat::missing_from_hello(Admission::SameBoot, self.task, true));
        }
        if let Some((lease, status, by_itself)) = brought {
            let told = match heartbeat::judge(Some((self.task, self.lease)), lease, status) {
                Verdict::Adopt => Told::GoOn,
                Verdict::Cancel if guards.cancel => Told::End,
                Verdict::Cancel => Told::GoOn,
                Verdict::Reset => Told::End,
                Verdict::Ack => Told::Forget,
                Verdict::Apply => {
                    self.end(result(by_itself).ending());
                    Told::Forget
                }
            };
            if status == SlotStatus::Running && lease == self.lease && self.task.holds_slot() {
                self.task = self.task.after(Kind::Task, Event::Started).unwrap_or(self.task);
                // Without the verdict nobody remembers that it was not told.
                self.held = Some((lease, 1, true, self.task == TaskState::Terminating));
            }
            verdict = Some((lease, told));
        }
        self.send(Down::Welcome(verdict));
    }

    /// The runner takes a command in.
    fn take_in(&mut self, guards: Guards, command: Down) {
        match command {
            Down::Run(lease) => {
                if self.slot == Slot::Empty {
                    self.slot = Slot::Runs(lease);
                }
                self.say(Up::Running(lease));
            }
            Down::Reset(lease) => self.stop(guards, lease),
            Down::Ack(lease) | Down::Welcome(Some((lease, Told::Forget))) => {
                if matches!(self.slot, Slot::Ended(held, _) if held == lease) {
                    self.slot = Slot::Empty;
                }
                self.say(Up::Idle);
            }
            Down::Welcome(Some((lease, Told::End))) => match self.slot {
                // It ended while the hello was on its way, and nobody was told.
                Slot::Ended(held, by_itself) if held == lease => self.say(Up::Result(lease, by_itself)),
                _ => self.stop(guards, lease),
            },
            Down::Welcome(Some((_, Told::GoOn)) | None) => self.say(match self.slot {
                Slot::Empty => Up::Idle,
                Slot::Runs(lease) => Up::Running(lease),
                Slot::Ended(lease, by_itself) => Up::Result(lease, by_itself),
            }),
        }
    }

    fn stop(&mut self, guards: Guards, lease: u64) {
        match self.slot {
            Slot::Runs(held) if held == lease => {
                self.slot = Slot::Ended(lease, false);
                self.say(Up::Result(lease, false));
            }
            // It was told already.
            Slot::Ended(held, _) if held == lease => {}
            _ if guards.not_held => self.say(Up::NotHeld(lease)),
            _ => {}
        }
    }
}

impl Race {
    /// Whether nothing more happens unless somebody terminates it or the stream breaks: nobody may have to wait for that.
    fn rests(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.iter().all(|step| matches!(step, Step::Terminate | Step::Cut))
    }
}

impl Model for Race {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let state = |endless| State {
            task: TaskState::Queued,
            lease: 0,
            refusals: 0,
            endless,
            terminated: false,
            held: None,
            connected: false,
            settled: false,
            in_doubt: false,
            seq: 0,
            ack: 0,
            down: VecDeque::new(),
            up: VecDeque::new(),
            slot: Slot::Empty,
            cuts: 0,
            beats: 0,
            doubts: 0,
        };
        vec![state(false), state(true)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        let has_slot = state.settled && state.held.is_none() && !state.in_doubt;
        if state.task == TaskState::Queued && has_slot {
            actions.push(Step::Dispatch);
            if state.doubts < DOUBTS_MAX {
                actions.push(Step::DispatchUnknown);
            }
        }
        if state.in_doubt {
            actions.push(Step::Compare);
        }
        if !state.terminated && !state.task.is_terminal() {
            actions.push(Step::Terminate);
        }
        let told = state.held.is_some_and(|(.., told)| told);
        if self.0.look && state.settled && state.task == TaskState::Terminating && !told {
            actions.push(Step::Look);
        }
        if !state.down.is_empty() {
            actions.push(Step::TakeIn);
        }
        if !state.up.is_empty() {
            actions.push(Step::Hear);
        }
        if matches!(state.slot, Slot::Runs(_)) && !state.endless {
            actions.push(Step::Exit);
        }
        if state.connected && state.ack > 0 && state.beats < BEATS_MAX && state.slot == Slot::Empty {
            actions.push(Step::Beat);
        }
        if state.connected && state.cuts < CUTS_MAX {
            actions.push(Step::Cut);
        }
        if !state.connected {
            actions.push(Step::Dial);
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Dispatch | Step::DispatchUnknown => {
                state.task = state.task.after(Kind::Task, Event::Picked)?;
                state.lease += 1;
                if step == Step::Dispatch {
                    state.held = Some((state.lease, state.seq + 1, false, false));
                    state.send(Down::Run(state.lease));
                } else {
                    state.doubts += 1;
                    state.in_doubt = true;
                }
            }
            Step::Compare => {
                state.in_doubt = false;
                let sent = state.held.is_some_and(|(lease, ..)| lease == state.lease);
                if self.0.doubt && state.connected && state.task == TaskState::Dispatched && !sent {
                    state.reset(state.lease);
                }
            }
            Step::Terminate => {
                state.terminated = true;
                state.task = state.task.after(Kind::Task, Event::Terminate)?;
            }
            Step::Look => state.reset(state.lease),
            Step::TakeIn => {
                let (seq, command) = state.down.pop_front()?;
                // A frame that reflects a command is sent after it was taken in.
                state.ack = seq;
                state.take_in(self.0, command);
            }
            Step::Hear => {
                let (ack, said) = state.up.pop_front()?;
                state.hear(self.0, ack, said);
            }
            Step::Exit => {
                let Slot::Runs(lease) = state.slot else { return None };
                state.slot = Slot::Ended(lease, true);
                if state.connected && state.ack > 0 {
                    state.say(Up::Result(lease, true));
                }
            }
            Step::Beat => {
                state.beats += 1;
                state.say(Up::Idle);
            }
            Step::Cut => {
                state.cuts += 1;
                (state.connected, state.settled, state.held) = (false, false, None);
                (state.seq, state.ack) = (0, 0);
                state.down.clear();
                state.up.clear();
            }
            Step::Dial => {
                state.connected = true;
                state.say(Up::Hello(state.slot));
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ENDS_WELL, |_, state: &State| {
                !state.task.is_terminal() || matches!(state.task, TaskState::Finished | TaskState::Terminated)
            }),
            Property::always(TRUE_KILL, |_, state: &State| {
                state.task != TaskState::Terminated || !matches!(state.slot, Slot::Runs(_))
            }),
            Property::always(NOT_STUCK, |model: &Self, state: &State| {
                let runs = matches!(state.slot, Slot::Runs(_)) && state.task != TaskState::Terminating;
                !model.rests(state) || state.task.is_terminal() || runs
            }),
            Property::always(SLOT_FREE, |model: &Self, state: &State| {
                let ended = state.task.is_terminal();
                !model.rests(state) || !ended || (state.slot == Slot::Empty && state.held.is_none())
            }),
            Property::sometimes("it finishes", |_, state: &State| state.task == TaskState::Finished),
            Property::sometimes("it is TERMINATED although it came to its own end first", |_, state: &State| {
                state.task == TaskState::Terminated && matches!(state.slot, Slot::Ended(_, true))
            }),
        ]
    }
}

const ENDS_WELL: &str = "it ends FINISHED or TERMINATED";
const TRUE_KILL: &str = "TERMINATED is true";
const NOT_STUCK: &str = "it is never stuck";
const SLOT_FREE: &str = "its slot comes free";

#[test]
fn a_task_that_is_terminated_while_it_ends_is_never_stuck() {
    holds("terminate", Race(ALL));
}

#[test]
fn an_idle_frame_that_crosses_run_new_fails_what_runs() {
    fails("terminate", "the ack rule", Race(Guards { past_ack: false, ..ALL }), ENDS_WELL);
}

#[test]
fn a_terminate_that_came_in_elsewhere_is_carried_out_by_who_looks() {
    fails("terminate", "looking", Race(Guards { look: false, ..ALL }), NOT_STUCK);
}

#[test]
fn a_reset_without_an_answer_leaves_the_task_terminating() {
    fails("terminate", "NOT_HELD", Race(Guards { not_held: false, ..ALL }), NOT_STUCK);
}

#[test]
fn a_dispatch_that_was_committed_and_not_sent_waits_for_ever() {
    fails("terminate", "the comparison after doubt", Race(Guards { doubt: false, ..ALL }), NOT_STUCK);
}

#[test]
fn a_hello_that_is_not_told_to_end_what_it_brings_keeps_it() {
    fails("terminate", "the CANCEL verdict", Race(Guards { cancel: false, ..ALL }), NOT_STUCK);
}
