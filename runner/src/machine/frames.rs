//! What goes into a frame, and no more than a scheduler takes in at once: outputs of many tasks that ended while nobody was
//! there to be told come in several.

use std::collections::BTreeSet;

use super::{Drain, Frame, Held, Machine, Output, Report, SENT_MAX, Stage};
use crate::task::TaskResult;

/// The bytes of one frame, by a generous count: half of what a scheduler takes in at once. Ten thousand slots without
/// results fit.
pub(super) const FRAME_BYTES_MAX: usize = 2 << 20;

/// What a report takes beside its texts and its output.
const REPORT_BYTES: usize = 192;

impl Machine {
    /// What a hello says of the slots that hold something. Results that do not fit into one frame are said to run still
    /// (they have yet to be told) and follow once the hello is welcome: their slots come second. A slot that this boot no
    /// longer has cannot run anything, so that its result goes before others.
    pub(super) fn inventory(&mut self) -> (Vec<Report>, BTreeSet<u32>) {
        let mut held: Vec<u32> =
            (0..self.slots.len() as u32).filter(|slot| self.slots[*slot as usize].held.is_some()).collect();
        let mut room = FRAME_BYTES_MAX.saturating_sub(REPORT_BYTES * held.len());
        let (mut reports, mut later) = (Vec::with_capacity(held.len()), BTreeSet::new());
        held.sort_by_key(|slot| *slot < self.settings.slots);
        for slot in held {
            let Some(held) = self.slots[slot as usize].held.as_ref() else { continue };
            let bytes = held.result_bytes();
            if bytes > room && slot < self.settings.slots {
                reports.push(Report { task: Some(held.task), ..Report::running(slot) });
                later.insert(slot);
                continue;
            }
            room = room.saturating_sub(bytes);
            reports.push(self.report(slot, true));
        }
        (reports, later)
    }

    /// Sends what has changed, if it is time to.
    pub(super) fn flush(&mut self) {
        let now = self.now;
        let Some(session) = self.session.as_mut() else { return };
        if !session.welcomed || !(session.urgent || session.send_by.is_some_and(|by| now >= by)) {
            return;
        }
        session.urgent = false;
        session.send_by = None;
        let changed = std::mem::take(&mut session.changed);
        let mut reports = std::mem::take(&mut session.answers);
        let drain = self.drain();
        let mut bytes: usize = reports.iter().map(Report::bytes).sum();
        for slot in changed {
            let report = self.report(slot, false);
            if bytes + report.bytes() > FRAME_BYTES_MAX && !reports.is_empty() {
                self.send(std::mem::take(&mut reports), drain);
                bytes = 0;
            }
            bytes += report.bytes();
            reports.push(report);
        }
        self.send(reports, drain);
    }

    pub(super) fn send(&mut self, slots: Vec<Report>, drain: Drain) {
        let now = self.now;
        let Some(session) = self.session.as_mut() else { return };
        session.seq += 1;
        if session.sent.len() < SENT_MAX {
            session.sent.push_back((session.seq, now));
        }
        self.outputs.push(Output::Send(Frame { seq: session.seq, ack: session.ack, hello: None, slots, drain }));
    }

    /// What a slot has to say. A result is told once a stream (rule 5).
    fn report(&mut self, slot: u32, full: bool) -> Report {
        let state = &mut self.slots[slot as usize];
        let mut report = Report { status: state.status(), ..Report::running(slot) };
        let Some(held) = state.held.as_mut() else { return report };
        report.task = Some(held.task);
        match &held.stage {
            Stage::Running { pid, start_time, .. } => {
                report.pid = *pid;
                report.start_time = Some(*start_time);
            }
            Stage::Ended(result) if full || !held.told => {
                held.told = true;
                report.result = Some(result.clone());
            }
            _ => {}
        }
        report
    }
}

impl Held {
    /// What its result takes in a frame, beside the report that carries it.
    fn result_bytes(&self) -> usize {
        match &self.stage {
            Stage::Ended(result) => bytes(result),
            _ => 0,
        }
    }
}

impl Report {
    /// What it takes in a frame, roughly and not too little.
    pub(super) fn bytes(&self) -> usize {
        REPORT_BYTES + self.message.len() + self.result.as_deref().map_or(0, bytes)
    }
}

fn bytes(result: &TaskResult) -> usize {
    result.output.len() + result.message.len()
}
