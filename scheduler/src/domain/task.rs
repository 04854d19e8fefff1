//! The life of a task, as one table: which event leads from which state to which.
//!
//! A change of state anywhere goes through [`TaskState::after`]; what comes with it (attempt, lease, delay) is decided
//! by [`decide`]. Both are pure. `docs/states.md` is drawn from the table by a test.

use super::{
    policy::{Next, Policy, Used, Why},
    time::Timestamp,
};

/// How often the death of its runner may end a task before it counts as poison.
pub const DEATHS_MAX: u32 = 5;
/// How often runners may refuse a task (busy and draining aside) before it fails.
pub const REFUSALS_MAX: u32 = 5;

/// Where a task is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskState {
    /// Waits for its gate.
    Created,
    /// May run; waits for a slot.
    Queued,
    /// Given to a slot that has not said yet that it runs.
    Dispatched,
    /// Runs. A group runs while its shards do.
    Running,
    /// Ended; blocking callbacks are outstanding.
    Callback,
    /// Ended well.
    Finished,
    /// Ended badly.
    Failed,
    /// Never ran in this job.
    Skipped,
    /// Is being ended.
    Terminating,
    /// Was ended, and none of its processes is left.
    Terminated,
}

/// What a row of a job's tasks stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A task by itself.
    Task,
    /// A sharded task as a whole.
    Group,
    /// One shard of a group.
    Shard,
}

/// What can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Its trigger rule holds.
    GateOpened,
    /// Its trigger rule holds, but its own condition does not, or it is disabled.
    ConditionFalse,
    /// Its trigger rule can no longer hold.
    GateClosed,
    /// A template or condition of its own fails.
    NotEvaluable,
    /// The job stops before it started.
    Stopped,
    /// It waits in vain: for a retry when its job stops, for a runner that is gone, or for one more to transfer to when none
    /// is left.
    GivenUp,
    /// Somebody wants it ended, or its job ran out of time.
    Terminate,
    /// The job that it stands for was made.
    ChildMade,
    /// The picker chose it for a slot.
    Picked,
    /// The runner reports that it runs.
    Started,
    /// It ended with result 0.
    Succeeded,
    /// It ended otherwise; is another attempt left?
    AttemptFailed {
        /// Whether the policy allows another attempt.
        again: bool,
    },
    /// Its runner lost it, and it is gone; is another attempt left?
    AttemptLost {
        /// Whether the policy allows another attempt.
        again: bool,
    },
    /// Its runner is lost, and it may go on there.
    LostUnproven,
    /// Proof that no process of this dispatch exists or can start; may it be given out again?
    Returned {
        /// False once runners refused it [`REFUSALS_MAX`] times.
        again: bool,
    },
    /// Its runner stopped as planned and ended it.
    RunnerStopped,
    /// Proof that none of its processes is left.
    Gone,
    /// The last callback that held it was delivered or given up; had its work ended well?
    CalledBack {
        /// Whether it ends as FINISHED.
        well: bool,
    },
    /// The last shard ended; did enough of them finish?
    ShardsEnded {
        /// Whether the share that finished suffices.
        enough: bool,
    },
}

impl TaskState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::Queued,
        Self::Dispatched,
        Self::Running,
        Self::Callback,
        Self::Finished,
        Self::Failed,
        Self::Skipped,
        Self::Terminating,
        Self::Terminated,
    ];

    /// The state that follows, or `None` when the event means nothing in this state.
    pub fn after(self, kind: Kind, event: Event) -> Option<Self> {
        use Event as E;
        use TaskState as S;
        // What holds a task is the same for all kinds; a terminate gives it up, and the task ends as its work ended.
        match (self, event) {
            (S::Callback, E::CalledBack { well: true }) => return Some(S::Finished),
            (S::Callback, E::CalledBack { well: false }) => return Some(S::Failed),
            (S::Callback, E::Terminate) => return Some(S::Callback),
            _ => {}
        }
        if kind == Kind::Group {
            return self.group_after(event);
        }
        let next = match (self, event) {
            (S::Created, E::GateOpened) => S::Queued,
            (S::Created, E::ConditionFalse | E::GateClosed) => S::Skipped,
            (S::Created | S::Queued, E::Stopped) => S::Skipped,
            (S::Created | S::Queued, E::NotEvaluable) => S::Failed,
            (S::Queued, E::GivenUp) => S::Failed,
            (S::Created | S::Queued, E::Terminate) => S::Terminated,
            (S::Queued, E::Picked) => S::Dispatched,
            // A `job` task needs no slot: both steps are taken in one turn.
            (S::Queued, E::ChildMade) => S::Running,
            (S::Dispatched, E::Started) => S::Running,
            // A task shorter than one beat is never seen running.
            (S::Dispatched | S::Running, E::Succeeded) => S::Finished,
            (S::Dispatched | S::Running, E::AttemptFailed { again } | E::AttemptLost { again }) => {
                again_or_failed(again)
            }
            // Another attempt could run beside it.
            (S::Dispatched | S::Running, E::LostUnproven) => S::Failed,
            (S::Dispatched, E::Returned { again }) => again_or_failed(again),
            (S::Dispatched | S::Running, E::RunnerStopped) => S::Queued,
            (S::Dispatched | S::Running, E::Terminate) => S::Terminating,
            // However it came to its end: it was asked for.
            (
                S::Terminating,
                E::Gone
                | E::Succeeded
                | E::AttemptFailed { .. }
                | E::AttemptLost { .. }
                | E::LostUnproven
                | E::Returned { .. }
                | E::RunnerStopped,
            ) => S::Terminated,
            _ => return None,
        };
        Some(next)
    }

    /// What follows instead of an end of its work, while callbacks that block are to be delivered. Shards are held by
    /// their group alone.
    #[must_use]
    pub fn held(self, kind: Kind, next: Self) -> Self {
        match (self, next) {
            (Self::Dispatched | Self::Running, Self::Finished | Self::Failed) if kind != Kind::Shard => Self::Callback,
            _ => next,
        }
    }

    /// A group is never dispatched: it runs while its shards do.
    fn group_after(self, event: Event) -> Option<Self> {
        use Event as E;
        use TaskState as S;
        let next = match (self, event) {
            (S::Created, E::GateOpened) => S::Running,
            (S::Created, E::ConditionFalse | E::GateClosed | E::Stopped) => S::Skipped,
            (S::Created, E::NotEvaluable) => S::Failed,
            (S::Created, E::Terminate) => S::Terminated,
            (S::Running, E::ShardsEnded { enough: true }) => S::Finished,
            (S::Running, E::ShardsEnded { enough: false }) => S::Failed,
            (S::Running, E::Terminate) => S::Terminating,
            (S::Terminating, E::ShardsEnded { .. }) => S::Terminated,
            _ => return None,
        };
        Some(next)
    }

    /// Whether nothing more happens to it by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Skipped | Self::Terminated)
    }

    /// Whether a task in this state holds a slot of a runner.
    pub fn holds_slot(self) -> bool {
        matches!(self, Self::Dispatched | Self::Running | Self::Terminating)
    }

    /// The word that the database, the docs and the logs use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Queued => "QUEUED",
            Self::Dispatched => "DISPATCHED",
            Self::Running => "RUNNING",
            Self::Callback => "CALLBACK",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
            Self::Terminating => "TERMINATING",
            Self::Terminated => "TERMINATED",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

fn again_or_failed(again: bool) -> TaskState {
    if again { TaskState::Queued } else { TaskState::Failed }
}

impl Kind {
    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Task => "TASK",
            Self::Group => "GROUP",
            Self::Shard => "SHARD",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Task, Self::Group, Self::Shard].into_iter().find(|kind| kind.word() == word)
    }
}

/// What is counted over the life of a task and decides whether it may try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The present attempt, from 1; 0 before the first dispatch.
    pub attempt: u32,
    /// The fencing token.
    pub lease: u64,
    /// Attempts that the death of a runner ended.
    pub deaths: u32,
    /// Refusals of the present attempt.
    pub refusals: u32,
    /// Attempts that failed on the runner whose turn it is.
    pub tried: u32,
    /// No dispatch before this.
    pub not_before: Timestamp,
}

/// What a runner, or the lack of one, says about a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Result 0.
    Success,
    /// Any other result, the failure to start included.
    Failure,
    /// Its runner died or lost it; none of its processes is left.
    Lost {
        /// Whether the runner died under it.
        death: bool,
    },
    /// Its runner is lost, and it may go on there: it was not told to end when cut off.
    LostUnproven,
    /// Proof that nothing of it exists or can start.
    NeverStarted {
        /// Whether it counts against [`REFUSALS_MAX`]; busy and draining runners do not.
        counted: bool,
    },
    /// Ended by a planned stop of its runner.
    RunnerStop,
    /// Ended by a RESET that nobody had asked for: its runner had not answered in time, and has now [3].
    TakenBack,
    /// Proof that none of its processes is left, and nothing more is known.
    Gone,
}

/// When and how a dispatch came to its end.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The time.
    pub now: Timestamp,
    /// The exit code, if it exited.
    pub exit_code: Option<i32>,
    /// What chance has drawn, from 0 to 1.
    pub chance: f64,
    /// Whether a runner is there that did not have the task yet.
    pub others_left: bool,
    /// Attempts before somebody ran it again, which do not count.
    pub attempts_before: u32,
}

/// What becomes of a task whose dispatch came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The next state.
    pub state: TaskState,
    /// The counters with it.
    pub counters: Counters,
    /// What follows the attempt, if it failed or was lost: then it goes into the history when another follows.
    pub next: Option<Next>,
    /// It was failed as poison, whatever attempts are left.
    pub poison: bool,
    /// None of its processes is left.
    pub gone: bool,
}

impl Decision {
    /// Whether another attempt follows.
    pub fn archives(&self) -> bool {
        self.state == TaskState::Queued && self.next.is_some()
    }
}

/// Decides what follows when the dispatch of a task came to an end; `None` when that means nothing in this state.
pub fn decide(
    state: TaskState,
    kind: Kind,
    counters: Counters,
    policy: Policy<'_>,
    ending: Ending,
    at: Circumstances,
) -> Option<Decision> {
    let mut after = counters;
    let (mut poison, mut next) = (false, None);
    // What is known only as "gone" is, for a task that ran, an attempt lost; for one that did not, one returned.
    let ending = match (ending, state) {
        (Ending::Gone, TaskState::Dispatched) => Ending::NeverStarted { counted: true },
        (Ending::Gone, TaskState::Running) => Ending::Lost { death: false },
        (Ending::NeverStarted { .. }, TaskState::Running) => Ending::Lost { death: false },
        (Ending::TakenBack, TaskState::Dispatched) => Ending::NeverStarted { counted: true },
        // Who never answers in time is no better than who refuses.
        (Ending::TakenBack, _) if counters.refusals + 1 >= REFUSALS_MAX => Ending::Failure,
        (other, _) => other,
    };
    let follows = |exit_code| {
        let used = Used {
            attempts: counters.attempt.saturating_sub(at.attempts_before),
            here: counters.tried + 1,
            others_left: at.others_left,
        };
        policy.next(used, exit_code, at.chance)
    };
    let event = match ending {
        Ending::Success => Event::Succeeded,
        Ending::Failure => {
            let follows = follows(at.exit_code);
            next = Some(follows);
            Event::AttemptFailed { again: !matches!(follows, Next::Nothing(_)) }
        }
        Ending::Lost { death } => {
            after.deaths += u32::from(death);
            poison = after.deaths >= DEATHS_MAX;
            let follows = if poison { Next::Nothing(Why::UsedUp) } else { follows(None) };
            next = Some(follows);
            Event::AttemptLost { again: !matches!(follows, Next::Nothing(_)) }
        }
        Ending::LostUnproven => Event::LostUnproven,
        Ending::NeverStarted { counted } => {
            after.refusals += u32::from(counted);
            Event::Returned { again: after.refusals < REFUSALS_MAX }
        }
        Ending::RunnerStop => Event::RunnerStopped,
        Ending::TakenBack => {
            after.refusals += 1;
            Event::RunnerStopped
        }
        Ending::Gone => Event::Gone,
    };
    let entered = state.after(kind, event)?;
    if entered == TaskState::Queued {
        after.lease += 1;
        if let Some(follows) = next {
            let (tried, delay) = match follows {
                Next::Stay(delay) => (counters.tried + 1, delay),
                Next::Again(delay) => (0, delay),
                Next::Elsewhere | Next::Nothing(_) => (0, std::time::Duration::ZERO),
            };
            after.attempt += 1;
            after.refusals = 0;
            after.tried = tried;
            after.not_before = at.now + delay;
        }
    }
    Some(Decision {
        state: entered,
        counters: after,
        next,
        poison: poison && entered == TaskState::Failed,
        gone: ending != Ending::LostUnproven,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::domain::definition::{OnFailure, Retry};

    const COUNTERS: Counters =
        Counters { attempt: 1, lease: 7, deaths: 0, refusals: 0, tried: 0, not_before: Timestamp(0) };
    const DELAY: Duration = Duration::from_secs(30);
    const RETRY: Retry = Retry::times(3, DELAY);
    const THREE: Policy<'_> = Policy { retry: Some(&RETRY), on_failure: OnFailure::Fail };
    const AT: Circumstances =
        Circumstances { now: Timestamp(1_000), exit_code: Some(1), chance: 0.5, others_left: true, attempts_before: 0 };

    fn decided(state: TaskState, counters: Counters, ending: Ending) -> Decision {
        decide(state, Kind::Task, counters, THREE, ending, AT).expect("the ending means something here")
    }

    #[test]
    fn a_failed_attempt_is_tried_again_after_its_delay_under_a_new_lease() {
        let decision = decided(TaskState::Running, COUNTERS, Ending::Failure);
        assert_eq!(decision.state, TaskState::Queued);
        assert_eq!((decision.counters.attempt, decision.counters.lease), (2, 8));
        assert_eq!(decision.counters.not_before, AT.now + DELAY);
        assert!(decision.archives());
    }

    #[test]
    fn a_planned_stop_burns_no_attempt() {
        let decision = decided(TaskState::Running, COUNTERS, Ending::RunnerStop);
        assert_eq!((decision.state, decision.counters.attempt), (TaskState::Queued, 1));
        assert_eq!(decision.counters.lease, 8);
        assert!(!decision.archives());
    }

    #[test]
    fn what_was_taken_back_for_want_of_an_answer_burns_no_attempt_until_that_is_all_there_is() {
        for state in [TaskState::Dispatched, TaskState::Running] {
            let decision = decided(state, COUNTERS, Ending::TakenBack);
            assert_eq!((decision.state, decision.counters.attempt, decision.counters.lease), (TaskState::Queued, 1, 8));
            assert_eq!((decision.counters.refusals, decision.archives()), (1, false));
        }
        let tired = Counters { refusals: 4, ..COUNTERS };
        assert_eq!(decided(TaskState::Dispatched, tired, Ending::TakenBack).state, TaskState::Failed);
        let decision = decided(TaskState::Running, tired, Ending::TakenBack);
        assert_eq!(
            (decision.state, decision.counters.attempt),
            (TaskState::Queued, 2),
            "a failed attempt, as any other"
        );
    }

    #[test]
    fn a_task_that_kills_its_runner_five_times_is_poison() {
        let counters = Counters { deaths: 4, ..COUNTERS };
        let decision = decided(TaskState::Running, counters, Ending::Lost { death: true });
        assert_eq!(decision.state, TaskState::Failed);
        assert!(decision.poison);
    }

    #[test]
    fn what_may_go_on_elsewhere_is_tried_no_more_and_is_not_gone() {
        for state in [TaskState::Dispatched, TaskState::Running] {
            let decision = decided(state, COUNTERS, Ending::LostUnproven);
            assert_eq!((decision.state, decision.gone, decision.archives()), (TaskState::Failed, false, false));
            assert_eq!(decision.counters, COUNTERS, "it is known by its lease until its end is proven");
        }
        assert!(!decided(TaskState::Terminating, COUNTERS, Ending::LostUnproven).gone);
    }

    #[test]
    fn retries_that_stay_on_a_runner_are_counted_there_and_anew_on_the_next() {
        let policy = Policy { on_failure: OnFailure::RetryThenTransfer, ..THREE };
        let mut counters = COUNTERS;
        let mut fail = || {
            let decision = decide(TaskState::Running, Kind::Task, counters, policy, Ending::Failure, AT).unwrap();
            counters = decision.counters;
            (decision.next.unwrap(), counters.attempt, counters.tried)
        };
        assert_eq!(fail(), (Next::Stay(DELAY), 2, 1));
        assert_eq!(fail(), (Next::Stay(DELAY), 3, 2));
        assert_eq!(fail(), (Next::Elsewhere, 4, 0));
        assert_eq!(fail(), (Next::Stay(DELAY), 5, 1));
    }

    #[test]
    fn busy_runners_do_not_use_up_a_tasks_patience() {
        let counters = Counters { refusals: 4, ..COUNTERS };
        let busy = decided(TaskState::Dispatched, counters, Ending::NeverStarted { counted: false });
        assert_eq!(busy.state, TaskState::Queued);
        let refused = decided(TaskState::Dispatched, counters, Ending::NeverStarted { counted: true });
        assert_eq!(refused.state, TaskState::Failed);
    }

    #[test]
    fn whatever_ends_a_task_that_is_being_terminated_it_was_terminated() {
        for ending in [
            Ending::TakenBack,
            Ending::Success,
            Ending::Failure,
            Ending::Lost { death: true },
            Ending::LostUnproven,
            Ending::NeverStarted { counted: true },
            Ending::RunnerStop,
            Ending::Gone,
        ] {
            assert_eq!(decided(TaskState::Terminating, COUNTERS, ending).state, TaskState::Terminated);
        }
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::GateOpened),
            Just(Event::ConditionFalse),
            Just(Event::GateClosed),
            Just(Event::NotEvaluable),
            Just(Event::Stopped),
            Just(Event::GivenUp),
            Just(Event::Terminate),
            Just(Event::ChildMade),
            Just(Event::Picked),
            Just(Event::Started),
            Just(Event::Succeeded),
            any::<bool>().prop_map(|again| Event::AttemptFailed { again }),
            any::<bool>().prop_map(|again| Event::AttemptLost { again }),
            Just(Event::LostUnproven),
            any::<bool>().prop_map(|again| Event::Returned { again }),
            Just(Event::RunnerStopped),
            Just(Event::Gone),
            any::<bool>().prop_map(|enough| Event::ShardsEnded { enough }),
            any::<bool>().prop_map(|well| Event::CalledBack { well }),
        ]
    }

    proptest! {
        #[test]
        fn a_terminal_state_never_changes(events in proptest::collection::vec(any_event(), 0..60), group: bool) {
            let kind = if group { Kind::Group } else { Kind::Task };
            let mut state = TaskState::Created;
            for event in events {
                let next = state.after(kind, event);
                if state.is_terminal() {
                    prop_assert_eq!(next, None);
                }
                if group {
                    prop_assert_ne!(next, Some(TaskState::Dispatched));
                }
                state = next.unwrap_or(state);
            }
        }

        #[test]
        fn a_lease_only_grows(endings in proptest::collection::vec(0..7u8, 0..40)) {
            let (mut state, mut counters) = (TaskState::Running, COUNTERS);
            for ending in endings {
                let ending = match ending {
                    0 => Ending::Success,
                    1 => Ending::Failure,
                    2 => Ending::Lost { death: true },
                    3 => Ending::NeverStarted { counted: true },
                    4 => Ending::RunnerStop,
                    5 => Ending::LostUnproven,
                    _ => Ending::Gone,
                };
                if let Some(decision) = decide(state, Kind::Task, counters, THREE, ending, AT) {
                    prop_assert!(decision.counters.lease >= counters.lease);
                    prop_assert!(decision.state != TaskState::Queued || decision.counters.lease > counters.lease);
                    prop_assert!(decision.counters.attempt <= RETRY.max_attempts);
                    (state, counters) = (decision.state, decision.counters);
                    if state == TaskState::Queued {
                        state = TaskState::Running;
                    }
                }
            }
        }
    }
}
