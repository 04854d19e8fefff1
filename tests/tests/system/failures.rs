//! What follows failures in the whole system: other runners, timeouts, and tasks that go on while they are cut off.

use std::time::Duration;

use baton_tests::{
    Backend, PATIENCE, RunnerSpec, World, eventually, job, one_task,
    proxy::Proxy,
    stories,
    v1::{JobState, RunnerState, TaskState},
};
use serde_json::json;

stories! {
    /// E08, G10: the agent dies in the middle of a run, and the run is given to another.
    async fn the_work_of_a_killed_runner_is_transferred_and_its_runner_gets_it_no_more(world: World) {
        // Long enough that only the word of the runner's watchdog can decide it in time.
        let mut cluster = world
            .beat(Duration::from_secs(30))
            .runner(RunnerSpec::named("one"))
            .runner(RunnerSpec::named("two"))
            .start()
            .await;
        let marks = cluster.marks("work");
        let script = marks.around("test $BATON_ATTEMPT = 2 || sleep 600");
        let tasks = json!([{"name": "work", "shell": script, "on_failure": "transfer"}]);
        let id = cluster.run(&job("transfer", &tasks)).await;
        marks.reach("begin", 1).await;
        let first = cluster.task_is(&id, "work", TaskState::Running).await.task("work").runner_id.clone();
        cluster.runner(&first).kill();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 2);
        assert_ne!(view.task("work").runner_id, first, "it went to the other one");
        assert_eq!((marks.count("begin"), marks.count("end")), (2, 1));
        cluster.nothing_left_running().await;
    }

    /// The set of runners given up is the task's, whichever scheduler decides and however often one dies.
    async fn what_was_given_up_survives_the_scheduler(world: World) {
        let mut cluster = world
            .runner(RunnerSpec::named("one"))
            .runner(RunnerSpec::named("two").slots(1).label("pool=two"))
            .start()
            .await;
        let gate = cluster.gate("go");
        let marks = cluster.marks("tries");
        let busy = json!([{"name": "work", "shell": gate.wait(), "runner": {"match_labels": {"pool": "two"}}}]);
        let busy = cluster.run(&job("busy", &busy)).await;
        cluster.task_is(&busy, "work", TaskState::Running).await;
        let script = format!("{}\ntest $BATON_ATTEMPT = 2", marks.line("try"));
        let tasks = json!([{"name": "work", "shell": script, "on_failure": "transfer"}]);
        let id = cluster.run(&job("moves", &tasks)).await;
        // It failed on the one, and the other has no room.
        cluster.until(&id, "it waits for the other runner", |view| {
            let task = view.task("work");
            task.state() == TaskState::Queued && task.attempt == 2
        })
        .await;
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        cluster.runner_is("one", RunnerState::Online).await;
        cluster.runner_is("two", RunnerState::Online).await;
        let waits = cluster.ask().get(&id).await.expect("it is there");
        assert_eq!(waits.task("work").state(), TaskState::Queued, "the idle runner was given up: {}", waits.reasons());
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!((view.task("work").attempt, view.task("work").runner_id.as_str()), (2, "two"));
        assert_eq!(marks.count("try"), 2);
    }

    async fn a_task_with_nowhere_left_to_go_fails_and_says_so(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).runner(RunnerSpec::named("two")).start().await;
        let marks = cluster.marks("work");
        let script = format!("{}\nexit 3", marks.line("try"));
        let tasks = json!([{"name": "work", "shell": script, "on_failure": "transfer"}]);
        let id = cluster.run(&job("nowhere", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("no runner is left to transfer to"), "{}", view.reasons());
        assert_eq!(marks.count("try"), 2, "each runner once");
    }

    /// E01: a process killed from outside is a failed attempt like any other.
    async fn a_process_killed_from_outside_is_tried_again(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let script = "test $BATON_ATTEMPT = 2 || kill -9 $$";
        let tasks = json!([{"name": "work", "shell": script, "retry": {"max_attempts": 3}}]);
        let id = cluster.run(&job("killed", &tasks)).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 2);
    }

    async fn an_exit_code_that_says_so_ends_the_tries(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let script = format!("{}\nexit 64", marks.line("try"));
        let retry = json!({"max_attempts": 9, "no_retry_exit_codes": [64, 78]});
        let id = cluster.run(&job("refused", &json!([{"name": "work", "shell": script, "retry": retry}]))).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("no_retry_exit_codes"), "{}", view.reasons());
        assert_eq!(marks.count("try"), 1);
    }

    async fn a_task_that_ignores_the_first_signal_is_ended_by_the_second(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let script = format!("trap '' TERM\n{}", marks.around("sleep 600 & wait; sleep 600"));
        let tasks = json!([{"name": "work", "shell": script, "timeout": "500ms"}]);
        let id = cluster.run(&job("deaf", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("timed out"), "{}", view.reasons());
        assert_eq!((marks.count("begin"), marks.count("end")), (1, 0));
        cluster.nothing_left_running().await;
    }

    async fn a_job_that_takes_too_long_fails_with_its_timeout_as_the_reason(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let source = "name: late\ntimeout: 1s\ntasks:\n  - {name: work, shell: sleep 600}\n  \
                      - {name: tidy, needs: [work], trigger_rule: all_done, shell: echo}\n";
        let id = cluster.run(source).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=TERMINATED, tidy=TERMINATED");
        assert_eq!(view.job.reason, "timed out after 1s");
        cluster.nothing_left_running().await;
    }

    /// Rule 8: what goes on while it is cut off is never joined by another copy, and is ended when it is found again.
    async fn a_task_that_goes_on_while_cut_off_is_doubted_until_its_runner_is_heard(world: World) {
        let mut cluster = world.quick().with_fronts().start().await;
        let proxy = Proxy::at(cluster.front(0), cluster.address()).await;
        cluster.add_runner(RunnerSpec::named("one").through(proxy.address())).await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let script = marks.around(&format!("{}\n{}", gate.wait(), marks.line("still-here")));
        let retry = json!({"max_attempts": 3});
        let tasks = json!([{"name": "work", "shell": format!("{script}\nsleep 600"), "when_cut_off": "continue", "retry": retry}]);
        let id = cluster.run(&job("goes-on", &tasks)).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        proxy.part();
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed);
        let reason = &view.task("work").reason;
        assert!(reason.contains("lost") && reason.contains("end not proven"), "{reason}");
        // It was lost, and it runs: nothing ended it.
        gate.open();
        marks.reach("still-here", 1).await;
        let doubted = || cluster.sql("SELECT count(*) FROM task WHERE NOT gone");
        assert!(doubted().is_none_or(|count| count == ["1"]));
        proxy.heal();
        cluster.runner_is("one", RunnerState::Online).await;
        cluster.nothing_left_running().await;
        let view = cluster.ask().get(&id).await.expect("it is there");
        assert_eq!((view.summary().as_str(), view.task("work").attempt), ("FAILED; work=FAILED", 1));
        assert_eq!(marks.count("begin"), 1, "no other copy was begun");
        let next = cluster.run(&one_task("next", "true")).await;
        cluster.done(&next).await.finished();
        assert!(doubted().is_none_or(|count| count == ["0"]));
    }
}

/// E07: nobody is there who could run it.
#[tokio::test]
async fn fires_that_find_no_runner_pile_nothing_up() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let cluster = World::on(Backend::Postgres).start().await;
    let config = json!({
        "name": "tick",
        "schedules": [{"name": "tick", "cron": "* * * * * *"}],
        "tasks": [{"name": "work", "command": ["true"]}],
    });
    cluster.ask().apply(&config.to_string()).await.expect("it is applied");
    let sql = |text: &str| cluster.sql(text).expect("it is PostgreSQL");
    let missed = || sql("SELECT coalesce(sum(count), 0) FROM fire")[0].parse::<u32>().expect("a number");
    eventually("fires find the job before them", PATIENCE, || std::future::ready((missed() >= 3).then_some(()))).await;
    assert_eq!(sql("SELECT state FROM task"), ["QUEUED"], "one job waits for a runner");
    assert_eq!(sql("SELECT count(*) FROM fire"), ["1"], "all that made no job are one row");
}
