//! How a job ended, in a few lines: what failed, its last words, what to do next.

use baton::v1::{Job, JobState, Task};
use chrono::{DateTime, Utc};

use super::tree;
use crate::output::{
    glyphs,
    text::{Line, Tone},
    time,
};
use crate::selector::short_id;

/// A failed task with the last lines it wrote.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The task.
    pub task: Task,
    /// The end of its log, line by line.
    pub log: Vec<String>,
}

/// "✔ job 7be0d21c finished in 1m45s · 5 tasks".
pub fn summary(job: &Job, now: DateTime<Utc>) -> Line {
    let look = glyphs::job(job.state());
    let took = if job.start_time.is_some() {
        let how = if job.state() == JobState::Finished { "in" } else { "after" };
        format!(" {how} {}", time::elapsed(job.start_time, job.end_time, now))
    } else {
        String::new()
    };
    let mut line = Line::new()
        .with(look.glyph, look.tone)
        .with(format!(" job {} ", short_id(&job.id)), Tone::Plain)
        .with(look.word, look.tone)
        .with(took, Tone::Plain);
    if job.tasks_total > 0 {
        let tasks = if job.tasks_total == 1 { "task" } else { "tasks" };
        line = line.with(format!(" · {} {tasks}", job.tasks_total), Tone::Plain);
    }
    if !job.reason.is_empty() {
        line = line.with(format!(" · {}", job.reason), Tone::Plain);
    } else if job.tasks_failed > 0 {
        line = line.with(format!(", {} failed", job.tasks_failed), Tone::Bad);
    }
    line
}

/// Every failure with its last words, and how many more there are.
pub fn failures(job: &Job, failures: &[Failure], more: bool) -> Vec<Line> {
    let short = short_id(&job.id);
    let mut lines = Vec::new();
    for failure in failures {
        let task = &failure.task;
        let label = tree::label(task);
        let look = glyphs::task(task.state());
        let mut facts = vec![task.reason.clone(), tree::attempts(task)];
        if !task.runner_id.is_empty() {
            facts.push(format!("on {}", task.runner_id));
        }
        facts.retain(|fact| !fact.is_empty());
        lines.push(Line::new());
        lines.push(
            Line::new()
                .with(format!("{} {label} {}", look.glyph, look.word), look.tone)
                .with(if facts.is_empty() { String::new() } else { format!(": {}", facts.join(" · ")) }, Tone::Plain),
        );
        lines.extend(failure.log.iter().map(|line| Line::new().with("  │ ", Tone::Dim).with(line, Tone::Plain)));
        // A shell takes what follows a "#" after a space for a comment, and not here.
        lines.push(Line::new().with(format!("  all of it: baton logs {short}/{label}"), Tone::Dim));
        lines.push(Line::new().with(format!("  why:       baton explain {short}/{label}"), Tone::Dim));
    }
    if more {
        lines.push(Line::new());
        lines.push(Line::new().with(format!("more: baton get tasks {short} --state failed --shards"), Tone::Dim));
    }
    lines
}

#[cfg(test)]
mod tests {
    use baton::v1::{TaskKind, TaskState};

    use super::*;
    use crate::view::testing::{ago, job, now, task};

    #[test]
    fn a_job_that_went_well_needs_one_line() {
        let job = Job { end_time: ago(0), ..job(JobState::Finished) };
        assert_eq!(summary(&job, now()).render(false), "✔ job 7be0d21c finished in 1m45s · 5 tasks");
    }

    #[test]
    fn a_failure_shows_its_last_words_and_the_way_on() {
        let job = Job { end_time: ago(0), tasks_failed: 1, ..job(JobState::Failed) };
        assert_eq!(summary(&job, now()).render(false), "✖ job 7be0d21c failed after 1m45s · 5 tasks, 1 failed");
        let task = Task {
            kind: TaskKind::Shard.into(),
            shard_index: Some(3),
            attempt: 3,
            max_attempts: 3,
            runner_id: "etl-2".into(),
            reason: "exit code 1".into(),
            ..task("resize", TaskState::Failed)
        };
        let log = vec!["opening a.png".to_owned(), "no such file".to_owned()];
        let lines: Vec<_> =
            failures(&job, &[Failure { task, log }], true).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            lines,
            [
                "",
                "✖ resize#3 failed: exit code 1 · attempt 3/3 · on etl-2",
                "  │ opening a.png",
                "  │ no such file",
                "  all of it: baton logs 7be0d21c/resize#3",
                "  why:       baton explain 7be0d21c/resize#3",
                "",
                "more: baton get tasks 7be0d21c --state failed --shards",
            ]
        );
    }

    #[test]
    fn a_job_that_never_ran_took_no_time() {
        let job = Job { start_time: None, reason: "an earlier job runs".into(), ..job(JobState::Skipped) };
        assert_eq!(summary(&job, now()).render(false), "↷ job 7be0d21c skipped · 5 tasks · an earlier job runs");
    }
}
