//! Draws the tables of `docs/failures.md` from the functions that decide; the words around them are written by hand.

use std::{fmt::Write as _, time::Duration};

use super::{
    definition::{OnFailure, Retry},
    policy::{Next, Policy, Used, Why},
    task::{self, Circumstances, Counters, Decision, Ending, Kind, TaskState},
    time::Timestamp,
};

const ONCE: Retry = Retry::times(1, Duration::ZERO);

fn thrice() -> Retry {
    Retry { no_retry_exit_codes: vec![2], ..Retry::times(3, Duration::from_secs(30)) }
}

fn words(next: Next) -> &'static str {
    match next {
        Next::Again(_) => "again on any runner, after the delay",
        Next::Stay(_) => "again on the same runner, after the delay",
        Next::Elsewhere => "at once on a runner that did not have it",
        Next::Nothing(_) => "**FAILED**",
    }
}

/// What follows an attempt, policy by policy.
fn policies(page: &mut String) {
    let thrice = thrice();
    let columns: [(&str, &Retry, OnFailure); 4] = [
        ("`fail`, `stop`, `ignore` without `retry`", &ONCE, OnFailure::Fail),
        ("the same with `max_attempts: 3`", &thrice, OnFailure::Fail),
        ("`transfer`", &ONCE, OnFailure::Transfer),
        ("`retry_then_transfer` with `max_attempts: 3`", &thrice, OnFailure::RetryThenTransfer),
    ];
    let used = |attempts, here, others_left| Used { attempts, here, others_left };
    let rows = [
        ("the first failed or was lost", used(1, 1, true), Some(1)),
        ("it ended with one of `no_retry_exit_codes`", used(1, 1, true), Some(2)),
        ("the third failed or was lost, each on the same runner", used(3, 3, true), None),
        ("the same, and no other runner is left", used(3, 3, false), None),
    ];
    let heads: Vec<&str> = columns.iter().map(|(head, ..)| *head).collect();
    writeln!(page, "| of its attempts | {} |\n|---|{}", heads.join(" | "), "---|".repeat(columns.len())).unwrap();
    for (name, used, code) in rows {
        let cell = |(_, retry, on_failure): &(&str, &Retry, OnFailure)| {
            let next = |on_failure| Policy { retry: Some(retry), on_failure }.next(used, code, 0.5);
            if *on_failure == OnFailure::Fail {
                // They differ in what the end of the task does, not in how it comes to it.
                assert_eq!(next(OnFailure::Stop), next(OnFailure::Fail));
                assert_eq!(next(OnFailure::Ignore), next(OnFailure::Fail));
            }
            words(next(*on_failure))
        };
        writeln!(page, "| {name} | {} |", columns.iter().map(cell).collect::<Vec<_>>().join(" | ")).unwrap();
    }
}

/// What each way in which a dispatch can end means for its attempt.
fn endings(page: &mut String) {
    let thrice = thrice();
    let policy = Policy { retry: Some(&thrice), on_failure: OnFailure::Fail };
    let counters = Counters { attempt: 1, lease: 1, deaths: 0, refusals: 0, tried: 0, not_before: Timestamp(0) };
    let at =
        Circumstances { now: Timestamp(0), exit_code: Some(1), chance: 0.5, others_left: true, attempts_before: 0 };
    let rows = [
        ("exit code 0", Ending::Success),
        ("another exit code, a signal, its timeout, it could not be started", Ending::Failure),
        ("its runner died, the machine was restarted", Ending::Lost { death: true }),
        ("its runner is lost, and it ended by itself when it was cut off", Ending::Lost { death: false }),
        ("its runner is lost, and it may go on there (`when_cut_off: continue`)", Ending::LostUnproven),
        ("a planned stop of its runner ended it", Ending::RunnerStop),
        ("its runner did not answer in time, so it was taken back", Ending::TakenBack),
        ("the runner was busy or draining and did not take it", Ending::NeverStarted { counted: false }),
        ("the runner could not take it: target, spec, too late", Ending::NeverStarted { counted: true }),
    ];
    page.push_str(
        "| how it ended | while DISPATCHED | while RUNNING | uses up an attempt | while TERMINATING |\n|---|---|---|---|---|\n",
    );
    for (name, ending) in rows {
        let decided = |state| task::decide(state, Kind::Task, counters, policy, ending, at);
        let cell = |state| decided(state).map_or("", |decision: Decision| decision.state.word());
        let never_started = matches!(ending, Ending::NeverStarted { .. });
        let running = if never_started { "" } else { cell(TaskState::Running) };
        let burned = |decision: Decision| match decision.next {
            Some(Next::Nothing(Why::UsedUp)) | None if decision.state == TaskState::Failed => "yes, and all others",
            Some(_) => "yes",
            None if decision.state == TaskState::Queued => "no",
            None => "",
        };
        let uses = decided(TaskState::Dispatched).map_or("", burned);
        let (given, ended) = (cell(TaskState::Dispatched), cell(TaskState::Terminating));
        writeln!(page, "| {name} | {given} | {running} | {uses} | {ended} |").unwrap();
    }
}

/// The page with each part between `<!-- drawn: name -->` and `<!-- end -->` drawn anew.
fn redrawn(written: &str) -> String {
    let mut page = written.to_owned();
    for (name, draw) in [("policies", policies as fn(&mut String)), ("endings", endings)] {
        let mark = format!("<!-- drawn: {name} -->\n");
        let from = page.find(&mark).unwrap_or_else(|| panic!("docs/failures.md has no part {name}")) + mark.len();
        let to = from + page[from..].find("<!-- end -->").expect("a drawn part ends");
        let mut drawn = String::new();
        draw(&mut drawn);
        page.replace_range(from..to, &drawn);
    }
    page
}

#[test]
fn the_tables_of_failures_in_the_docs_are_the_ones_that_decide() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/failures.md");
    let written = std::fs::read_to_string(path).expect("docs/failures.md is there");
    let drawn = redrawn(&written);
    if std::env::var_os("BATON_WRITE_DOCS").is_some() {
        std::fs::write(path, &drawn).expect("docs/failures.md can be written");
    } else {
        assert_eq!(written, drawn, "docs/failures.md is out of date: run the test with BATON_WRITE_DOCS=1");
    }
}
