//! The life of a job, as one table.

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobState {
    /// Accepted; its tasks are being written.
    Created,
    /// Its tasks run as their gates open.
    Running,
    /// Every task ended and no failure counts.
    Finished,
    /// Every task ended and a failure counts.
    Failed,
    /// It was never started.
    Skipped,
    /// Its tasks are being ended.
    Terminating,
    /// It was terminated and none of its processes is left.
    Terminated,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The last slice of its tasks is written.
    Expanded,
    /// What it waited for took too long, or another took its place.
    Skip,
    /// Somebody wants it ended, or it ran out of time.
    Terminate,
    /// Its last task ended.
    TasksEnded {
        /// Whether a failure counts.
        failed: bool,
        /// Whether running out of time was what ended it.
        timed_out: bool,
    },
}

/// How the places of a job config stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Places {
    /// How many of its jobs may run at once; `None` for any number.
    pub max: Option<u32>,
    /// How many have a place: they are being written, run, or are being ended.
    pub active: u32,
    /// How many wait for one.
    pub held: u32,
}

impl Places {
    /// How many more may begin.
    pub fn free(&self) -> u32 {
        self.max.map_or(u32::MAX, |max| max.saturating_sub(self.active))
    }
}

impl JobState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Running,
        Self::Finished,
        Self::Failed,
        Self::Skipped,
        Self::Terminating,
        Self::Terminated,
    ];

    /// The state that follows, or `None` when the event means nothing in this state.
    pub fn after(self, event: Event) -> Option<Self> {
        let next = match (self, event) {
            (Self::Created, Event::Expanded) => Self::Running,
            // Nothing of it was queued yet.
            (Self::Created, Event::Skip) => Self::Skipped,
            (Self::Created, Event::Terminate) => Self::Terminated,
            (Self::Running, Event::Terminate) => Self::Terminating,
            (Self::Running, Event::TasksEnded { failed: false, .. }) => Self::Finished,
            (Self::Running, Event::TasksEnded { failed: true, .. }) => Self::Failed,
            (Self::Terminating, Event::TasksEnded { timed_out: true, .. }) => Self::Failed,
            (Self::Terminating, Event::TasksEnded { timed_out: false, .. }) => Self::Terminated,
            _ => return None,
        };
        Some(next)
    }

    /// Whether nothing more happens to it by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Skipped | Self::Terminated)
    }

    /// The word that the database, the docs and the logs use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
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
