//! The door of the engine: who dialed is let in or not, as a turn decided.

use std::time::{Duration, Instant};

use super::{Caller, Loop, Refusal};
use crate::{
    domain::{
        command::Welcome,
        heartbeat::{Admission, Verdict},
        time::Timestamp,
    },
    flow::{
        batch::{HelloAnswer, HelloInput},
        sessions::{Given, Opening, Session, ToEnd},
    },
};

impl Loop {
    /// Answers a runner that dialed.
    pub(super) fn let_in(&mut self, caller: Caller, answer: HelloAnswer, turn: Timestamp, now: Instant) {
        let Caller { input: HelloInput { hello, session: id }, first_seq, out, reply } = caller;
        let (verdicts, adopted, drained) = match answer {
            HelloAnswer::Admitted { verdicts, adopted, drained } => (verdicts, adopted, drained),
            HelloAnswer::Refused(admission) => {
                let refusal = if admission == Admission::Duplicate { Refusal::Duplicate } else { Refusal::Superseded };
                let _ = reply.send(Err(refusal));
                return;
            }
        };
        let inventory = hello.inventory.clone();
        let mut session = Session::new(Opening { id, hello, out, first_seq, drained });
        for (item, (_, verdict, _)) in inventory.iter().filter(|item| item.task.is_some()).zip(&verdicts) {
            if *verdict == Verdict::Reset {
                session.stray(item.slot);
            }
        }
        for item in adopted {
            let (slot, task, job_id) = (item.slot, item.task, item.job_id);
            // A timeout counts from the start of the task, not from the adoption.
            let elapsed = turn.since(item.started_at);
            let timeout = item.timeout.map(|timeout| timeout.saturating_sub(elapsed));
            let warn_after = item.warn_after.map(|after| after.saturating_sub(elapsed));
            session.give(Given { slot, task, job_id, timeout, warn_after }, 1, true, &self.timing, now);
            if item.cancelled {
                session.reset(ToEnd { slot, task, job_id, grace: None, told: true }, now);
            }
        }
        let verdicts = verdicts
            .into_iter()
            .map(|(task, verdict, grace)| {
                (task, verdict, grace.map(|micros| Duration::from_micros(micros.unsigned_abs())))
            })
            .collect();
        let welcome = Welcome {
            session_id: id,
            scheduler_id: self.scheduler,
            verdicts,
            endpoints: self.pulse.addresses().to_vec(),
            drained,
            notice: String::new(),
        };
        session.welcome(welcome, now);
        self.sessions.insert(session);
        let _ = reply.send(Ok(id));
    }
}
