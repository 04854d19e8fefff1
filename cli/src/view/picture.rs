//! What a watch has told of a job so far.

use std::collections::HashMap;

use baton::v1::{Job, Task, TaskKind, TaskState, WatchJobResponse};

use crate::follow;

/// A job and its tasks, as last heard.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// The job, without its tasks.
    pub job: Job,
    /// In the order of the definition; shards only where the watch sends them.
    pub tasks: Vec<Task>,
    places: HashMap<String, usize>,
}

/// One thing that became different.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The job's state.
    Job(Box<Job>),
    /// A task's state, attempt or, for a group, how far its shards are.
    Task(Box<Task>),
}

impl Picture {
    /// Takes a message in and says what became different.
    pub fn take(&mut self, message: WatchJobResponse) -> Vec<Change> {
        let mut changes = Vec::new();
        for task in message.tasks {
            if let Some(place) = self.places.get(&task.id) {
                let before = std::mem::replace(&mut self.tasks[*place], task);
                if is_news(&before, &self.tasks[*place]) {
                    changes.push(Change::Task(Box::new(self.tasks[*place].clone())));
                }
            } else {
                // A task that still waits for its parents is no news: all of them begin so.
                if task.state() != TaskState::Created {
                    changes.push(Change::Task(Box::new(task.clone())));
                }
                self.places.insert(task.id.clone(), self.tasks.len());
                self.tasks.push(task);
            }
        }
        if let Some(job) = message.job {
            if job.state != self.job.state {
                // A job begins before its tasks do and ends after them.
                let place = if follow::is_terminal(job.state()) { changes.len() } else { 0 };
                changes.insert(place, Change::Job(Box::new(job.clone())));
            }
            self.job = job;
        }
        changes
    }

    /// How the named tasks stand, for looking parents up.
    pub fn states(&self) -> HashMap<&str, TaskState> {
        let nodes = self.tasks.iter().filter(|task| task.kind() != TaskKind::Shard);
        nodes.map(|task| (task.name.as_str(), task.state())).collect()
    }
}

fn is_news(before: &Task, after: &Task) -> bool {
    before.state != after.state || before.attempt != after.attempt || tenth(before) != tenth(after)
}

/// How far a group is, in tenths: ten thousand shards make ten lines, not ten thousand.
fn tenth(task: &Task) -> u32 {
    let count = task.shard_count();
    if task.kind() != TaskKind::Group || count == 0 { 0 } else { ended_shards(task) * 10 / count }
}

/// How many shards of a group have ended.
pub fn ended_shards(task: &Task) -> u32 {
    task.shard_states.iter().filter(|one| is_terminal(one.state())).map(|one| one.count).sum()
}

/// Whether a task has ended.
pub fn is_terminal(state: TaskState) -> bool {
    matches!(state, TaskState::Finished | TaskState::Failed | TaskState::Skipped | TaskState::Terminated)
}

#[cfg(test)]
mod tests {
    use baton::v1::JobState;

    use super::*;
    use crate::view::testing::{group, job, task};

    fn message(job: Job, tasks: Vec<Task>) -> WatchJobResponse {
        WatchJobResponse { job: Some(job), tasks, seq: 1 }
    }

    #[test]
    fn only_what_differs_is_news() {
        let mut picture = Picture::default();
        let first = message(job(JobState::Running), vec![task("a", TaskState::Running), task("b", TaskState::Created)]);
        assert_eq!(picture.take(first.clone()).len(), 2, "the job and the task that runs");
        assert!(picture.take(first).is_empty(), "a snapshot after a broken connection repeats nothing");
        let changes = picture.take(message(job(JobState::Running), vec![task("a", TaskState::Finished)]));
        assert!(matches!(&changes[..], [Change::Task(task)] if task.name == "a"));
        assert_eq!(picture.tasks.len(), 2);
        assert_eq!(picture.states()["a"], TaskState::Finished);
    }

    #[test]
    fn a_group_is_news_at_each_tenth() {
        let mut picture = Picture::default();
        picture.take(message(job(JobState::Running), vec![group("g", 100, &[(TaskState::Running, 100)])]));
        let mut news = 0;
        for ended in 1..=100 {
            let shards = [(TaskState::Finished, ended), (TaskState::Running, 100 - ended)];
            news += picture.take(message(job(JobState::Running), vec![group("g", 100, &shards)])).len();
        }
        assert_eq!(news, 10);
    }
}
