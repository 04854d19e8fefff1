//! Which tasks are shown when not all of them fit: what needs eyes first, then what is near to it.

use baton::v1::{Task, TaskState};

use super::picture::is_terminal;

/// The tasks to show, and how many of what is left out.
#[derive(Debug, PartialEq, Eq)]
pub struct Folded {
    /// Places in the list of tasks, in their order.
    pub shown: Vec<usize>,
    /// How many that ended are left out.
    pub ended: usize,
    /// How many that have not ended are left out.
    pub waiting: usize,
}

/// Chooses what fits into `rows`, keeping two of them for the lines that tell what is left out.
pub fn fold(tasks: &[Task], rows: usize) -> Folded {
    if tasks.len() <= rows {
        return Folded { shown: (0..tasks.len()).collect(), ended: 0, waiting: 0 };
    }
    let room = rows.saturating_sub(2).max(1);
    let mut places: Vec<usize> = (0..tasks.len()).collect();
    // A stable sort: within a rank the order of the definition stays.
    places.sort_by_key(|place| rank(&tasks[*place]));
    let (shown, hidden) = places.split_at(room.min(places.len()));
    let ended = hidden.iter().filter(|place| is_terminal(tasks[**place].state())).count();
    let mut shown = shown.to_vec();
    shown.sort_unstable();
    Folded { shown, ended, waiting: hidden.len() - ended }
}

/// Lower is shown first. Of what has ended, the latest comes first.
fn rank(task: &Task) -> (u8, i64) {
    let class = match task.state() {
        TaskState::Running | TaskState::Dispatched | TaskState::Terminating | TaskState::Callback => 0,
        TaskState::Failed | TaskState::Terminated => 1,
        TaskState::Queued => 2,
        TaskState::Created | TaskState::Unspecified => 3,
        TaskState::Finished => 4,
        TaskState::Skipped => 5,
    };
    let ended = task.end_time.map_or(0, |time| time.seconds);
    (class, if is_terminal(task.state()) { -ended } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{ago, task};

    #[test]
    fn everything_is_shown_when_it_fits() {
        let tasks = vec![task("a", TaskState::Finished), task("b", TaskState::Created)];
        assert_eq!(fold(&tasks, 2), Folded { shown: vec![0, 1], ended: 0, waiting: 0 });
    }

    #[test]
    fn what_runs_or_failed_is_never_hidden_by_what_is_done_or_waits() {
        let mut tasks = Vec::new();
        for number in 0..40 {
            tasks.push(Task { end_time: ago(100 - number), ..task(&format!("done-{number}"), TaskState::Finished) });
        }
        tasks.insert(3, task("failed", TaskState::Failed));
        tasks.push(task("runs", TaskState::Running));
        for number in 0..40 {
            tasks.push(task(&format!("waits-{number}"), TaskState::Created));
        }
        let folded = fold(&tasks, 10);
        let names: Vec<_> = folded.shown.iter().map(|place| tasks[*place].name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert!(names.contains(&"failed") && names.contains(&"runs"));
        assert!(folded.shown.is_sorted(), "in the order of the definition");
        assert_eq!(folded.ended + folded.waiting + 8, tasks.len(), "nothing is lost in the counts");
    }

    #[test]
    fn the_smallest_terminal_still_shows_one_task() {
        let tasks: Vec<_> = (0..9).map(|n| task(&n.to_string(), TaskState::Created)).collect();
        assert_eq!(fold(&tasks, 0), Folded { shown: vec![0], ended: 0, waiting: 8 });
    }
}
