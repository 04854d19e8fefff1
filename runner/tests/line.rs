//! The stream under faults, against a scheduler that does what the test says.

mod support;

use std::time::{Duration, Instant};

use baton::v1::{
    Answer, CommandKind, Disconnect, DisconnectReason, DrainState, EndReason, RunSpec, SlotCommand, SlotStatus,
    Verdict, VerdictKind, Welcome,
};
use baton_runner::{Config, Outcome, Runner, task::Target};
use support::{Answers, Fake, Inside, new_task, shell, span, welcome, within};

#[tokio::test(flavor = "multi_thread")]
async fn the_hello_says_who_it_is_and_a_redial_raises_conn_alone() {
    let mut fake = Fake::start().await;
    let _runner = Inside::with(&[&fake.address], 3, |config| {
        config.labels.insert("pool".into(), "etl".into());
    });
    let first = fake.session().await;
    let hello = first.hello.clone();
    assert_eq!((&*hello.runner_id, hello.slots, hello.protocol_version), ("test-runner", 3, 1));
    assert_eq!(hello.labels["pool"], "etl");
    assert_eq!(hello.capabilities, ["command", "shell", "http"]);
    assert!(!hello.install_id.is_empty() && !hello.boot_id.is_empty());
    first.cut();
    let again = fake.session().await.hello;
    assert!(again.conn > hello.conn);
    assert_eq!((again.install_id, again.boot_id), (hello.install_id, hello.boot_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_outlives_its_stream_and_is_adopted() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("until [ -e go ]; do sleep 0.01; done; exit 4"));
    let pid = session.pid(&task).await;
    session.cut();
    let mut again = fake.session().await;
    let held = &again.hello.inventory;
    assert_eq!((held.len(), held[0].status(), held[0].pid), (1, SlotStatus::Running, pid));
    let adopt = Verdict { task: Some(task.clone()), kind: VerdictKind::Adopt.into(), grace: None };
    again.welcome(Welcome { verdicts: vec![adopt], ..welcome() });
    std::fs::write(runner.work().join("go"), "").unwrap();
    assert_eq!(again.result(&task).await.exit_code, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_lost_with_its_stream_is_told_again_until_it_is_acknowledged() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("exit 4"));
    session.report(|report| report.result.is_some()).await;
    // Beats name it without telling it again.
    let beat = session.frame(|frame| frame.slots.iter().any(|report| report.status() == SlotStatus::Failed)).await;
    assert!(beat.slots.iter().all(|report| report.result.is_none()));
    session.cut();
    let again = fake.session().await;
    assert_eq!(again.hello.inventory[0].result.as_ref().unwrap().exit_code, Some(4));
    let ack = Verdict { task: Some(task), kind: VerdictKind::Ack.into(), grace: None };
    again.welcome(Welcome { verdicts: vec![ack], ..welcome() });
    again.cut();
    // A stream may end before the runner has read its welcome; then it says it once more.
    let last = fake.session().await;
    if !last.hello.inventory.is_empty() {
        last.cut();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_of_the_inventory_is_ended() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    session.pid(&task).await;
    session.cut();
    let mut again = fake.session().await;
    let cancel = Verdict { task: Some(task.clone()), kind: VerdictKind::Cancel.into(), grace: None };
    again.welcome(Welcome { verdicts: vec![cancel], ..welcome() });
    assert_eq!(again.result(&task).await.end_reason(), EndReason::Reset);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_beat_comes_each_interval_and_lists_every_slot() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 2);
    let mut session = fake.welcomed().await;
    for _ in 0..3 {
        let beat = session.frame(|frame| frame.slots.len() == 2).await;
        assert!(beat.slots.iter().all(|report| report.status() == SlotStatus::Idle));
        assert!(beat.load.is_some());
    }
    let seqs: Vec<u64> = session.seen.iter().map(|frame| frame.seq).collect();
    assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deaf_scheduler_is_left_for_another_and_the_task_goes_on() {
    let (mut deaf, mut other) = (Fake::start().await, Fake::start().await);
    let _runner = Inside::start(&[&deaf.address, &other.address], 1);
    let mut session = deaf.session().await;
    // Slow enough that a busy machine is not taken for a deaf one.
    let (beat, answer) = (span(Duration::from_secs(2)), span(Duration::from_secs(1)));
    session.welcome(Welcome { heartbeat_interval: beat, answer_timeout: answer, ..welcome() });
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    let pid = session.pid(&task).await;
    session.answer(Answers::None);
    let mut moved = other.session().await;
    assert_eq!(moved.hello.inventory[0].pid, pid);
    assert!(support::alive(pid));
    moved.welcome(welcome());
    moved.reset(&task, None);
    moved.result(&task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_cannot_commit_is_left_when_there_is_another() {
    let (mut stuck, mut other) = (Fake::start().await, Fake::start().await);
    let _runner = Inside::start(&[&stuck.address, &other.address], 1);
    let session = stuck.welcomed().await;
    session.answer(Answers::Unacked);
    other.session().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_learnt_from_the_welcome() {
    let (mut first, mut other) = (Fake::start().await, Fake::start().await);
    let _runner = Inside::start(&[&first.address], 1);
    let mut session = first.session().await;
    session.welcome(Welcome { endpoints: vec![other.address.clone()], ..welcome() });
    session.frame(|frame| frame.ack >= 1).await;
    session.cut();
    other.session().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_whose_id_is_taken_says_so_and_never_gives_up() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    for _ in 0..3 {
        let session = fake.session().await;
        session.disconnect(Disconnect {
            reason: DisconnectReason::DuplicateId.into(),
            message: "host-b has it".into(),
            ..Disconnect::default()
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_wants_nobody_back_yet_is_obeyed() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let session = fake.welcomed().await;
    let begun = Instant::now();
    session.disconnect(Disconnect { reconnect_after: span(Duration::from_millis(700)), ..Disconnect::default() });
    fake.session().await;
    assert!(begun.elapsed() >= Duration::from_millis(700));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_comes_back_on_its_port_finds_its_runners() {
    let fake = Fake::start().await;
    let address = fake.address.clone();
    drop(fake);
    let _runner = Inside::start(&[&address], 1);
    let mut fake = Fake::on(&address).await;
    fake.welcomed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_from_a_later_version_is_answered_as_unsupported() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    session.send(vec![SlotCommand { kind: 99, ..SlotCommand::default() }]);
    session.report(|report| report.answer() == Answer::Unsupported).await;
    session.run_new(0, &new_task(), RunSpec { target: None, ..shell("") });
    session.report(|report| report.answer() == Answer::RejectedTarget).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_cut_off_for_too_long_ends_the_task_and_says_so() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    let spec = RunSpec { self_stop_after: span(Duration::from_secs(2)), ..shell("sleep 1000") };
    session.run_new(0, &task, spec);
    session.pid(&task).await;
    session.answer(Answers::Unacked);
    assert_eq!(session.result(&task).await.end_reason(), EndReason::SelfStop);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaving_runner_finishes_what_it_has_and_says_goodbye() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 2);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("until [ -e go ]; do sleep 0.01; done"));
    session.pid(&task).await;
    runner.leave();
    session.frame(|frame| frame.drain() == DrainState::Draining).await;
    session.run_new(1, &new_task(), shell("true"));
    session.report(|report| report.answer() == Answer::RejectedDraining).await;
    std::fs::write(runner.work().join("go"), "").unwrap();
    assert_eq!(session.result(&task).await.exit_code, Some(0));
    session.frame(|frame| frame.drain() == DrainState::Leaving).await;
    within("the end of the runner", runner.ended).await.unwrap().unwrap();
    session.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_stopped_at_once_burns_no_attempt() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    session.pid(&task).await;
    runner.stop();
    assert_eq!(session.result(&task).await.end_reason(), EndReason::RunnerStop);
    within("the end of the runner", runner.ended).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_timeout_ends_what_does_not_finish() {
    let mut fake = Fake::start().await;
    let runner = Inside::with(&[&fake.address], 1, |config| config.drain_timeout = Duration::from_millis(100));
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    session.pid(&task).await;
    runner.leave();
    assert_eq!(session.result(&task).await.end_reason(), EndReason::RunnerStop);
    within("the end of the runner", runner.ended).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_drains_and_resumes_a_runner() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    session.send(vec![SlotCommand { kind: CommandKind::Drain.into(), ..SlotCommand::default() }]);
    session.frame(|frame| frame.drain() == DrainState::Draining).await;
    session.send(vec![SlotCommand { kind: CommandKind::Resume.into(), ..SlotCommand::default() }]);
    session.frame(|frame| frame.drain() == DrainState::Working).await;
    assert_eq!(session.run(shell("true")).await.1.exit_code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_do_the_work_itself() {
    let mut fake = Fake::start().await;
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new("embedded", fake.address.clone(), dir.path().join("state"));
    config.slots = 2;
    let runner = Runner::new(config).handler(|mut context| async move {
        match context.spec.target.clone() {
            Target::Command(argv) if argv[0] == "add" => {
                let sum: i32 = argv[1..].iter().filter_map(|word| word.parse::<i32>().ok()).sum();
                Outcome { output: format!("sum={sum}\n").into_bytes(), ..Outcome::default() }
            }
            Target::Command(argv) if argv[0] == "panic" => panic!("on purpose"),
            _ => {
                context.stopped().await;
                Outcome { exit_code: 1, message: "told to stop".into(), ..Outcome::default() }
            }
        }
    });
    let _runner = Inside::run(dir, runner);
    let mut session = fake.welcomed().await;
    let (_, result) = session.run(support::command(&["add", "1", "2"])).await;
    assert_eq!((result.exit_code, &*result.output), (Some(0), &b"sum=3\n"[..]));
    let (_, result) = session.run(support::command(&["panic"])).await;
    assert!(result.exit_code.is_none() && result.message.contains("broke off"), "{}", result.message);
    let task = new_task();
    session.run_new(1, &task, support::command(&["wait"]));
    session.reset(&task, Some(Duration::from_mins(1)));
    let result = session.result(&task).await;
    assert_eq!((result.end_reason(), &*result.message), (EndReason::Reset, "told to stop"));
}
