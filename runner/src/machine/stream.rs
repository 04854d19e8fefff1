//! The stream to a scheduler: how it opens, what comes down it, what is owed up it, and when it is left.

use std::{collections::VecDeque, time::Duration};

use super::{
    Answer, Drain, Frame, Inventory, Machine, Order, Output, Received, Redial, Report, Session, Slot, Status,
    VerdictKind, Welcome,
};
use crate::{clock::Instant, task::TaskRef};

/// A command that changes no slot at once is acknowledged within this time, mostly by a frame that goes anyway.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(50);

/// The hello may wait this many times longer for its answer than a beat: it is settled in a transaction of its own,
/// and thousands may come at once.
const HELLO_PATIENCE: u32 = 2;

impl Machine {
    pub(super) fn open(&mut self, others: bool) {
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
            send_by: None,
        });
        self.outputs.push(Output::Send(frame));
    }

    pub(super) fn receive(&mut self, frame: Received) {
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
            session.within(now, ACK_DELAY);
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
    pub(super) fn watch_stream(&mut self) {
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

    pub(super) fn deaf_due(&self, session: &Session) -> Option<Instant> {
        let patience = if session.welcomed { self.answer_timeout } else { self.answer_timeout * HELLO_PATIENCE };
        session.unanswered_since.map(|since| since + patience)
    }

    fn redial(&mut self, why: Redial) {
        self.session = None;
        self.outputs.push(Output::Redial(why));
    }

    pub(super) fn drain(&self) -> Drain {
        if self.draining() { Drain::Draining } else { Drain::Working }
    }

    pub(super) fn changed(&mut self, slot: u32, urgent: bool) {
        if let Some(session) = self.session.as_mut() {
            session.changed.insert(slot);
            session.urgent |= urgent;
        }
    }

    /// A slot has something to say that may go along with what else there is to say, within a time.
    pub(super) fn changed_within(&mut self, slot: u32, patience: Duration) {
        let now = self.now;
        if let Some(session) = self.session.as_mut() {
            session.changed.insert(slot);
            session.within(now, patience);
        }
    }

    pub(super) fn answer(&mut self, slot: u32, task: Option<TaskRef>, answer: Answer, message: impl Into<String>) {
        let status = self.slots.get(slot as usize).map_or(Status::Idle, Slot::status);
        if let Some(session) = self.session.as_mut() {
            let (answer, message) = (Some(answer), message.into());
            session.answers.push(Report { status, task, answer, message, ..Report::running(slot) });
            session.urgent = true;
        }
    }
}

impl Session {
    /// A frame goes within a time from now, if none goes before.
    fn within(&mut self, now: Instant, patience: Duration) {
        let by = now + patience;
        self.send_by = Some(self.send_by.map_or(by, |known| known.min(by)));
    }
}
