//! The machine in a world of its own, whose clock, stream and processes the test plays.

mod leaving;
mod limits;
mod promises;
mod stream;
mod tasks;

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{stream::ACK_DELAY, *};
use crate::task::{End, Exit, Target};

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

fn ended(exit: Exit) -> End {
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
        self.step(Input::Ended { slot, task, end: ended(Exit::Code(code)) })
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
