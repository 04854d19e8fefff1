//! Runners that die, freeze or stay away: their tasks are decided, and nothing of them goes on in secret.

use std::time::{Duration, Instant};

use baton_tests::{
    PATIENCE, RunnerSpec, View, World, eventually, job, one_task, soon, stories,
    v1::{JobState, RunnerState, TaskState},
};
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
        cluster.runner("one").kill_with_watchdog().await;

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

    /// E02: only silence counts, never how long a task takes.
    async fn a_task_that_outlasts_lost_after_is_left_alone_while_its_runner_is_heard(world: World) {
        let cluster = world.quick().runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let tasks = json!([{"name": "work", "shell": marks.around(&gate.wait()), "retry": {"max_attempts": 3}}]);
        let id = cluster.run(&job("long", &tasks)).await;
        let began = cluster.task_is(&id, "work", TaskState::Running).await.task("work").start_time.expect("it runs");
        let enough = began.seconds + 2 * i64::try_from(cluster.lost_after().as_secs()).expect("a few seconds");
        eventually("it has run for twice as long as a runner may be silent", PATIENCE, || async {
            let seen = cluster.runner_is("one", RunnerState::Online).await.last_seen_time;
            seen.is_some_and(|seen| seen.seconds > enough).then_some(())
        })
        .await;
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!((view.task("work").attempt, view.task("work").lease), (1, 1));
        assert_eq!((marks.count("begin"), marks.count("end")), (1, 1));
    }

    /// E09: scheduler and runners die together; one runner comes back, one does not.
    async fn after_everything_died_each_task_is_settled_by_its_own_policy(world: World) {
        let mut cluster = world.quick().start().await;
        let marks = cluster.marks("work");
        for id in ["back", "gone"] {
            cluster.add_runner(RunnerSpec::named(id).label(&format!("on={id}"))).await;
        }
        let task = |on: &str, attempts: u32| {
            json!({
                "name": format!("{on}-{attempts}"),
                "shell": marks.around("test $BATON_ATTEMPT = 2 || sleep 600"),
                "retry": {"max_attempts": attempts},
                "runner": {"match_labels": {"on": on}},
            })
        };
        let tasks = json!([task("back", 1), task("back", 2), task("gone", 1), task("gone", 2)]);
        let id = cluster.run(&job("everything", &tasks)).await;
        marks.reach("begin", 4).await;
        let run = |view: &View| view.tasks.iter().all(|task| task.state() == TaskState::Running);
        cluster.until(&id, "all of them run", run).await;

        cluster.scheduler(0).kill();
        drop((cluster.take_runner("back"), cluster.take_runner("gone")));
        let since = Instant::now();
        soon("they are away for longer than a runner may be silent", || since.elapsed() > cluster.lost_after()).await;
        cluster.start_scheduler(0).await;
        cluster.add_runner(RunnerSpec::named("back").label("on=back")).await;
        cluster.add_runner(RunnerSpec::named("another").label("on=gone")).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; back-1=FAILED, back-2=FINISHED, gone-1=FAILED, gone-2=FINISHED");
        for name in ["back-2", "gone-2"] {
            assert_eq!(view.task(name).attempt, 2, "{}", view.reasons());
        }
        for name in ["back-1", "gone-1"] {
            assert_eq!(view.task(name).attempt, 1);
            assert!(!view.task(name).reason.is_empty());
        }
        assert_eq!((marks.count("begin"), marks.count("end")), (6, 2));
        cluster.nothing_left_running().await;
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

    /// G02, G03: the watchdog of a frozen runner ends its task before another runner may begin it anew.
    async fn a_second_attempt_begins_after_the_frozen_first_one_was_ended(world: World) {
        let mut cluster =
            world.quick().runner(RunnerSpec::named("one")).runner(RunnerSpec::named("two")).start().await;
        let marks = cluster.marks("work");
        // A copy that began while the other still lived would find the lock taken.
        let lock = cluster.directory().join("lock");
        let script = format!(
            "exec 9> \"{}\"\nflock -n 9 || {}\n{}",
            lock.display(),
            marks.line("overlap"),
            marks.around("test $BATON_ATTEMPT = 2 || sleep 600")
        );
        let tasks = json!([{"name": "work", "shell": script, "retry": {"max_attempts": 2}}]);
        let id = cluster.run(&job("frozen", &tasks)).await;
        marks.reach("begin", 1).await;
        let first = cluster.task_is(&id, "work", TaskState::Running).await.task("work").runner_id.clone();
        cluster.runner(&first).freeze();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 2);
        assert_ne!(view.task("work").runner_id, first);
        assert_eq!((marks.count("begin"), marks.count("end"), marks.count("overlap")), (2, 1, 0));
        cluster.runner(&first).thaw();
        cluster.runner_is(&first, RunnerState::Online).await;
        cluster.nothing_left_running().await;
        assert_eq!(cluster.ask().get(&id).await.expect("it is there").task("work").attempt, 2);
    }

    /// Rule 13.
    async fn a_task_that_kills_its_runner_again_and_again_is_poison(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let script = format!("{}\nkill -9 $PPID\nsleep 600", marks.line("begin"));
        let tasks = json!([{"name": "work", "shell": script, "retry": {"max_attempts": 10}}]);
        let id = cluster.run(&job("poison", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; work=FAILED");
        assert!(view.task("work").reason.contains("poison"), "{}", view.reasons());
        assert_eq!(marks.count("begin"), 5);
        cluster.runner_is("one", RunnerState::Online).await;
        let next = cluster.run(&one_task("next", "true")).await;
        cluster.done(&next).await.finished();
    }
}
