//! What is known of output before any of it comes: a scheduler that gives a task out knows whose it is, and that nothing is
//! stored under the new lease. So the output of a short task asks the database nothing.
//!
//! It is lost with the scheduler, and forgotten beyond a bound: what is not known here is asked for.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use uuid::Uuid;

use super::{Output, Stream};

/// How many tasks are remembered.
const TASKS_MAX: usize = 20_000;

/// The dispatches of this scheduler. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Given(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    known: HashMap<Uuid, Known>,
    /// In the order in which they came, each once; some may be forgotten already.
    order: VecDeque<Uuid>,
    /// The known tasks of each job, as (job, task).
    of_jobs: BTreeSet<(Uuid, Uuid)>,
}

#[derive(Debug)]
struct Known {
    job: Uuid,
    lease: u64,
    /// Where its outputs end under that lease.
    ends: HashMap<Stream, u64>,
    /// Whether that is certain.
    certain: bool,
}

impl Given {
    /// A task was given out under a new lease: nothing is stored under it.
    pub(super) fn note(&self, task: Uuid, lease: u64, job: Uuid) {
        let mut tasks = self.lock();
        let known = Known { job, lease, ends: HashMap::new(), certain: true };
        if tasks.known.insert(task, known).is_none() {
            tasks.of_jobs.insert((job, task));
            tasks.order.push_back(task);
            if tasks.order.len() > TASKS_MAX
                && let Some(oldest) = tasks.order.pop_front()
                && let Some(known) = tasks.known.remove(&oldest)
            {
                tasks.of_jobs.remove(&(known.job, oldest));
            }
        }
    }

    /// Output of a job is about to be removed: what comes late is not to go where it would have gone before.
    pub(super) fn forget(&self, job: Uuid) {
        let mut tasks = self.lock();
        let of_job: Vec<_> = tasks.of_jobs.range((job, Uuid::nil())..=(job, Uuid::max())).copied().collect();
        for of_job in of_job {
            tasks.known.remove(&of_job.1);
            tasks.of_jobs.remove(&of_job);
        }
    }

    /// The job of a task.
    pub(super) fn job(&self, task: Uuid) -> Option<Uuid> {
        Some(self.lock().known.get(&task)?.job)
    }

    /// Where an output ends, as far as nobody else can have stored some of it.
    pub(super) fn end(&self, output: &Output) -> Option<u64> {
        let tasks = self.lock();
        let known = tasks.known.get(&output.task_id).filter(|known| known.lease == output.lease && known.certain)?;
        Some(known.ends.get(&output.stream).copied().unwrap_or(0))
    }

    /// An output was stored up to here.
    pub(super) fn stored(&self, output: &Output, end: u64) {
        if let Some(known) = self.lock().known.get_mut(&output.task_id).filter(|known| known.lease == output.lease) {
            known.ends.insert(output.stream, end);
        }
    }

    /// It is not known whether some of an output was stored: the database is asked from now on.
    pub(super) fn doubt(&self, output: &Output) {
        if let Some(known) = self.lock().known.get_mut(&output.task_id) {
            known.certain = false;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(lease: u64) -> Output {
        Output { task_id: Uuid::from_u128(1), lease, stream: Stream::Stdout }
    }

    #[test]
    fn nothing_is_stored_under_a_new_lease_until_something_is() {
        let given = Given::default();
        assert_eq!((given.end(&output(1)), given.job(Uuid::from_u128(1))), (None, None));
        given.note(Uuid::from_u128(1), 1, Uuid::from_u128(9));
        assert_eq!((given.end(&output(1)), given.job(Uuid::from_u128(1))), (Some(0), Some(Uuid::from_u128(9))));
        given.stored(&output(1), 7);
        assert_eq!(given.end(&output(1)), Some(7));
        assert_eq!(given.end(&Output { stream: Stream::Stderr, ..output(1) }), Some(0));
        given.note(Uuid::from_u128(1), 2, Uuid::from_u128(9));
        assert_eq!((given.end(&output(1)), given.end(&output(2))), (None, Some(0)), "only the newest lease is known");
    }

    #[test]
    fn what_is_in_doubt_is_asked_for() {
        let given = Given::default();
        given.note(Uuid::from_u128(1), 1, Uuid::from_u128(9));
        given.doubt(&output(1));
        given.stored(&output(1), 3);
        assert_eq!(given.end(&output(1)), None);
    }

    #[test]
    fn of_a_job_whose_output_goes_nothing_is_known() {
        let given = Given::default();
        let (task, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        given.note(task, 1, Uuid::from_u128(8));
        given.note(other, 1, Uuid::from_u128(9));
        given.stored(&output(1), 7);
        given.forget(Uuid::from_u128(8));
        assert_eq!((given.end(&output(1)), given.job(task), given.job(other)), (None, None, Some(Uuid::from_u128(9))));
        given.stored(&output(1), 9);
        assert_eq!(given.end(&output(1)), None, "what is stored meanwhile makes nothing known");
    }

    #[test]
    fn the_oldest_is_forgotten_beyond_the_bound() {
        let given = Given::default();
        for task in 0..=TASKS_MAX as u128 {
            given.note(Uuid::from_u128(task), 1, Uuid::nil());
        }
        assert_eq!((given.job(Uuid::from_u128(0)), given.job(Uuid::from_u128(1))), (None, Some(Uuid::nil())));
    }
}
