//! What the failed tasks of a job had to say at their ends.

use baton::v1::{ListTasksRequest, LogSelector, ReadRequest, TaskKind, TaskState};

use crate::{
    context::Context,
    errors::Error,
    output::{escape::Filter, text::Line},
    view::ending::Failure,
};

/// How many failed tasks are shown with their last words.
const FAILURES_MAX: usize = 5;
/// How many lines of a failed task's log are shown.
const TAIL_LINES: u32 = 10;
/// How much of a failed task's log is asked for.
const TAIL_BYTES: u32 = 64 * 1024;

/// The first failed tasks of a job with the ends of their logs, and whether there are more.
pub async fn last_words(context: &Context, job_id: &str) -> Result<(Vec<Failure>, bool), Error> {
    let client = context.client().await?;
    let request = ListTasksRequest {
        job_id: job_id.to_owned(),
        states: vec![TaskState::Failed.into(), TaskState::Terminated.into()],
        // A failed group stands before its failed shards and says nothing that they do not.
        page_size: 2 * FAILURES_MAX as u32 + 1,
        ..ListTasksRequest::default()
    };
    let page = client.list_tasks(request).await?;
    let is_told_by_shards = |id: &str| page.tasks.iter().any(|task| task.group_id == id);
    let failed: Vec<_> = page
        .tasks
        .iter()
        .filter(|task| task.kind() != TaskKind::Group || !is_told_by_shards(&task.id))
        .cloned()
        .collect();
    let more = failed.len() > FAILURES_MAX || !page.next_page_token.is_empty();
    let mut failures = Vec::new();
    for task in failed.into_iter().take(FAILURES_MAX) {
        let log = if task.attempt == 0 || task.kind() == TaskKind::Group {
            Vec::new()
        } else {
            let selector = LogSelector {
                job_id: job_id.to_owned(),
                name: task.name.clone(),
                shard_index: task.shard_index,
                ..LogSelector::default()
            };
            let request = ReadRequest {
                selector: Some(selector),
                tail_lines: TAIL_LINES,
                max_bytes: TAIL_BYTES,
                ..ReadRequest::default()
            };
            let response = client.read(request).await?;
            let bytes: Vec<u8> = response.chunks.iter().flat_map(|chunk| chunk.data.iter().copied()).collect();
            tail(&bytes)
        };
        failures.push(Failure { task, log });
    }
    Ok((failures, more))
}

/// The last lines of what a task wrote, without what would steer the terminal.
fn tail(bytes: &[u8]) -> Vec<String> {
    let plain = Filter::new(false).text(bytes);
    let lines: Vec<_> = plain.lines().map(|line| Line::from(line).render(false)).collect();
    let skip = lines.len().saturating_sub(TAIL_LINES as usize);
    lines.into_iter().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_last_lines_and_only_text() {
        let log: Vec<_> = (0..30).map(|n| format!("\x1b[31mline {n}\x1b[0m\x07\n")).collect();
        let tail = tail(log.concat().as_bytes());
        assert_eq!(tail.len(), 10);
        assert_eq!((tail[0].as_str(), tail[9].as_str()), ("line 20", "line 29"));
    }
}
