//! What a runner says in a frame: it is taken in against what its slots were given, and what is news goes to a turn.

use std::time::Instant;

use uuid::Uuid;

use super::{Session, Slot};
use crate::{
    domain::{
        command::Command,
        heartbeat::{self, Answer, Drain, EndReason, Frame, Reading, SlotReport, SlotStatus, TaskRef},
    },
    flow::batch::{Fact, News},
};

/// What a frame brought.
#[derive(Default)]
pub(in crate::flow) struct Heard {
    /// News about tasks.
    pub told: Vec<Told>,
    /// Whether the runner takes new work, if that has changed.
    pub drain: Option<Drain>,
    /// Slots became idle.
    pub freed: bool,
}

/// News that a frame brought, with the slot it came from.
pub(in crate::flow) struct Told {
    pub slot: u32,
    pub task: TaskRef,
    pub job_id: Uuid,
    pub news: News,
}

impl Told {
    /// The same as a fact that this session told.
    pub(in crate::flow) fn of(self, session: Uuid) -> Fact {
        Fact { source: Some((session, self.slot)), task: self.task, job_id: self.job_id, news: self.news }
    }
}

impl Session {
    /// Takes a frame in: what it tells, and at once what to answer to strays.
    pub(in crate::flow) fn hear(&mut self, frame: &Frame, now: Instant) -> Heard {
        let mut heard = Heard::default();
        self.heard = self.heard.max(frame.seq);
        if self.unseen().is_some() {
            self.unseen_since.get_or_insert(now);
        }
        while self.unacked.front().is_some_and(|(seq, _)| *seq <= frame.ack) {
            self.unacked.pop_front();
        }
        let idle_before = self.count_free();
        if !self.settled && frame.ack >= 1 {
            self.settled = true;
            for slot in &mut self.slots {
                if matches!(slot, Slot::Unknown) {
                    *slot = Slot::Free;
                }
            }
        }
        // A runner says it in every frame; only a change is news, and a slot of one that works again is free anew.
        if frame.drain.is_some() && frame.drain != self.said {
            self.said = frame.drain;
            heard.drain = frame.drain;
            heard.freed = frame.drain == Some(Drain::Working);
        }
        match frame.drain {
            Some(Drain::Working) => self.draining = false,
            Some(_) => self.draining = true,
            None => {}
        }
        let mut commands = Vec::new();
        for report in &frame.slots {
            if let Some(news) = self.hear_slot(report, frame.ack, &mut commands) {
                heard.told.push(news);
            }
        }
        if !commands.is_empty() {
            self.send(commands, now);
        }
        heard.freed |= self.count_free() > idle_before;
        heard
    }

    fn count_free(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Free)).count()
    }

    fn hear_slot(&mut self, report: &SlotReport, ack: u64, commands: &mut Vec<Command>) -> Option<Told> {
        let settled = self.settled;
        let slot = report.slot;
        let place = self.slots.get_mut(slot as usize)?;
        let held = match place {
            Slot::Held(held) => Some(held),
            _ => None,
        };
        let reading = heartbeat::read(held.as_ref().map(|held| &held.held), report, ack);
        match (reading, report.task) {
            (Reading::Stray, Some(task)) => {
                commands.push(Command::Reset { slot, task, grace: None });
                if !matches!(place, Slot::Held(_) | Slot::Offered) {
                    *place = Slot::Stray;
                }
                return None;
            }
            (Reading::StrayResult, Some(task)) => {
                commands.push(Command::ResultAck { slot, task, message: "nobody waits for it".to_owned() });
                if settled && !matches!(place, Slot::Held(_) | Slot::Offered) {
                    *place = Slot::Free;
                }
                return None;
            }
            _ => {}
        }
        let Slot::Held(held) = place else {
            if settled && report.status == SlotStatus::Idle && matches!(place, Slot::Unknown | Slot::Stray) {
                *place = Slot::Free;
            }
            return None;
        };
        if report.task == Some(held.held.task) {
            held.unanswered_since = None;
        }
        if report.answer == Some(Answer::RejectedDraining) {
            self.draining = true;
        }
        let news = match reading {
            Reading::Started => {
                held.held.started = true;
                News::Started
            }
            Reading::Result if !held.reported => {
                let mut result = report.result.clone()?;
                // It ran into its timeout, which its runner should have seen itself.
                if held.overdue && result.end_reason == EndReason::Reset {
                    result.end_reason = EndReason::Timeout;
                }
                News::Result(result.into())
            }
            Reading::Ended(ending) if !held.reported => News::Ended(ending, words(report)),
            Reading::IdlePastAck if !held.reported => News::IdlePastAck,
            _ => return None,
        };
        if !matches!(news, News::Started) {
            held.reported = true;
        }
        Some(Told { slot, task: held.held.task, job_id: held.job_id, news })
    }
}

fn words(report: &SlotReport) -> String {
    let said = match report.answer {
        Some(Answer::RejectedBusy) => "the slot was busy",
        Some(Answer::RejectedDraining) => "the runner is draining",
        Some(Answer::RejectedLate) => "the command came too late",
        Some(Answer::RejectedTarget) => "the runner cannot run this target",
        Some(Answer::RejectedSpec) => "the runner refused what it was to run",
        Some(Answer::Stale) => "the runner knows a newer dispatch",
        Some(Answer::NotHeld) => "the runner does not have it",
        Some(Answer::Unsupported) => "the runner does not know the command",
        None => "it ended",
    };
    if report.message.is_empty() { said.to_owned() } else { format!("{said}: {}", report.message) }
}
