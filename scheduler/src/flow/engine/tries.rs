//! A turn is tried: what goes into it, and what becomes of one that fails. It is tried again as it was, or split until
//! the one thing is found that the database refuses.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::JoinHandle};
use tracing::{debug, error, warn};
use uuid::Uuid;

use super::{Caller, LOOK_INTERVAL, Loop, Refusal, TURN_MAX};
use crate::{
    domain::{command::DisconnectReason, task::Ending},
    flow::{
        batch::{Context, Fact, Input, News, Output},
        order::{Order, OrderAnswer},
        request, turn,
    },
    store,
};

/// How many orders one turn carries out. Results wait for the turn meanwhile, and slots for what they free: with twice as
/// many, a flood of requests was accepted at the cost of a quarter of what was worked off. With fewer a turn's own cost counts.
const ORDERS_MAX: usize = 32;
/// How many hellos one turn settles.
const HELLOS_MAX: usize = 128;
/// How many reports one turn decides.
const FACTS_MAX: usize = 2_000;
/// The wait before a failed turn is tried again, doubled with each failure.
pub(super) const RETRY_BASE: Duration = Duration::from_millis(20);
/// Its cap.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What a turn under way was given, beside what it reads.
pub(super) struct Under {
    pub(super) task: JoinHandle<(Context, Arc<Input>, Result<Output, store::Error>)>,
    input: Arc<Input>,
    replies: Vec<oneshot::Sender<OrderAnswer>>,
    callers: Vec<Caller>,
    offered: Vec<Uuid>,
}

impl Loop {
    /// Starts a turn with what is waiting.
    pub(super) fn begin(&mut self) -> Under {
        let now = Instant::now();
        let (mut orders_max, mut hellos_max, mut facts_max) = (ORDERS_MAX, HELLOS_MAX, FACTS_MAX);
        if self.singly > 0 {
            // One thing a turn, so that the one the database refuses is found.
            orders_max = 1;
            hellos_max = usize::from(self.orders.is_empty());
            facts_max = usize::from(self.orders.is_empty() && self.callers.is_empty());
        }
        let (orders, replies): (Vec<_>, Vec<_>) = self.orders.drain(..self.orders.len().min(orders_max)).unzip();
        // Who gave up waiting has dialed again, and must not take the place of its own newer stream.
        self.callers.retain(|caller| !caller.out.is_closed());
        let callers: Vec<Caller> = self.callers.drain(..self.callers.len().min(hellos_max)).collect();
        let facts: Vec<Fact> = self.facts.drain(..self.facts.len().min(facts_max)).collect();
        let look = self.look_at <= now;
        if look {
            self.look_at = now + LOOK_INTERVAL;
        }
        let mut sweep = None;
        if self.sweep_at <= now {
            self.sweep_at = now + self.timing.sweep_interval;
            sweep = self.pulse.judge(now);
        }
        // What the last turn may have given out is settled before its slots are offered again.
        let in_doubt = std::mem::take(&mut self.in_doubt);
        let idle = if self.stopping.is_some() || self.drained || in_doubt {
            Vec::new()
        } else {
            let busy: HashSet<Uuid> = facts.iter().filter_map(|fact| fact.source).map(|(session, _)| session).collect();
            self.sessions.offer(&busy)
        };
        let fire = (look || self.job_ended || self.fire_at.is_some_and(|at| at <= now)) && self.stopping.is_none();
        if fire {
            self.fire_at = None;
        }
        let completes = orders.iter().any(Order::completes);
        let mut input = Input {
            completing: if completes { self.sessions.ids() } else { Vec::new() },
            orders,
            hellos: callers.iter().map(|caller| caller.input.clone()).collect(),
            facts,
            // What a runner said before it left counts first.
            leaving: if self.facts.is_empty() { std::mem::take(&mut self.leaving) } else { Vec::new() },
            draining: std::mem::take(&mut self.draining),
            idle,
            look: (look || in_doubt).then(|| self.sessions.ids()),
            in_doubt,
            sweep,
            fire,
            job_ended: std::mem::take(&mut self.job_ended),
            handover: std::mem::take(&mut self.handover),
            clock_set_back: fire && std::mem::take(&mut self.clock_set_back),
            ..Input::default()
        };
        self.deliveries.offer(&mut input, now, self.stopping.is_some());
        let input = Arc::new(input);
        // What one turn has no room for is a reason for the next.
        self.due = !self.facts.is_empty();
        self.started_until = None;
        self.gathered = None;
        let mut context = self.context.take().expect("no turn is under way");
        let offered = input.idle.iter().map(|idle| idle.session).collect();
        let given = input.clone();
        let carrier = context.store.carrier();
        let task = carrier.spawn(async move {
            let outcome = turn::within(TURN_MAX, &mut context, &given).await;
            (context, given, outcome)
        });
        Under { task, input, replies, callers, offered }
    }

    /// Lets out what a turn came to.
    pub(super) fn finish(&mut self, under: Under, outcome: Result<Output, store::Error>) {
        let now = Instant::now();
        let Under { input, replies, callers, offered, .. } = under;
        self.ends_before = input.facts.iter().filter(|fact| fact.news.is_an_end()).count();
        match outcome {
            Ok(output) => {
                self.retry_wait = RETRY_BASE;
                self.retry_at = None;
                self.singly = self.singly.saturating_sub(1);
                self.pulse.touched(now);
                self.perform(&input, replies, callers, output, now);
                self.sessions.withdraw(&offered);
                // Only asked where it matters, for it looks at every slot.
                self.given_out = if self.ends_before > 1 { self.sessions.given_out() } else { 0 };
            }
            Err(error) => {
                self.in_doubt |= input.in_doubt || error.is_unreachable();
                self.sessions.withdraw(&offered);
                self.recover(&input, replies, callers, &error, now);
            }
        }
    }

    /// After a turn that failed: everything waits for the next, but what cannot wait is refused.
    fn recover(
        &mut self,
        input: &Input,
        replies: Vec<oneshot::Sender<OrderAnswer>>,
        callers: Vec<Caller>,
        error: &store::Error,
        now: Instant,
    ) {
        let things = input.orders.len() + input.hellos.len() + input.facts.len();
        self.due = true;
        self.job_ended |= input.job_ended;
        self.handover = input.handover.clone();
        self.fire_at = if input.fire { Some(now) } else { self.fire_at };
        self.clock_set_back |= input.clock_set_back;
        if input.look.is_some() {
            self.look_at = now;
        }
        self.leaving.extend(input.leaving.iter().cloned());
        self.draining.extend(input.draining.iter().cloned());
        if error.is_contended() {
            self.deliveries.give_back(input);
            debug!(%error, "turn repeated");
            self.give_back(input, replies, callers);
            self.back_off(now);
            return;
        }
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        if error.is_unreachable() {
            warn!(%error, cause, "turn failed");
            self.deliveries.give_back(input);
            self.pulse.lost_touch(now);
            let sorry = match error {
                store::Error::Full(_) => error.to_string(),
                _ => "the scheduler cannot reach its database; try again in a moment".to_owned(),
            };
            decline(input, replies, callers, &request::Error::Unavailable(sorry));
            self.keep_facts(input);
            self.back_off(now);
            return;
        }
        // What they came to may be what was refused; their claims expire, and they are tried again.
        self.deliveries.forsake(input);
        error!(%error, cause, things, "turn refused");
        if things > 1 {
            self.singly = things;
            self.give_back(input, replies, callers);
            self.back_off(now);
            return;
        }
        decline(input, replies, callers, &request::Error::Internal(format!("{error}: {cause}")));
        for fact in &input.facts {
            if matches!(fact.news, News::Result(_)) {
                // Told anew without what the runner said, which is what the database may have refused.
                let news = News::Ended(Ending::Failure, format!("result refused: {error}"));
                self.facts.push_front(Fact { news, ..fact.clone() });
            } else {
                error!(task.id = %fact.task.task, "a report could not be recorded");
                // The hello that follows settles what it was about.
                if let Some((session, _)) = fact.source {
                    let message = "a report could not be recorded; say hello again";
                    self.disconnect(session, DisconnectReason::Unresponsive, message, now);
                }
            }
        }
        self.back_off(now);
    }

    fn give_back(&mut self, input: &Input, replies: Vec<oneshot::Sender<OrderAnswer>>, callers: Vec<Caller>) {
        for order in input.orders.iter().cloned().zip(replies).rev() {
            self.orders.push_front(order);
        }
        for caller in callers.into_iter().rev() {
            self.callers.push_front(caller);
        }
        self.keep_facts(input);
    }

    fn keep_facts(&mut self, input: &Input) {
        for fact in input.facts.iter().rev() {
            self.facts.push_front(fact.clone());
        }
    }

    fn back_off(&mut self, now: Instant) {
        self.retry_at = Some(now + self.retry_wait);
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
    }
}

/// Tells those who wait for a turn that nothing came of what they asked.
fn decline(input: &Input, replies: Vec<oneshot::Sender<OrderAnswer>>, callers: Vec<Caller>, why: &request::Error) {
    for (order, reply) in input.orders.iter().zip(replies) {
        let _ = reply.send(order.failed(why.clone()));
    }
    for caller in callers {
        let _ = caller.reply.send(Err(Refusal::Unavailable));
    }
}
