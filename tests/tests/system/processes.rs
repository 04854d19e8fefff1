//! Tasks are real processes: what becomes of their trees, their signals and their environment.

use std::time::Duration;

use baton_tests::{
    PATIENCE, RunnerSpec, World, eventually, job, one_task,
    processes::{is_zombie, with_environment},
    stories,
    v1::{JobState, RunnerState, TaskState, TerminateRequest},
};
use rustix::process::Signal;
use serde_json::json;

/// A job whose one task can be told from every other process by its environment.
fn marked(name: &str, script: &str) -> (String, String) {
    let mark = uuid::Uuid::new_v4().to_string();
    let text = job(name, &json!([{"name": "work", "shell": script, "env": {"STORY": mark}}]));
    (text, format!("STORY={mark}"))
}

stories! {
    /// A kill is true: when TERMINATED can be read, the processes are gone already.
    async fn terminated_is_written_after_the_whole_tree_is_gone(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(8)).start().await;
        let trees = [
            // Two workers under a shell.
            "sleep 600 & sleep 600 & wait",
            // One that leaves the process group.
            "setsid sleep 600 & wait",
            // One whose parent is gone.
            "(setsid sh -c 'sleep 600; true' &) ; sleep 600",
            // One that does not want to go.
            "trap '' TERM; while :; do sleep 600; done",
            "setsid sh -c \"trap '' TERM; while :; do sleep 600; done\" & wait",
        ];
        for (number, tree) in trees.iter().enumerate() {
            let (text, mark) = marked(&format!("tree-{number}"), tree);
            let id = cluster.run(&text).await;
            cluster.task_is(&id, "work", TaskState::Running).await;
            eventually("the tree has grown", PATIENCE, || {
                std::future::ready((with_environment(&mark).len() >= 2).then_some(()))
            })
            .await;
            cluster.ask().terminate(&id, "").await.expect("the wish is stored");
            cluster.task_is(&id, "work", TaskState::Terminated).await;
            assert_eq!(with_environment(&mark), Vec::<i32>::new(), "left of {tree:?}");
            let view = cluster.done(&id).await;
            assert_eq!(view.job.state(), JobState::Terminated);
            assert!(!view.task("work").reason.is_empty(), "it says why it ended");
        }
    }

    async fn a_job_that_waits_for_a_runner_is_terminated_at_once(world: World) {
        let cluster = world.start().await;
        let tasks = json!([{"name": "a", "shell": "true"}, {"name": "b", "needs": ["a"], "shell": "true"}]);
        let id = cluster.run(&job("waits", &tasks)).await;
        cluster.task_is(&id, "a", TaskState::Queued).await;
        cluster.ask().terminate(&id, "").await.expect("the wish is stored");
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Terminated);
        assert!(view.tasks.iter().all(|task| task.attempt == 0), "nothing was ever started");
    }
}

#[tokio::test]
async fn a_background_child_that_holds_the_output_does_not_hold_the_task() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let (text, mark) = marked("background", "sleep 600 & echo done; exit 0");
    let id = cluster.run(&text).await;
    cluster.done(&id).await.finished();
    cluster.log_holds(&id, "work", "done").await;
    baton_tests::processes::gone(&mark).await;
}

/// F04: ending one task holds up neither beats nor others.
#[tokio::test]
async fn a_task_that_takes_long_to_end_holds_up_no_other() {
    let cluster = World::plain().runner(RunnerSpec::named("one").slots(2)).start().await;
    let gate = cluster.gate("go");
    let (text, mark) = marked("stubborn", &format!("trap '' TERM\n{}", gate.wait()));
    let stubborn = cluster.run(&text).await;
    cluster.task_is(&stubborn, "work", TaskState::Running).await;
    let patient = Some(prost_types::Duration { seconds: 600, nanos: 0 });
    let terminate = TerminateRequest { job_id: stubborn.clone(), grace: patient, ..Default::default() };
    cluster.api().commands.terminate(terminate).await.expect("the wish is stored");
    cluster.task_is(&stubborn, "work", TaskState::Terminating).await;
    let heard = |runner: baton_tests::v1::Runner| runner.last_seen_time.expect("it was heard");
    let before = heard(cluster.runner_is("one", RunnerState::Online).await);
    for number in 0..3 {
        let id = cluster.run(&one_task(&format!("other-{number}"), "true")).await;
        cluster.done(&id).await.finished();
    }
    eventually("its runner beats", PATIENCE, || async {
        (heard(cluster.runner_is("one", RunnerState::Online).await).seconds > before.seconds + 2).then_some(())
    })
    .await;
    let view = cluster.ask().get(&stubborn).await.expect("it is there");
    assert_eq!(view.summary(), "TERMINATING; work=TERMINATING", "it is being ended still");
    gate.open();
    assert_eq!(cluster.done(&stubborn).await.summary(), "TERMINATED; work=TERMINATED");
    baton_tests::processes::gone(&mark).await;
}

#[tokio::test]
async fn how_a_process_ended_is_on_its_task() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let tasks = json!([
        {"name": "code", "shell": "exit 42"},
        {"name": "killed", "shell": "kill -9 $$"},
        {"name": "crashed", "shell": "kill -SEGV $$"},
        {"name": "missing", "command": ["/no/such/program"]},
        {"name": "nowhere", "shell": "true", "working_dir": "no/such/directory"},
        {"name": "late", "shell": "sleep 600", "timeout": "300ms"},
        {"name": "strict", "shell": "false\necho not reached"},
    ]);
    let id = cluster.run(&job("ends", &tasks)).await;
    let view = cluster.done(&id).await;
    assert_eq!(view.job.state(), JobState::Failed);
    assert_eq!(view.task("code").exit_code, Some(42));
    assert_eq!(view.task("killed").exit_signal, Some(9));
    assert_eq!(view.task("crashed").exit_signal, Some(11));
    assert_eq!(view.task("strict").exit_code, Some(1));
    assert!(view.task("missing").reason.contains("/no/such/program"), "{}", view.reasons());
    assert!(view.task("nowhere").reason.contains("no/such/directory"), "{}", view.reasons());
    let late = &view.task("late").reason;
    assert!(late.contains("timeout") || late.contains("timed out"), "{late}");
    assert!(view.tasks.iter().all(|task| task.state() == TaskState::Failed && !task.reason.is_empty()));
}

#[tokio::test]
async fn a_task_sees_its_own_environment_and_not_the_runners() {
    let runner = RunnerSpec::named("one").env("S3CR3T", "of-the-runner").env("DATABASE_URL", "nobody's business");
    let cluster = World::plain().runner(runner).start().await;
    let tasks = json!([{"name": "env", "command": ["env"], "env": {"COLOUR": "red"}}]);
    let id = cluster.run(&job("env", &tasks)).await;
    cluster.done(&id).await.finished();
    let seen = cluster.log_holds(&id, "env", "COLOUR=red").await;
    assert!(!seen.contains("S3CR3T") && !seen.contains("DATABASE_URL"), "{seen}");
    let values = [
        format!("BATON_JOB_ID={id}"),
        "BATON_JOB_NAME=env".to_owned(),
        "BATON_TASK_NAME=env".to_owned(),
        "BATON_ATTEMPT=1".to_owned(),
    ];
    for pair in values {
        assert!(seen.lines().any(|line| line == pair), "{pair} is missing from\n{seen}");
    }
    for name in ["PATH", "HOME", "BATON_TASK_ID", "BATON_TASK_KEY", "BATON_OUTPUT", "BATON_TMPDIR"] {
        assert!(seen.lines().any(|line| line.starts_with(&format!("{name}="))), "{name} is missing from\n{seen}");
    }
    let known = ["PATH", "HOME", "LANG", "TZ", "PWD", "COLOUR"];
    for line in seen.lines() {
        let name = line.split('=').next().unwrap_or_default();
        assert!(name.starts_with("BATON_") || known.contains(&name), "{name} came from nowhere");
    }
}

#[tokio::test]
async fn a_runner_leaves_no_zombies() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    // Orphans come to the runner, which is to reap them.
    let id = cluster.run(&one_task("orphans", "for i in 1 2 3 4 5; do (setsid true &); done; exit 0")).await;
    cluster.done(&id).await.finished();
    let part = cluster.runner("one").part.pid();
    eventually("no zombie is left", Duration::from_secs(10), || {
        let below = baton_tests::processes::descendants(part);
        std::future::ready((!below.into_iter().any(is_zombie)).then_some(()))
    })
    .await;
}

#[tokio::test]
async fn a_stopped_runner_finishes_its_work_and_leaves() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("work-on", &gate.wait())).await;
    cluster.task_is(&id, "work", TaskState::Running).await;
    cluster.runner("one").part.terminate();
    cluster.runner_is("one", RunnerState::Draining).await;
    gate.open();
    cluster.done(&id).await.finished();
    let status = cluster.runner("one").part.end(PATIENCE).await;
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_runner_told_twice_stops_its_tasks_and_burns_no_attempt() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("moves", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&id, "work", TaskState::Running).await;
    let runner = cluster.runner("one");
    runner.part.terminate();
    cluster.runner_is("one", RunnerState::Draining).await;
    cluster.runner("one").part.signal(Signal::TERM);
    cluster.task_is(&id, "work", TaskState::Queued).await;
    let status = cluster.runner("one").part.end(PATIENCE).await;
    assert!(status.success(), "{status}");
    cluster.nothing_left_running().await;

    gate.open();
    cluster.add_runner(RunnerSpec::named("two")).await;
    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "a planned stop is nobody's failure");
    assert_eq!(view.task("work").runner_id, "two");
}
