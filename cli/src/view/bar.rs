//! The shards of a group, folded into a bar.

use baton::v1::{Task, TaskState};

use super::picture::{ended_shards, is_terminal};
use crate::output::{
    glyphs,
    text::{Line, Tone},
};

/// How many cells a bar has.
const CELLS: u32 = 10;

/// "▇▇▇▇▇▇▁▁▁▁ 6/16 · 2 running · 1 failed"; nothing for a group that is not expanded.
pub fn line(group: &Task) -> Line {
    let count = group.shard_count();
    if count == 0 {
        return Line::new();
    }
    let ended = ended_shards(group);
    let bad = of(group, TaskState::Failed) + of(group, TaskState::Terminated);
    // What failed shows as at least one cell, and only a full count fills the bar.
    let filled = if ended >= count { CELLS } else { (ended * CELLS / count).min(CELLS - 1) };
    let bad_cells = if bad == 0 { 0 } else { (bad * CELLS / count).clamp(1, CELLS) };
    let good_cells = filled.saturating_sub(bad_cells);
    let left = CELLS - good_cells - bad_cells;
    let mut line = Line::new()
        .with("▇".repeat(good_cells as usize), Tone::Good)
        .with("▇".repeat(bad_cells as usize), Tone::Bad)
        .with("▁".repeat(left as usize), Tone::Dim)
        .with(format!(" {ended}/{count}"), Tone::Plain);
    let order = [
        TaskState::Running,
        TaskState::Dispatched,
        TaskState::Terminating,
        TaskState::Queued,
        TaskState::Failed,
        TaskState::Terminated,
        TaskState::Skipped,
    ];
    for state in order {
        let shards = of(group, state);
        if shards > 0 {
            let look = glyphs::task(state);
            let tone = if is_terminal(state) { look.tone } else { Tone::Plain };
            line = line.with(" · ", Tone::Dim).with(format!("{shards} {}", look.word), tone);
        }
    }
    line
}

fn of(group: &Task, state: TaskState) -> u32 {
    group.shard_states.iter().filter(|one| one.state() == state).map(|one| one.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::group;

    fn text(count: u32, states: &[(TaskState, u32)]) -> String {
        line(&group("g", count, states)).render(false)
    }

    #[test]
    fn a_bar_fills_as_shards_end() {
        assert_eq!(text(16, &[(TaskState::Created, 16)]), "▁▁▁▁▁▁▁▁▁▁ 0/16");
        assert_eq!(
            text(16, &[(TaskState::Finished, 10), (TaskState::Running, 2), (TaskState::Queued, 4)]),
            "▇▇▇▇▇▇▁▁▁▁ 10/16 · 2 running · 4 queued"
        );
        assert_eq!(text(16, &[(TaskState::Finished, 16)]), "▇▇▇▇▇▇▇▇▇▇ 16/16");
    }

    #[test]
    fn a_bar_is_full_only_when_all_is_done_and_never_hides_a_failure() {
        assert!(text(10_000, &[(TaskState::Finished, 9_999), (TaskState::Running, 1)]).contains("▁ 9999/10000"));
        let one_failed = line(&group("g", 10_000, &[(TaskState::Failed, 1), (TaskState::Finished, 9_999)]));
        assert!(one_failed.render(true).contains("\x1b[31m▇\x1b[0m"), "one red cell");
        assert!(one_failed.render(false).contains("1 failed"), "and words for it");
    }

    #[test]
    fn a_group_without_shards_has_no_bar() {
        assert_eq!(text(0, &[]), "");
    }
}
