//! Jobs whose definition this version cannot read. Each is laid aside by itself, with its reason, and holds up no other:
//! nothing of it is begun, and what its tasks report waits on their runners, until it can be read, by a repair or by a
//! newer version, or until somebody terminates it. To end it its shape is enough.

use crate::domain::job::JobState;

use super::work::JobWork;

/// How the reason of a job that is laid aside begins.
const MARK: &str = "parked: ";

/// Whether nothing of a job may be decided.
pub(super) fn is_parked(job: &JobWork) -> bool {
    job.plan.unreadable.is_some() && job.row.state != JobState::Terminating && !job.row.state.is_terminal()
}

/// The reason that a job should show, if it shows another one.
pub(super) fn new_reason(job: &JobWork) -> Option<String> {
    let shown = &job.row.reason;
    let due = match &job.plan.unreadable {
        Some(problem) if is_parked(job) => {
            format!("{MARK}{problem}; use the version that stored it, repair it, or terminate the job")
        }
        None if shown.starts_with(MARK) && !job.row.state.is_terminal() => String::new(),
        _ => return None,
    };
    (*shown != due).then_some(due)
}
