//! Rule 16: only durations cross the wire for decisions. A wall clock that is wrong, on a runner or on a scheduler,
//! changes what is shown and nothing else.

use std::path::PathBuf;

use baton_tests::{
    Backend, RunnerSpec, World, job, one_task, stories,
    v1::{RunnerState, TaskState},
};
use serde_json::json;

/// Set to `required` where a missing libfaketime must fail the tests instead of being told.
const SETTING: &str = "BATON_TEST_FAKETIME";

/// The library that gives a program another wall clock; none where it is not installed.
fn faketime() -> Option<PathBuf> {
    let found = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .into_iter()
        .map(|directory| PathBuf::from(directory).join("faketime/libfaketime.so.1"))
        .find(|path| path.is_file());
    assert!(
        found.is_some() || std::env::var(SETTING).as_deref() != Ok("required"),
        "{SETTING}=required, but libfaketime is not installed"
    );
    if found.is_none() {
        eprintln!(
            "libfaketime is not installed: tests of wrong clocks do nothing here (Debian: apt-get install faketime)"
        );
    }
    found
}

/// What in its environment puts the wall clock of a program off by this; its other clocks stay true.
fn off_by(span: &str) -> Option<Vec<(String, String)>> {
    let library = faketime()?.display().to_string();
    let pairs = [("LD_PRELOAD", library.as_str()), ("FAKETIME", span), ("DONT_FAKE_MONOTONIC", "1")];
    Some(pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

stories! {
    async fn a_runner_whose_clock_is_an_hour_off_is_a_runner_like_any_other(world: World) {
        let mut cluster = world.start().await;
        for (id, span) in [("ahead", "+1h"), ("behind", "-1h")] {
            let Some(pairs) = off_by(span) else { return };
            let mut spec = RunnerSpec::named(id).label(&format!("clock={id}"));
            spec.env = pairs;
            cluster.add_runner(spec).await;
        }
        for id in ["ahead", "behind"] {
            let marks = cluster.marks(id);
            let on = json!({"match_labels": {"clock": id}});
            let again = json!({"max_attempts": 2, "delay": "200ms"});
            let script = marks.around("date +%s\ntest $BATON_ATTEMPT = 2");
            let tasks = json!([
                {"name": "late", "shell": "sleep 600", "timeout": "300ms", "runner": on, "on_failure": "ignore"},
                {"name": "work", "shell": script, "runner": on, "retry": again},
            ]);
            let id = cluster.run(&job(&format!("on-{id}"), &tasks)).await;
            let view = cluster.done(&id).await;
            assert_eq!(view.summary(), "FINISHED; late=FAILED, work=FINISHED", "{}", view.reasons());
            assert!(view.task("late").reason.contains("timed out"), "{}", view.reasons());
            assert_eq!((view.task("work").attempt, marks.count("begin")), (2, 2));
        }
        // Through a restart of their scheduler too.
        let gate = cluster.gate("go");
        let tasks = json!([
            {"name": "ahead", "shell": gate.wait(), "runner": {"match_labels": {"clock": "ahead"}}},
            {"name": "behind", "shell": gate.wait(), "runner": {"match_labels": {"clock": "behind"}}},
        ]);
        let id = cluster.run(&job("both", &tasks)).await;
        for name in ["ahead", "behind"] {
            cluster.task_is(&id, name, TaskState::Running).await;
        }
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        for name in ["ahead", "behind"] {
            cluster.runner_is(name, RunnerState::Online).await;
        }
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert!(view.tasks.iter().all(|task| task.attempt == 1), "{}", view.reasons());
    }
}

/// The clock of the database decides: of two schedulers whose own clocks are two hours apart neither takes the other's
/// runners for lost, nor a retry for due.
#[tokio::test]
async fn schedulers_whose_clocks_are_apart_agree() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let (Some(ahead), Some(behind)) = (off_by("+1h"), off_by("-1h")) else { return };
    let world = World::on(Backend::Postgres).quick().schedulers(2).scheduler_env(0, ahead).scheduler_env(1, behind);
    let mut cluster = world.start().await;
    for scheduler in 0..2 {
        let spec = RunnerSpec::named(&format!("runner-{scheduler}"));
        let address = cluster.address_of(scheduler);
        cluster.add_runner(spec.through(address)).await;
    }
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let tasks = json!([{"name": "work", "shards": {"count": 8}, "shell": marks.around(&gate.wait())}]);
    let held = cluster.run(&job("held", &tasks)).await;
    marks.reach("begin", 8).await;
    // Longer than anybody would have to be silent to be lost.
    for round in 0..3 {
        let script = "test $BATON_ATTEMPT = 2";
        let tasks = json!([{"name": "work", "shell": script, "retry": {"max_attempts": 2, "delay": "3s"}}]);
        gate.open();
        let asked = cluster.ask_of(round % 2);
        asked.apply(&job("again", &tasks)).await.expect("it is applied");
        let id = asked.run("again", &[]).await.expect("it is accepted");
        let since = std::time::Instant::now();
        let view = cluster.done(&id).await;
        view.finished();
        assert!(since.elapsed().as_secs() >= 3, "a retry waits for its delay");
    }
    let view = cluster.done(&held).await;
    view.finished();
    assert!(view.shards("work").iter().all(|shard| shard.attempt == 1), "{}", view.reasons());
    let next = cluster.run(&one_task("next", "true")).await;
    cluster.done(&next).await.finished();
}
