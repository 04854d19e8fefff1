//! A runner that dials two schedulers again and again, dies and is started again, with hellos that arrive late. One
//! session counts, and what the runner holds is what the database believes.

use std::time::Duration;

use baton_scheduler::domain::{
    heartbeat::{self, Admission, SlotStatus, Verdict},
    task::{Event, Kind, TaskState},
    time::Timestamp,
};
use stateright::{Model, Property};

use crate::{
    fails, holds,
    runner::{counters, decide, hello, known},
};

/// How often the runner dials, whichever process of it.
const DIALS_MAX: u64 = 4;
/// How many processes it has, one after the other.
const BOOTS_MAX: u64 = 2;
/// How often the task is given out.
const LEASES_MAX: u64 = 5;

#[derive(Debug, Clone, Copy)]
struct Guards {
    /// Boots are numbered, and a hello of an older one than the one that counts is late.
    boot_order: bool,
    /// A hello counts only if its conn is higher than the one that counts.
    conn: bool,
    /// A pick checks that its session counts, under the lock of the runner's row.
    check: bool,
    /// Nobody changes the row between that check and the commit.
    lock: bool,
    /// What a hello does not bring along is settled with it.
    settle: bool,
    /// The runner closes its stream before it says what it holds in the hello of the next.
    close_first: bool,
}

const ALL: Guards = Guards { boot_order: true, conn: true, check: true, lock: true, settle: true, close_first: true };

#[derive(Debug)]
struct Dials(Guards);

/// A hello on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Greeting {
    scheduler: usize,
    boot: u64,
    conn: u64,
    /// The lease that the runner held as it dialled.
    holds: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    /// The session that counts, by its conn, and the boot it is of; 0 for none.
    counts: u64,
    counts_of: u64,
    task: TaskState,
    lease: u64,
    refusals: u32,
    /// The session the task was given out or adopted in.
    given_in: u64,
    /// What each scheduler believes to be an idle stream.
    sessions: Vec<(usize, u64)>,
    /// A pick that has checked its session and is not committed yet.
    picking: Option<u64>,
    hellos: Vec<Greeting>,
    /// RUN_NEW on its way: in which stream, which lease.
    runs: Vec<(u64, u64)>,
    /// RESET verdicts on their way.
    resets: Vec<(u64, u64)>,
    /// The process that lives, the stream it dialled last, and the last stream of the process before it.
    boot: u64,
    conn: u64,
    conn_before: u64,
    /// The lease that the runner holds.
    holds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Dial(usize),
    /// The runner dies with all that it runs, and is started again.
    Reboot,
    Admit(usize),
    Check(usize),
    Commit,
    Run(usize),
    Reset(usize),
}

impl Dials {
    fn admit(&self, state: &mut State, at: usize) -> Option<()> {
        let Greeting { scheduler, boot, conn, holds: inventory } = state.hellos.remove(at);
        let number = |boot| if self.0.boot_order { boot } else { 0 };
        let before = hello(state.counts_of, number(state.counts_of), state.counts);
        let before = (state.counts > 0).then(|| known(&before, Timestamp(0)));
        let said = hello(boot, number(boot), conn);
        let admission = heartbeat::admit(before.as_ref(), &said, Timestamp(0), Duration::from_mins(1));
        if admission == Admission::Superseded && (self.0.conn || boot != state.counts_of) {
            return Some(());
        }
        state.counts_of = boot;
        state.counts = conn;
        state.sessions.push((scheduler, conn));
        let held = state.task.holds_slot();
        if let Some(lease) = inventory {
            match heartbeat::judge(Some((state.task, state.lease)), lease, SlotStatus::Running) {
                Verdict::Adopt => {
                    state.given_in = conn;
                    state.task = state.task.after(Kind::Task, Event::Started).unwrap_or(state.task);
                }
                Verdict::Reset => state.resets.push((conn, lease)),
                other => unreachable!("{other:?}"),
            }
        }
        if held && self.0.settle && inventory != Some(state.lease) {
            let ending = heartbeat::missing_from_hello(admission, state.task, true);
            let counters = counters(state.lease, state.refusals);
            // Whatever is lost is tried again, so that a second copy would be seen.
            let after = decide(state.task, counters, u32::MAX, ending)?;
            (state.task, state.lease, state.refusals) = (after.state, after.counters.lease, after.counters.refusals);
        }
        Some(())
    }
}

impl Model for Dials {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            counts: 0,
            counts_of: 0,
            task: TaskState::Queued,
            lease: 0,
            refusals: 0,
            given_in: 0,
            sessions: Vec::new(),
            picking: None,
            hellos: Vec::new(),
            runs: Vec::new(),
            resets: Vec::new(),
            boot: 1,
            conn: 0,
            conn_before: 0,
            holds: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.conn < DIALS_MAX {
            actions.extend([Step::Dial(0), Step::Dial(1)]);
        }
        if state.boot < BOOTS_MAX {
            actions.push(Step::Reboot);
        }
        // A hello waits for a pick that holds the runner's row, as a pick leaves out a row that a hello holds.
        if !self.0.lock || state.picking.is_none() {
            actions.extend((0..state.hellos.len()).map(Step::Admit));
        }
        match state.picking {
            Some(_) => actions.push(Step::Commit),
            None if state.task == TaskState::Queued && state.lease < LEASES_MAX => {
                actions.extend((0..state.sessions.len()).map(Step::Check));
            }
            None => {}
        }
        actions.extend((0..state.runs.len()).map(Step::Run));
        actions.extend((0..state.resets.len()).map(Step::Reset));
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Dial(scheduler) => {
                state.conn += 1;
                let State { boot, conn, holds, .. } = state;
                state.hellos.push(Greeting { scheduler, boot, conn, holds });
            }
            Step::Reboot => {
                state.boot += 1;
                (state.conn_before, state.holds) = (state.conn, None);
            }
            Step::Admit(at) => self.admit(&mut state, at)?,
            Step::Check(at) => {
                let (_, session) = state.sessions[at];
                if self.0.check && session != state.counts {
                    return None;
                }
                state.picking = Some(session);
            }
            Step::Commit => {
                let session = state.picking.take()?;
                if state.task == TaskState::Queued {
                    state.task = state.task.after(Kind::Task, Event::Picked)?;
                    state.lease += 1;
                    state.given_in = session;
                    state.runs.push((session, state.lease));
                }
            }
            Step::Run(at) => {
                let (stream, lease) = state.runs.remove(at);
                let latest = stream == state.conn || (!self.0.close_first && stream + 1 == state.conn);
                let open = latest && stream > state.conn_before;
                // What was on its way in a stream that was closed is gone with it.
                if open && state.holds.is_none_or(|held| held < lease) {
                    state.holds = Some(lease);
                }
            }
            Step::Reset(at) => {
                let (stream, lease) = state.resets.remove(at);
                if stream == state.conn && stream > state.conn_before && state.holds == Some(lease) {
                    state.holds = None;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_SESSION, |_, state: &State| {
                !state.task.holds_slot() || state.given_in == state.counts
            }),
            Property::always(ONE_COPY, |_, state: &State| state.holds.is_none_or(|held| held == state.lease)),
            Property::sometimes("a task is adopted by the last stream", |_, state: &State| {
                state.task == TaskState::Running && state.given_in == DIALS_MAX
            }),
            Property::sometimes("a task that died with its runner runs again", |_, state: &State| {
                state.boot > 1 && state.holds.is_some_and(|lease| lease > 1)
            }),
        ]
    }
}

const ONE_SESSION: &str = "what is given out is given out in the session that counts";
const ONE_COPY: &str = "nothing is taken back, and so given out again, while the runner holds it";

#[test]
fn one_session_counts_and_a_task_is_given_out_once() {
    holds("sessions", Dials(ALL));
}

#[test]
fn without_an_order_of_boots_a_late_hello_of_the_dead_one_takes_back_what_runs() {
    fails("sessions", "the order of boots", Dials(Guards { boot_order: false, ..ALL }), ONE_COPY);
}

#[test]
fn without_conn_a_late_hello_takes_back_what_runs() {
    fails("sessions", "the comparison of conn", Dials(Guards { conn: false, ..ALL }), ONE_COPY);
}

#[test]
fn without_the_check_of_the_session_a_dead_stream_is_given_work() {
    fails("sessions", "the check of the session", Dials(Guards { check: false, ..ALL }), ONE_SESSION);
}

#[test]
fn without_the_lock_of_the_row_a_hello_passes_a_pick() {
    fails("sessions", "the lock of the runner's row", Dials(Guards { lock: false, ..ALL }), ONE_SESSION);
}

#[test]
fn without_settlement_a_dispatch_is_left_in_a_dead_stream() {
    fails("sessions", "settlement in the hello", Dials(Guards { settle: false, ..ALL }), ONE_SESSION);
}

#[test]
fn a_runner_that_dials_before_it_closes_is_given_work_behind_its_own_back() {
    fails("sessions", "closing first", Dials(Guards { close_first: false, ..ALL }), ONE_COPY);
}
