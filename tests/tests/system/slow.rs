//! Rule 15: whoever does not read is left behind, at a bounded cost, and holds up nobody else.

use std::time::Duration;

use baton_tests::{
    Api, ByHand, PATIENCE, RunnerSpec, World, eventually, job, one_task, processes, stories,
    v1::{FollowRequest, GetRunnerRequest, Hello, LogSelector, RunnerState, TaskState, WatchJobRequest},
};
use serde_json::json;

/// What a scheduler may grow by because of those that do not read.
const GROWTH_BYTES_MAX: u64 = 200 << 20;

stories! {
    async fn a_runner_that_does_not_read_is_disconnected_and_its_tasks_are_given_to_others(world: World) {
        let mut cluster = world.beat(Duration::from_secs(1)).start().await;
        let slots = 64;
        let deaf = ByHand::dial(&cluster.api(), Hello { slots, ..ByHand::hello("deaf") }).await.expect("it is welcome");
        // From here on it neither reads nor says anything, and its stream stays open. What it is given is long.
        let padding = "x".repeat(100_000);
        let tasks = json!([{"name": "work", "shards": {"count": slots}, "shell": "true", "env": {"PADDING": padding},
            "retry": {"max_attempts": 2}}]);
        let id = cluster.run(&job("wide", &tasks)).await;
        cluster.until(&id, "all is given out", |view| {
            view.shards("work").iter().filter(|shard| shard.state() == TaskState::Dispatched).count() == slots as usize
        })
        .await;
        let api = cluster.api();
        eventually("its stream is closed", PATIENCE, || {
            let mut runners = api.runners.clone();
            async move {
                let request = GetRunnerRequest { runner_id: "deaf".to_owned() };
                let runner = runners.get_runner(request).await.ok()?.into_inner().runner?;
                (runner.state() == RunnerState::Offline).then_some(())
            }
        })
        .await;
        cluster.add_runner(RunnerSpec::named("one").slots(slots)).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert!(view.shards("work").iter().all(|shard| shard.runner_id == "one"));
        drop(deaf);
    }

    async fn readers_that_stand_still_hold_up_nothing(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one")).start().await;
        let loud = "i=0; while [ $i -lt 200 ]; do head -c 20000 /dev/zero | tr '\\0' x; i=$((i + 1)); done";
        let mut tasks = vec![json!({"name": "t0", "shell": loud})];
        for number in 1..40 {
            let parent = format!("t{}", number - 1);
            tasks.push(json!({"name": format!("t{number}"), "needs": [parent], "shell": "true"}));
        }
        let before = processes::resident_bytes(cluster.scheduler(0).pid());
        let id = cluster.run(&job("chain", &json!(tasks))).await;
        // Opened, and never read: each on a connection of its own.
        let mut idle = Vec::new();
        for _ in 0..20 {
            let api = Api::to(cluster.address());
            let watch = WatchJobRequest { job_id: id.clone(), ..Default::default() };
            let watching = api.jobs.clone().watch_job(watch).await.expect("it can be watched").into_inner();
            let selector = Some(LogSelector { job_id: id.clone(), name: "t0".to_owned(), ..Default::default() });
            let follow = FollowRequest { selector, ..Default::default() };
            let following = api.logs.clone().follow(follow).await.expect("it can be followed").into_inner();
            idle.push((watching, following));
        }
        cluster.done(&id).await.finished();
        let next = cluster.run(&one_task("next", "true")).await;
        cluster.done(&next).await.finished();
        let grown = processes::resident_bytes(cluster.scheduler(0).pid()).saturating_sub(before);
        assert!(grown < GROWTH_BYTES_MAX, "it grew by {} MiB", grown >> 20);
        assert_eq!(idle.len(), 20);
    }
}
