//! The machine's promises, as stories and as properties over arbitrary orders of events.

use std::collections::{BTreeMap, HashMap};

use proptest::{collection::vec, prelude::*};
use uuid::Uuid;

use super::*;

const BEAT: Duration = Duration::from_secs(10);
const SELF_STOP: Duration = Duration::from_secs(45);

fn task(id: u8, lease: u64) -> TaskRef {
    TaskRef { id: Uuid::from_u128(u128::from(id) + 1), attempt: 1, lease }
}

fn spec() -> RunSpec {
    RunSpec {
        job_id: String::new(),
        namespace: "default".into(),
        job_name: "job".into(),
        task_name: "task".into(),
        target: Target::Shell("true".into()),
        env: BTreeMap::default(),
        working_dir: String::new(),
        timeout: None,
        grace: None,
        self_stop_after: None,
        params: BTreeMap::default(),
        shard_index: None,
        shard_count: None,
        shard_item: String::new(),
        log_limit_bytes: 0,
        fire_time: None,
        callback: None,
    }
}

fn ended(exit: crate::task::Exit) -> End {
    End { exit, ..End::not_started("") }
}

/// A machine with its clock, its stream and the processes it started.
struct World {
    machine: Machine,
    now: Instant,
    seq: u64,
    frames: Vec<Frame>,
    outputs: Vec<Output>,
}

impl World {
    fn new(slots: u32) -> Self {
        Self::with(slots, Leftovers::default())
    }

    fn with(slots: u32, leftovers: Leftovers) -> Self {
        let settings = Settings {
            slots,
            grace: Duration::from_secs(10),
            heartbeat_interval: BEAT,
            answer_timeout: Duration::from_secs(5),
        };
        let now = Instant::from_boot(Duration::from_secs(1000));
        Self { machine: Machine::new(settings, leftovers), now, seq: 0, frames: Vec::new(), outputs: Vec::new() }
    }

    fn connected(slots: u32) -> Self {
        let mut world = Self::new(slots);
        world.open();
        world.welcome(Vec::new());
        world
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let outputs = self.machine.step(self.now, input);
        for output in &outputs {
            if let Output::Send(frame) = output {
                self.frames.push(frame.clone());
            }
        }
        self.outputs.extend(outputs.iter().cloned());
        outputs
    }

    fn open(&mut self) -> Vec<Output> {
        self.seq = 0;
        self.step(Input::Opened { others: false })
    }

    fn receive(&mut self, ack: u64, orders: Vec<Order>) -> Vec<Output> {
        self.seq += 1;
        self.step(Input::Received(Received { seq: self.seq, ack, welcome: None, orders }))
    }

    fn welcome(&mut self, verdicts: Vec<Verdict>) -> Vec<Output> {
        self.seq += 1;
        let welcome =
            Welcome { heartbeat_interval: BEAT, answer_timeout: Duration::from_secs(5), verdicts, drained: false };
        self.step(Input::Received(Received { seq: self.seq, ack: 1, welcome: Some(welcome), orders: Vec::new() }))
    }

    fn run_new(&mut self, slot: u32, task: TaskRef, spec: RunSpec) -> Vec<Output> {
        self.receive(0, vec![Order::RunNew { slot, task, spec: Ok(Box::new(spec)) }])
    }

    fn reset(&mut self, task: TaskRef) -> Vec<Output> {
        self.receive(0, vec![Order::Reset { slot: 0, task, grace: None }])
    }

    fn started(&mut self, slot: u32, task: TaskRef) -> Vec<Output> {
        self.step(Input::Started { slot, task, pid: Some(7), start_time: SystemTime::UNIX_EPOCH })
    }

    fn exited(&mut self, slot: u32, task: TaskRef, code: i32) -> Vec<Output> {
        self.step(Input::Ended { slot, task, end: ended(crate::task::Exit::Code(code)) })
    }

    fn pass(&mut self, span: Duration) -> Vec<Output> {
        self.now = self.now + span;
        self.step(Input::Tick)
    }

    fn last(&self) -> &Frame {
        self.frames.last().expect("a frame was sent")
    }

    fn answers(&self) -> Vec<(Option<TaskRef>, Answer)> {
        let reports = self.frames.iter().flat_map(|frame| &frame.slots);
        reports.filter_map(|report| report.answer.map(|answer| (report.task, answer))).collect()
    }

    fn results(&self) -> Vec<(TaskRef, EndReason)> {
        let reports = self.frames.iter().flat_map(|frame| &frame.slots);
        reports.filter_map(|report| Some((report.task?, report.result.as_ref()?.end_reason))).collect()
    }
}

fn starts(outputs: &[Output]) -> Vec<TaskRef> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Start { task, .. } => Some(*task),
            _ => None,
        })
        .collect()
}

fn stops(outputs: &[Output]) -> Vec<TaskRef> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Stop { task, .. } => Some(*task),
            _ => None,
        })
        .collect()
}

#[test]
fn a_task_is_started_reported_kept_and_forgotten_once_acknowledged() {
    let mut world = World::connected(1);
    assert_eq!(starts(&world.run_new(0, task(1, 1), spec())), [task(1, 1)]);
    world.started(0, task(1, 1));
    assert_eq!((world.last().ack, world.last().slots[0].status), (2, Status::Running));
    assert_eq!(world.last().slots[0].pid, Some(7));
    let outputs = world.exited(0, task(1, 1), 0);
    assert!(matches!(outputs[..], [Output::Keep { .. }, Output::Send(_)]), "kept before it is told: {outputs:?}");
    assert_eq!(world.last().slots[0].status, Status::Finished);
    assert_eq!(world.receive(0, vec![Order::ResultAck { task: task(1, 1) }]), [Output::Forget { slot: 0 }]);
    assert_eq!(world.machine.held(), 0);
}

#[test]
fn a_command_is_acknowledged_soon_even_when_nothing_else_is_to_be_said() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.pass(ACK_DELAY);
    assert_eq!((world.last().ack, world.last().slots[0].status, world.last().slots[0].pid), (2, Status::Running, None));
}

#[test]
fn run_new_twice_starts_one_process_and_is_answered_with_its_state() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    assert!(starts(&world.run_new(0, task(1, 1), spec())).is_empty());
    assert_eq!((world.last().ack, world.last().slots[0].pid), (3, Some(7)));
    world.exited(0, task(1, 1), 3);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(world.results(), [(task(1, 1), EndReason::Exit), (task(1, 1), EndReason::Exit)]);
}

#[test]
fn a_lower_lease_is_stale() {
    let mut world = World::connected(2);
    world.run_new(0, task(1, 5), spec());
    assert!(starts(&world.run_new(1, task(1, 4), spec())).is_empty());
    assert_eq!(world.answers(), [(Some(task(1, 4)), Answer::Stale)]);
}

#[test]
fn a_higher_lease_waits_for_the_end_of_the_older_process() {
    for slot in [0, 1] {
        let mut world = World::connected(2);
        world.run_new(0, task(1, 1), spec());
        world.started(0, task(1, 1));
        let outputs = world.run_new(slot, task(1, 2), spec());
        assert_eq!((starts(&outputs), stops(&outputs)), (vec![], vec![task(1, 1)]));
        let report = world.last().slots.iter().find(|report| report.task == Some(task(1, 2))).expect("told at once");
        assert_eq!((report.status, report.pid), (Status::Running, None));
        assert_eq!(starts(&world.exited(0, task(1, 1), 143)), [task(1, 2)]);
    }
}

#[test]
fn a_reset_is_answered_by_the_result_once_the_processes_are_gone() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(stops(&world.reset(task(1, 1))), [task(1, 1)]);
    assert!(world.results().is_empty());
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Reset)]);
    assert_eq!(world.last().slots[0].status, Status::Failed);
}

#[test]
fn a_reset_of_something_unknown_is_not_held_and_can_never_start_afterwards() {
    let mut world = World::connected(1);
    world.reset(task(1, 1));
    assert!(starts(&world.run_new(0, task(1, 1), spec())).is_empty());
    assert_eq!(world.answers(), [(Some(task(1, 1)), Answer::NotHeld), (Some(task(1, 1)), Answer::Stale)]);
}

#[test]
fn not_held_of_a_newer_lease_waits_for_the_processes_of_an_older_one() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    assert_eq!(stops(&world.reset(task(1, 3))), [task(1, 1)]);
    assert!(world.answers().is_empty());
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.answers(), [(Some(task(1, 3)), Answer::NotHeld)]);
}

#[test]
fn a_slot_with_an_unacknowledged_result_is_busy_and_the_ack_may_come_with_the_next_task() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.exited(0, task(1, 1), 0);
    world.run_new(0, task(2, 1), spec());
    assert_eq!(world.answers(), [(Some(task(2, 1)), Answer::RejectedBusy)]);
    let next = Order::RunNew { slot: 0, task: task(3, 1), spec: Ok(Box::new(spec())) };
    assert_eq!(starts(&world.receive(0, vec![Order::ResultAck { task: task(1, 1) }, next])), [task(3, 1)]);
}

/// An hour in which no result is taken: what is kept is bounded by the slots, and told whole only once a stream.
#[test]
fn a_scheduler_that_takes_no_result_makes_a_runner_keep_one_for_each_slot_and_no_more() {
    let mut world = World::connected(2);
    for slot in [0, 1] {
        world.run_new(u32::from(slot), task(slot, 1), spec());
        world.exited(u32::from(slot), task(slot, 1), 0);
    }
    for number in 2..10_000u32 {
        let next = TaskRef { id: Uuid::from_u128(u128::from(number) + 1), ..task(0, 1) };
        assert!(starts(&world.run_new(number % 2, next, spec())).is_empty());
    }
    let refused = world.answers().iter().filter(|(_, answer)| *answer == Answer::RejectedBusy).count();
    assert_eq!(refused, 9_998);
    for _ in 0..360 {
        world.pass(BEAT);
        assert_eq!(world.last().slots.len(), 2);
    }
    assert_eq!(world.results().len(), 2);
}

#[test]
fn what_cannot_be_run_is_rejected_with_its_reason() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), RunSpec { target: Target::Unknown, ..spec() });
    world.run_new(9, task(2, 1), spec());
    world.receive(0, vec![Order::RunNew { slot: 0, task: task(3, 1), spec: Err("no argv".into()) }]);
    world.receive(0, vec![Order::Unknown { kind: 99, slot: 0, task: None }]);
    let answers: Vec<_> = world.answers().into_iter().map(|(_, answer)| answer).collect();
    let expected = [Answer::RejectedTarget, Answer::RejectedSpec, Answer::RejectedSpec, Answer::Unsupported];
    assert_eq!(answers, expected);
}

#[test]
fn a_result_is_told_again_in_the_next_hello_and_by_ref_alone_in_beats() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.exited(0, task(1, 1), 0);
    world.receive(3, vec![Order::GoOn]);
    world.pass(BEAT);
    assert_eq!((world.last().slots[0].status, world.last().slots[0].result.is_some()), (Status::Finished, false));
    world.step(Input::Closed);
    world.open();
    let hello = world.last().hello.clone().expect("the first frame is the hello");
    assert!(hello.held[0].result.is_some());
    let ack = Verdict { task: task(1, 1), kind: VerdictKind::Ack, grace: None };
    assert!(world.welcome(vec![ack]).contains(&Output::Forget { slot: 0 }));
}

#[test]
fn what_ends_before_the_welcome_is_told_after_it() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.step(Input::Closed);
    world.open();
    let sent = world.frames.len();
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.frames.len(), sent, "nothing but the hello goes before the welcome");
    world.welcome(vec![Verdict { task: task(1, 1), kind: VerdictKind::Adopt, grace: None }]);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Exit)]);
}

#[test]
fn the_dead_of_an_earlier_boot_are_named_until_a_scheduler_has_heard_it() {
    let leftovers = Leftovers { results: Vec::new(), ended: vec![(0, task(1, 1))] };
    let mut world = World::with(1, leftovers);
    world.open();
    world.step(Input::Closed);
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.ended.clone()), Some(vec![task(1, 1)]));
    assert!(world.welcome(Vec::new()).contains(&Output::EndedTold));
    world.step(Input::Closed);
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.ended.len()), Some(0));
}

#[test]
fn a_result_of_an_earlier_boot_is_kept_in_a_slot_that_no_longer_exists() {
    let result = ended(crate::task::Exit::Code(0)).into_result(None);
    let mut world = World::with(1, Leftovers { results: vec![(4, task(1, 1), result)], ended: Vec::new() });
    world.open();
    assert_eq!(world.last().hello.as_ref().map(|hello| hello.held[0].slot), Some(4));
    world.welcome(vec![Verdict { task: task(1, 1), kind: VerdictKind::Ack, grace: None }]);
    assert_eq!(world.machine.held(), 0);
}

#[test]
fn a_timeout_ends_the_task_and_says_so() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), RunSpec { timeout: Some(Duration::from_secs(1)), ..spec() });
    world.started(0, task(1, 1));
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
    assert!(stops(&world.pass(Duration::from_secs(1))).is_empty(), "once is enough");
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::Timeout)]);
}

fn cut_off() -> RunSpec {
    RunSpec { self_stop_after: Some(SELF_STOP), ..spec() }
}

#[test]
fn self_stop_counts_from_the_sending_of_the_newest_acknowledged_frame() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.pass(BEAT);
    let beat = world.last().seq;
    // Answers without a newer ack prove that the scheduler lives, not that it has committed.
    world.pass(Duration::from_secs(4));
    world.receive(1, vec![Order::GoOn]);
    assert!(stops(&world.pass(Duration::from_secs(30))).is_empty());
    world.open();
    world.welcome(Vec::new());
    world.now = world.now + Duration::from_secs(1);
    let _ = beat;
    assert!(
        stops(&world.pass(SELF_STOP.checked_sub(Duration::from_secs(2)).unwrap())).is_empty(),
        "the hello was acknowledged"
    );
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
}

#[test]
fn a_scheduler_that_cannot_commit_does_not_prolong_a_task() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    for _ in 0..4 {
        assert!(stops(&world.pass(BEAT)).is_empty());
        world.receive(1, vec![Order::GoOn]);
    }
    assert_eq!(stops(&world.pass(BEAT)), [task(1, 1)]);
    world.exited(0, task(1, 1), 0);
    assert_eq!(world.results(), [(task(1, 1), EndReason::SelfStop)]);
}

#[test]
fn a_planned_stop_of_the_scheduler_holds_self_stop_off_until_the_next_welcome() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    let hold_for = Duration::from_mins(10);
    let outputs = world.receive(0, vec![Order::Disconnect { hold_for }]);
    assert_eq!(outputs.last(), Some(&Output::Redial(Redial::Told)));
    assert!(stops(&world.pass((hold_for + SELF_STOP).checked_sub(Duration::from_secs(1)).unwrap())).is_empty());
    assert_eq!(stops(&world.pass(Duration::from_secs(1))), [task(1, 1)]);
}

#[test]
fn a_runner_that_was_frozen_past_self_stop_says_so_whatever_it_finds_first() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.now = world.now + SELF_STOP;
    world.exited(0, task(1, 1), 0);
    world.open();
    let hello = world.last().hello.clone().expect("hello");
    assert_eq!(hello.held[0].result.as_ref().map(|result| result.end_reason), Some(EndReason::SelfStop));
}

#[test]
fn a_task_that_arrives_when_its_time_is_over_is_late() {
    let mut world = World::connected(1);
    world.now = world.now + SELF_STOP;
    world.run_new(0, task(1, 1), cut_off());
    assert_eq!(world.answers(), [(Some(task(1, 1)), Answer::RejectedLate)]);
}

#[test]
fn a_longer_grace_ends_at_self_stop_plus_the_set_grace() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), cut_off());
    world.started(0, task(1, 1));
    world.receive(0, vec![Order::Reset { slot: 0, task: task(1, 1), grace: Some(Duration::from_hours(1)) }]);
    let outputs = world.pass(SELF_STOP);
    let set = Output::Stop { slot: 0, task: task(1, 1), grace: Duration::from_secs(10) };
    assert!(outputs.contains(&set), "{outputs:?}");
}

#[test]
fn a_deaf_stream_is_left_and_the_task_goes_on() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    world.pass(BEAT);
    let outputs = world.pass(Duration::from_secs(5));
    assert_eq!(outputs, [Output::Redial(Redial::Deaf)]);
    assert_eq!(world.machine.held(), 1);
}

#[test]
fn a_scheduler_that_answers_without_acknowledging_is_left_when_there_is_another() {
    for others in [true, false] {
        let mut world = World::new(1);
        world.step(Input::Opened { others });
        world.welcome(Vec::new());
        world.pass(BEAT / 2);
        world.receive(1, vec![Order::GoOn]);
        let moved = world.pass(BEAT / 2).contains(&Output::Redial(Redial::NotAcked));
        assert_eq!(moved, others);
    }
}

#[test]
fn a_leaving_runner_takes_nothing_new_finishes_and_says_goodbye() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    world.step(Input::Leave);
    assert_eq!(world.last().drain, Drain::Draining);
    world.run_new(0, task(2, 1), spec());
    assert_eq!(world.answers(), [(Some(task(2, 1)), Answer::RejectedDraining)]);
    world.exited(0, task(1, 1), 0);
    let outputs = world.receive(0, vec![Order::ResultAck { task: task(1, 1) }]);
    assert_eq!(outputs.last(), Some(&Output::Left));
    assert_eq!(world.last().drain, Drain::Leaving);
}

#[test]
fn a_runner_stop_burns_no_attempt() {
    let mut world = World::connected(1);
    world.run_new(0, task(1, 1), spec());
    world.started(0, task(1, 1));
    assert_eq!(stops(&world.step(Input::StopAll)), [task(1, 1)]);
    world.exited(0, task(1, 1), 143);
    assert_eq!(world.results(), [(task(1, 1), EndReason::RunnerStop)]);
}

#[test]
fn a_scheduler_may_drain_and_resume_a_runner() {
    let mut world = World::connected(1);
    world.receive(0, vec![Order::Drain]);
    assert_eq!(world.last().drain, Drain::Draining);
    world.receive(0, vec![Order::Resume]);
    assert_eq!(world.last().drain, Drain::Working);
    assert_eq!(starts(&world.run_new(0, task(1, 1), spec())), [task(1, 1)]);
}

// --- properties -----------------------------------------------------------------------------------------------

/// Something that may happen next, by the dice.
#[derive(Debug, Clone)]
enum Event {
    RunNew { slot: u32, task: TaskRef, self_stop: bool },
    Reset { task: TaskRef },
    ResultAck { slot: u32 },
    Started { nth: usize },
    Ended { nth: usize, ok: bool },
    Ack { back: u64 },
    Cut,
    Pass { seconds: u64 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let some_task = (0_u8..3, 1_u64..5).prop_map(|(id, lease)| task(id, lease));
    let event = prop_oneof![
        4 => (0_u32..2, some_task.clone(), any::<bool>())
            .prop_map(|(slot, task, self_stop)| Event::RunNew { slot, task, self_stop }),
        2 => some_task.prop_map(|task| Event::Reset { task }),
        2 => (0_u32..2).prop_map(|slot| Event::ResultAck { slot }),
        3 => (0_usize..4).prop_map(|nth| Event::Started { nth }),
        3 => (0_usize..4, any::<bool>()).prop_map(|(nth, ok)| Event::Ended { nth, ok }),
        2 => (0_u64..3).prop_map(|back| Event::Ack { back }),
        1 => Just(Event::Cut),
        2 => (0_u64..30).prop_map(|seconds| Event::Pass { seconds }),
    ];
    vec(event, 0..60)
}

/// What an onlooker knows who sees every event and every output, and nothing of the machine's inside.
#[derive(Default)]
struct Onlooker {
    /// Processes that exist: slot, task, self-stop, whether a stop was ordered.
    live: Vec<(u32, TaskRef, bool, bool)>,
    started: HashMap<Uuid, u64>,
    not_held: HashMap<Uuid, u64>,
    /// Results kept and not yet acknowledged.
    kept: HashMap<u32, TaskRef>,
    acked: Vec<TaskRef>,
    /// `RUN_NEW` of this session by command seq: what must be named by the first frame whose ack covers it.
    unanswered: Vec<(u64, TaskRef)>,
}

impl Onlooker {
    fn see(&mut self, outputs: &[Output], specs: &HashMap<TaskRef, bool>) {
        for output in outputs {
            match output {
                Output::Start { slot, task, .. } => {
                    assert!(!self.live.iter().any(|(_, live, ..)| live.id == task.id), "two processes of {task}");
                    let newest = self.started.insert(task.id, task.lease);
                    assert!(newest.is_none_or(|lease| lease < task.lease), "{task} started after {newest:?}");
                    let gone = self.not_held.get(&task.id);
                    assert!(gone.is_none_or(|lease| *lease < task.lease), "{task} started after NOT_HELD");
                    assert!(!self.kept.contains_key(slot), "slot {slot} was given away with a result unacknowledged");
                    self.live.push((*slot, *task, specs[task], false));
                }
                Output::Stop { task, .. } => {
                    for live in self.live.iter_mut().filter(|live| live.1 == *task) {
                        live.3 = true;
                    }
                }
                Output::Keep { slot, task, .. } => {
                    assert_eq!(self.kept.insert(*slot, *task), None, "one slot keeps one result");
                }
                Output::Forget { slot } => {
                    let forgotten = self.kept.remove(slot);
                    let acked = |task: TaskRef| self.acked.contains(&task);
                    // The other way to be forgotten: a higher lease of the same task came for this slot.
                    let replaced = |task: TaskRef| specs.keys().any(|t| t.id == task.id && t.lease > task.lease);
                    assert!(forgotten.is_none_or(|task| acked(task) || replaced(task)), "{forgotten:?} was forgotten");
                }
                Output::Send(frame) => self.read(frame),
                Output::Redial(_) => self.unanswered.clear(),
                Output::EndedTold | Output::Left => {}
            }
        }
    }

    fn read(&mut self, frame: &Frame) {
        if frame.hello.is_some() {
            self.unanswered.clear();
        }
        for report in &frame.slots {
            if let (Some(Answer::NotHeld), Some(task)) = (report.answer, report.task) {
                let lives = self.live.iter().find(|(_, live, ..)| live.id == task.id && live.lease <= task.lease);
                assert_eq!(lives, None, "NOT_HELD of {task} while it lives");
                let lease = self.not_held.entry(task.id).or_default();
                *lease = task.lease.max(*lease);
            }
            // A report of a higher lease settles the lower ones.
            let told = |task: &TaskRef| report.task.is_some_and(|told| told.id == task.id && told.lease >= task.lease);
            self.unanswered.retain(|(_, task)| !told(task));
        }
        let silent = self.unanswered.iter().find(|(seq, _)| *seq <= frame.ack);
        assert_eq!(silent, None, "{frame:?} covers a RUN_NEW and says nothing of it");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_promises_hold(events in events()) {
        let mut world = World::new(2);
        let mut seen = Onlooker::default();
        let mut specs: HashMap<TaskRef, bool> = HashMap::new();
        let mut connected = false;
        for event in events {
            if !connected {
                let outputs = [world.open(), world.welcome(Vec::new())].concat();
                seen.see(&outputs, &specs);
                connected = true;
            }
            let outputs = match event {
                Event::RunNew { slot, task, self_stop } => {
                    specs.entry(task).or_insert(self_stop);
                    let self_stop_after = self_stop.then_some(SELF_STOP);
                    specs.insert(task, if world.machine.place_of(task).is_some() { specs[&task] } else { self_stop });
                    seen.unanswered.push((world.seq + 1, task));
                    world.run_new(slot, task, RunSpec { self_stop_after, ..spec() })
                }
                Event::Reset { task } => world.reset(task),
                Event::ResultAck { slot } => match seen.kept.get(&slot).copied() {
                    Some(task) => {
                        seen.acked.push(task);
                        world.receive(0, vec![Order::ResultAck { task }])
                    }
                    None => continue,
                },
                Event::Started { nth } => match seen.live.get(nth).copied() {
                    Some((slot, task, ..)) => world.started(slot, task),
                    None => continue,
                },
                Event::Ended { nth, ok } => {
                    if nth >= seen.live.len() {
                        continue;
                    }
                    let (slot, task, ..) = seen.live.remove(nth);
                    world.exited(slot, task, i32::from(!ok))
                }
                Event::Ack { back } => {
                    let newest = world.frames.last().map_or(0, |frame| frame.seq);
                    world.receive(newest.saturating_sub(back), vec![Order::GoOn])
                }
                Event::Cut => {
                    connected = false;
                    world.step(Input::Closed)
                }
                Event::Pass { seconds } => world.pass(Duration::from_secs(seconds)),
            };
            connected &= !outputs.iter().any(|output| matches!(output, Output::Redial(_)));
            seen.see(&outputs, &specs);
            for (_, task, self_stop, stopped) in &seen.live {
                let due = world.machine.lifeline().map(|lifeline| lifeline + SELF_STOP);
                prop_assert!(!self_stop || *stopped || due.is_some_and(|due| world.now < due), "{task} outlived its time");
            }
            prop_assert!(world.machine.next_deadline().is_none_or(|due| due > world.now), "what is due is done");
        }
    }
}

/// The outputs of more tasks than a scheduler takes in at once are brought by the frames after the hello.
#[test]
fn outputs_that_fill_more_than_one_frame_come_in_several() {
    const SLOTS: u32 = 100;
    let mut world = World::connected(SLOTS);
    for slot in 0..SLOTS {
        world.run_new(slot, task(slot as u8, 1), spec());
        world.started(slot, task(slot as u8, 1));
    }
    world.step(Input::Closed);
    for slot in 0..SLOTS {
        let end = End { output: vec![b'x'; crate::task::OUTPUT_MAX], ..ended(crate::task::Exit::Code(0)) };
        world.step(Input::Ended { slot, task: task(slot as u8, 1), end });
    }
    let size = |reports: &[Report]| reports.iter().map(Report::bytes).sum::<usize>();
    let before = world.frames.len();
    world.open();
    let hello = world.last().hello.clone().expect("a stream begins with it");
    assert_eq!(hello.held.len(), SLOTS as usize, "nothing is left out");
    assert!(size(&hello.held) <= frames::FRAME_BYTES_MAX);
    let told = hello.held.iter().filter(|report| report.result.is_some()).count();
    assert!((1..SLOTS as usize).contains(&told), "as many as fit: {told}");
    assert!(hello.held.iter().all(|report| (report.result.is_none()) == (report.status == Status::Running)));

    world.welcome(Vec::new());
    assert!(world.frames[before..].iter().all(|frame| size(&frame.slots) <= frames::FRAME_BYTES_MAX));
    assert_eq!(world.results().len(), SLOTS as usize - told, "the others follow, each once");
    world.pass(BEAT);
    assert_eq!(world.results().len(), SLOTS as usize - told, "and never again in this stream");
}
