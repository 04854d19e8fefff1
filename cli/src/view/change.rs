//! One line for each change, where nothing can be redrawn.

use baton::v1::{Job, Task, TaskKind, TaskState};
use chrono::{DateTime, Utc};

use super::{
    bar,
    picture::{Change, is_terminal},
    tree,
};
use crate::output::{
    glyphs::{self, Look},
    text::Line,
    time::{self, TimeMode},
};
use crate::selector::short_id;

/// "12:04:07 ✔ finished extract-orders 41s etl-2". The time is when the change is seen.
pub fn line(change: &Change, mode: TimeMode, now: DateTime<Utc>) -> Line {
    line_of(None, change, mode, now)
}

/// The same for a task of a job that is not the one that is watched, which it names: "12:04:07 ✔ finished load/fetch".
pub fn line_of(job: Option<&str>, change: &Change, mode: TimeMode, now: DateTime<Utc>) -> Line {
    let (look, what, facts) = match change {
        Change::Job(job) => (glyphs::job(job.state()), format!("job {}", short_id(&job.id)), about_job(job, now)),
        Change::Task(task) => {
            let name = job.map(|job| format!("{job}/")).unwrap_or_default() + &tree::label(task);
            (glyphs::task(task.state()), name, about_task(task, now))
        }
    };
    let mut text = format!("{} {} {what}", clock(mode, now), state(look));
    for fact in facts.into_iter().filter(|fact| !fact.is_empty()) {
        text.push_str(" · ");
        text.push_str(&fact);
    }
    text.into()
}

fn state(look: Look) -> String {
    format!("{} {:<11}", look.glyph, look.word)
}

fn clock(mode: TimeMode, now: DateTime<Utc>) -> String {
    match mode {
        TimeMode::Utc => now.format("%H:%M:%S UTC").to_string(),
        // A distance from now is always none here.
        TimeMode::Local | TimeMode::Relative => now.with_timezone(&chrono::Local).format("%H:%M:%S").to_string(),
        TimeMode::Rfc3339 => now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
    }
}

fn about_job(job: &Job, now: DateTime<Utc>) -> Vec<String> {
    let took = if job.end_time.is_some() { time::elapsed(job.start_time, job.end_time, now) } else { String::new() };
    vec![took.replace('-', ""), job.reason.clone()]
}

fn about_task(task: &Task, now: DateTime<Utc>) -> Vec<String> {
    let ran = is_terminal(task.state()) && task.start_time.is_some();
    let took = if ran { time::elapsed(task.start_time, task.end_time, now) } else { String::new() };
    if task.kind() == TaskKind::Group {
        return vec![took, bar::line(task).render(false), task.reason.clone()];
    }
    let runner = if task.state() == TaskState::Queued { "" } else { task.runner_id.as_str() };
    vec![took, runner.to_owned(), tree::attempts(task), task.reason.clone()]
}

#[cfg(test)]
mod tests {
    use baton::v1::JobState;

    use super::*;
    use crate::view::testing::{ago, group, job, now, task};

    fn text(change: &Change) -> String {
        line(change, TimeMode::Utc, now()).render(true)
    }

    #[test]
    fn a_change_is_one_plain_line() {
        let failed = Task {
            start_time: ago(43),
            end_time: ago(2),
            runner_id: "etl-2".into(),
            attempt: 2,
            max_attempts: 3,
            reason: "exit code 3\nsee the log".into(),
            ..task("join", TaskState::Failed)
        };
        assert_eq!(
            text(&Change::Task(Box::new(failed))),
            "00:16:40 UTC ✖ failed      join · 41s · etl-2 · attempt 2/3 · exit code 3 see the log"
        );
        let resize = group("resize", 4, &[(TaskState::Finished, 2), (TaskState::Running, 2)]);
        assert_eq!(
            text(&Change::Task(Box::new(resize))),
            "00:16:40 UTC ▶ running     resize · ▇▇▇▇▇▁▁▁▁▁ 2/4 · 2 running"
        );
        let fetch = Change::Task(Box::new(task("fetch", TaskState::Running)));
        assert_eq!(
            line_of(Some("load"), &fetch, TimeMode::Utc, now()).render(true),
            "00:16:40 UTC ▶ running     load/fetch"
        );
        let ended = Job { end_time: ago(5), ..job(JobState::Finished) };
        assert_eq!(text(&Change::Job(Box::new(ended))), "00:16:40 UTC ✔ finished    job 7be0d21c · 1m40s");
    }
}
