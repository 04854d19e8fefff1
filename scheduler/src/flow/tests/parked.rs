//! K02: a definition that this version cannot read lays its own jobs aside and holds up no others.

use super::*;
use crate::{domain::callback, flow::request};

/// What the definition of a config is overwritten with.
const DAMAGE: &str = r#"{"tasks": "no list"}"#;

impl Scene {
    async fn apply_as(&self, name: &str, tasks: Vec<TaskConfig>) {
        self.apply_config(config_of(name, tasks)).await;
    }

    async fn run_of(&self, name: &str) -> Result<Uuid, request::Error> {
        self.engine.run(run_of(name)).await
    }

    /// Another scheduler in the place of this one: it has read nothing yet.
    async fn restart(&mut self) {
        self.engine.stop().await;
        self.engine = Engine::start(settings(self.world.store.clone(), "127.0.0.1:7420")).0;
    }

    /// Overwrites a definition and gives what it was.
    async fn damage(&self, name: &str, with: &str) -> String {
        let tx = self.world.store.begin().await.unwrap();
        let of = "job_config_id = (SELECT id FROM job_config WHERE name = :name)";
        let params = [("name", name.into()), ("text", with.into())];
        let read = format!("SELECT definition FROM job_config_version WHERE {of}");
        let rows = tx.query(store::sql::statement(tx.backend(), &read, &params[..1])).await.unwrap();
        let write = format!("UPDATE job_config_version SET definition = :text WHERE {of}");
        assert_eq!(tx.execute(store::sql::statement(tx.backend(), &write, &params)).await.unwrap(), 1);
        tx.commit().await.unwrap();
        rows[0].column("definition").unwrap()
    }

    /// Waits until the reason of a job is as `holds` says.
    async fn reason_is(&self, job: Uuid, holds: impl Fn(&str) -> bool) -> String {
        tokio::time::timeout(PATIENCE, async {
            let mut changes = self.engine.subscribe(job);
            loop {
                let tx = self.world.store.begin().await.unwrap();
                let row = store::job::facts(&tx, &[job]).await.unwrap().remove(0);
                drop(tx);
                if holds(&row.reason) {
                    return row.reason;
                }
                changes.changed().await;
            }
        })
        .await
        .expect("the reason becomes so")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_cannot_be_read_parks_its_own_jobs_alone() {
    for mut scene in Scene::on_each_database().await {
        scene.apply_as("bad", vec![task("a", &[]), task("b", &["a"])]).await;
        scene.apply_as("good", vec![task("a", &[]), task("b", &["a"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let running = scene.run_of("bad").await.unwrap();
        let (slot, held, _) = runner.next_run().await;
        runner.say(vec![report(slot, SlotStatus::Running, Some(held))]).await;
        scene.until(running, 1, TaskState::Running).await;
        let drained = "r".to_owned();
        scene.engine.drain_runner(drained, true, String::new()).await.unwrap();
        let queued = scene.run_of("bad").await.unwrap();
        scene.until(queued, 1, TaskState::Queued).await;
        scene.damage("bad", DAMAGE).await;
        scene.restart().await;
        scene.engine.drain_runner("r".to_owned(), false, String::new()).await.unwrap();

        let inventory = vec![report(slot, SlotStatus::Running, Some(held))];
        let mut runner = Puppet::dial(&scene, Hello { inventory, ..hello("r", "1", 2, 2) }).await;
        assert_eq!(runner.welcome.verdicts[0].1, Verdict::Adopt, "what runs goes on");
        // Its result is kept by its runner, and others of that runner are served.
        runner.end(slot, held, 0).await;
        let good = scene.run_of("good").await.unwrap();
        for _ in 0..2 {
            let (slot, task, _) = runner.next_run().await;
            runner.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(good).await.0, JobState::Finished);
        for job in [running, queued] {
            let reason = scene.reason_is(job, |reason| reason.starts_with("parked: ")).await;
            assert!(reason.contains("cannot read"), "{reason}");
        }
        let refused = scene.run_of("bad").await.unwrap_err();
        let request::Error::Conflict { reason, .. } = refused else { panic!("{refused:?}") };
        assert_eq!(reason, "DEFINITION_UNREADABLE");

        // Whoever does not want to wait for a repair ends it.
        assert_eq!(scene.terminate(queued).await, 2);
        assert_eq!(scene.end_of(queued).await.0, JobState::Terminated);
        assert_eq!(scene.terminate(running).await, 2);
        let (slot, task) = loop {
            match runner.next().await {
                Command::Reset { slot, task, .. } => break (slot, task),
                Command::ResultAck { .. } => {}
                other => panic!("expected RESET, got {other:?}"),
            }
        };
        assert_eq!(task, held);
        runner.end(slot, held, 0).await;
        let (state, tasks) = scene.end_of(running).await;
        assert_eq!((state, tasks["b"].0), (JobState::Terminated, TaskState::Terminated));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_job_goes_on_once_its_definition_can_be_read() {
    for mut scene in Scene::on_each_database().await {
        scene.apply_as("bad", vec![task("a", &[]), task("b", &["a"])]).await;
        let job = scene.run_of("bad").await.unwrap();
        scene.until(job, 1, TaskState::Queued).await;
        let whole = scene.damage("bad", DAMAGE).await;
        scene.restart().await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        scene.reason_is(job, |reason| reason.starts_with("parked: ")).await;
        scene.damage("bad", &whole).await;
        for _ in 0..2 {
            let (slot, task, _) = runner.next_run().await;
            runner.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        assert_eq!(scene.reason_is(job, |_| true).await, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_cannot_be_read_is_replaced_by_the_next_apply() {
    for mut scene in Scene::on_each_database().await {
        scene.apply_as("bad", vec![task("a", &[])]).await;
        scene.damage("bad", DAMAGE).await;
        scene.restart().await;
        scene.apply_as("bad", vec![task("a", &[])]).await;
        let job = scene.run_of("bad").await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

/// Whatever else asks for such a config is told so, each by itself: a task that stands for a job of it, and a callback that
/// starts one.
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_definition_that_cannot_be_read_fails_by_itself_with_the_reason() {
    for mut scene in Scene::on_each_database().await {
        scene.apply_as("bad", vec![task("a", &[])]).await;
        let plan = "name: plan
callbacks: [{events: [failed], job: {name: bad}}]
tasks: [{name: sub, job: {name: bad}}, {name: own, shell: 'true'}]
";
        scene.store_file(plan).await.unwrap();
        scene.damage("bad", DAMAGE).await;
        scene.restart().await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let plan = scene.run_job("plan").await;
        let (slot, task, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "own");
        runner.end(slot, task, 0).await;
        let (state, tasks) = scene.end_of(plan).await;
        assert_eq!((state, tasks["own"].0), (JobState::Failed, TaskState::Finished));
        assert_eq!(tasks["sub"].0, TaskState::Failed);
        assert!(tasks["sub"].1.contains("cannot read"), "{}", tasks["sub"].1);
        let rows = scene.callbacks(|rows| rows[0].state == callback::State::GivenUp).await;
        assert!(rows[0].last_error.contains("cannot read"), "{}", rows[0].last_error);
        assert_eq!(rows.len(), 1);
        assert!(scene.jobs_of("bad").await.is_empty());

        // And the next job of another config is served as ever.
        scene.apply_as("good", vec![super::task("a", &[])]).await;
        let good = scene.run_of("good").await.unwrap();
        let (slot, task, _) = runner.next_run().await;
        runner.end(slot, task, 0).await;
        assert_eq!(scene.end_of(good).await.0, JobState::Finished);
    }
}
