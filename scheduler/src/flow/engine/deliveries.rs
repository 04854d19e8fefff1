//! What the engine has in hand of callbacks: those that are being tried, and what came of others.

use std::{sync::Arc, time::Instant};

use tokio::task::JoinSet;
use tracing::warn;

use super::{Engine, Event};
use crate::{
    domain::definition::callback::Action,
    flow::{
        batch::{Context, Input},
        callbacker::Attempt,
        courier::{Courier, chance},
    },
    store::{self, callback::Claimed},
};

/// How many callbacks a scheduler tries at once: a slow receiver must leave room for others.
const IN_FLIGHT_MAX: usize = 64;

/// Callbacks on their way.
#[derive(Debug)]
pub(super) struct Deliveries {
    courier: Arc<Courier>,
    on_their_way: JoinSet<()>,
    in_flight: usize,
    /// What was tried and is to be written down.
    tried: Vec<Attempt>,
    /// Jobs that are to be started.
    starts: Vec<Claimed>,
    /// When the next one is due.
    at: Option<Instant>,
}

impl Deliveries {
    pub(super) fn new(courier: Courier) -> Self {
        Self {
            courier: Arc::new(courier),
            on_their_way: JoinSet::new(),
            in_flight: 0,
            tried: Vec::new(),
            starts: Vec::new(),
            at: None,
        }
    }

    /// When a turn is to be made for callbacks, if one is.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        if !self.tried.is_empty() || !self.starts.is_empty() {
            return Some(now);
        }
        self.at.filter(|_| self.in_flight < IN_FLIGHT_MAX)
    }

    /// Puts into a turn what is to be done in it.
    pub(super) fn offer(&mut self, input: &mut Input, now: Instant, stopping: bool) {
        input.tried = std::mem::take(&mut self.tried);
        input.starts = std::mem::take(&mut self.starts);
        if !stopping {
            input.callbacks_room = u32::try_from(IN_FLIGHT_MAX - self.in_flight.min(IN_FLIGHT_MAX)).unwrap_or_default();
            input.callbacks_due = input.look.is_some() || self.at.is_some_and(|at| at <= now);
        }
    }

    /// Takes back what a turn that failed was given.
    pub(super) fn give_back(&mut self, input: &Input) {
        self.tried.extend(input.tried.iter().cloned());
        self.starts.extend(input.starts.iter().cloned());
    }

    /// Leaves what a turn was given that the database refused to the next claim.
    pub(super) fn forsake(&mut self, input: &Input) {
        self.in_flight = self.in_flight.saturating_sub(input.tried.len() + input.starts.len());
    }

    /// Tells when the next callback is due, as a committed turn saw it.
    pub(super) fn wait_for(&mut self, next: Option<Instant>) {
        self.at = next;
    }

    /// A turn was committed: what it settled is out of our hands, what it claimed goes on its way.
    pub(super) fn perform(&mut self, engine: &Engine, input: &Input, claimed: Vec<Claimed>) {
        self.in_flight = self.in_flight.saturating_sub(input.tried.len() + input.starts.len());
        self.in_flight += claimed.len();
        for callback in claimed {
            if matches!(callback.action, Action::Job(_)) {
                self.starts.push(callback);
                continue;
            }
            let (courier, events) = (self.courier.clone(), engine.events.clone());
            self.on_their_way.spawn(async move {
                let outcome = courier.deliver(&callback).await;
                // The engine may have stopped: then the claim expires, and another one tries again.
                let _ = events.send(Event::Tried(Box::new(Attempt { callback, outcome, chance: chance() }))).await;
            });
        }
    }

    /// Takes in what came of a try.
    pub(super) fn tried(&mut self, attempt: Attempt) {
        self.tried.push(attempt);
        while self.on_their_way.try_join_next().is_some() {}
    }

    /// Lets go of what is on its way, for whoever looks next.
    pub(super) async fn abandon(&mut self, context: &Context) {
        self.on_their_way.abort_all();
        if self.in_flight == 0 {
            return;
        }
        let released = async {
            let tx = context.store.begin().await?;
            let now = store::scheduler::now(&tx).await?;
            store::callback::release(&tx, context.scheduler, now).await?;
            tx.commit().await
        };
        // Their claims expire otherwise.
        if let Err(error) = released.await {
            warn!(%error, "the callbacks of this scheduler could not be handed on");
        }
    }
}
