//! A runner played by the test: it speaks the protocol frame by frame, well or badly.

use baton::v1::{
    Command, CommandKind, DrainState, EndReason, Heartbeat, Hello, SlotCommand, SlotReport, SlotStatus, TaskRef,
    TaskResult, Welcome,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use uuid::Uuid;

use crate::{Api, PATIENCE};

/// How many frames may wait to be sent.
const IN_FLIGHT: usize = 64;

/// One session of a runner that does nothing by itself.
#[derive(Debug)]
pub struct ByHand {
    hello: Hello,
    frames: mpsc::Sender<Heartbeat>,
    commands: Streaming<Command>,
    waiting: Vec<SlotCommand>,
    seq: u64,
    ack: u64,
    /// The first frame of the scheduler.
    pub welcome: Welcome,
}

impl ByHand {
    /// What a runner of a host of its own says at first, with one slot.
    pub fn hello(id: &str) -> Hello {
        Hello {
            runner_id: id.to_owned(),
            install_id: Uuid::new_v4().to_string(),
            boot_id: Uuid::new_v4().to_string(),
            conn: 1,
            protocol_version: baton::PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            slots: 1,
            capabilities: vec!["command".to_owned(), "shell".to_owned()],
            ..Default::default()
        }
    }

    /// Opens a session, and says what the scheduler answered when it did not welcome it.
    pub async fn dial(api: &Api, hello: Hello) -> Result<Self, Status> {
        let (frames, sent) = mpsc::channel(IN_FLIGHT);
        let first = Heartbeat {
            seq: 1,
            hello: Some(hello.clone()),
            slots: idle(hello.slots),
            drain: DrainState::Working.into(),
            ..Default::default()
        };
        frames.send(first).await.expect("the channel is open");
        let opening = async {
            let mut commands = api.heartbeats.clone().beat(ReceiverStream::new(sent)).await?.into_inner();
            let first = commands.message().await?;
            Ok::<_, Status>((commands, first.ok_or_else(|| Status::aborted("the stream ended at once"))?))
        };
        let (commands, first) = timeout(PATIENCE, opening).await.expect("a hello is answered in time")?;
        let Some(welcome) = first.welcome else {
            let why: Vec<_> = first.commands.iter().map(|command| format!("{:?}", command.disconnect)).collect();
            return Err(Status::aborted(format!("no welcome: {}", why.join(", "))));
        };
        let mut session = Self { hello, frames, commands, waiting: first.commands, seq: 1, ack: first.seq, welcome };
        // Nothing is given out before the verdicts are acknowledged.
        session.say(Vec::new()).await;
        Ok(session)
    }

    /// The same runner process dials again.
    pub async fn dial_again(self, api: &Api, inventory: Vec<SlotReport>) -> Result<Self, Status> {
        let hello = Hello { conn: self.hello.conn + 1, inventory, ..self.hello.clone() };
        drop(self);
        Self::dial(api, hello).await
    }

    /// What it said at first.
    pub fn said(&self) -> &Hello {
        &self.hello
    }

    /// Sends a frame about these slots that acknowledges everything received so far.
    pub async fn say(&mut self, slots: Vec<SlotReport>) {
        let ack = self.ack;
        self.say_acking(ack, slots).await;
    }

    /// Sends a frame that acknowledges less than was received, like one that crosses a command on the wire.
    pub async fn say_acking(&mut self, ack: u64, slots: Vec<SlotReport>) {
        self.seq += 1;
        let frame = Heartbeat { seq: self.seq, ack, slots, drain: DrainState::Working.into(), ..Default::default() };
        // A session that the scheduler has closed takes nothing more; the next command says so.
        let _ = self.frames.send(frame).await;
    }

    /// Sends a beat in which every slot is idle.
    pub async fn beat_idle(&mut self) {
        self.say(idle(self.hello.slots)).await;
    }

    /// The highest command seq received.
    pub fn received(&self) -> u64 {
        self.ack
    }

    /// Waits for the next command of this kind; others that come before are dropped. None when the stream ends.
    pub async fn next(&mut self, kind: CommandKind) -> Option<SlotCommand> {
        let waiting = async {
            loop {
                while !self.waiting.is_empty() {
                    let command = self.waiting.remove(0);
                    if command.kind() == kind {
                        return Some(command);
                    }
                }
                let frame = self.commands.message().await.ok().flatten()?;
                self.ack = frame.seq;
                self.waiting = frame.commands;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain for {}", kind.as_str_name()))
    }

    /// Beats idle until there is a RUN_NEW.
    pub async fn idle_until_run(&mut self) -> SlotCommand {
        loop {
            self.beat_idle().await;
            // The scheduler answers each beat, so each turn of this loop waits for one frame at least.
            let waiting = async {
                while self.waiting.is_empty() {
                    let frame = self.commands.message().await.ok().flatten()?;
                    self.ack = frame.seq;
                    self.waiting = frame.commands;
                }
                Some(self.waiting.remove(0))
            };
            let command = timeout(PATIENCE, waiting).await.expect("a beat is answered in time");
            let command = command.expect("the stream lives");
            if command.kind() == CommandKind::RunNew {
                return command;
            }
        }
    }

    /// Waits for the next RUN_NEW.
    pub async fn next_run(&mut self) -> SlotCommand {
        self.next(CommandKind::RunNew).await.expect("the stream lives")
    }
}

/// The report of a slot that runs a task.
pub fn running(slot: u32, task: &TaskRef) -> SlotReport {
    SlotReport { slot, status: SlotStatus::Running.into(), task: Some(task.clone()), pid: 1, ..Default::default() }
}

/// The report of a slot whose task has ended with this exit code.
pub fn ended(slot: u32, task: &TaskRef, exit_code: i32) -> SlotReport {
    let status = if exit_code == 0 { SlotStatus::Finished } else { SlotStatus::Failed };
    SlotReport {
        slot,
        status: status.into(),
        task: Some(task.clone()),
        result: Some(Box::new(TaskResult {
            end_reason: EndReason::Exit.into(),
            exit_code: Some(exit_code),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn idle(slots: u32) -> Vec<SlotReport> {
    (0..slots).map(|slot| SlotReport { slot, status: SlotStatus::Idle.into(), ..Default::default() }).collect()
}
