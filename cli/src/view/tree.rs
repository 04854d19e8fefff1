//! The picture of a job: a heading, its tasks, one line about the whole.

use std::collections::HashMap;

use baton::v1::{Job, Task, TaskKind, TaskState};
use chrono::{DateTime, Utc};

use super::{
    bar,
    children::Children,
    fold::fold,
    picture::{Picture, is_terminal},
};
use crate::{
    follow,
    output::{
        glyphs, origin,
        text::{Line, Span, Tone},
        time,
    },
    selector::short_id,
};

/// Narrower than this, words for states are left out: glyphs and times stay.
const WORDS_FROM_WIDTH: usize = 60;
/// How much of the width a name may take.
const NAME_SHARE: usize = 3;
/// A name may always take this much.
const NAME_WIDTH_MIN: usize = 12;
/// The longest state in words.
const WORD_WIDTH: usize = 11;
/// Room for "12m05s".
const TIME_WIDTH: usize = 6;
/// How many parents are named that a task waits for.
const PARENTS_SHOWN: usize = 3;

/// The room there is for the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// In columns.
    pub width: usize,
    /// In lines.
    pub height: usize,
}

/// Draws the job. `trouble` says why what is shown may be old.
pub fn draw(
    picture: &Picture,
    children: &Children,
    size: Size,
    now: DateTime<Utc>,
    trouble: Option<&str>,
) -> Vec<Line> {
    let mut lines = vec![heading(&picture.job)];
    // The heading, the line about the whole, and one line for the cursor below them.
    let folded = fold(&picture.tasks, size.height.saturating_sub(3));
    let columns = Columns::new(&picture.tasks, size.width);
    let states = picture.states();
    if folded.ended > 0 {
        lines.push(Line::new().with(format!("  … {} more that ended", folded.ended), Tone::Dim));
    }
    let hidden = usize::from(folded.ended > 0) + usize::from(folded.waiting > 0);
    let mut room = size.height.saturating_sub(3 + hidden + folded.shown.len());
    for place in &folded.shown {
        let task = &picture.tasks[*place];
        lines.push(row(task, &states, columns, now));
        unfold(task, children, Within { depth: 1, width: size.width, now }, &mut room, &mut lines);
    }
    if folded.waiting > 0 {
        lines.push(Line::new().with(format!("  … {} more to come", folded.waiting), Tone::Dim));
    }
    match trouble {
        Some(cause) => {
            lines.push(Line::new().with(format!("! connection lost ({cause}); dialling again"), Tone::Warn));
        }
        // How an ended job ended is said below the picture, and stays.
        None if follow::is_terminal(picture.job.state()) => {}
        None => lines.push(whole(picture, now)),
    }
    lines.into_iter().map(|line| line.cut(size.width)).collect()
}

/// Where the tasks of a job are drawn that another task stands for.
#[derive(Debug, Clone, Copy)]
struct Within {
    depth: usize,
    width: usize,
    now: DateTime<Utc>,
}

/// Draws the tasks of the job that a task stands for below it, as far as there is room, and so on.
fn unfold(task: &Task, children: &Children, within: Within, room: &mut usize, lines: &mut Vec<Line>) {
    let Some(picture) = children.of(task).filter(|_| *room > 0) else { return };
    let indent = "  ".repeat(within.depth);
    let folded = fold(&picture.tasks, *room);
    let columns = Columns::new(&picture.tasks, within.width.saturating_sub(indent.len()));
    let states = picture.states();
    *room -= folded.shown.len();
    for place in &folded.shown {
        let task = &picture.tasks[*place];
        let mut line = Line::from(indent.as_str());
        line.append(&mut row(task, &states, columns, within.now));
        lines.push(line);
        unfold(task, children, Within { depth: within.depth + 1, ..within }, room, lines);
    }
    let hidden = folded.ended + folded.waiting;
    if hidden > 0 && *room > 0 {
        *room -= 1;
        lines.push(Line::new().with(format!("{indent}… {hidden} more"), Tone::Dim));
    }
}

/// "job 7be0d21c · orders-etl v7 · manual".
pub fn heading(job: &Job) -> Line {
    let trigger = match origin::words(job) {
        words if words.is_empty() => words,
        words => format!(" · {words}"),
    };
    Line::new()
        .with("job ", Tone::Plain)
        .with(short_id(&job.id), Tone::Bold)
        .with(format!(" · {} v{}{trigger}", job.name, job.version), Tone::Plain)
}

/// "2/5 tasks · 1m45s · logs: baton logs 7be0d21c/join -f".
fn whole(picture: &Picture, now: DateTime<Utc>) -> Line {
    let job = &picture.job;
    let mut line = Line::new().with(format!("{}/{} tasks", job.tasks_ended, job.tasks_total), Tone::Plain);
    if job.tasks_failed > 0 {
        line = line.with(format!(" · {} failed", job.tasks_failed), Tone::Bad);
    }
    line = line.with(format!(" · {}", time::elapsed(job.start_time, job.end_time, now)), Tone::Plain);
    let running = picture.tasks.iter().find(|task| task.state() == TaskState::Running);
    match running {
        Some(task) if job.end_time.is_none() => {
            line.with(format!(" · logs: baton logs {}/{} -f", short_id(&job.id), task.name), Tone::Dim)
        }
        _ => line,
    }
}

/// Where the parts of a row stand.
#[derive(Debug, Clone, Copy)]
struct Columns {
    name: usize,
    words: bool,
}

impl Columns {
    fn new(tasks: &[Task], width: usize) -> Self {
        let longest = tasks.iter().map(|task| Span::from(label(task)).width()).max().unwrap_or(0);
        Self { name: longest.min((width / NAME_SHARE).max(NAME_WIDTH_MIN)), words: width >= WORDS_FROM_WIDTH }
    }
}

/// "✔ extract-orders  finished     41s  etl-2".
fn row(task: &Task, states: &HashMap<&str, TaskState>, columns: Columns, now: DateTime<Utc>) -> Line {
    let look = glyphs::task(task.state());
    let mut line = Line::new().with(look.glyph, look.tone).with(" ", Tone::Plain);
    let tone = if task.state() == TaskState::Created { Tone::Dim } else { Tone::Plain };
    line.append(&mut Line::new().with(label(task), tone).cut(columns.name));
    line.pad_to(columns.name + 4);
    if columns.words {
        line.push(Span::new(look.word, look.tone));
        line.pad_to(columns.name + 4 + WORD_WIDTH + 1);
    }
    let took = match task.state() {
        TaskState::Created | TaskState::Queued | TaskState::Dispatched | TaskState::Skipped => String::new(),
        _ => time::elapsed(task.start_time, task.end_time, now).replace('-', ""),
    };
    line.push(format!("{took:>TIME_WIDTH$}  ").into());
    let mut rest = detail(task, states, now);
    line.append(&mut rest);
    line
}

/// The name, with the shard if it is one.
pub fn label(task: &Task) -> String {
    match (task.kind(), task.shard_index) {
        (TaskKind::Shard, Some(shard)) => format!("{}#{shard}", task.name),
        _ => task.name.clone(),
    }
}

/// What there is to say about a task in its state.
fn detail(task: &Task, states: &HashMap<&str, TaskState>, now: DateTime<Utc>) -> Line {
    let group = task.kind() == TaskKind::Group;
    let mut parts: Vec<Line> = Vec::new();
    match task.state() {
        TaskState::Created => parts.push(Line::new().with(waits_for(task, states), Tone::Dim)),
        TaskState::Queued => parts.push(Line::from(queued(task, now))),
        TaskState::Unspecified => {}
        _ if group => parts.push(bar::line(task)),
        TaskState::Skipped => {}
        _ if !task.child_job_id.is_empty() => parts.push(Line::from(origin::child(task))),
        _ => parts.push(Line::from(task.runner_id.as_str())),
    }
    if !group && task.state() != TaskState::Created {
        parts.push(Line::from(attempts(task)));
    }
    let tone = if task.state() == TaskState::Failed { Tone::Bad } else { Tone::Dim };
    if task.state() != TaskState::Created {
        parts.push(Line::new().with(&task.reason, tone));
    }
    let mut line = Line::new();
    for mut part in parts.into_iter().filter(|part| part.width() > 0) {
        if line.width() > 0 {
            line.push("  ".into());
        }
        line.append(&mut part);
    }
    line
}

/// "attempt 2/3" once there is more than one to speak of: what went well at the first try needs no count.
pub fn attempts(task: &Task) -> String {
    match (task.attempt, task.max_attempts) {
        (0, _) | (1, 0 | 1) => String::new(),
        (1, _) if task.state() == TaskState::Finished => String::new(),
        (attempt, max) if max > 1 => format!("attempt {attempt}/{max}"),
        (attempt, _) => format!("attempt {attempt}"),
    }
}

fn queued(task: &Task, now: DateTime<Utc>) -> String {
    match time::utc(task.not_before).and_then(|time| (time - now).to_std().ok()) {
        Some(wait) if !wait.is_zero() => format!("tries again in {}", time::span(wait)),
        _ => "waits for a runner".to_owned(),
    }
}

fn waits_for(task: &Task, states: &HashMap<&str, TaskState>) -> String {
    let open = |name: &&String| states.get(name.as_str()).is_none_or(|state| !is_terminal(*state));
    let parents: Vec<_> = task.needs.iter().filter(open).map(String::as_str).collect();
    match parents.len() {
        0 => String::new(),
        n if n <= PARENTS_SHOWN => format!("waits for {}", parents.join(", ")),
        n => format!("waits for {} and {} more", parents[..PARENTS_SHOWN].join(", "), n - PARENTS_SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use baton::v1::JobState;

    use super::*;
    use crate::view::testing::{ago, group, job, now, task};

    fn picture(tasks: Vec<Task>) -> Picture {
        let mut picture = Picture::default();
        let message = baton::v1::WatchJobResponse { job: Some(job(JobState::Running)), tasks, seq: 1 };
        picture.take(message);
        picture
    }

    fn orders() -> Picture {
        let needs = |parents: &[&str]| parents.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        picture(vec![
            Task {
                runner_id: "etl-2".into(),
                attempt: 1,
                start_time: ago(104),
                end_time: ago(63),
                ..task("extract-orders", TaskState::Finished)
            },
            Task {
                runner_id: "etl-2".into(),
                attempt: 2,
                max_attempts: 3,
                start_time: ago(63),
                ..task("join", TaskState::Running)
            },
            Task {
                start_time: ago(9),
                ..group("resize", 16, &[(TaskState::Finished, 10), (TaskState::Running, 2), (TaskState::Created, 4)])
            },
            Task { not_before: ago(-12), attempt: 2, max_attempts: 3, ..task("quality", TaskState::Queued) },
            Task { needs: needs(&["extract-orders", "join", "resize"]), ..task("publish", TaskState::Created) },
        ])
    }

    fn text(picture: &Picture, width: usize, height: usize) -> Vec<String> {
        draw(picture, &Children::default(), Size { width, height }, now(), None)
            .iter()
            .map(|line| line.render(false))
            .collect()
    }

    #[test]
    fn a_job_is_seen_at_a_glance() {
        assert_eq!(
            text(&orders(), 100, 40),
            [
                "job 7be0d21c · orders-etl v7 · manual",
                "✔ extract-orders  finished       41s  etl-2",
                "▶ join            running      1m03s  etl-2  attempt 2/3",
                "▶ resize          running         9s  ▇▇▇▇▇▇▁▁▁▁ 10/16 · 2 running",
                "◌ quality         queued              tries again in 12s  attempt 2/3",
                "○ publish         created             waits for join, resize",
                "2/5 tasks · 1m45s · logs: baton logs 7be0d21c/join -f",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_and_no_picture_taller_than_the_terminal() {
        let mut tasks = orders().tasks;
        tasks.extend((0..200).map(|n| task(&format!("a-very-long-name-of-a-task-{n}"), TaskState::Created)));
        let picture = picture(tasks);
        for width in [20, 40, 60, 80, 200] {
            for height in [4, 10, 24] {
                let lines = draw(&picture, &Children::default(), Size { width, height }, now(), None);
                assert!(lines.len() < height + 2, "{width}x{height}: {}", lines.len());
                assert!(height < 6 || lines.len() < height, "{width}x{height}: {}", lines.len());
                assert!(lines.iter().all(|line| line.width() <= width), "{width}x{height}");
            }
        }
    }

    #[test]
    fn what_a_task_stands_for_is_unfolded_below_it_as_far_as_there_is_room() {
        let stands = |name: &str, child: &str| Task {
            child_job_id: child.into(),
            child_job_name: name.into(),
            attempt: 1,
            start_time: ago(9),
            ..task(name, TaskState::Running)
        };
        let picture = picture(vec![stands("load", "child-1"), task("then", TaskState::Created)]);
        let mut children = Children::default();
        let mut tell = |id: &str, tasks: Vec<Task>| {
            let message = baton::v1::WatchJobResponse { job: Some(job(JobState::Running)), tasks, seq: 1 };
            children.take(id.to_owned(), message);
        };
        tell("child-1", vec![task("fetch", TaskState::Skipped), stands("store", "child-2")]);
        tell("child-2", vec![Task { start_time: ago(4), ..task("write", TaskState::Running) }]);
        let drawn = |height: usize| -> Vec<String> {
            let size = Size { width: 100, height };
            draw(&picture, &children, size, now(), None)
                .iter()
                .map(|line| line.render(false).trim_end().into())
                .collect()
        };
        assert_eq!(
            drawn(40)[1..6],
            [
                "▶ load  running         9s  job load child-1",
                "  ↷ fetch  skipped",
                "  ▶ store  running         9s  job store child-2",
                "    ▶ write  running         4s",
                "○ then  created",
            ]
        );
        for height in 5..9 {
            assert!(drawn(height).len() < height, "{height}: {:#?}", drawn(height));
        }
    }

    #[test]
    fn a_narrow_terminal_keeps_glyph_name_and_time() {
        assert_eq!(text(&orders(), 40, 40)[2], "▶ join            1m03s  etl-2  attempt…");
    }

    #[test]
    fn a_lost_connection_is_said_where_the_eyes_are() {
        let size = Size { width: 100, height: 40 };
        let lines = draw(&orders(), &Children::default(), size, now(), Some("connection refused"));
        assert_eq!(lines[6].render(false), "! connection lost (connection refused); dialling again");
    }

    #[test]
    fn a_failure_carries_its_reason_and_a_skip_its_cause() {
        let picture = picture(vec![
            Task {
                reason: "exit code 3".into(),
                runner_id: "etl-1".into(),
                attempt: 1,
                start_time: ago(5),
                end_time: ago(3),
                ..task("load", TaskState::Failed)
            },
            Task { reason: "load failed".into(), ..task("report", TaskState::Skipped) },
        ]);
        let lines = text(&picture, 100, 40);
        assert_eq!(lines[1], "✖ load    failed          2s  etl-1  exit code 3");
        assert_eq!(lines[2], "↷ report  skipped             load failed");
    }
}
