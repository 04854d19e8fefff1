//! Draws the tables of `docs/states.md` from the functions that decide, so that a change of behaviour shows up in review
//! as a changed line.

use std::fmt::Write as _;

use uuid::Uuid;

use super::{
    heartbeat::{self, Admission, Answer, Held, SlotReport, SlotStatus, TaskRef, TaskResult},
    job::{self, JobState},
    repair::{Hand, Mark},
    task::{Event, Kind, TaskState},
};

const EVENTS: [(Event, &str); 23] = [
    (Event::GateOpened, "its gate opens"),
    (Event::ConditionFalse, "its gate opens, its own condition is false"),
    (Event::GateClosed, "its gate can never open"),
    (Event::NotEvaluable, "a template or condition of its own fails"),
    (Event::Stopped, "its job stops"),
    (Event::GivenUp, "it waits in vain"),
    (Event::Terminate, "terminate"),
    (Event::ChildMade, "the job that it stands for is made (`job` tasks)"),
    (Event::Picked, "picked for a slot"),
    (Event::Started, "its runner reports RUNNING"),
    (Event::Succeeded, "result 0"),
    (Event::AttemptFailed { again: true }, "another result, an attempt is left"),
    (Event::AttemptFailed { again: false }, "another result, none is left"),
    (Event::AttemptLost { again: true }, "lost and gone, an attempt is left"),
    (Event::AttemptLost { again: false }, "lost and gone, none is left"),
    (Event::LostUnproven, "lost, its end not proven"),
    (Event::Returned { again: true }, "proof that it never started"),
    (Event::Returned { again: false }, "proof that it never started, for the fifth time"),
    (Event::RunnerStopped, "its runner stopped as planned"),
    (Event::Gone, "proof that none of its processes is left"),
    (Event::CalledBack { well: true }, "what held it is over, its work ended well"),
    (Event::CalledBack { well: false }, "what held it is over, its work ended badly"),
    (Event::ShardsEnded { enough: true }, "its last shard ended, enough finished"),
];

fn tasks(page: &mut String, kind: Kind) {
    let states: Vec<TaskState> = TaskState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
    let mut events = EVENTS.to_vec();
    events.push((Event::ShardsEnded { enough: false }, "its last shard ended, too few finished"));
    let header: Vec<&str> = states.iter().map(|state| state.word()).collect();
    writeln!(page, "| event | {} |", header.join(" | ")).unwrap();
    writeln!(page, "|---|{}", "---|".repeat(states.len())).unwrap();
    for (event, words) in events {
        let cells: Vec<&str> =
            states.iter().map(|state| state.after(kind, event).map_or("", TaskState::word)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            writeln!(page, "| {words} | {} |", cells.join(" | ")).unwrap();
        }
    }
}

fn jobs(page: &mut String) {
    let ended = |failed, timed_out| job::Event::TasksEnded { failed, timed_out };
    let events = [
        (job::Event::Expanded, "the last of its tasks is written"),
        (job::Event::Skip, "it waited too long, or another took its place"),
        (job::Event::Terminate, "terminate, or its time is over"),
        (ended(false, false), "its last task ended, no failure counts"),
        (ended(true, false), "its last task ended, a failure counts"),
        (ended(true, true), "its last task ended, its time was over"),
    ];
    let states: Vec<JobState> = JobState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
    let header: Vec<&str> = states.iter().map(|state| state.word()).collect();
    writeln!(page, "| event | {} |\n|---|{}", header.join(" | "), "---|".repeat(states.len())).unwrap();
    for (event, words) in events {
        let cells: Vec<&str> = states.iter().map(|state| state.after(event).map_or("", JobState::word)).collect();
        writeln!(page, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
}

fn hands(page: &mut String) {
    let rows = [
        (Hand::Rerun, "it is run again"),
        (Hand::Reconsider, "what closed its gate is run again or marked"),
        (Hand::ReopenShard, "a shard of the group is run again or marked"),
        (Hand::Mark(Mark::Finished), "it is marked finished"),
        (Hand::Mark(Mark::Failed), "it is marked failed"),
        (Hand::Mark(Mark::Skipped), "it is marked skipped, or skipped"),
    ];
    let header: Vec<&str> = TaskState::ALL.iter().map(|state| state.word()).collect();
    writeln!(page, "| a person's act | {} |\n|---|{}", header.join(" | "), "---|".repeat(header.len())).unwrap();
    for (hand, words) in rows {
        let kind = if hand == Hand::ReopenShard { Kind::Group } else { Kind::Task };
        let cells: Vec<&str> =
            TaskState::ALL.iter().map(|state| state.by_hand(kind, hand).map_or("", TaskState::word)).collect();
        writeln!(page, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
    let header: Vec<&str> = JobState::ALL.iter().map(|state| state.word()).collect();
    let cells: Vec<&str> = JobState::ALL.iter().map(|state| state.by_hand().map_or("", JobState::word)).collect();
    writeln!(page, "\n| the job of it is | {} |\n|---|{}", header.join(" | "), "---|".repeat(header.len())).unwrap();
    writeln!(page, "| and becomes | {} |", cells.join(" | ")).unwrap();
}

fn readings(page: &mut String) {
    let task = TaskRef { task: Uuid::nil(), attempt: 1, lease: 4 };
    let other = TaskRef { lease: 3, ..task };
    let report = |status, task, answer| SlotReport {
        slot: 0,
        status,
        task,
        answer,
        message: String::new(),
        result: matches!(status, SlotStatus::Finished | SlotStatus::Failed).then(|| TaskResult {
            end_reason: heartbeat::EndReason::Exit,
            exit_code: Some(0),
            signal: None,
            message: String::new(),
            output: Vec::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
        }),
    };
    let about = |answer| report(SlotStatus::Idle, Some(task), Some(answer));
    let rows = [
        ("IDLE, RUN_NEW not acknowledged yet", report(SlotStatus::Idle, None, None), 8),
        ("IDLE, RUN_NEW acknowledged", report(SlotStatus::Idle, None, None), 9),
        ("RUNNING, this dispatch", report(SlotStatus::Running, Some(task), None), 9),
        ("RUNNING, another dispatch", report(SlotStatus::Running, Some(other), None), 9),
        ("a result of this dispatch", report(SlotStatus::Finished, Some(task), None), 9),
        ("a result of another dispatch", report(SlotStatus::Failed, Some(other), None), 9),
        ("REJECTED_BUSY", about(Answer::RejectedBusy), 9),
        ("REJECTED_DRAINING", about(Answer::RejectedDraining), 9),
        ("REJECTED_LATE", about(Answer::RejectedLate), 9),
        ("REJECTED_TARGET", about(Answer::RejectedTarget), 9),
        ("REJECTED_SPEC", about(Answer::RejectedSpec), 9),
        ("STALE", about(Answer::Stale), 9),
        ("NOT_HELD", about(Answer::NotHeld), 9),
        ("UNSUPPORTED", about(Answer::Unsupported), 9),
    ];
    let held = Held { task, run_seq: 9, started: false };
    let seen = Held { started: true, ..held };
    page.push_str(
        "| the slot reports | given and not seen running | seen running | given nothing |\n|---|---|---|---|\n",
    );
    for (words, report, ack) in rows {
        let read = |held| format!("{:?}", heartbeat::read(held, &report, ack));
        writeln!(page, "| {words} | {} | {} | {} |", read(Some(&held)), read(Some(&seen)), read(None)).unwrap();
    }
}

fn verdicts(page: &mut String) {
    page.push_str("| the task is | the runner runs it | it has its result |\n|---|---|---|\n");
    let mut row = |words: &str, known| {
        let judge = |status| format!("{:?}", heartbeat::judge(known, 4, status));
        writeln!(page, "| {words} | {} | {} |", judge(SlotStatus::Running), judge(SlotStatus::Finished)).unwrap();
    };
    for state in TaskState::ALL {
        row(&format!("{} under this lease", state.word()), Some((state, 4)));
    }
    row("RUNNING under another lease", Some((TaskState::Running, 5)));
    row("unknown", None);
}

fn missing(page: &mut String) {
    let states = [TaskState::Dispatched, TaskState::Running, TaskState::Terminating];
    page.push_str("| the hello comes from | DISPATCHED | RUNNING | TERMINATING |\n|---|---|---|---|\n");
    for (admission, stops, words) in [
        (Admission::SameBoot, true, "the same process"),
        (Admission::NewBoot, true, "a new process of the same installation"),
        (Admission::TakenOver, true, "another installation, the earlier one being lost"),
        (Admission::TakenOver, false, "the same, and the task goes on when cut off"),
    ] {
        let cells: Vec<String> = states
            .iter()
            .map(|state| format!("{:?}", heartbeat::missing_from_hello(admission, *state, stops)))
            .collect();
        writeln!(page, "| {words} | {} |", cells.join(" | ")).unwrap();
    }
}

fn draw() -> String {
    let mut page = String::from(
        "# States\n\nDrawn by a test from the functions that decide (`scheduler/src/domain/`); run it with \
         `BATON_WRITE_DOCS=1` to draw it anew. An empty cell means that the event means nothing in that state. \
         FINISHED, FAILED, SKIPPED and TERMINATED never change by themselves.\n\n## A task, or a shard\n\n",
    );
    tasks(&mut page, Kind::Task);
    page.push_str(
        "\nAn end of its work, from DISPATCHED or RUNNING to FINISHED or FAILED, leads to CALLBACK instead while callbacks \
         marked `blocking` tell of it; that of a shard never does. A terminate gives these callbacks up, and the task ends \
         in the same turn, as its work ended.\n",
    );
    page.push_str("\n## A group of shards\n\n");
    tasks(&mut page, Kind::Group);
    page.push_str("\n## A job\n\n");
    jobs(&mut page);
    page.push_str("\n## What a person may change\n\nAn empty cell is a refusal. See [repair.md](repair.md).\n\n");
    hands(&mut page);
    page.push_str("\n## What a slot's report means\n\n");
    readings(&mut page);
    page.push_str("\n## What becomes of what a runner brings along in its hello\n\n");
    verdicts(&mut page);
    page.push_str("\n## What it means that a hello lacks a task\n\n");
    missing(&mut page);
    page
}

#[test]
fn the_tables_in_the_docs_are_the_ones_that_decide() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/states.md");
    let drawn = draw();
    if std::env::var_os("BATON_WRITE_DOCS").is_some() {
        std::fs::write(path, &drawn).expect("docs/states.md can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, drawn, "docs/states.md is out of date: run the test with BATON_WRITE_DOCS=1");
}
