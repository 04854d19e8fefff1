//! What made a job.
//!
//! A job that another one led to knows how many came before it in that chain, so that nothing can make jobs without end:
//! rings are refused when definitions are applied, and whatever slips through ends at [`DEPTH_MAX`].

use uuid::Uuid;

use super::time::Timestamp;

/// How many jobs may lead to one another, each made by the one before.
pub const DEPTH_MAX: u32 = 32;

/// What kind of thing made a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trigger {
    /// Somebody asked for it.
    Manual,
    /// A schedule fired.
    Schedule,
    /// A `job` task of another job.
    SubJob,
    /// The jobs that it comes after finished.
    AfterJobs,
    /// A callback of another job.
    Callback,
    /// A backfill: a fire of a schedule that was made up for on request.
    Backfill,
}

impl Trigger {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Manual, Self::Schedule, Self::SubJob, Self::AfterJobs, Self::Callback, Self::Backfill];

    /// The word that the database uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manual => "MANUAL",
            Self::Schedule => "SCHEDULE",
            Self::SubJob => "SUB_JOB",
            Self::AfterJobs => "AFTER_JOBS",
            Self::Callback => "CALLBACK",
            Self::Backfill => "BACKFILL",
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trigger| trigger.word() == word)
    }
}

/// Of which job, and which try at which of its tasks, a job is a consequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The job.
    pub job: Uuid,
    /// The `job` task and its attempt; none when a callback made the job.
    pub task: Option<(Uuid, u32)>,
}

/// The time that a job is about, where it is not its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logical {
    /// The instant.
    pub at: Timestamp,
    /// The zone whose clocks tell it.
    pub zone: String,
}

/// How deep the next job of a chain is; `Err` is why there must be none.
pub fn deeper(depth: u32) -> Result<u32, String> {
    if depth >= DEPTH_MAX {
        return Err(format!(
            "{DEPTH_MAX} jobs led to one another already, the most there may be: look for a ring among their definitions"
        ));
    }
    Ok(depth + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_jobs_comes_to_an_end() {
        assert_eq!(deeper(0), Ok(1));
        assert_eq!(deeper(DEPTH_MAX - 1), Ok(DEPTH_MAX));
        assert!(deeper(DEPTH_MAX).unwrap_err().contains("32 jobs led to one another"));
    }

    #[test]
    fn every_kind_has_a_word_and_every_word_a_kind() {
        for trigger in Trigger::ALL {
            assert_eq!(Trigger::from_word(trigger.word()), Some(trigger));
        }
    }
}
