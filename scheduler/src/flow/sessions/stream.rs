//! The stream to a runner: frames leave in their order as long as there is room for them, and one that is not read, or
//! not answered, ends it.

use std::time::Instant;

use super::{Session, Slot, ToEnd};
use crate::domain::{
    command::{Command, Disconnect, DisconnectReason, Down, Welcome},
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

impl Session {
    /// Sends a frame with these commands, after what still waits for room.
    pub(in crate::flow) fn send(&mut self, commands: Vec<Command>, now: Instant) {
        // Who has not read what waits already learns nothing from one more answer.
        let says_nothing = commands.iter().all(|command| matches!(command, Command::GoOn { .. }));
        if !says_nothing || self.waiting.is_empty() {
            self.waiting.extend(commands);
        }
        self.flush(None, now);
    }

    /// Sends the first frame.
    pub(in crate::flow) fn welcome(&mut self, welcome: Welcome, now: Instant) {
        self.flush(Some(Box::new(welcome)), now);
    }

    fn flush(&mut self, mut welcome: Option<Box<Welcome>>, now: Instant) {
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
    pub(in crate::flow) fn close(&mut self, disconnect: Disconnect, now: Instant) {
        if !self.closed {
            self.send(vec![Command::Disconnect(disconnect)], now);
            self.closed = true;
        }
    }

    /// The seq of the next frame.
    pub(in crate::flow) fn next_seq(&self) -> u64 {
        self.seq + 1
    }

    /// Whether frames were heard whose sign of life is not committed.
    pub(in crate::flow) fn unseen(&self) -> Option<u64> {
        (self.heard > self.committed).then_some(self.heard)
    }

    /// Signs of life up to this frame are committed: tells the runner so.
    pub(in crate::flow) fn seen(&mut self, seq: u64, now: Instant) {
        self.committed = self.committed.max(seq);
        self.unseen_since = self.unseen().map(|_| now);
        self.send(vec![Command::GoOn { degraded: false }], now);
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
    pub(in crate::flow) fn check(&mut self, timing: &Timing, now: Instant) -> Option<Disconnect> {
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
    pub(in crate::flow) fn is_closed(&self) -> bool {
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
