//! The effects of a turn that is committed: what leaves for runners and callers, and what the next turn has to know.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::{info, warn};
use uuid::Uuid;

use super::{Caller, Loop};
use crate::{
    domain::{
        command::{Command, Disconnect, DisconnectReason},
        heartbeat::TaskRef,
        time::Timestamp,
    },
    flow::{
        batch::{Agenda, Fact, Input, News, Output, Reset},
        order::{Order, OrderAnswer},
        sessions::{self, Given, ToEnd},
    },
};

/// The longest sleep: what is further away is asked for again.
const WAKE_MAX: Duration = Duration::from_hours(1);
/// How far the clock of the database may go back against ours before it counts as set back.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

impl Loop {
    /// Everything that follows from a committed turn.
    pub(super) fn perform(
        &mut self,
        input: &Input,
        replies: Vec<oneshot::Sender<OrderAnswer>>,
        callers: Vec<Caller>,
        output: Output,
        now: Instant,
    ) {
        let mut commands: Vec<(Uuid, Command)> = Vec::new();
        for (fact, outcome) in input.facts.iter().zip(&output.facts) {
            let Some((id, slot)) = fact.source else { continue };
            let Some(session) = self.sessions.get_mut(id) else { continue };
            if outcome.untaken {
                session.forget_report(slot, fact.task);
                continue;
            }
            match &fact.news {
                News::Started if !outcome.counted => {
                    let ending = ToEnd { slot, task: fact.task, job_id: fact.job_id, grace: None, told: false };
                    session.reset(ending, now);
                }
                News::Started | News::TakesLong | News::Unrenderable(_) => {}
                News::Result(_) => {
                    session.release(slot, fact.task, true);
                    let message = outcome.refused.clone();
                    commands.push((id, Command::ResultAck { slot, task: fact.task, message }));
                }
                News::Ended(ending, _) => session.release(slot, fact.task, sessions::idle_after(*ending, &fact.news)),
                News::IdlePastAck => session.release(slot, fact.task, true),
            }
        }
        for dispatch in output.dispatched {
            let TaskRef { task, lease, .. } = dispatch.task;
            self.logs.expect(task, lease, dispatch.job_id);
            let Some(session) = self.sessions.get_mut(dispatch.session) else { continue };
            let given = Given {
                slot: dispatch.slot,
                task: dispatch.task,
                job_id: dispatch.job_id,
                timeout: dispatch.spec.timeout,
                warn_after: dispatch.warn_after,
            };
            session.give(given, session.next_seq(), false, &self.timing, now);
            let (slot, task, spec) = (dispatch.slot, dispatch.task, Box::new(dispatch.spec));
            commands.push((dispatch.session, Command::RunNew { slot, task, spec }));
        }
        // One frame a session: the acknowledgement of a result and the next task go together.
        commands.sort_by_key(|(session, _)| *session);
        for group in commands.chunk_by(|a, b| a.0 == b.0) {
            if let Some(session) = self.sessions.get_mut(group[0].0) {
                session.send(group.iter().map(|(_, command)| command.clone()).collect(), now);
            }
        }
        for (order, (reply, answer)) in input.orders.iter().zip(replies.into_iter().zip(output.orders)) {
            if let Order::DrainRunner { runner, drained, reason } = order {
                self.drain_runner(runner, *drained, reason, now);
            }
            let _ = reply.send(answer);
        }
        for id in output.superseded {
            self.disconnect(id, DisconnectReason::Replaced, "this stream of the runner no longer counts", now);
        }
        for (caller, answer) in callers.into_iter().zip(output.hellos) {
            self.let_in(caller, answer, output.now, now);
        }
        for reset in output.resets {
            if let Some(session) = self.sessions.get_mut(reset.session) {
                let (slot, task, job_id, grace) = (reset.slot, reset.task, reset.job_id, reset.grace);
                session.reset(ToEnd { slot, task, job_id, grace, told: false }, now);
            }
        }
        if output.sweep_again {
            (self.look_at, self.sweep_at) = (now, now);
        }
        for Reset { session, slot, task, job_id, grace } in output.doubtful {
            if let Some(session) = self.sessions.get_mut(session).filter(|session| !session.holds(slot, task)) {
                warn!(task.id = %task.task, "given out by a turn whose outcome was not known, and taken back");
                session.reset(ToEnd { slot, task, job_id, grace, told: false }, now);
            }
        }
        self.untaken.extend(output.untaken);
        if output.unparked {
            for id in std::mem::take(&mut self.untaken) {
                self.disconnect(
                    id,
                    DisconnectReason::Unresponsive,
                    "what you told can be taken now; say it again",
                    now,
                );
            }
        }
        for (_, id) in output.lost {
            self.disconnect(id, DisconnectReason::Lost, "not heard for too long; say hello again", now);
        }
        if let Some(drained) = output.drained {
            let changed: Vec<(String, bool)> = self
                .sessions
                .iter_mut()
                .filter(|session| session.drained != drained.contains(&session.runner))
                .map(|session| (session.runner.clone(), !session.drained))
                .collect();
            for (runner, drained) in changed {
                self.drain_runner(&runner, drained, "", now);
            }
        }
        self.due |= !output.unrenderable.is_empty();
        self.facts.extend(output.unrenderable.into_iter().map(|(task, job_id, reason)| Fact {
            source: None,
            task,
            job_id,
            news: News::Unrenderable(reason),
        }));
        let read_at = output.read_at.unwrap_or(now);
        let instant = |at: Timestamp| read_at + at.since(output.now).min(WAKE_MAX);
        if let Some(at) = output.next_wake.map(instant) {
            self.wake_at = Some(self.wake_at.map_or(at, |known| known.min(at)));
        }
        if let Some(next) = output.next_callback {
            self.deliveries.wait_for(next.0.map(instant));
        }
        self.deliveries.perform(&self.engine, input, output.claimed);
        if let Some(Agenda { due, waiters }) = output.agenda {
            self.fire_at = due.map(instant);
            self.waiters = waiters;
        }
        self.waiters |= output.waits;
        self.watch_clock(output.now, read_at);
        if output.more_ahead {
            (self.clock_set_back, self.look_at) = (true, now);
        }
        if output.followed || (output.job_ended && self.waiters) {
            self.job_ended = true;
            self.due = true;
        }
        self.due |= !output.handover.is_empty();
        self.handover = output.handover;
        if output.more {
            self.look_at = now;
        }
        self.engine.changes.publish(output.changed);
    }

    /// Notices when the clock of the database goes back against the one of this machine.
    fn watch_clock(&mut self, time: Timestamp, read_at: Instant) {
        if let Some((before, at)) = self.clock {
            let expected = before + read_at.saturating_duration_since(at);
            if expected.since(time) > CLOCK_TOLERANCE {
                warn!(back_by = ?expected.since(time), "the clock of the database was set back");
                (self.clock_set_back, self.look_at) = (true, read_at);
            }
        }
        self.clock = Some((time, read_at));
    }

    fn drain_runner(&mut self, runner: &str, drained: bool, reason: &str, now: Instant) {
        for session in self.sessions.iter_mut().filter(|session| session.runner == runner) {
            if session.drained != drained {
                info!(runner.id = %runner, drained, reason, "runner drained or resumed");
                session.drained = drained;
                session.send(vec![if drained { Command::Drain } else { Command::Resume }], now);
            }
        }
        self.due = true;
    }

    pub(super) fn disconnect(&mut self, id: Uuid, reason: DisconnectReason, message: &str, now: Instant) {
        if let Some(mut session) = self.sessions.remove(id) {
            session.close(Disconnect::because(reason, message), now);
        }
    }
}
