//! A restart of the scheduler is a non-event: what runs goes on, what was accepted is there.

use baton_tests::{
    PATIENCE, RunnerSpec, World, job, one_task, stories,
    v1::{JobState, RunnerState, TaskState},
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

stories! {
    /// H01: the task that ran before the scheduler died is the one that runs after it is back.
    async fn a_killed_scheduler_comes_back_to_the_same_attempts(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one").slots(8)).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let tasks = json!([
            {"name": "work", "shards": {"count": 8}, "shell": marks.around(&gate.wait())},
            {"name": "after", "needs": ["work"], "shell": marks.line("after")},
        ]);
        let id = cluster.run(&job("long", &tasks)).await;
        marks.reach("begin", 8).await;
        let before = cluster.until(&id, "all shards run", |view| {
            view.shards("work").iter().filter(|shard| shard.state() == TaskState::Running).count() == 8
        })
        .await;

        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        cluster.runner_is("one", RunnerState::Online).await;
        gate.open();

        let view = cluster.done(&id).await;
        view.finished();
        for (shard, then) in view.shards("work").iter().zip(before.shards("work")) {
            assert_eq!((shard.attempt, shard.lease), (1, then.lease), "it was adopted, not started again");
        }
        assert_eq!(marks.count("begin"), 8);
        assert_eq!(marks.count("after"), 1, "what follows starts once");
        marks.assert_one_at_a_time();
    }

    async fn work_that_ends_while_there_is_no_scheduler_counts(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let script = format!("{}\necho result\nexit 5", marks.around(&gate.wait()));
        let tasks = json!([
            {"name": "fine", "shell": marks.around(&gate.wait())},
            {"name": "fails", "shell": script},
        ]);
        let id = cluster.run(&job("ends", &tasks)).await;
        marks.reach("begin", 2).await;
        cluster.scheduler(0).kill();
        gate.open();
        marks.reach("end", 2).await;
        cluster.start_scheduler(0).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; fine=FINISHED, fails=FAILED");
        assert_eq!(view.task("fails").exit_code, Some(5), "the very result, not a loss");
        assert!(view.tasks.iter().all(|task| task.attempt == 1));
        cluster.log_holds(&id, "fails", "result").await;
        assert_eq!(marks.count("begin"), 2);
    }

    async fn a_planned_stop_is_a_non_event(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("long", &marks.around(&gate.wait()))).await;
        marks.reach("begin", 1).await;
        cluster.task_is(&id, "work", TaskState::Running).await;

        cluster.scheduler(0).terminate();
        let status = cluster.scheduler(0).end(PATIENCE).await;
        assert!(status.success(), "a planned stop is no failure: {status}");
        cluster.start_scheduler(0).await;
        cluster.runner_is("one", RunnerState::Online).await;
        gate.open();
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1);
        assert_eq!(marks.count("begin"), 1);
    }

    async fn every_accepted_job_survives_kill_9(world: World) {
        let mut cluster = world.start().await;
        let ask = cluster.ask();
        ask.apply(&one_task("small", "true")).await.expect("it is applied");
        let mut accepted = Vec::new();
        for round in 0..3 {
            for _ in 0..10 {
                accepted.push(ask.run("small", &[]).await.expect("it is accepted"));
            }
            // The answer to the last one has barely left.
            cluster.scheduler(0).kill();
            cluster.start_scheduler(0).await;
            let known = cluster.ask().get(&accepted[round * 10 + 9]).await.expect("it survived");
            assert_ne!(known.job.state(), JobState::Unspecified);
        }
        cluster.add_runner(RunnerSpec::named("one")).await;
        for id in &accepted {
            let view = cluster.done(id).await;
            view.finished();
            assert_eq!(view.task("work").attempt, 1);
        }
    }

    async fn a_watch_goes_on_after_the_scheduler_is_back(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("long", &gate.wait())).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        let mut command = tokio::process::Command::from(cluster.baton_command(&["watch", &id]));
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).kill_on_drop(true);
        let mut watching = command.spawn().expect("it starts");
        let mut seen = BufReader::new(watching.stdout.take().expect("it is piped")).lines();
        let first = tokio::time::timeout(PATIENCE, seen.next_line()).await.expect("it has begun to watch");
        assert!(first.expect("it can be read").is_some());
        // It goes on writing, to somebody who reads.
        tokio::spawn(async move { while let Ok(Some(_)) = seen.next_line().await {} });
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        gate.open();
        let status = tokio::time::timeout(PATIENCE, watching.wait()).await.expect("it ends with the job");
        assert!(status.expect("it is ours").success());
    }

    /// The result waits for a scheduler that can store it, and the runner's slot with it.
    async fn schedulers_may_die_as_often_as_they_like(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one").slots(2)).start().await;
        let marks = cluster.marks("work");
        let mut tasks = vec![json!({"name": "t0", "shell": marks.around("true")})];
        for number in 1..12 {
            let parent = format!("t{}", number - 1);
            tasks.push(json!({"name": format!("t{number}"), "needs": [parent], "shell": marks.around("sleep 0.1")}));
        }
        let id = cluster.run(&job("chain", &json!(tasks))).await;
        for reached in [2, 5, 8] {
            marks.reach("begin", reached).await;
            cluster.scheduler(0).kill();
            cluster.start_scheduler(0).await;
        }
        cluster.done(&id).await.finished();
        assert_eq!(marks.count("begin"), 12, "each task ran once");
        assert_eq!(marks.count("end"), 12);
    }
}
