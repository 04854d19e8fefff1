//! Signs of life: what was heard is handed on to be committed once each `seen_interval`, and what is overdue is noticed.

use std::time::Instant;

use tracing::warn;
use uuid::Uuid;

use super::Loop;
use crate::{
    domain::command::{Command, DisconnectReason},
    flow::{batch::Fact, pulse::Seen},
};

impl Loop {
    /// Once each `seen_interval`: what was heard is to be committed, what is overdue is looked at.
    pub(super) fn beat(&mut self) {
        let now = Instant::now();
        let mut closing = Vec::new();
        let mut long: Vec<Fact> = Vec::new();
        for session in self.sessions.iter_mut() {
            long.extend(session.taking_long(now).into_iter().map(|told| told.of(session.id)));
            if session.is_closed() {
                closing.push((session.id, None));
            } else if let Some(disconnect) = session.check(&self.timing, now) {
                closing.push((session.id, Some(disconnect)));
            }
        }
        self.due |= !long.is_empty();
        self.facts.extend(long);
        for (id, disconnect) in closing {
            if let Some(mut session) = self.sessions.remove(id)
                && let Some(disconnect) = disconnect
            {
                warn!(runner.id = %session.runner, reason = disconnect.message, "stream closed");
                session.close(disconnect, now);
            }
        }
        let heard: Vec<(String, Uuid, u64)> = self
            .sessions
            .iter_mut()
            .filter_map(|session| session.unseen().map(|seq| (session.runner.clone(), session.id, seq)))
            .collect();
        self.pulse.beat(heard, self.engine.clone(), now);
    }

    /// What the last beat came to.
    pub(super) fn seen(&mut self, seen: Seen, now: Instant) {
        self.pulse.seen(&seen, now);
        match seen {
            Seen::Committed { sessions, superseded, drained, .. } => {
                for (id, seq) in sessions {
                    if let Some(session) = self.sessions.get_mut(id) {
                        session.seen(seq, now);
                    }
                }
                for id in superseded {
                    self.disconnect(id, DisconnectReason::Replaced, "another stream of this runner counts", now);
                }
                if let Some(drained) = drained {
                    self.due |= self.drained && !drained;
                    self.drained = drained;
                }
            }
            // It keeps its streams, and says that it cannot commit: the ack does not move.
            Seen::Failed { sessions } => {
                for id in sessions {
                    if let Some(session) = self.sessions.get_mut(id) {
                        session.send(vec![Command::GoOn { degraded: true }], now);
                    }
                }
            }
        }
    }
}
