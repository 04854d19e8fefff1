//! Who gets what, and who waits: selectors, routing, keys, places, pins and time limits of the queue.

use super::{schedules::until, *};
use crate::{
    domain::{
        definition::{Concurrency, LabelExpression, Placement},
        placement::{Operator, Routing},
    },
    flow::request,
    store::read,
};

fn on(placement: Placement, config: TaskConfig) -> TaskConfig {
    TaskConfig { placement, ..config }
}

fn routed(routing: Routing) -> Placement {
    Placement { routing: Some(routing), ..Placement::default() }
}

fn needing(key: &str, limit: u32, config: TaskConfig) -> TaskConfig {
    TaskConfig { concurrency: Some(Concurrency { key: key.into(), limit }), ..config }
}

impl Scene {
    async fn apply_whole(&self, config: JobConfig) {
        self.apply_config(JobConfig { namespace: "default".into(), ..config }).await;
    }

    async fn run_named(&self, name: &str, runner: Option<&str>) -> Result<Uuid, request::Error> {
        self.engine.run(Run { runner: runner.map(Into::into), ..run_of(name) }).await
    }

    async fn job(&self, id: Uuid) -> read::Job {
        self.world.store.job(id).await.unwrap().expect("the job is there")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_only_where_everything_it_asks_for_is() {
    for scene in Scene::on_each_database().await {
        let zone = LabelExpression { key: "zone".into(), operator: Some(Operator::NotIn), values: vec!["b".into()] };
        let placement = Placement {
            match_expressions: vec![zone],
            min_version: "0.2".into(),
            exclude_runners: vec!["excluded".into()],
            ..Placement::default()
        };
        scene.apply(vec![on(placement, task("a", &[])), task("b", &[])]).await;
        let labelled = |id: &str, zone: &str, version: &str| Hello {
            labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            version: version.into(),
            ..hello(id, "1", 1, 3)
        };
        let mut old = Puppet::dial(&scene, labelled("old", "a", "0.1.9")).await;
        let _elsewhere = Puppet::dial(&scene, labelled("elsewhere", "b", "0.2.0")).await;
        let _excluded = Puppet::dial(&scene, labelled("excluded", "a", "0.2.0")).await;
        let job = scene.run().await;
        scene.until(job, 1, TaskState::Dispatched).await;
        scene.until(job, 1, TaskState::Queued).await;
        let mut new = Puppet::dial(&scene, labelled("new", "a", "0.2.0")).await;
        let (slot, a, spec) = new.next_run().await;
        assert_eq!(spec.task_name, "a");
        new.end(slot, a, 0).await;
        // The other one asked for nothing, and went somewhere.
        scene.until(job, 1, TaskState::Finished).await;
        old.say(Vec::new()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routing_by_a_key_goes_to_one_runner_and_round_robin_to_each() {
    for scene in Scene::on_each_database().await {
        let by_key = Placement { routing_key: "{{ shard.index % 2 }}".into(), ..routed(Routing::ConsistentHash) };
        let shards = |count| Some(Shards { split: Split::Count(count), max_parallel: 1, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards: shards(6), ..on(by_key, task("keyed", &[])) }]).await;
        let (mut a, mut b) =
            (Puppet::dial(&scene, hello("a", "1", 1, 2)).await, Puppet::dial(&scene, hello("b", "1", 1, 2)).await);
        let took = async |a: &mut Puppet, b: &mut Puppet| {
            tokio::select! {
                (slot, task, spec) = a.next_run() => { a.end(slot, task, 0).await; ("a", spec.shard.unwrap().0) }
                (slot, task, spec) = b.next_run() => { b.end(slot, task, 0).await; ("b", spec.shard.unwrap().0) }
            }
        };
        scene.run().await;
        let mut homes: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for _ in 0..6 {
            let (runner, shard) = took(&mut a, &mut b).await;
            homes.entry(shard % 2).or_default().push(runner);
        }
        assert!(
            homes.values().all(|runners| runners.len() == 3 && runners.iter().all(|one| *one == runners[0])),
            "{homes:?}"
        );

        scene
            .apply(vec![TaskConfig { shards: shards(4), ..on(routed(Routing::RoundRobin), task("turns", &[])) }])
            .await;
        let job = scene.run().await;
        let mut round = Vec::new();
        for _ in 0..4 {
            round.push(took(&mut a, &mut b).await.0);
        }
        assert_eq!(round, ["a", "b", "a", "b"]);
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_routing_key_that_cannot_be_worked_out_fails_its_task_alone() {
    for scene in Scene::on_each_database().await {
        let wrong = Placement { routing_key: "{{ job.nothing.at.all }}".into(), ..routed(Routing::ConsistentHash) };
        scene.apply(vec![on(wrong, task("wrong", &[])), task("right", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (slot, right, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "right");
        runner.end(slot, right, 0).await;
        let (_, tasks) = scene.end_of(job).await;
        let (state, reason) = &tasks["wrong"];
        assert_eq!(*state, TaskState::Failed);
        assert!(reason.starts_with("runner.routing_key"), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_held_by_so_many_across_configs_and_passed_on_when_one_ends() {
    for scene in Scene::on_each_database().await {
        for name in ["one", "two"] {
            let tasks = vec![needing("db", 1, task(name, &[]))];
            scene.apply_whole(JobConfig { name: name.into(), tasks, ..JobConfig::default() }).await;
        }
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let first = scene.run_named("one", None).await.unwrap();
        let (slot, held, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "one");
        let second = scene.run_named("two", None).await.unwrap();
        let told = scene.held_by(second, ("two", None), "concurrency").await;
        assert!(told.summary.contains("the key default/db is held by as many as may"), "{}", told.summary);
        runner.end(slot, held, 1).await;
        let (slot, passed_on, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "two");
        runner.end(slot, passed_on, 0).await;
        assert_eq!(scene.end_of(first).await.0, JobState::Failed);
        assert_eq!(scene.end_of(second).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_jobs_of_a_config_run_at_once_and_the_oldest_goes_next() {
    for scene in Scene::on_each_database().await {
        let config = |max| JobConfig {
            name: "job".into(),
            tasks: vec![task("a", &[])],
            max_active_jobs: max,
            ..JobConfig::default()
        };
        scene.apply_whole(config(Some(1))).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 8)).await;
        let mut jobs = Vec::new();
        for _ in 0..4 {
            jobs.push(scene.run().await);
        }
        let (slot, first, _) = runner.next_run().await;
        let (second, third) = (scene.job(jobs[1]).await, scene.job(jobs[2]).await);
        assert_eq!((second.state, third.state), (JobState::Created, JobState::Created));
        assert_eq!(second.reason, "waits for a place: max_active_jobs is 1");
        let definition = scene.world.store.definition(third.config_id, 1).await.unwrap().unwrap();
        let told = crate::flow::explain_job(&scene.world.store, &third, &definition).await.unwrap();
        assert!(told.summary.contains("at most 1 job of its config may run at once"), "{}", told.summary);
        assert!(told.checks[0].detail.starts_with("1 of at most 1 run, 1 before it"), "{}", told.checks[0].detail);

        runner.end(slot, first, 0).await;
        let (slot, of_second, spec) = runner.next_run().await;
        assert_eq!(spec.job_id, jobs[1]);
        // One that waits can be ended as it is.
        assert_eq!(scene.terminate(jobs[2]).await, 0);
        let ended = scene.job(jobs[2]).await;
        assert_eq!((ended.state, ended.waiting, ended.held), (JobState::Terminated, false, false));
        // The newest version decides.
        scene.apply_whole(config(None)).await;
        let (other, of_fourth, spec) = runner.next_run().await;
        assert_eq!(spec.job_id, jobs[3]);
        runner.end(other, of_fourth, 0).await;
        runner.end(slot, of_second, 0).await;
        for job in [jobs[0], jobs[1], jobs[3]] {
            assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_runner_for_too_long_fails_and_says_so() {
    for scene in Scene::on_each_database().await {
        let soon = Some(Duration::from_millis(50));
        let labels = BTreeMap::from([("pool".to_owned(), "none".to_owned())]);
        let waits =
            TaskConfig { match_labels: labels, retry: Some(Retry::times(3, Duration::ZERO)), ..task("waits", &[]) };
        let taken = TaskConfig { queue_timeout: soon, ..task("taken", &[]) };
        scene.apply(vec![TaskConfig { queue_timeout: soon, ..waits }, taken, task("patient", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (taken, patient) = (runner.next_run().await, runner.next_run().await);
        // What was taken in time runs for as long as it likes.
        scene.until(job, 1, TaskState::Failed).await;
        runner.end(taken.0, taken.1, 0).await;
        runner.end(patient.0, patient.1, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let (state, reason) = &tasks["waits"];
        assert_eq!(*state, TaskState::Failed);
        assert!(reason.starts_with("queue_timeout: no runner took it for "), "{reason}");
        assert_eq!(tasks["taken"].0, TaskState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_for_one_runner_goes_there_or_nowhere() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"])]).await;
        let mut one = Puppet::dial(&scene, hello("one", "1", 1, 1)).await;
        let _two = Puppet::dial(&scene, hello("two", "1", 1, 8)).await;
        assert!(matches!(
            scene.run_named("job", Some("three")).await,
            Err(request::Error::NotFound { kind: "runner", .. })
        ));
        let job = scene.run_named("job", Some("one")).await.unwrap();
        for expected in ["a", "b"] {
            let (slot, task, spec) = one.next_run().await;
            assert_eq!(spec.task_name, expected);
            one.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);

        let labels = BTreeMap::from([("pool".to_owned(), "etl".to_owned())]);
        scene.apply(vec![TaskConfig { match_labels: labels, ..task("a", &[]) }]).await;
        let refused = scene.run_named("job", Some("one")).await.unwrap_err().to_string();
        assert!(refused.starts_with("runner one may not take task \"a\": it lacks pool=etl"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_for_a_runner_that_is_gone_for_long_fails() {
    for scene in Scene::in_haste().await {
        scene.apply(vec![task("a", &[])]).await;
        let busy = Puppet::dial(&scene, hello("one", "1", 1, 0)).await;
        let job = scene.run_named("job", Some("one")).await.unwrap();
        scene.until(job, 1, TaskState::Queued).await;
        // It leaves, and long ago.
        busy.leave().await;
        scene.session_ends("one").await;
        scene.alter("UPDATE runner SET last_seen_at = 1000000 WHERE id = 'one'", &[]).await;
        scene.alter("UPDATE task SET queued_at = 1000000", &[]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let reason = &tasks["a"].1;
        assert!(reason.starts_with("only runner one may take it, and it is gone: not heard for "), "{reason}");
    }
}

impl Scene {
    /// Scenes with short times, in which what is lost is soon given up.
    async fn in_haste() -> Vec<Self> {
        let mut scenes = Vec::new();
        for world in testing::worlds().await {
            let timing = Timing::from_beat(Duration::from_millis(100), Duration::from_millis(100));
            let settings = settings(world.store.clone(), "127.0.0.1:7420");
            let (engine, _) = Engine::start(Settings { timing, ..settings });
            scenes.push(Self { world, engine });
        }
        scenes
    }

    /// Waits until no session of a runner counts.
    async fn session_ends(&self, runner: &str) {
        let gone = async || self.world.store.runner(runner).await.unwrap().is_some_and(|runner| !runner.has_session);
        until("the session ends", gone).await;
    }
}

impl Puppet {
    /// Says that it leaves and holds nothing.
    async fn leave(mut self) {
        self.seq += 1;
        let drain = Some(crate::domain::heartbeat::Drain::Leaving);
        self.engine.frame(self.session, Frame { seq: self.seq, ack: self.ack, slots: Vec::new(), drain }).await;
    }
}
