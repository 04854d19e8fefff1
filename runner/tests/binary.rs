//! The real program: its watchdog, its signals, what is left when it dies.

mod support;

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::Duration,
};

use baton::v1::{DrainState, EndReason, RunSpec};
use rustix::process::{Pid, Signal, kill_process};
use support::{Fake, alive, new_task, pid_in, shell, span, until, within};

/// A `baton-runner` under its watchdog.
struct Program {
    dir: tempfile::TempDir,
    watchdog: Child,
}

impl Program {
    fn start(address: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        let watchdog = program(dir.path(), address).stderr(Stdio::null()).spawn().unwrap();
        Self { dir, watchdog }
    }

    /// The runner itself, the watchdog's child.
    fn runner(&self) -> u32 {
        let id = self.watchdog.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_ascii_whitespace().next().expect("a runner").parse().unwrap()
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("work").join(name)
    }

    async fn exit_code(&mut self) -> Option<i32> {
        let mut status = None;
        until("the program to exit", || {
            status = self.watchdog.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap().code()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The runner notices, ends its tasks and goes.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}

fn program(dir: &std::path::Path, address: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton-runner"));
    command.args(["--scheduler", address, "--id", "test-runner", "--slots", "2", "--grace", "200ms"]);
    command.arg("--state-dir").arg(dir.join("state")).arg("--work-dir").arg(dir.join("work"));
    command.stdin(Stdio::null());
    command
}

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_runner_leaves_nothing_running_and_its_next_boot_says_what_died() {
    let mut fake = Fake::start().await;
    let program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    let hiding = "trap '' TERM; setsid sleep 1000 & echo $! >a; (setsid env -i sleep 1000 & echo $! >b); sleep 1000";
    session.run_new(1, &task, shell(hiding));
    let mut pids = vec![session.pid(&task).await];
    for name in ["a", "b"] {
        pids.push(pid_in(&program.file(name)).await);
    }
    let before = session.hello.clone();
    send(program.runner(), Signal::KILL);
    let again = fake.session().await;
    assert!(pids.iter().all(|pid| !alive(*pid)), "even what hides from group and key dies with its runner");
    assert_eq!(again.hello.ended, [task]);
    assert!(again.hello.inventory.is_empty());
    assert_eq!(again.hello.install_id, before.install_id);
    assert_ne!(again.hello.boot_id, before.boot_id);
    // Nobody has heard it for certain before a welcome, so it is said again.
    again.cut();
    let mut last = fake.welcomed().await;
    assert_eq!(last.hello.ended.len(), 1);
    assert_eq!(last.run(shell("exit 5")).await.1.exit_code, Some(5));
    last.cut();
    assert!(fake.session().await.hello.ended.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_survives_the_death_of_its_runner_until_it_is_acknowledged() {
    let mut fake = Fake::start().await;
    let program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("echo k=v >$BATON_OUTPUT; exit 4"));
    session.report(|report| report.result.is_some()).await;
    send(program.runner(), Signal::KILL);
    let again = fake.session().await;
    let result = again.hello.inventory[0].result.clone().unwrap();
    assert_eq!((result.exit_code, &*result.output), (Some(4), &b"k=v\n"[..]));
    assert!(again.hello.ended.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_runner_does_not_keep_its_task_past_self_stop_and_says_so_when_thawed() {
    let mut fake = Fake::start().await;
    let program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    // A task that would pass for a success is none when it was stopped.
    let spec = RunSpec {
        self_stop_after: span(Duration::from_secs(3)),
        ..shell("trap 'exit 0' TERM; while :; do sleep 0.1; done")
    };
    session.run_new(0, &task, spec);
    let pid = session.pid(&task).await;
    let runner = program.runner();
    send(runner, Signal::STOP);
    until("the watchdog to end the task", || !alive(pid)).await;
    send(runner, Signal::CONT);
    let told = within("the thawed runner", async {
        tokio::select! {
            report = session.report(|report| report.result.is_some()) => report.result,
            // Its stream may have been given up in the meantime.
            again = fake.session() => again.hello.inventory[0].result.clone(),
        }
    })
    .await;
    assert_eq!(told.unwrap().end_reason(), EndReason::SelfStop);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_a_task_finish_and_then_leaves_with_exit_0() {
    let mut fake = Fake::start().await;
    let mut program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("until [ -e go ]; do sleep 0.01; done"));
    session.pid(&task).await;
    send(program.watchdog.id(), Signal::TERM);
    session.frame(|frame| frame.drain() == DrainState::Draining).await;
    fs::write(program.file("go"), "").unwrap();
    assert_eq!(session.result(&task).await.exit_code, Some(0));
    session.frame(|frame| frame.drain() == DrainState::Leaving).await;
    assert_eq!(program.exit_code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_sigterm_stops_what_runs() {
    let mut fake = Fake::start().await;
    let mut program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    session.pid(&task).await;
    send(program.watchdog.id(), Signal::TERM);
    session.frame(|frame| frame.drain() == DrainState::Draining).await;
    send(program.watchdog.id(), Signal::INT);
    assert_eq!(session.result(&task).await.end_reason(), EndReason::RunnerStop);
    assert_eq!(program.exit_code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_without_its_watchdog_stops_what_runs_and_goes() {
    let mut fake = Fake::start().await;
    let program = Program::start(&fake.address);
    let mut session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("sleep 1000"));
    let pid = session.pid(&task).await;
    let runner = program.runner();
    send(program.watchdog.id(), Signal::KILL);
    assert_eq!(session.result(&task).await.end_reason(), EndReason::RunnerStop);
    until("the runner to go", || !alive(runner)).await;
    assert!(!alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_runner_on_one_state_directory_is_refused_with_a_sentence() {
    let mut fake = Fake::start().await;
    let first = Program::start(&fake.address);
    fake.session().await;
    let output = program(first.dir.path(), &fake.address).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!("is in use by another runner (pid {}); give each runner", first.runner());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn wrong_settings_are_all_named_and_nothing_starts() {
    let output = Command::new(env!("CARGO_BIN_EXE_baton-runner"))
        .args(["--slots", "none", "--grace", "10", "--work-dir", "/no/such/dir"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    for flag in ["--slots", "--grace", "--work-dir"] {
        assert!(said.contains(flag), "{flag} in {said}");
    }
}
