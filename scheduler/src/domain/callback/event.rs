//! What can be told, and which changes of a job or task tell it.

use serde::{Deserialize, Serialize};

use crate::domain::{job::JobState, task::TaskState};

/// Something worth telling about a job or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The job began to run. Of jobs alone: a task shorter than a beat is never seen running.
    Started,
    /// It runs for longer than its `warn_after`.
    Slow,
    /// It ended well.
    Finished,
    /// It ended badly, and nothing tries it again by itself: a failed attempt that another follows is no event.
    Failed,
    /// It was ended on request.
    Terminated,
    /// It never ran.
    Skipped,
    /// A fire made no job. Of job configs alone.
    Missed,
}

impl Event {
    /// Every event, in the order of the protocol.
    pub const ALL: [Self; 7] =
        [Self::Started, Self::Slow, Self::Finished, Self::Failed, Self::Terminated, Self::Skipped, Self::Missed];

    /// Its name in a job file and in what is told.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Slow => "slow",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Terminated => "terminated",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
        }
    }

    /// The event of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "STARTED",
            Self::Slow => "SLOW",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Terminated => "TERMINATED",
            Self::Skipped => "SKIPPED",
            Self::Missed => "MISSED",
        }
    }

    /// The event with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }

    /// Whether it can happen to a task.
    pub fn of_tasks(self) -> bool {
        !matches!(self, Self::Started | Self::Missed)
    }

    /// Whether a callback of it can hold its task: only what ends the work of a task leaves something to hold.
    pub fn can_block(self) -> bool {
        matches!(self, Self::Finished | Self::Failed)
    }
}

/// What the change of a job tells; `None` is what a job was before it was born.
pub fn of_job(before: Option<JobState>, after: JobState) -> Vec<Event> {
    use JobState as S;
    let mut events = Vec::new();
    let began = matches!(after, S::Running | S::Terminating | S::Finished | S::Failed);
    if began && matches!(before, None | Some(S::Created)) {
        events.push(Event::Started);
    }
    if before != Some(after) {
        events.extend(match after {
            S::Finished => Some(Event::Finished),
            S::Failed => Some(Event::Failed),
            S::Skipped => Some(Event::Skipped),
            S::Terminated => Some(Event::Terminated),
            S::Created | S::Running | S::Terminating => None,
        });
    }
    events
}

/// What the change of a task tells. `ended` is how the work of a task ended that is CALLBACK now. The state that
/// follows CALLBACK tells nothing: it was told when the work ended.
pub fn of_task(before: Option<TaskState>, after: TaskState, ended: Option<TaskState>) -> Option<Event> {
    if before == Some(after) || before == Some(TaskState::Callback) {
        return None;
    }
    match if after == TaskState::Callback { ended? } else { after } {
        TaskState::Finished => Some(Event::Finished),
        TaskState::Failed => Some(Event::Failed),
        TaskState::Skipped => Some(Event::Skipped),
        TaskState::Terminated => Some(Event::Terminated),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_tells_its_start_once_and_its_end_once() {
        use JobState as S;
        let table: [(Option<S>, S, &[Event]); 14] = [
            (None, S::Created, &[]),
            (None, S::Running, &[Event::Started]),
            (Some(S::Created), S::Running, &[Event::Started]),
            // Everything in it was skipped in the turn that began it.
            (None, S::Finished, &[Event::Started, Event::Finished]),
            (Some(S::Created), S::Terminated, &[Event::Terminated]),
            (Some(S::Created), S::Skipped, &[Event::Skipped]),
            (Some(S::Running), S::Running, &[]),
            (Some(S::Running), S::Terminating, &[]),
            (Some(S::Running), S::Finished, &[Event::Finished]),
            (Some(S::Running), S::Failed, &[Event::Failed]),
            (Some(S::Terminating), S::Terminated, &[Event::Terminated]),
            (Some(S::Terminating), S::Failed, &[Event::Failed]),
            // A re-run: it began long ago, and ends anew.
            (Some(S::Failed), S::Running, &[]),
            (Some(S::Failed), S::Failed, &[]),
        ];
        for (before, after, events) in table {
            assert_eq!(of_job(before, after), events, "{before:?} -> {after:?}");
        }
    }

    /// A task before and after, how its work ended, and what is told of that.
    type Row = (Option<TaskState>, TaskState, Option<TaskState>, Option<Event>);

    #[test]
    fn a_failed_attempt_is_no_event_while_another_follows() {
        use TaskState as S;
        let (finished, failed) = (Some(S::Finished), Some(S::Failed));
        let table: [Row; 15] = [
            (None, S::Created, None, None),
            (None, S::Queued, None, None),
            (Some(S::Queued), S::Dispatched, None, None),
            (Some(S::Dispatched), S::Running, None, None),
            // The damping: an alarm for the last failed attempt, none for those before it.
            (Some(S::Running), S::Queued, None, None),
            (Some(S::Dispatched), S::Queued, None, None),
            (Some(S::Running), S::Failed, None, Some(Event::Failed)),
            (Some(S::Dispatched), S::Finished, None, Some(Event::Finished)),
            (Some(S::Running), S::Callback, failed, Some(Event::Failed)),
            (Some(S::Running), S::Callback, finished, Some(Event::Finished)),
            (Some(S::Callback), S::Callback, finished, None),
            (Some(S::Callback), S::Finished, None, None),
            (Some(S::Created), S::Skipped, None, Some(Event::Skipped)),
            (Some(S::Running), S::Terminating, None, None),
            (Some(S::Terminating), S::Terminated, None, Some(Event::Terminated)),
        ];
        for (before, after, ended, event) in table {
            assert_eq!(of_task(before, after, ended), event, "{before:?} -> {after:?}");
        }
    }

    #[test]
    fn every_event_is_found_by_its_name_and_its_word() {
        for event in Event::ALL {
            assert_eq!(Event::named(event.name()), Some(event));
            assert_eq!(Event::from_word(event.word()), Some(event));
        }
    }
}
