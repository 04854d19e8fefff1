//! Many at once: a thousand running tasks and thousands of sessions whose scheduler dies.

use std::time::Duration;

use baton_tests::{Crowd, Latch, PATIENCE, RunnerSpec, World, job, processes, stories, v1::RunnerState};
use serde_json::json;

/// Runners, and the tasks that each of them runs.
const RUNNERS: usize = 4;
const TASKS_EACH: usize = 250;

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
