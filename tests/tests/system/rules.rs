//! What the end of one task means for the others, in the words of bug reports about other schedulers.

use baton_tests::{
    RunnerSpec, World, job, stories,
    v1::{JobState, TaskState},
};
use serde_json::json;

stories! {
    /// D01: a skip by a condition is no failure, so `none_failed` holds behind nothing but skips.
    async fn none_failed_runs_behind_nothing_but_skips(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let tasks = json!([
            {"name": "a", "shell": "true", "when": "1 == 2"},
            {"name": "b", "needs": ["a"], "trigger_rule": "none_failed", "shell": "true"},
            {"name": "c", "needs": ["a"], "shell": "true"},
        ]);
        let id = cluster.run(&job("none-failed", &tasks)).await;
        assert_eq!(cluster.done(&id).await.summary(), "FINISHED; a=SKIPPED, b=FINISHED, c=SKIPPED");
    }

    /// D02, D04: a rule that can never hold skips its task at once, and what was skipped so counts as done.
    async fn no_task_is_left_without_an_end(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let tasks = json!([
            {"name": "a", "shell": "exit 1"},
            {"name": "b", "needs": ["a"], "shell": "true"},
            {"name": "c", "needs": ["b"], "trigger_rule": "all_done", "shell": "true"},
            {"name": "d", "needs": ["a"], "trigger_rule": "all_skipped", "shell": "true"},
            {"name": "e", "needs": ["b"], "trigger_rule": "all_skipped", "shell": "true"},
            {"name": "f", "needs": ["a"], "trigger_rule": "one_failed", "shell": "true"},
        ]);
        let id = cluster.run(&job("all-end", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(
            view.summary(),
            "FAILED; a=FAILED, b=SKIPPED, c=FINISHED, d=SKIPPED, e=SKIPPED, f=FINISHED",
            "{}",
            view.reasons()
        );
    }

    /// D06: what runs is left alone, unless the job says that it fails fast.
    async fn a_stop_ends_what_runs_only_when_the_job_fails_fast(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        for fail_fast in [false, true] {
            let (held, fails) = (cluster.gate(&format!("held-{fail_fast}")), cluster.gate(&format!("fails-{fail_fast}")));
            let source = json!({
                "name": format!("stop-{fail_fast}"),
                "fail_fast": fail_fast,
                "tasks": [
                    {"name": "fails", "shell": format!("{}\nexit 1", fails.wait()), "on_failure": "stop"},
                    {"name": "runs", "shell": held.wait()},
                    {"name": "later", "needs": ["runs"], "shell": "true"},
                    {"name": "tidy", "needs": ["later"], "trigger_rule": "all_done", "shell": "true"},
                ],
            });
            let id = cluster.run(&source.to_string()).await;
            cluster.task_is(&id, "runs", TaskState::Running).await;
            fails.open();
            cluster.task_is(&id, "fails", TaskState::Failed).await;
            if !fail_fast {
                held.open();
            }
            let runs = if fail_fast { "TERMINATED" } else { "FINISHED" };
            let expected = format!("FAILED; fails=FAILED, runs={runs}, later=SKIPPED, tidy=FINISHED");
            let view = cluster.done(&id).await;
            assert_eq!(view.summary(), expected, "{}", view.reasons());
        }
    }

    /// D08, D09: only the last try counts, for the job and for those who go on after a failure.
    async fn only_the_last_try_of_a_task_counts(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("after");
        let tasks = json!([
            {"name": "second", "shell": "test $BATON_ATTEMPT = 2", "retry": {"max_attempts": 2}},
            {"name": "never", "shell": "exit 1", "retry": {"max_attempts": 3}, "on_failure": "ignore"},
            {"name": "after", "needs": ["never", "second"], "shell": marks.line("after")},
        ]);
        let id = cluster.run(&job("tries", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; second=FINISHED, never=FAILED, after=FINISHED");
        assert_eq!((view.task("second").attempt, view.task("never").attempt, marks.count("after")), (2, 3, 1));
    }

    /// D13: a skip passes only along edges whose rule says so.
    async fn a_skip_stops_where_a_rule_holds_without_it(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let tasks = json!([
            {"name": "a", "shell": "true", "when": "false"},
            {"name": "b", "needs": ["a"], "shell": "true"},
            {"name": "e", "shell": "true"},
            {"name": "d", "needs": ["b", "e"], "trigger_rule": "none_failed", "shell": "true"},
        ]);
        let id = cluster.run(&job("short-circuit", &tasks)).await;
        assert_eq!(cluster.done(&id).await.summary(), "FINISHED; a=SKIPPED, b=SKIPPED, e=FINISHED, d=FINISHED");
    }

    /// G04: the piece of a lost runner fails; nobody else does it instead.
    async fn each_runner_does_its_own_piece_and_nobody_anothers(world: World) {
        let mut cluster = world
            .beat(std::time::Duration::from_secs(30))
            .runner(RunnerSpec::named("one"))
            .runner(RunnerSpec::named("two"))
            .runner(RunnerSpec::named("three"))
            .start()
            .await;
        let (gate, marks) = (cluster.gate("go"), cluster.marks("pieces"));
        let script = format!("{}\n{}", marks.line("begin"), gate.wait());
        let tasks = json!([
            {"name": "each", "shards": {"one_per_runner": true}, "shell": script},
            {"name": "after", "needs": ["each"], "shell": "true"},
        ]);
        let id = cluster.run(&job("broadcast", &tasks)).await;
        marks.reach("begin", 3).await;
        let all_run = |view: &baton_tests::View| {
            let shards = view.shards("each");
            shards.len() == 3 && shards.iter().all(|shard| shard.state() == TaskState::Running)
        };
        cluster.until(&id, "every piece runs", all_run).await;
        cluster.runner("two").kill();
        let lost = |view: &baton_tests::View| view.shards("each").iter().any(|shard| shard.state() == TaskState::Failed);
        cluster.until(&id, "a piece is lost", lost).await;
        gate.open();
        let view = cluster.done(&id).await;
        assert_eq!(view.job.state(), JobState::Failed, "{}", view.reasons());
        assert_eq!(view.state("after"), TaskState::Skipped);
        for shard in view.shards("each") {
            assert_eq!(shard.shard_item, shard.runner_id, "a piece went to another runner");
            assert_eq!(shard.state() == TaskState::Failed, shard.runner_id == "two", "{}", shard.reason);
        }
        assert_eq!(marks.count("begin"), 3, "{:?}", marks.lines());
    }
}
