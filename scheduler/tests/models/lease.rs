//! A lease and the self-stop that belongs to it, by a clock in ticks. Frames, acks, hellos and welcomes may be lost,
//! repeated and arrive in any order; a scheduler may lose its database and not its runner, and may stop as planned. Two
//! copies of the task never run at once.

use std::time::Duration;

use baton_scheduler::domain::{
    heartbeat::{self, Admission, Known, SlotStatus, Verdict},
    task::{Ending, Event, Kind, TaskState},
    time::Timestamp,
    timing::Timing,
};
use stateright::{Model, Property};

use crate::{
    fails, holds,
    runner::{counters, decide, hello, known},
};

/// How long processes may take to end.
const GRACE: u8 = 1;
/// No sign of life for so long: lost.
const LOST_AFTER: u8 = 4;
/// How long a planned stop is announced for.
const HOLD_FOR: u8 = 2;
/// When the model ends.
const END: u8 = 8;

/// How long a task whose runner is cut off may go on: the product's own sum. The margin is for clocks that do not run
/// alike; these do, so it is left out and the rest has to suffice.
fn self_stop_after() -> u8 {
    let second = |ticks: u8| Duration::from_secs(u64::from(ticks));
    let timing = Timing {
        lost_after: second(LOST_AFTER),
        margin: Duration::ZERO,
        ..Timing::from_beat(second(1), second(GRACE))
    };
    u8::try_from(timing.self_stop_after().as_secs()).expect("a few ticks")
}

#[derive(Debug, Clone, Copy)]
struct Guards {
    /// A task whose runner is cut off is ended by it.
    self_stop: bool,
    /// Only a committed sign of life is acknowledged.
    committed: bool,
    /// An ack renews from when its frame was sent, not from when the ack came.
    from_sending: bool,
    /// An ack that has not risen renews nothing.
    rising: bool,
    /// The loss waits for the grace as well.
    grace: bool,
    /// A planned stop is held for `lost_after` longer than it was announced for.
    hold_longer: bool,
    /// The hold ends when the runner is heard after its welcome, not with its hello.
    hold_until_heard: bool,
    /// A result under an old lease changes nothing.
    fence: bool,
}

const ALL: Guards = Guards {
    self_stop: true,
    committed: true,
    from_sending: true,
    rising: true,
    grace: true,
    hold_longer: true,
    hold_until_heard: true,
    fence: true,
};

#[derive(Debug)]
struct Leases {
    guards: Guards,
    /// Whether the first scheduler stops as planned, or is cut from its database.
    planned: bool,
    /// Whether the task goes on while its runner is cut off, as `when_cut_off: continue` says.
    goes_on: bool,
}

/// The process of the first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Process {
    Runs,
    /// Told to end at this time.
    Ends(u8),
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,

    // The database.
    task: TaskState,
    lease: u64,
    seen_at: u8,
    hold_until: u8,
    /// The session that counts: 0 with the first scheduler, else the time of the hello to the second.
    session: u8,
    given_up: bool,
    ended_by: Option<u64>,

    // The schedulers: one that may go wrong, and one that does not.
    first_works: bool,
    heard: [u8; 2],

    // The network: everything ever sent, by the time of its sending. The runner sends a frame each tick.
    acks: u32,
    disconnect: bool,
    hello_at: u8,
    welcome: Option<bool>,

    // The runner.
    process: Process,
    renewed: u8,
    acked: u8,
    hold: u8,
    welcomed: bool,

    /// A second copy runs elsewhere.
    second: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Tick,
    /// A frame is heard by the scheduler its stream leads to.
    Hear(u8),
    /// The second scheduler, or the first, commits what it heard and acknowledges it.
    Touch(usize),
    /// The first scheduler, cut from its database, acknowledges what it heard.
    AckUncommitted,
    Ack(u8),
    FirstFails,
    Part,
    Disconnect,
    Dial,
    Hello,
    Welcome,
    Sweep,
    Pick,
    /// A result that the runner kept is told in a late hello.
    LateResult,
}

impl Leases {
    fn deadline(&self, state: &State) -> u8 {
        if self.guards.self_stop && !self.goes_on { state.renewed + state.hold + self_stop_after() } else { u8::MAX }
    }

    /// To which scheduler a frame that was sent at this time went; before a welcome nothing but the hello is sent.
    fn stream(state: &State, sent: u8) -> usize {
        usize::from(state.hello_at > 0 && sent > state.hello_at)
    }

    fn decide(state: &mut State, ending: Ending) {
        let counters = counters(state.lease, 0);
        if let Some(after) = decide(state.task, counters, 2, ending) {
            (state.task, state.lease) = (after.state, after.counters.lease);
        }
    }

    fn hello(&self, state: &mut State) {
        let seen_at = Timestamp(i64::from(state.seen_at));
        let before = known(&hello(0, 0, u64::from(state.session)), seen_at);
        let before = Known { has_session: !state.given_up, ..before };
        let said = hello(0, 0, u64::from(state.hello_at));
        let now = Timestamp(i64::from(state.now));
        let lost_after = Duration::from_micros(u64::from(LOST_AFTER));
        let admission = heartbeat::admit(Some(&before), &said, now, lost_after);
        if admission != Admission::SameBoot {
            return;
        }
        (state.session, state.seen_at, state.given_up) = (state.hello_at, state.now, false);
        if !self.guards.hold_until_heard {
            state.hold_until = 0;
        }
        let verdict = heartbeat::judge(Some((state.task, state.lease)), 1, SlotStatus::Running);
        state.welcome = Some(verdict == Verdict::Adopt);
    }

    fn renew(&self, state: &mut State, acked: u8) {
        if acked > state.acked || !self.guards.rising {
            let from = if self.guards.from_sending && acked > state.acked { acked } else { state.now };
            state.renewed = state.renewed.max(from);
            state.acked = state.acked.max(acked);
        }
    }
}

impl Model for Leases {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 1,
            task: TaskState::Running,
            lease: 1,
            seen_at: 1,
            hold_until: 0,
            session: 0,
            given_up: false,
            ended_by: None,
            first_works: true,
            heard: [0; 2],
            acks: 0,
            disconnect: false,
            hello_at: 0,
            welcome: None,
            process: Process::Runs,
            renewed: 1,
            acked: 1,
            hold: 0,
            welcomed: false,
            second: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.now < END {
            actions.push(Step::Tick);
        }
        for sent in 2..=state.now {
            let stream = Self::stream(state, sent);
            let was_sent =
                stream == 0 && (state.hello_at == 0 || sent < state.hello_at) || stream == 1 && state.welcomed;
            if was_sent && sent > state.heard[stream] {
                actions.push(Step::Hear(sent));
            }
        }
        let counts = [state.session == 0 && !state.given_up, state.session > 0 && !state.given_up];
        if counts[0] && state.first_works && state.heard[0] > 0 {
            actions.push(Step::Touch(0));
        }
        if counts[1] && state.heard[1] > 0 {
            actions.push(Step::Touch(1));
        }
        if !self.guards.committed && !state.first_works && state.heard[0] > 0 {
            actions.push(Step::AckUncommitted);
        }
        actions.extend((2..=state.now).filter(|at| state.acks & (1 << at) != 0).map(Step::Ack));
        if state.first_works {
            actions.push(if self.planned { Step::Part } else { Step::FirstFails });
        }
        if state.disconnect && state.hello_at == 0 && state.hold == 0 {
            actions.push(Step::Disconnect);
        }
        if state.hello_at == 0 && state.process == Process::Runs {
            actions.push(Step::Dial);
        }
        if state.hello_at > 0 && state.welcome.is_none() {
            actions.push(Step::Hello);
        }
        if state.welcome.is_some() && !state.welcomed {
            actions.push(Step::Welcome);
        }
        let lost_after = if self.guards.grace { LOST_AFTER } else { self_stop_after() };
        let silent = state.now >= state.seen_at + lost_after && state.now >= state.hold_until;
        if silent && !state.given_up && state.task == TaskState::Running && state.lease == 1 {
            actions.push(Step::Sweep);
        }
        if state.task == TaskState::Queued {
            actions.push(Step::Pick);
        }
        if state.second && state.ended_by.is_none() {
            actions.push(Step::LateResult);
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Tick => {
                state.now += 1;
                state.process = match state.process {
                    Process::Runs if state.now >= self.deadline(&state) => Process::Ends(state.now),
                    Process::Ends(since) if state.now >= since + GRACE => Process::Gone,
                    other => other,
                };
            }
            Step::Hear(sent) => state.heard[Self::stream(&state, sent)] = sent,
            Step::Touch(scheduler) => {
                (state.seen_at, state.hold_until) = (state.now, 0);
                state.acks |= 1 << state.heard[scheduler];
            }
            Step::AckUncommitted => state.acks |= 1 << state.heard[0],
            Step::Ack(sent) => self.renew(&mut state, sent),
            Step::FirstFails => state.first_works = false,
            Step::Part => {
                state.first_works = false;
                if state.session == 0 && !state.given_up {
                    let longer = if self.guards.hold_longer { LOST_AFTER } else { 0 };
                    state.hold_until = state.now + HOLD_FOR + longer;
                }
                state.disconnect = true;
            }
            Step::Disconnect => state.hold = HOLD_FOR,
            Step::Dial => state.hello_at = state.now,
            Step::Hello => self.hello(&mut state),
            Step::Welcome => {
                state.welcomed = true;
                state.hold = 0;
                let hello_at = state.hello_at;
                self.renew(&mut state, hello_at);
                if state.welcome == Some(false) && state.process == Process::Runs {
                    state.process = Process::Ends(state.now);
                }
            }
            Step::Sweep => {
                state.given_up = true;
                let ending = if self.goes_on { Ending::LostUnproven } else { Ending::Lost { death: false } };
                Self::decide(&mut state, ending);
            }
            Step::Pick => {
                state.task = state.task.after(Kind::Task, Event::Picked)?;
                state.lease += 1;
                state.second = true;
            }
            Step::LateResult => {
                let row = (state.task, state.lease);
                let lease = if self.guards.fence { 1 } else { state.lease };
                if heartbeat::judge(Some(row), lease, SlotStatus::Finished) == Verdict::Apply {
                    state.ended_by = Some(1);
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_COPY, |_, state: &State| !state.second || state.process == Process::Gone),
            Property::always(FENCED, |_, state: &State| state.ended_by.is_none()),
            Property::sometimes("a lost task runs again, unless it may go on", |model: &Self, state: &State| {
                let goes_on = state.task == TaskState::Failed && state.process == Process::Runs;
                if model.goes_on { goes_on && !state.second } else { state.second }
            }),
            Property::sometimes("a task survives the loss of its scheduler", |_, state: &State| {
                !state.first_works && state.welcomed && state.now == END && state.process == Process::Runs
            }),
        ]
    }
}

const ONE_COPY: &str = "two copies never run at once";
const FENCED: &str = "a report under an old lease changes nothing";

fn leases(guards: Guards) -> Leases {
    Leases { guards, planned: false, goes_on: false }
}

fn stops(guards: Guards) -> Leases {
    Leases { guards, planned: true, goes_on: false }
}

#[test]
fn a_task_never_runs_twice_at_once_whatever_is_lost_or_late() {
    holds("lease, cut off", leases(ALL));
}

#[test]
fn a_task_never_runs_twice_at_once_around_a_planned_stop() {
    holds("lease, planned stop", stops(ALL));
}

#[test]
fn a_task_that_goes_on_while_cut_off_is_never_joined_by_another() {
    holds("lease, when_cut_off: continue", Leases { goes_on: true, ..leases(ALL) });
    holds("lease, when_cut_off: continue, planned stop", Leases { goes_on: true, ..stops(ALL) });
}

#[test]
fn without_self_stop_the_old_copy_goes_on() {
    fails("lease, cut off", "self-stop", leases(Guards { self_stop: false, ..ALL }), ONE_COPY);
}

#[test]
fn a_scheduler_without_its_database_must_not_prolong_a_lease() {
    fails("lease, cut off", "acks of what is committed alone", leases(Guards { committed: false, ..ALL }), ONE_COPY);
}

#[test]
fn an_ack_that_was_long_on_its_way_must_not_count_from_its_arrival() {
    fails("lease, cut off", "counting from the sending", leases(Guards { from_sending: false, ..ALL }), ONE_COPY);
}

#[test]
fn an_ack_that_is_repeated_must_not_renew() {
    fails("lease, cut off", "acks that rise", leases(Guards { rising: false, ..ALL }), ONE_COPY);
}

#[test]
fn a_loss_that_does_not_wait_for_the_grace_comes_too_soon() {
    fails("lease, cut off", "the grace", leases(Guards { grace: false, ..ALL }), ONE_COPY);
}

#[test]
fn a_hold_that_ends_with_what_was_announced_ends_too_soon() {
    fails("lease, planned stop", "a hold that lasts longer", stops(Guards { hold_longer: false, ..ALL }), ONE_COPY);
}

#[test]
fn a_hold_that_ends_with_a_hello_whose_welcome_is_lost_ends_too_soon() {
    fails(
        "lease, planned stop",
        "a hold until it is heard",
        stops(Guards { hold_until_heard: false, ..ALL }),
        ONE_COPY,
    );
}

#[test]
fn without_the_fence_the_first_attempt_ends_the_second() {
    fails("lease, cut off", "the fence", leases(Guards { fence: false, ..ALL }), FENCED);
}
