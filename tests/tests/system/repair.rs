//! A job that ended badly is repaired from a terminal, step by step.

use std::fs;

use baton_tests::{
    RunnerSpec, World, job, stories,
    v1::{JobState, TaskState},
};
use serde_json::json;

stories! {
    async fn a_failed_night_is_repaired_step_by_step(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let room = cluster.directory().join("room");
        let tasks = json!([
            {"name": "extract", "shell": "true"},
            {"name": "load", "needs": ["extract"], "shell": format!("echo trying; test -e '{}'", room.display())},
            {"name": "check", "needs": ["load"], "shell": "exit 4"},
            {"name": "publish", "needs": ["check"], "shell": "true"},
        ]);
        let id = cluster.run(&job("nightly", &tasks)).await;
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; extract=FINISHED, load=FAILED, check=SKIPPED, publish=SKIPPED");

        // What would only be skipped again is refused, and says what to do instead.
        let refused = cluster.baton(&["rerun", &format!("{id}/publish")]).await;
        refused.exits(5).complains(&["publish would only be skipped"]);
        fs::write(&room, "").expect("there is room");
        cluster.baton(&["rerun", &id, "--reason", "the disk was full"]).await.exits(0);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; extract=FINISHED, load=FINISHED, check=FAILED, publish=SKIPPED");
        let attempts = |view: &baton_tests::View| view.tasks.iter().map(|task| task.attempt).collect::<Vec<_>>();
        assert_eq!(attempts(&view), [1, 2, 1, 0], "what finished is kept");
        let first = cluster.baton(&["logs", &format!("{id}/load"), "--attempt", "1"]).await;
        assert!(first.exits(0).stdout.contains("trying"), "{}", first.stdout);

        // One task by its name, then a person's word for it.
        cluster.baton(&["rerun", &format!("{id}/check")]).await.exits(0);
        assert_eq!(attempts(&cluster.done(&id).await), [1, 2, 2, 0]);
        cluster.baton(&["mark", &format!("{id}/check"), "finished", "--reason", "looked at by hand"]).await.exits(0);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; extract=FINISHED, load=FINISHED, check=FINISHED, publish=FINISHED");
        assert!(view.task("check").reason.contains("looked at by hand"), "{}", view.reasons());

        // With all that follows: the word for it is taken back, too.
        cluster.baton(&["rerun", &format!("{id}/load"), "--with-following"]).await.exits(0);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; extract=FINISHED, load=FINISHED, check=FAILED, publish=SKIPPED");
        cluster.baton(&["mark", &format!("{id}/check"), "skipped", "--reason", "not today"]).await.exits(0);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; extract=FINISHED, load=FINISHED, check=SKIPPED, publish=SKIPPED");

        // Nothing is in doubt, so that nothing is to be declared gone; and what has ended waits no more.
        let gone = ["mark", &format!("{id}/load"), "gone", "--reason", "the host is off"];
        cluster.baton(&gone).await.exits(5).complains(&["proven gone already"]);
        cluster.baton(&["skip", &format!("{id}/load")]).await.exits(5).complains(&["baton mark"]);
        let audit = cluster.baton(&["get", "audit", "--job", &id, "-o", "json"]).await.exits(0).json();
        let events = audit["events"].as_array().expect("there are events");
        let told: Vec<_> = events.iter().rev().map(|event| (&event["action"], &event["reason"])).collect();
        let expected = [
            (json!("Rerun"), json!("the disk was full")),
            (json!("Rerun"), json!(null)),
            (json!("Mark"), json!("looked at by hand")),
            (json!("Rerun"), json!(null)),
            (json!("Mark"), json!("not today")),
        ];
        assert_eq!(told, expected.iter().map(|(action, reason)| (action, reason)).collect::<Vec<_>>());
        cluster.nothing_left_running().await;
    }

    async fn what_waits_is_skipped_and_what_comes_after_is_decided_by_it(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let tasks = json!([
            {"name": "a", "shell": gate.wait()},
            {"name": "b", "needs": ["a"], "shell": "true"},
            {"name": "c", "needs": ["b"], "shell": "true"},
            {"name": "d", "needs": ["b"], "trigger_rule": "all_done", "shell": "true"},
        ]);
        let id = cluster.run(&job("skipping", &tasks)).await;
        cluster.task_is(&id, "a", TaskState::Running).await;
        cluster.baton(&["skip", &format!("{id}/b"), "--reason", "not needed"]).await.exits(0);
        cluster.baton(&["skip", &format!("{id}/a")]).await.exits(5);
        gate.open();
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; a=FINISHED, b=SKIPPED, c=SKIPPED, d=FINISHED");
        assert!(view.task("b").reason.contains("not needed"), "{}", view.reasons());
    }

    /// A re-run of a task that stands for a job makes a new child, after those of its earlier tries.
    async fn a_job_task_is_run_again_with_a_child_of_its_own(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let mended = cluster.directory().join("mended");
        let plan = json!({"name": "plan", "tasks": [
            {"name": "load", "retry": {"max_attempts": 2}, "job": {"name": "load"}},
            {"name": "then", "needs": ["load"], "shell": "true"},
        ]});
        let load = job("load", &json!([{"name": "work", "shell": format!("test -e '{}'", mended.display())}]));
        let id = cluster.run(&format!("{plan}\n---\n{load}")).await;
        assert_eq!(cluster.done(&id).await.summary(), "FAILED; load=FAILED, then=SKIPPED");
        let children = async || {
            let jobs = cluster.ask().jobs("load").await.expect("they are listed");
            jobs.iter().map(|job| (job.state(), job.parent_job_id == id)).collect::<Vec<_>>()
        };
        let failed = (JobState::Failed, true);
        assert_eq!(children().await, [failed, failed]);
        fs::write(&mended, "").expect("it is mended");
        cluster.baton(&["rerun", &id]).await.exits(0);
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FINISHED; load=FINISHED, then=FINISHED", "{}", view.reasons());
        assert_eq!((view.task("load").attempt, view.task("then").attempt), (3, 1));
        let finished = (JobState::Finished, true);
        assert_eq!(children().await, [failed, failed, finished], "what failed before stays as it was");
        // One that finished is run again when it is named, and has all its tries again.
        fs::remove_file(&mended).expect("it breaks again");
        cluster.baton(&["rerun", &format!("{id}/load"), "--with-following"]).await.exits(0);
        assert_eq!(cluster.done(&id).await.summary(), "FAILED; load=FAILED, then=SKIPPED");
        assert_eq!(children().await, [failed, failed, finished, failed, failed]);
    }
}
