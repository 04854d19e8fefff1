//! The jobs that tasks of a watched job stand for, as last heard.

use std::collections::HashMap;

use baton::v1::{Task, WatchJobResponse};

use super::picture::{Change, Picture, is_terminal};

/// Their pictures, by the id of the job.
#[derive(Debug, Default)]
pub struct Children(HashMap<String, Picture>);

impl Children {
    /// The job that a task stands for while it runs, if something was heard of it.
    pub fn of(&self, task: &Task) -> Option<&Picture> {
        self.0.get(&task.child_job_id).filter(|_| !is_terminal(task.state()))
    }

    /// Takes a message of one in, and says its name and which of its tasks became different. That the job itself did is
    /// told by the task that stands for it.
    pub fn take(&mut self, id: String, message: WatchJobResponse) -> (String, Vec<Change>) {
        let picture = self.0.entry(id).or_default();
        let mut changes = picture.take(message);
        changes.retain(|change| matches!(change, Change::Task(_)));
        (picture.job.name.clone(), changes)
    }
}

/// The jobs that tasks of a message stand for and that have not ended.
pub fn running(message: &WatchJobResponse) -> Vec<String> {
    let runs = |task: &&Task| !task.child_job_id.is_empty() && !is_terminal(task.state());
    message.tasks.iter().filter(runs).map(|task| task.child_job_id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use baton::v1::{JobState, TaskState};

    use super::*;
    use crate::view::testing::{job, task};

    #[test]
    fn only_what_runs_is_unfolded() {
        let stands = |name: &str, state| Task { child_job_id: format!("job-of-{name}"), ..task(name, state) };
        let message = WatchJobResponse {
            job: None,
            tasks: vec![
                stands("load", TaskState::Running),
                stands("done", TaskState::Finished),
                task("plain", TaskState::Running),
            ],
            seq: 1,
        };
        assert_eq!(running(&message), ["job-of-load"]);
        let mut children = Children::default();
        let inner = WatchJobResponse {
            job: Some(job(JobState::Running)),
            tasks: vec![task("fetch", TaskState::Running)],
            seq: 1,
        };
        let (name, changes) = children.take("job-of-load".into(), inner);
        assert_eq!((name.as_str(), changes.len()), ("orders-etl", 1), "the job itself is told by its task");
        assert!(children.of(&message.tasks[0]).is_some_and(|picture| picture.tasks.len() == 1));
        assert!(children.of(&stands("load", TaskState::Finished)).is_none());
        assert!(children.of(&message.tasks[2]).is_none());
    }
}
