//! Many at once: a thousand running tasks and thousands of sessions whose scheduler dies.

use std::time::Duration;

use baton_tests::{Crowd, Latch, PATIENCE, RunnerSpec, World, job, processes, stories, v1::RunnerState};
use serde_json::json;

/// Runners, and the tasks that each of them runs.
const RUNNERS: usize = 4;
const TASKS_EACH: usize = 250;

/// Tasks that leave 64 KiB of output each: together more than the 4 MiB that a scheduler takes in at once.
const FULL_OUTPUTS: u32 = 80;

/// Sessions in an ordinary run of the tests; `BATON_TEST_SESSIONS` asks for more.
const SESSIONS: usize = 2_000;
/// What a scheduler may use for itself, and for each session, in the debug build.
const BASE_BYTES_MAX: u64 = 200 << 20;
const SESSION_BYTES_MAX: u64 = 192 << 10;

stories! {
    async fn a_thousand_running_tasks_outlive_their_scheduler(world: World) {
        let mut world = world.beat(Duration::from_secs(5));
        for number in 0..RUNNERS {
            world = world.runner(RunnerSpec::named(&format!("runner-{number}")).slots(TASKS_EACH as u32));
        }
        let mut cluster = world.start().await;
        let count = RUNNERS * TASKS_EACH;
        let marks = cluster.marks("work");
        let latch = Latch::in_directory(cluster.directory(), "go");
        let script = format!("{}\n{}\n{}\n{}", latch.take(), marks.line("begin"), latch.wait(), marks.line("end"));
        let tasks = json!([{"name": "work", "shards": {"count": count}, "shell": script}]);
        let id = cluster.run(&job("thousand", &tasks)).await;
        marks.reach("begin", count).await;

        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        for number in 0..RUNNERS {
            cluster.runner_is(&format!("runner-{number}"), RunnerState::Online).await;
        }
        assert_eq!(marks.count("end"), 0, "nothing was ended because of it");
        latch.open();
        let view = cluster.done(&id).await;
        view.finished();
        let shards = view.shards("work");
        assert_eq!(shards.len(), count);
        assert!(shards.iter().all(|shard| (shard.attempt, shard.lease) == (1, 1)), "each was adopted, not given out again");
        assert_eq!((marks.count("begin"), marks.count("end")), (count, count), "none is doubled and none is lost");
        marks.assert_one_at_a_time();
        cluster.nothing_left_running().await;
    }

    /// More than a scheduler takes in at once has to be told when it comes back.
    async fn outputs_of_many_tasks_that_ended_without_a_scheduler_all_arrive(world: World) {
        let mut cluster = world.runner(RunnerSpec::named("one").slots(FULL_OUTPUTS)).start().await;
        let marks = cluster.marks("work");
        let latch = Latch::in_directory(cluster.directory(), "go");
        let full = "(printf 'text='; head -c 65000 /dev/zero | tr '\\0' x) > \"$BATON_OUTPUT\"";
        let script =
            format!("{}\n{}\n{}\n{full}\n{}", latch.take(), marks.line("begin"), latch.wait(), marks.line("end"));
        let id = cluster.run(&job("full", &json!([{"name": "work", "shards": {"count": FULL_OUTPUTS}, "shell": script}]))).await;
        marks.reach("begin", FULL_OUTPUTS as usize).await;
        cluster.scheduler(0).kill();
        latch.open();
        marks.reach("end", FULL_OUTPUTS as usize).await;
        cluster.start_scheduler(0).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert!(view.shards("work").iter().all(|shard| shard.attempt == 1 && shard.output.len() > 65_000));
        assert_eq!(marks.count("begin"), FULL_OUTPUTS as usize, "none is doubled");
    }

    /// G08: full jitter, bounded memory, nobody left outside.
    async fn thousands_of_sessions_come_back_to_a_scheduler_that_was_killed(world: World) {
        let mut cluster = world.beat(Duration::from_secs(10)).start().await;
        let wanted = std::env::var("BATON_TEST_SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(SESSIONS);
        let count = Crowd::most(wanted);
        let crowd = Crowd::dial(cluster.address(), count);
        crowd.all_online(PATIENCE).await;
        cluster.scheduler(0).kill();
        crowd.none_online(PATIENCE).await;
        cluster.start_scheduler(0).await;
        crowd.all_online(PATIENCE).await;
        let resident = processes::resident_bytes(cluster.scheduler(0).pid());
        let most = BASE_BYTES_MAX + SESSION_BYTES_MAX * count as u64;
        assert!(resident < most, "{count} sessions take {} MiB", resident >> 20);
        // And it works for others as before.
        cluster.add_runner(RunnerSpec::named("one")).await;
        let text = json!({"name": "after", "tasks": [{"name": "work", "shell": "true", "runner": {"match_labels": {"for": "this"}}}]});
        let id = cluster.run(&text.to_string()).await;
        cluster.add_runner(RunnerSpec::named("two").label("for=this")).await;
        cluster.done(&id).await.finished();
    }
}

/// Tasks with as much in their environment as there may be are given out together: more than a runner takes in at once.
#[tokio::test]
async fn specs_that_fill_more_than_one_frame_come_in_several() {
    const SPECS: u32 = 80;
    // It takes a while to send so much.
    let mut cluster = World::plain().beat(Duration::from_secs(30)).start().await;
    let env: serde_json::Map<_, _> = (0..7).map(|number| (format!("V{number}"), "x".repeat(125_000).into())).collect();
    let id = cluster
        .run(&job("large", &json!([{"name": "work", "shards": {"count": SPECS}, "shell": "true", "env": env}])))
        .await;
    cluster.until(&id, "all wait", |view| view.shards("work").len() == SPECS as usize).await;
    cluster.add_runner(RunnerSpec::named("one").slots(SPECS)).await;
    let view = cluster.done(&id).await;
    view.finished();
    assert!(view.shards("work").iter().all(|shard| (shard.attempt, shard.lease) == (1, 1)), "none was given out twice");
}
