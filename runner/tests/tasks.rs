//! Real processes under a runner: what a task gets, how it ends, and that all of it ends.

mod support;

use std::{collections::BTreeMap, fs, time::Duration};

use baton::v1::{self, EndReason, LogStream, SlotStatus};
use support::{Fake, Inside, alive, command, new_task, pid_in, shell, span, until};

async fn world(slots: u32) -> (Fake, Inside, support::Session) {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], slots);
    let session = fake.welcomed().await;
    (fake, runner, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_arrives_as_it_was() {
    let (_fake, _runner, mut session) = world(1).await;
    let (_, ok) = session.run(command(&["true"])).await;
    assert_eq!((ok.end_reason(), ok.exit_code), (EndReason::Exit, Some(0)));
    let (_, failed) = session.run(shell("exit 7")).await;
    assert_eq!((failed.end_reason(), failed.exit_code, failed.signal), (EndReason::Exit, Some(7), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_nobody_here_sent_is_told_as_such() {
    let (_fake, _runner, mut session) = world(1).await;
    let (_, result) = session.run(shell("kill -SEGV $$")).await;
    assert_eq!((result.end_reason(), result.exit_code, result.signal), (EndReason::Signal, None, Some(11)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_stops_at_its_first_error_and_is_called_by_the_tasks_name() {
    let (fake, _runner, mut session) = world(1).await;
    let (task, result) = session.run(shell("echo \"$0\"; false; echo not reached")).await;
    assert_eq!(result.exit_code, Some(1));
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"task\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_longer_than_an_argument_may_be_runs_all_the_same() {
    let (fake, _runner, mut session) = world(1).await;
    let script = format!("# {}\necho long", "x".repeat(200 * 1024));
    let (task, result) = session.run(shell(&script)).await;
    assert_eq!(result.exit_code, Some(0), "{}", result.message);
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"long\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_started_says_why() {
    let (_fake, runner, mut session) = world(1).await;
    fs::write(runner.work().join("plain"), "").unwrap();
    let cases = [
        (command(&["no-such-program-anywhere"]), "was not found on this runner; its PATH is"),
        (command(&["./plain"]), "may not be executed"),
        (v1::RunSpec { working_dir: "gone".into(), ..shell("true") }, "does not exist on this runner"),
        (v1::RunSpec { working_dir: "../..".into(), ..shell("true") }, "leads out of the runner's work directory"),
        (v1::RunSpec { working_dir: "/tmp".into(), ..shell("true") }, "leads out of the runner's work directory"),
        (command(&["echo", &"x".repeat(200 * 1024)]), "longer than this system allows"),
        (command(&["echo", "a\0b"]), "nul byte"),
    ];
    for (spec, expected) in cases {
        let (_, result) = session.run(spec).await;
        assert_eq!(result.end_reason(), EndReason::StartFailed);
        assert!(result.message.contains(expected), "{} should say: {expected}", result.message);
    }
    // What the first attempt left empty served all the others.
    assert_eq!(fs::read_dir(runner.state().join("tmp")).unwrap().count(), 1, "nothing is left behind");
    assert_eq!(fs::read_dir(runner.state().join("logs")).unwrap().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_exactly_what_is_promised() {
    let (fake, runner, mut session) = world(1).await;
    let spec = v1::RunSpec {
        env: [("OWN".to_owned(), "it's \"2026\"; $x\n\u{202e}".to_owned())].into(),
        params: [("day-of week".to_owned(), "a b".to_owned())].into(),
        shard_index: Some(2),
        shard_count: Some(4),
        shard_item: "item".into(),
        fire_time: Some(prost_types::Timestamp { seconds: 1_796_115_600, nanos: 0 }),
        ..command(&["env", "-0"])
    };
    let (task, _) = session.run(spec).await;
    let output = fake.logs.whole(&task, LogStream::Stdout).await.bytes;
    let output = String::from_utf8(output).unwrap();
    let mut env: BTreeMap<&str, &str> = output.split_terminator('\0').filter_map(|e| e.split_once('=')).collect();
    for name in ["PATH", "HOME", "LANG", "TZ"] {
        let expected = std::env::var(name).ok();
        assert_eq!(env.remove(name).map(str::to_owned), expected, "{name}");
    }
    assert_eq!(env.remove("BATON_TASK_KEY").map(str::len), Some(32));
    let state = runner.state().canonicalize().unwrap();
    for name in ["BATON_TMPDIR", "BATON_OUTPUT"] {
        assert!(env.remove(name).unwrap().starts_with(state.to_str().unwrap()), "{name}");
    }
    let nil = uuid::Uuid::nil().to_string();
    let expected = [
        ("BATON_ATTEMPT", "1"),
        ("BATON_FIRE_TIME", "2026-12-01T09:00:00Z"),
        ("BATON_JOB_ID", &*nil),
        ("BATON_JOB_NAME", "job"),
        ("BATON_PARAM_DAY_OF_WEEK", "a b"),
        ("BATON_SHARD_COUNT", "4"),
        ("BATON_SHARD_INDEX", "2"),
        ("BATON_SHARD_ITEM", "item"),
        ("BATON_TASK_ID", &*task.task_id),
        ("BATON_TASK_NAME", "task"),
        ("OWN", "it's \"2026\"; $x\n\u{202e}"),
    ];
    assert_eq!(env.into_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tmpdir_is_fresh_and_removed_and_the_output_is_told() {
    let (_fake, runner, mut session) = world(1).await;
    let script = "ls -A $BATON_TMPDIR; mkdir $BATON_TMPDIR/a; echo x >$BATON_TMPDIR/a/b; echo rows=7 >>$BATON_OUTPUT";
    let (_, result) = session.run(shell(script)).await;
    assert_eq!((result.exit_code, &*result.output, result.stdout_bytes), (Some(0), &b"rows=7\n"[..], 0));
    let tmp = runner.state().join("tmp");
    until("the tmpdir to be removed", || fs::read_dir(&tmp).unwrap().count() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_beyond_its_limit_fails_the_attempt_and_names_the_limit() {
    let (_fake, _runner, mut session) = world(1).await;
    let (_, fits) = session.run(shell("head -c 65536 /dev/zero >$BATON_OUTPUT")).await;
    assert_eq!((fits.exit_code, fits.output.len()), (Some(0), 65536));
    let task = new_task();
    session.run_new(0, &task, shell("head -c 65537 /dev/zero >$BATON_OUTPUT"));
    let report = session.report(|report| report.result.is_some()).await;
    let result = report.result.clone().unwrap();
    assert_eq!((report.status(), result.exit_code), (SlotStatus::Failed, None));
    assert!(result.message.contains("65537") && result.message.contains("65536"), "{}", result.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_below_the_work_directory() {
    let (fake, runner, mut session) = world(1).await;
    fs::create_dir_all(runner.work().join("a/b")).unwrap();
    let (task, _) = session.run(v1::RunSpec { working_dir: "a/./b".into(), ..command(&["/bin/pwd", "-P"]) }).await;
    let output = fake.logs.whole(&task, LogStream::Stdout).await.bytes;
    let expected = runner.work().join("a/b").canonicalize().unwrap();
    assert_eq!(String::from_utf8(output).unwrap().trim_end(), expected.to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_ends_the_tree() {
    let (_fake, runner, mut session) = world(1).await;
    let pid = runner.work().join("pid");
    let spec = shell("sleep 1000 & echo $! >pid; wait");
    let (_, result) = session.run(v1::RunSpec { timeout: span(Duration::from_millis(300)), ..spec }).await;
    assert_eq!(result.end_reason(), EndReason::Timeout);
    assert!(!alive(pid_in(&pid).await), "gone before it is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ignores_sigterm_is_killed_after_the_grace() {
    let (_fake, runner, mut session) = world(1).await;
    let task = new_task();
    session.run_new(0, &task, shell("trap '' TERM; echo $$ >pid; while :; do sleep 1000; done"));
    let pid = pid_in(&runner.work().join("pid")).await;
    session.reset(&task, Some(Duration::from_millis(100)));
    let result = session.result(&task).await;
    assert_eq!((result.end_reason(), result.signal), (EndReason::Reset, Some(9)));
    assert!(!alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_clean_up_within_its_grace() {
    let (fake, runner, mut session) = world(1).await;
    let task = new_task();
    // Its children are short: one that is told to end before it has become `sleep` may not hear it, and is waited for.
    session.run_new(0, &task, shell("trap 'echo bye; exit 0' TERM; echo $$ >pid; while :; do sleep 0.1; done"));
    pid_in(&runner.work().join("pid")).await;
    session.reset(&task, Some(Duration::from_mins(1)));
    let result = session.result(&task).await;
    assert_eq!((result.end_reason(), result.exit_code), (EndReason::Reset, Some(0)));
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"bye\n");
}

/// Children in every hiding place there is: background, another session, and an orphan in another session.
const HIDING: &str = "trap '' TERM
sleep 1001 & echo $! >a
setsid sh -c 'trap \"\" TERM; echo $$ >b; while :; do sleep 1; done' &
(setsid sh -c 'trap \"\" TERM; echo $$ >c; while :; do sleep 1; done' &)
while :; do sleep 1; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_is_true_wherever_children_hide() {
    let (_fake, runner, mut session) = world(1).await;
    let task = new_task();
    session.run_new(0, &task, shell(HIDING));
    let mut pids = vec![session.pid(&task).await];
    for name in ["a", "b", "c"] {
        pids.push(pid_in(&runner.work().join(name)).await);
    }
    assert!(pids.iter().all(|pid| alive(*pid)));
    session.reset(&task, Some(Duration::from_millis(50)));
    session.result(&task).await;
    let left: Vec<_> = pids.into_iter().filter(|pid| alive(*pid)).collect();
    assert!(left.is_empty(), "{left:?} live on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_that_holds_stdout_open_does_not_hold_the_task_open() {
    let (fake, runner, mut session) = world(1).await;
    let (task, result) = session.run(shell("sleep 1000 & echo $! >pid; (setsid sleep 1000 &); echo done")).await;
    assert_eq!(result.exit_code, Some(0));
    assert!(result.message.contains("2 processes that it left behind were killed"), "{}", result.message);
    assert!(!alive(pid_in(&runner.work().join("pid")).await));
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_by_itself_shortly_after_its_task_is_not_worth_a_word() {
    let (fake, _runner, mut session) = world(1).await;
    let (task, result) = session.run(shell("(sleep 0.02; echo late) & echo early")).await;
    assert_eq!(result.message, "");
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"early\nlate\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_leave_no_zombies() {
    let (_fake, runner, mut session) = world(1).await;
    let task = new_task();
    session.run_new(0, &task, shell("(sh -c 'echo $$ >orphan' &) ; echo $$ >main; sleep 1000"));
    let orphan = pid_in(&runner.work().join("orphan")).await;
    pid_in(&runner.work().join("main")).await;
    until("the orphan to be reaped", || !std::path::Path::new(&format!("/proc/{orphan}")).exists()).await;
    session.reset(&task, None);
    session.result(&task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_comes_while_the_task_starts_ends_it() {
    let (_fake, _runner, mut session) = world(1).await;
    for _ in 0..20 {
        let task = new_task();
        session.send(vec![
            support::run_new(0, &task, shell("sleep 1000")),
            v1::SlotCommand { kind: v1::CommandKind::Reset.into(), task: Some(task.clone()), ..Default::default() },
        ]);
        assert_eq!(session.result(&task).await.end_reason(), EndReason::Reset);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_short_tasks_share_slots_without_getting_in_each_others_way() {
    let (_fake, _runner, mut session) = world(4).await;
    let first: Vec<_> = (0..4).map(|slot| (slot, new_task())).collect();
    for (slot, task) in &first {
        session.run_new(*slot, task, shell("exit 3"));
    }
    let mut ended = 0;
    while ended < 100 {
        let frame = session.frame(|frame| frame.slots.iter().any(|report| report.result.is_some())).await;
        for report in frame.slots.into_iter().filter(|report| report.result.is_some()) {
            assert_eq!(report.result.unwrap().exit_code, Some(3));
            ended += 1;
            // The acknowledgement and the next task come in one frame.
            let next = support::run_new(report.slot, &new_task(), shell("exit 3"));
            session.send(vec![support::result_ack(report.slot, &report.task.unwrap()), next]);
        }
    }
    let rejected = session.seen.iter().flat_map(|frame| &frame.slots).filter(|report| report.answer != 0).count();
    assert_eq!(rejected, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_takes_nothing_fails_the_task_with_its_reason_and_the_runner_goes_on() {
    let (_fake, runner, mut session) = world(1).await;
    let logs = runner.state().join("logs");
    fs::remove_dir(&logs).unwrap();
    let (_, result) = session.run(shell("true")).await;
    assert_eq!(result.end_reason(), EndReason::StartFailed);
    assert!(result.message.contains("cannot make the output files"), "{}", result.message);
    fs::create_dir(&logs).unwrap();
    assert_eq!(session.run(shell("true")).await.1.exit_code, Some(0));
}
