//! Runners that die, freeze or stay away: their tasks are decided, and nothing of them goes on in secret.

use std::time::Duration;

use baton_tests::{
    PATIENCE, RunnerSpec, World, job, one_task, processes, soon, stories,
    v1::{JobState, RunnerState, TaskState},
};
use rustix::process::Signal;
use serde_json::json;

stories! {
    /// The watchdog ends what the dead runner ran and starts it again, so that nobody waits for `lost_after`.
    async fn a_killed_runner_is_decided_at_once_and_leaves_nothing_running(world: World) {
        // Long enough that only the runner's own word can decide it in time.
        let mut cluster = world.beat(Duration::from_secs(30)).runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let id = cluster.run(&one_task("long", &marks.around("setsid sleep 600 & sleep 600"))).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        marks.reach("begin", 1).await;
        let killed = cluster.runner("one").pid();
        assert_ne!(killed, cluster.runner("one").part.pid(), "a watchdog stands above the runner");
        cluster.runner("one").kill();

        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed);
        assert_eq!(view.task("work").attempt, 1);
        assert!(!view.task("work").reason.is_empty());
        cluster.nothing_left_running().await;
        cluster.runner_is("one", RunnerState::Online).await;
        assert_ne!(cluster.runner("one").pid(), killed, "the watchdog has started it again");
        let id = cluster.run(&one_task("next", "true")).await;
        cluster.done(&id).await.finished();
    }

    async fn a_lost_attempt_is_tried_again_when_the_task_says_so(world: World) {
        let mut cluster = world.beat(Duration::from_secs(30)).runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let script = marks.around("test $BATON_ATTEMPT = 2 || sleep 600");
        let tasks = json!([{"name": "work", "shell": script, "retry": {"max_attempts": 2}}]);
        let id = cluster.run(&job("again", &tasks)).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        cluster.runner("one").kill();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 2);
        assert_eq!((marks.count("begin"), marks.count("end")), (2, 1));
    }

    async fn what_an_earlier_boot_left_behind_is_ended_and_said(world: World) {
        let mut cluster = world.beat(Duration::from_secs(30)).runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let id = cluster.run(&one_task("orphan", &marks.around("sleep 600"))).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        // Watchdog and runner at once: nobody is left to end the task.
        let runner = cluster.runner("one");
        let inner = runner.pid();
        processes::signal(runner.part.pid(), Signal::KILL);
        processes::signal(inner, Signal::KILL);
        runner.part.end(PATIENCE).await;
        soon("the runner is gone too, and its lock with it", || !processes::is_alive(inner)).await;

        cluster.add_runner(RunnerSpec::named("one")).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed, "{}", view.reasons());
        cluster.nothing_left_running().await;
    }

    async fn a_runner_that_stays_away_is_lost_and_its_tasks_are_failed(world: World) {
        let mut cluster = world
            .quick()
            .runner(RunnerSpec::named("one"))
            .start()
            .await;
        let id = cluster.run(&one_task("long", "sleep 600")).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        drop(cluster.take_runner("one"));
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed);
        assert!(view.task("work").reason.contains("lost"), "{}", view.reasons());
        cluster.runner_is("one", RunnerState::Offline).await;
    }

    /// G01: the frozen runner comes back after it was given up, and its word no longer counts.
    async fn a_thawed_runner_does_not_bring_a_lost_attempt_back(world: World) {
        let mut cluster = world
            .quick()
            .runner(RunnerSpec::named("one"))
            .start()
            .await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("frozen", &marks.around(&gate.wait()))).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        cluster.runner("one").freeze();
        let lost = cluster.task_is(&id, "work", TaskState::Failed).await;
        assert!(lost.task("work").reason.contains("lost"), "{}", lost.reasons());
        let ended_at = cluster.done(&id).await.job.end_time;
        gate.open();
        cluster.runner("one").thaw();
        cluster.runner_is("one", RunnerState::Online).await;
        cluster.nothing_left_running().await;
        let view = cluster.ask().get(&id).await.expect("it is there");
        assert_eq!(view.summary(), "FAILED; work=FAILED", "a terminal state never changes");
        assert_eq!(view.job.end_time, ended_at);
        let id = cluster.run(&one_task("next", "true")).await;
        cluster.done(&id).await.finished();
    }

    async fn a_terminated_task_of_a_lost_runner_ends_with_that_reason(world: World) {
        let mut cluster = world
            .quick()
            .runner(RunnerSpec::named("one"))
            .start()
            .await;
        let id = cluster.run(&one_task("long", "sleep 600")).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        cluster.runner("one").freeze();
        cluster.ask().terminate(&id, "").await.expect("the wish is stored");
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Terminated);
        assert!(view.task("work").reason.contains("lost"), "{}", view.reasons());
        cluster.runner("one").thaw();
        cluster.nothing_left_running().await;
    }
}
