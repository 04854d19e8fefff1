//! Jobs that are made when others have finished.

use super::{schedules::until, *};
use crate::{domain::origin::Trigger, store::after_jobs};

const TWO_AND_ONE: &str = "\
name: a
tasks: [{name: ta, shell: 'true'}]
---
name: b
tasks: [{name: tb, shell: 'true'}]
---
name: c
after_jobs: [a, b]
tasks: [{name: tc, shell: 'true'}]
";

impl Scene {
    /// Runs a job of one task and ends that with this code.
    pub(super) async fn run_through(&self, runner: &mut Puppet, name: &str, code: i32) -> Uuid {
        let job = self.run_job(name).await;
        let (slot, task, spec) = runner.next_run().await;
        assert_eq!(spec.job_id, job);
        runner.end(slot, task, code).await;
        self.end_of(job).await;
        job
    }

    /// After which jobs a job was made.
    async fn sources(&self, job: Uuid) -> Vec<Uuid> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT source_job_id FROM job_source WHERE job_id = :job ORDER BY name";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
        rows.iter().map(|row| row.column("source_job_id").unwrap()).collect()
    }

    /// How many rows of a table there are.
    pub(super) async fn count(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) AS n FROM {table}")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_made_once_all_it_comes_after_have_finished() {
    for scene in Scene::on_each_database().await {
        scene.store_file(TWO_AND_ONE).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let a = scene.run_through(&mut runner, "a", 0).await;
        // Neither a second run of the one nor a failure of the other makes up for the other.
        scene.run_through(&mut runner, "a", 0).await;
        scene.run_through(&mut runner, "b", 1).await;
        assert!(scene.jobs_of("c").await.is_empty());
        let b = scene.run_through(&mut runner, "b", 0).await;
        let (slot, tc, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "tc");
        runner.end(slot, tc, 0).await;
        scene.end_of(spec.job_id).await;
        let jobs = scene.jobs_of("c").await;
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].trigger, jobs[0].depth), (Trigger::AfterJobs, 1));
        assert_eq!(scene.sources(jobs[0].id).await, [a, b]);
        // The next round begins from nothing.
        scene.run_through(&mut runner, "b", 0).await;
        assert_eq!(scene.jobs_of("c").await.len(), 1);
        scene.run_through(&mut runner, "a", 0).await;
        let (_, _, spec) = runner.next_run().await;
        assert_eq!(spec.job_name, "c");
        assert_eq!(scene.jobs_of("c").await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overlap_governs_what_comes_after_and_what_it_skips_is_written_down() {
    for scene in Scene::on_each_database().await {
        let after = "name: c\nafter_jobs: [a]\ntasks: [{name: tc, shell: 'true'}]\n";
        scene.store_file(&format!("name: a\ntasks: [{{name: ta, shell: 'true'}}]\n---\n{after}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        scene.run_through(&mut runner, "a", 0).await;
        let (slot, tc, spec) = runner.next_run().await;
        scene.run_through(&mut runner, "a", 0).await;
        until("it is written down", async || scene.count("fire").await > 0).await;
        assert_eq!(scene.jobs_of("c").await.len(), 1);
        let config = scene.world.store.config("default", "c", None).await.unwrap().unwrap();
        let fires = scene.world.store.fires(config.id, None, 10).await.unwrap();
        let told: Vec<_> = fires.rows.iter().map(|fires| (fires.key.as_str(), fires.reason.as_str())).collect();
        assert_eq!(told, [("after jobs", "skipped: a job of this config is live")]);
        runner.end(slot, tc, 0).await;
        scene.end_of(spec.job_id).await;
        // What was skipped is over: it is not made up for.
        scene.store_file(&format!("{after}overlap: queue\n")).await.unwrap();
        assert_eq!((scene.jobs_of("c").await.len(), scene.count("after_end").await), (1, 0));

        scene.run_through(&mut runner, "a", 0).await;
        let (slot, tc, first) = runner.next_run().await;
        scene.run_through(&mut runner, "a", 0).await;
        runner.end(slot, tc, 0).await;
        let (_, _, second) = runner.next_run().await;
        assert_eq!(second.job_name, "c");
        assert_ne!(first.job_id, second.job_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_end_at_once_on_two_schedulers_make_one_job() {
    for scene in Scene::on_each_database().await {
        if !scene.world.store.is_clustered() {
            continue;
        }
        let world = scene.world.again().await;
        let (engine, _) = Engine::start(settings(world.store.clone(), "127.0.0.1:7421"));
        let other = Scene { world, engine };
        let allow = TWO_AND_ONE.replace("after_jobs", "overlap: allow\nafter_jobs");
        scene.store_file(&allow.replace("tc, shell: 'true'", "tc, enabled: false, shell: 'true'")).await.unwrap();
        let mut runners =
            [Puppet::dial(&scene, hello("r", "1", 1, 1)).await, Puppet::dial(&other, hello("q", "1", 1, 1)).await];
        for round in 1..=15 {
            scene.run_job("a").await;
            scene.run_job("b").await;
            let [one, two] = &mut runners;
            let (first, second) = tokio::join!(one.next_run(), two.next_run());
            tokio::join!(one.end(first.0, first.1, 0), two.end(second.0, second.1, 0));
            until("the job is made", async || scene.jobs_of("c").await.len() >= round).await;
            assert_eq!(scene.jobs_of("c").await.len(), round);
        }
        assert_eq!(scene.count("after_end").await, 0);
        assert_eq!(scene.count("job_source").await, 30);
        other.engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_written_down_is_not_lost_with_its_scheduler() {
    for scene in Scene::on_each_database().await {
        scene.store_file("name: a\ntasks: [{name: ta, shell: 'true'}]\n---\nname: c\nafter_jobs: [a]\ntasks: [{name: tc, shell: 'true'}]\n").await.unwrap();
        let a = scene.run_job("a").await;
        scene.until(a, 1, TaskState::Queued).await;
        scene.engine.stop().await;
        // As if its scheduler had died between the end of the job and the turn that makes the next one.
        let tx = scene.world.store.begin().await.unwrap();
        let row = store::job::facts(&tx, &[a]).await.unwrap().remove(0);
        let finished =
            after_jobs::Finished { job: a, namespace: row.namespace, name: row.name, ended_at: row.created_at };
        assert_eq!(after_jobs::note(&tx, std::slice::from_ref(&finished)).await.unwrap(), 1);
        // Told twice, it counts once.
        assert_eq!(after_jobs::note(&tx, &[finished]).await.unwrap(), 0);
        tx.commit().await.unwrap();
        let (engine, _) = Engine::start(settings(scene.world.store.clone(), "127.0.0.1:7421"));
        let scene = Scene { engine, ..scene };
        until("the job is made", async || !scene.jobs_of("c").await.is_empty()).await;
        assert_eq!(scene.sources(scene.jobs_of("c").await[0].id).await, [a]);
    }
}
