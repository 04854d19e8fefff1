//! States as a glyph and a word, so that no one needs colours to tell them apart.

use baton::v1::{JobState, RunnerState, SchedulerState, TaskState};

use super::text::{Span, Tone};

/// How a state looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// One column wide.
    pub glyph: &'static str,
    /// The state in lower case.
    pub word: &'static str,
    /// How it feels.
    pub tone: Tone,
}

impl Look {
    /// Glyph and word together.
    pub fn span(self) -> Span {
        Span::new(format!("{} {}", self.glyph, self.word), self.tone)
    }
}

pub(super) const fn look(glyph: &'static str, word: &'static str, tone: Tone) -> Look {
    Look { glyph, word, tone }
}

/// How a task looks.
pub fn task(state: TaskState) -> Look {
    match state {
        TaskState::Unspecified => look("?", "unknown", Tone::Warn),
        TaskState::Created => look("○", "created", Tone::Dim),
        TaskState::Queued => look("◌", "queued", Tone::Warn),
        TaskState::Dispatched => look("▷", "dispatched", Tone::Busy),
        TaskState::Running => look("▶", "running", Tone::Busy),
        TaskState::Callback => look("◆", "callback", Tone::Busy),
        TaskState::Finished => look("✔", "finished", Tone::Good),
        TaskState::Failed => look("✖", "failed", Tone::Bad),
        TaskState::Skipped => look("↷", "skipped", Tone::Dim),
        TaskState::Terminating => look("◧", "terminating", Tone::Warn),
        TaskState::Terminated => look("■", "terminated", Tone::Bad),
    }
}

/// How a job looks.
pub fn job(state: JobState) -> Look {
    match state {
        JobState::Unspecified => look("?", "unknown", Tone::Warn),
        JobState::Created => look("○", "created", Tone::Dim),
        JobState::Running => look("▶", "running", Tone::Busy),
        JobState::Finished => look("✔", "finished", Tone::Good),
        JobState::Failed => look("✖", "failed", Tone::Bad),
        JobState::Skipped => look("↷", "skipped", Tone::Dim),
        JobState::Terminating => look("◧", "terminating", Tone::Warn),
        JobState::Terminated => look("■", "terminated", Tone::Bad),
    }
}

/// How a runner looks.
pub fn runner(state: RunnerState) -> Look {
    match state {
        RunnerState::Unspecified => look("?", "unknown", Tone::Warn),
        RunnerState::Online => look("●", "online", Tone::Good),
        RunnerState::Draining => look("◐", "draining", Tone::Warn),
        RunnerState::Silent => look("◌", "silent", Tone::Warn),
        RunnerState::Offline => look("○", "offline", Tone::Dim),
    }
}

/// How a scheduler looks.
pub fn scheduler(state: SchedulerState) -> Look {
    match state {
        SchedulerState::Unspecified => look("?", "unknown", Tone::Warn),
        SchedulerState::Working => look("●", "working", Tone::Good),
        SchedulerState::Drained => look("◐", "drained", Tone::Warn),
        SchedulerState::Offline => look("○", "offline", Tone::Dim),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn no_two_states_look_alike_without_colour() {
        let looks: Vec<_> = (0..=10).map(|n| task(TaskState::try_from(n).unwrap())).collect();
        for (index, one) in looks.iter().enumerate() {
            assert_eq!(one.glyph.width(), 1, "{}", one.word);
            assert!(looks[..index].iter().all(|other| other.glyph != one.glyph && other.word != one.word));
        }
    }
}
