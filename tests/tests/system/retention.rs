//! What has ended is kept for a while, and then it is gone; what lives stays.

use baton_tests::{PATIENCE, RunnerSpec, World, eventually, one_task, stories, v1::TaskState};

stories! {
    async fn an_old_job_is_gone_and_says_so_while_a_live_one_stays(world: World) {
        let cluster =
            world.runner(RunnerSpec::named("one").slots(2)).scheduler_arg("--retention-age=1s").start().await;
        let live = cluster.run(&one_task("live", "sleep 600")).await;
        cluster.task_is(&live, "work", TaskState::Running).await;
        let old = cluster.run(&one_task("brief", "echo out")).await;
        cluster.done(&old).await.finished();
        let newest = cluster.run(&one_task("brief", "echo out")).await;
        cluster.done(&newest).await.finished();

        let refused = eventually("the old job is gone", PATIENCE, async || cluster.ask().get(&old).await.err()).await;
        assert_eq!(refused.code(), tonic::Code::NotFound);
        assert!(refused.message().contains("is not kept any more"), "{refused}");
        assert!(refused.message().contains("`baton run`"), "it says what to do: {refused}");
        cluster.baton(&["describe", "job", &old]).await.complains(&["not kept any more", "baton run"]);
        // The newest of its config stays, and so does what runs, though both are older than what is kept.
        cluster.ask().get(&newest).await.expect("the newest stays");
        cluster.task_is(&live, "work", TaskState::Running).await;
        cluster.ask().terminate(&live, "").await.expect("it can be ended");
        cluster.done(&live).await;
    }
}
