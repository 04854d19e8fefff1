//! Explanations out of the database, beside an engine that does what they say.

use super::*;
use crate::{
    domain::explain::{Explanation, Standing},
    flow,
};

impl Scene {
    async fn explain(&self, job: Uuid, name: &str, shard: Option<u32>) -> Explanation {
        let store = &self.world.store;
        let job = store.job(job).await.unwrap().expect("the job is there");
        let definition = store.definition(job.config_id, job.version).await.unwrap().expect("its version is there");
        let (node, _) = definition.task(name).expect("the task has this name");
        let task = store.task(&job, node, shard).await.unwrap().expect("the task is written");
        let timing = Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10));
        flow::explain_task(store, timing, &job, &definition, &task).await.unwrap()
    }

    /// Waits until a check holds a task, and gives its explanation.
    pub(super) async fn held_by(&self, job: Uuid, (name, shard): (&str, Option<u32>), check: &str) -> Explanation {
        tokio::time::timeout(PATIENCE, async {
            let mut changes = self.engine.subscribe(job);
            loop {
                if self.is_expanded(job).await {
                    let explanation = self.explain(job, name, shard).await;
                    if holding(&explanation) == Some(check) {
                        return explanation;
                    }
                }
                changes.changed().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{name} is held by {check}"))
    }

    async fn is_expanded(&self, job: Uuid) -> bool {
        let job = self.world.store.job(job).await.unwrap().expect("the job is there");
        job.state != JobState::Created
    }
}

fn holding(explanation: &Explanation) -> Option<&'static str> {
    let held = explanation.checks.iter().find(|check| check.standing == Standing::Holds);
    held.map(|check| check.name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_task_tells_which_runner_it_lacks_until_one_takes_it() {
    for scene in Scene::on_each_database().await {
        let labels = BTreeMap::from([("pool".to_owned(), "etl".to_owned())]);
        scene.apply(vec![TaskConfig { match_labels: labels.clone(), ..task("a", &[]) }, task("b", &["a"])]).await;
        let job = scene.run().await;
        let nobody = scene.held_by(job, ("a", None), "capability").await;
        assert!(nobody.summary.ends_with("there is no runner"), "{}", nobody.summary);
        let waiting = scene.held_by(job, ("b", None), "parents").await;
        assert!(waiting.fixes[0].ends_with("/a"), "{:?}", waiting.fixes);

        let _plain = Puppet::dial(&scene, hello("plain", "1", 1, 1)).await;
        let unfit = scene.explain(job, "a", None).await;
        assert_eq!(holding(&unfit), Some("labels"));
        assert_eq!(unfit.fixes[0], "start a runner with  baton-runner --label pool=etl");

        let fitting = Hello { labels, ..hello("fitting", "1", 1, 1) };
        let mut fitting = Puppet::dial(&scene, fitting).await;
        let (slot, a, _) = fitting.next_run().await;
        let given = scene.explain(job, "a", None).await;
        assert_eq!(holding(&given), Some("dispatch"), "{given:?}");
        fitting.say(vec![report(slot, SlotStatus::Running, Some(a))]).await;
        fitting.end(slot, a, 3).await;
        scene.end_of(job).await;
        let skipped = scene.explain(job, "b", None).await;
        assert_eq!(skipped.summary, "b is SKIPPED: all_success cannot hold: \"a\" failed");
        let failed = scene.explain(job, "a", None).await;
        assert_eq!(failed.summary, "a is FAILED: exit code 3");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_slots_and_drained_runners_are_told_apart() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, first, spec) = runner.next_run().await;
        let other = if spec.task_name == "a" { "b" } else { "a" };
        let busy = scene.held_by(job, (other, None), "slots").await;
        assert!(busy.summary.ends_with("every slot of the runners that may take it is busy (r)"), "{}", busy.summary);
        scene.engine.drain_runner("r".into(), true, "new disk".into()).await.unwrap();
        assert!(matches!(runner.next().await, Command::Drain));
        let drained = scene.explain(job, other, None).await;
        assert_eq!((holding(&drained), drained.fixes[0].as_str()), (Some("runners"), "baton resume r"));
        scene.engine.drain_runner("r".into(), false, String::new()).await.unwrap();
        assert!(matches!(runner.next().await, Command::Resume));
        runner.end(slot, first, 0).await;
        let (slot, second, _) = runner.next_run().await;
        runner.end(slot, second, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_waits_for_its_turn_says_so() {
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(5), max_parallel: 2, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }]).await;
        let job = scene.run().await;
        let waiting = scene.held_by(job, ("work", Some(4)), "max_parallel").await;
        assert!(waiting.summary.contains("only 2 shards may run at once"), "{}", waiting.summary);
        assert_eq!(waiting.fixes[0], "nothing: it starts when 3 more shards ended");
        let group = scene.explain(job, "work", None).await;
        assert!(group.summary.ends_with("0 of 5 shards ended"), "{}", group.summary);
        let queued = scene.explain(job, "work", Some(1)).await;
        let ahead = queued.checks.iter().find(|check| check.name == "queue").unwrap();
        assert_eq!(ahead.detail, "1 task before it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_condition_shows_what_it_read() {
    for scene in Scene::on_each_database().await {
        let when = TaskConfig { when: "tasks['a'].state == 'FAILED'".into(), ..task("b", &["a"]) };
        scene.apply(vec![task("a", &[]), when]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, _) = runner.next_run().await;
        runner.end(slot, a, 0).await;
        scene.end_of(job).await;
        let skipped = scene.explain(job, "b", None).await;
        assert_eq!(holding(&skipped), Some("when"));
        let check = skipped.checks.iter().find(|check| check.name == "when").unwrap();
        assert_eq!(check.detail, "tasks['a'].state == 'FAILED' is false, with tasks['a'].state = FINISHED");
    }
}
