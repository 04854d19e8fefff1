//! `baton explain`: why a task is as it is, and what would free it.

use baton::v1::{CheckState, ExplainRequest, ExplainResponse};

use crate::{
    context::Context,
    errors::{Error, Exit},
    output::text::{Line, Tone},
    selector::Selector,
};

/// What `explain` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  baton explain 7be0d21c/publish
  baton explain 7be0d21c/resize#3
  baton explain 7be0d21c            the job itself")]
pub struct Args {
    /// What to explain: JOB[/TASK[#SHARD]].
    #[arg(value_name = "JOB[/TASK[#SHARD]]")]
    target: Selector,
}

/// Asks and prints.
pub async fn run(context: &Context, args: Args) -> Result<Exit, Error> {
    let request = ExplainRequest { job_id: args.target.job, name: args.target.task, shard_index: args.target.shard };
    let response = context.client().await?.explain(request).await?;
    if context.output.is_data() {
        context.output.data(&response)?;
    } else {
        context.output.lines(&lines(&response))?;
    }
    Ok(Exit::Ok)
}

/// The answer in a sentence, the checks in order (those behind what holds are only named), what would help.
fn lines(response: &ExplainResponse) -> Vec<Line> {
    let mut lines = vec![Line::new().with(&response.summary, Tone::Bold)];
    let held = response.checks.iter().position(|check| check.state() == CheckState::Holds);
    let (reached, beyond) = response.checks.split_at(held.map_or(response.checks.len(), |held| held + 1));
    let width = reached.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    for check in reached {
        let (glyph, tone) = match check.state() {
            CheckState::Passed => ("✔", Tone::Good),
            CheckState::Holds => ("✖", Tone::Bad),
            CheckState::NotApplicable | CheckState::Unspecified => ("·", Tone::Dim),
        };
        let detail = if glyph == "·" { Tone::Dim } else { Tone::Plain };
        let mut line = Line::new().with("  ", Tone::Plain).with(glyph, tone).with(format!(" {}", check.name), detail);
        line.pad_to(width + 6);
        lines.push(line.with(&check.detail, detail));
    }
    if !beyond.is_empty() {
        let names: Vec<&str> = beyond.iter().map(|check| check.name.as_str()).collect();
        lines.push(Line::new().with(format!("  · not reached: {}", names.join(", ")), Tone::Dim));
    }
    for (index, fix) in response.fixes.iter().enumerate() {
        lines.push(Line::new().with(if index == 0 { "fix: " } else { "     " }, Tone::Bold).with(fix, Tone::Plain));
    }
    lines
}

#[cfg(test)]
mod tests {
    use baton::v1::Check;

    use super::*;

    #[test]
    fn what_holds_a_task_stands_out_without_colour() {
        let check = |name: &str, state: CheckState, detail: &str| Check {
            name: name.into(),
            state: state.into(),
            detail: detail.into(),
        };
        let response = ExplainResponse {
            summary: "publish is QUEUED for 3m12s: no runner may take it".into(),
            checks: vec![
                check("parents", CheckState::Passed, "4 of 4 finished"),
                check("retry delay", CheckState::NotApplicable, "none"),
                check("labels", CheckState::Holds, "needs zone=b; no runner has it"),
                check("slots", CheckState::NotApplicable, "not reached"),
                check("dispatch", CheckState::NotApplicable, "not reached"),
            ],
            fixes: vec!["baton-runner --label zone=b".into(), "or change the task's runner.match_labels".into()],
            ..ExplainResponse::default()
        };
        let lines: Vec<_> = lines(&response).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            lines,
            [
                "publish is QUEUED for 3m12s: no runner may take it",
                "  ✔ parents      4 of 4 finished",
                "  · retry delay  none",
                "  ✖ labels       needs zone=b; no runner has it",
                "  · not reached: slots, dispatch",
                "fix: baton-runner --label zone=b",
                "     or change the task's runner.match_labels",
            ]
        );
    }
}
