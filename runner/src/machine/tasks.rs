//! A task in its slot: how it comes, starts, is stopped, ends and is forgotten.

use std::time::{Duration, SystemTime};

use super::{Answer, Held, Machine, Old, Output, Stage};
use crate::task::{End, EndReason, RunSpec, Target, TaskRef};

/// The word that a task runs waits this long for something to go with. Most tasks of a busy runner have ended by then, and
/// their result says it too: a frame less for both ends to write, read and wake up for.
pub(super) const RUNNING_DELAY: Duration = Duration::from_millis(10);

impl Machine {
    pub(super) fn run_new(&mut self, slot: u32, task: TaskRef, spec: Result<Box<RunSpec>, String>) {
        // Rule 4: the same lease is answered with the present state, a lower one is stale.
        if let Some(place) = self.place_of(task) {
            if let Some(held) = self.slots[place as usize].held.as_mut() {
                held.told = false;
            }
            return self.changed(place, true);
        }
        let held = self.places.of(task.id).iter().filter_map(|slot| self.slots[*slot as usize].held.as_ref());
        let newest = held.map(|held| held.task.lease).max();
        if newest.is_some_and(|lease| lease > task.lease) || self.burnt.covers(task) {
            return self.answer(slot, Some(task), Answer::Stale, "a higher lease of this task, or its end, is known");
        }
        let refusal = self.refusal(slot, task, &spec);
        let spec = match (refusal, spec) {
            (None, Ok(spec)) => spec,
            (Some((answer, message)), _) => {
                self.burnt.insert(task);
                return self.answer(slot, Some(task), answer, message);
            }
            (None, Err(message)) => {
                self.burnt.insert(task);
                return self.answer(slot, Some(task), Answer::RejectedSpec, message);
            }
        };
        self.stop_older(slot, task);
        let held = Held {
            task,
            timeout: spec.timeout,
            grace: spec.grace.unwrap_or(self.settings.grace),
            self_stop_after: spec.self_stop_after,
            stage: Stage::Waiting(spec),
            stopping: None,
            owed: Vec::new(),
            told: false,
        };
        self.slots[slot as usize].held = Some(held);
        self.places.insert(task.id, slot);
        let started = self.start_if_clear(slot);
        // The frame that says RUNNING with a pid follows within milliseconds and acknowledges as well; one is enough.
        // A task that must wait for older processes says so at once.
        self.changed(slot, !started);
    }

    fn refusal(&self, slot: u32, task: TaskRef, spec: &Result<Box<RunSpec>, String>) -> Option<(Answer, String)> {
        let say = |answer, message: &str| Some((answer, message.to_owned()));
        if slot >= self.settings.slots {
            let message = format!("there is no slot {slot}; this runner has {}", self.settings.slots);
            return Some((Answer::RejectedSpec, message));
        }
        if self.draining() {
            return say(Answer::RejectedDraining, "the runner takes no new work");
        }
        let Ok(spec) = spec else { return None };
        if spec.target == Target::Unknown {
            return say(Answer::RejectedTarget, "this runner knows the targets command, shell and http");
        }
        let in_time = |after| self.lifeline().is_some_and(|lifeline| self.now < lifeline + after);
        if spec.self_stop_after.is_some_and(|after| !in_time(after)) {
            return say(Answer::RejectedLate, "the runner has been cut off for longer than self_stop_after");
        }
        let place = &self.slots[slot as usize];
        let other = place.held.as_ref().is_some_and(|held| held.task.id != task.id);
        let stopping = place.old.as_ref().is_some_and(|old| old.task.id != task.id);
        if other || stopping {
            return say(Answer::RejectedBusy, "the slot holds another task, or a result that is not acknowledged");
        }
        None
    }

    /// Ends what is left of lower leases of this task before a higher one may start (rule 4).
    fn stop_older(&mut self, slot: u32, task: TaskRef) {
        for place in self.places.of(task.id).to_vec() {
            let Some(held) = self.slots[place as usize].held.as_ref() else { continue };
            let (alive, waiting, grace) = (held.alive(), matches!(held.stage, Stage::Waiting(_)), held.grace);
            if place != slot {
                if alive || waiting {
                    self.stop(place, EndReason::Reset, grace);
                }
                continue;
            }
            let Some(held) = self.slots[place as usize].held.take() else { continue };
            self.burnt.insert(held.task);
            if alive {
                self.outputs.push(Output::Stop { slot, task: held.task, grace });
                self.slots[place as usize].old = Some(Old {
                    task: held.task,
                    grace,
                    self_stop_after: held.self_stop_after,
                    self_stopped: held.stopping == Some(EndReason::SelfStop),
                    owed: held.owed,
                });
            } else {
                self.outputs.push(Output::Forget { slot });
            }
        }
    }

    /// Starts what waits in a slot when no process of its task is left anywhere.
    fn start_if_clear(&mut self, slot: u32) -> bool {
        let Some(held) = self.slots[slot as usize].held.as_ref() else { return false };
        let (task, Stage::Waiting(_)) = (held.task, &held.stage) else { return false };
        let lives = self.places.of(task.id).iter().any(|place| {
            let other = &self.slots[*place as usize];
            other.old.is_some() || other.held.as_ref().is_some_and(Held::alive)
        });
        if lives {
            return false;
        }
        let Some(held) = self.slots[slot as usize].held.as_mut() else { return false };
        if let Stage::Waiting(spec) = std::mem::replace(&mut held.stage, Stage::Starting) {
            self.outputs.push(Output::Start { slot, task, spec });
        }
        true
    }

    pub(super) fn started(&mut self, slot: u32, task: TaskRef, pid: Option<u32>, start_time: SystemTime) {
        let since = self.now;
        let held = self.slots.get_mut(slot as usize).and_then(|slot| slot.held.as_mut());
        let Some(held) = held.filter(|held| held.task == task && matches!(held.stage, Stage::Starting)) else { return };
        held.stage = Stage::Running { pid, since, start_time };
        self.changed_within(slot, RUNNING_DELAY);
    }

    pub(super) fn work_ended(&mut self, slot: u32, task: TaskRef, end: End) {
        let Some(state) = self.slots.get_mut(slot as usize) else { return };
        if let Some(old) = state.old.take_if(|old| old.task == task) {
            self.freed(slot, task);
            self.pay(slot, old.owed);
        } else if let Some(held) = state.held.as_mut().filter(|held| held.task == task && held.alive()) {
            let result = Box::new(end.into_result(held.stopping));
            let owed = std::mem::take(&mut held.owed);
            held.stage = Stage::Ended(result.clone());
            held.told = false;
            self.outputs.push(Output::Keep { slot, task, result });
            self.pay(slot, owed);
            self.changed(slot, true);
        } else {
            return;
        }
        for waiting in self.places.of(task.id).to_vec() {
            self.start_if_clear(waiting);
        }
    }

    /// A slot holds less of a task than before, perhaps nothing.
    fn freed(&mut self, slot: u32, task: TaskRef) {
        if self.slots[slot as usize].is_free() {
            self.places.remove(task.id, slot);
        }
    }

    /// Says `NOT_HELD` of the leases whose RESET had to wait for these processes.
    fn pay(&mut self, slot: u32, owed: Vec<TaskRef>) {
        for task in owed {
            self.answer(slot, Some(task), Answer::NotHeld, "");
        }
    }

    /// Orders the processes of a slot to end. The first reason stays; of several graces the one that ends first counts.
    pub(super) fn stop(&mut self, slot: u32, reason: EndReason, grace: Duration) {
        let Some(held) = self.slots[slot as usize].held.as_mut() else { return };
        match held.stage {
            Stage::Ended(_) => {}
            Stage::Waiting(_) => {
                let task = held.task;
                let result = Box::new(End::not_started("it was ended before it started").into_result(Some(reason)));
                held.stage = Stage::Ended(result.clone());
                self.outputs.push(Output::Keep { slot, task, result });
                self.changed(slot, true);
            }
            Stage::Starting | Stage::Running { .. } => {
                held.stopping.get_or_insert(reason);
                self.outputs.push(Output::Stop { slot, task: held.task, grace });
            }
        }
    }

    /// RESET: ends every process of this ref, and is answered by its result or by `NOT_HELD` (rule 4).
    pub(super) fn reset(&mut self, slot: u32, task: TaskRef, grace: Option<Duration>) {
        if let Some(place) = self.place_of(task) {
            let Some(held) = self.slots[place as usize].held.as_mut() else { return };
            let grace = grace.unwrap_or(held.grace);
            if let Stage::Ended(_) = held.stage {
                held.told = false;
                return self.changed(place, true);
            }
            return self.stop(place, EndReason::Reset, grace);
        }
        self.burnt.insert(task);
        // What still lives of this lease or a lower one goes first; NOT_HELD is proof only after that.
        let mut waits = false;
        for place in self.places.of(task.id).to_vec() {
            let state = &mut self.slots[place as usize];
            if let Some(old) = state.old.as_mut().filter(|old| old.task.lease <= task.lease) {
                if !waits {
                    old.owed.push(task);
                }
                waits = true;
                let (task, grace) = (old.task, grace.unwrap_or(old.grace));
                self.outputs.push(Output::Stop { slot: place, task, grace });
            }
            let older = |held: &&mut Held| held.task.lease < task.lease;
            let Some(held) = self.slots[place as usize].held.as_mut().filter(older) else { continue };
            if held.alive() && !waits {
                held.owed.push(task);
                waits = true;
            }
            let grace = grace.unwrap_or(held.grace);
            self.stop(place, EndReason::Reset, grace);
        }
        if !waits {
            self.answer(slot, Some(task), Answer::NotHeld, "");
        }
    }

    pub(super) fn result_ack(&mut self, task: TaskRef) {
        let Some(slot) = self.place_of(task) else { return };
        let held = &mut self.slots[slot as usize].held;
        if held.take_if(|held| matches!(held.stage, Stage::Ended(_))).is_some() {
            self.freed(slot, task);
            self.burnt.insert(task);
            self.outputs.push(Output::Forget { slot });
            self.changed(slot, false);
        }
    }

    /// The verdict `ack`: the result is stored or not wanted. Said of something that still runs, it is not wanted.
    pub(super) fn verdict_ack(&mut self, task: TaskRef, grace: Option<Duration>) {
        let Some(slot) = self.place_of(task) else { return };
        let ended = self.slots[slot as usize].held.as_ref().is_some_and(|held| matches!(held.stage, Stage::Ended(_)));
        if ended {
            self.result_ack(task);
        } else {
            self.reset(slot, task, grace);
        }
    }

    pub(super) fn place_of(&self, task: TaskRef) -> Option<u32> {
        let same = |held: &Held| held.task.lease == task.lease;
        let mut places = self.places.of(task.id).iter().copied();
        places.find(|place| self.slots[*place as usize].held.as_ref().is_some_and(same))
    }
}
