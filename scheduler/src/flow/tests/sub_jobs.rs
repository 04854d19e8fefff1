//! Tasks that stand for a job: made, ended, tried again and terminated, with the job they stand for.

use super::*;
use crate::{
    domain::definition::{SubJob, read},
    domain::origin::{DEPTH_MAX, Trigger},
    flow::request::{Delete, Error},
    store::job::JobRow,
};

impl Scene {
    /// Stores the definitions of a job file.
    pub(super) async fn store_file(&self, source: &str) -> Result<(), Error> {
        let documents = read(source, "default").unwrap_or_else(|problems| panic!("{problems:#?}"));
        let configs = documents.into_iter().map(|document| (document.config, document.source)).collect();
        self.engine.apply(Apply { caller: Caller::default(), configs }).await.map(drop)
    }

    pub(super) async fn run_job(&self, name: &str) -> Uuid {
        self.engine.run(run_of(name)).await.unwrap()
    }

    /// The jobs of a config, oldest first.
    pub(super) async fn jobs_of(&self, name: &str) -> Vec<JobRow> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT id FROM job WHERE name = :name ORDER BY id";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("name", name.into())])).await.unwrap();
        let ids: Vec<Uuid> = rows.iter().map(|row| row.column("id").unwrap()).collect();
        let mut jobs = store::job::facts(&tx, &ids).await.unwrap();
        jobs.sort_by_key(|job| job.id);
        jobs
    }

    async fn delete(&self, name: &str, force: bool) -> Result<u32, Error> {
        let delete = Delete { caller: Caller::default(), namespace: "default".into(), name: name.into(), force };
        self.engine.delete(delete).await
    }

    pub(super) async fn alter(&self, text: &str, params: &[(&str, sea_orm::Value)]) -> u64 {
        let tx = self.world.store.begin().await.unwrap();
        let changed = tx.execute(store::sql::statement(tx.backend(), text, params)).await.unwrap();
        tx.commit().await.unwrap();
        changed
    }
}

impl Puppet {
    /// Ends a task well, with what it wrote to `BATON_OUTPUT`.
    async fn end_with(&mut self, slot: u32, task: TaskRef, output: &str) {
        let result = TaskResult { output: output.as_bytes().to_vec(), ..exit(0) };
        self.say(vec![SlotReport { result: Some(result), ..report(slot, SlotStatus::Finished, Some(task)) }]).await;
    }

    /// Ends the next task, which must be this one.
    async fn do_next(&mut self, name: &str, code: i32) {
        let (slot, task, spec) = self.next_run().await;
        assert_eq!(spec.task_name, name);
        self.end(slot, task, code).await;
    }
}

fn runs(name: &str, job: &str, needs: &[&str]) -> TaskConfig {
    let target = Target::Job(SubJob { name: job.into(), params: BTreeMap::new() });
    TaskConfig { target, ..task(name, needs) }
}

const LOAD: &str = "\
name: load
params: {day: '', logical: \"{{ logical_time | date('%Y') }}\"}
tasks:
  - {name: fetch, shell: 'true'}
  - {name: store, needs: [fetch], command: [store, '{{ params.day }}']}
---
";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_its_jobs_one_after_the_other_and_hands_values_both_ways() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
params: {day: '2026-12-01'}
tasks:
  - {name: load, job: {name: load, params: {day: '{{ params.day }}'}}}
  - {name: report, needs: [load], command: [report, '{{ tasks.load.output.rows }}']}
";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run_job("plan").await;
        let (slot, fetch, spec) = runner.next_run().await;
        assert_eq!((spec.job_name.as_str(), spec.task_name.as_str()), ("load", "fetch"));
        let child = spec.job_id;
        runner.end(slot, fetch, 0).await;
        let (slot, stores, spec) = runner.next_run().await;
        assert_eq!(spec.target, Target::Command(vec!["store".into(), "2026-12-01".into()]));
        runner.end_with(slot, stores, "rows=42\n").await;
        let (slot, report, spec) = runner.next_run().await;
        assert_eq!(spec.target, Target::Command(vec!["report".into(), "42".into()]));
        runner.end(slot, report, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["load"].0), (JobState::Finished, TaskState::Finished));
        let children = scene.jobs_of("load").await;
        assert_eq!(children.len(), 1);
        let row = &children[0];
        assert_eq!((row.id, row.trigger, row.depth), (child, Trigger::SubJob, 1));
        let parent = row.parent.expect("it has a parent");
        assert_eq!((parent.job, parent.task.map(|(_, attempt)| attempt)), (job, Some(1)));
        // It is about the time that its parent is about.
        let about = scene.jobs_of("plan").await[0].created_at;
        assert_eq!(row.logical.as_ref().map(|logical| logical.at), Some(about));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_child_fails_its_task_which_tries_again_with_a_new_child() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
tasks: [{name: load, retry: {max_attempts: 2}, job: {name: load}}]
";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run_job("plan").await;
        runner.do_next("fetch", 1).await;
        runner.do_next("fetch", 3).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let children = scene.jobs_of("load").await;
        let attempts: Vec<_> = children.iter().map(|child| child.parent.unwrap().task.unwrap().1).collect();
        assert_eq!(attempts, [1, 2]);
        let short = &children[1].id.simple().to_string()[24..];
        assert_eq!(tasks["load"], (TaskState::Failed, format!("job load ({short}) failed: 1 task failed")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_run_on_one_runner_has_its_jobs_made_all_the_same() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
task_defaults: {queue_timeout: 1h, concurrency: {key: db, limit: 1}, runner: {match_labels: {pool: etl}}}
tasks:
  - {name: load, shards: {count: 2}, job: {name: load}}
  - {name: report, needs: [load], shell: 'true'}
";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let labels = BTreeMap::from([("pool".to_owned(), "etl".to_owned())]);
        let mut runner = Puppet::dial(&scene, Hello { labels, ..hello("r", "1", 1, 1) }).await;
        let job = scene.engine.run(Run { runner: Some("r".into()), ..run_of("plan") }).await.unwrap();
        for _ in 0..4 {
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.job_name, "load");
            runner.end(slot, task, 0).await;
        }
        runner.do_next("report", 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let plan = scene.jobs_of("plan").await.remove(0);
        assert_eq!((plan.pin.as_deref(), scene.jobs_of("load").await.len()), (Some("r"), 2));
        // Whoever waits in no queue has no alarm there: that is the one of report.
        assert_eq!(scene.count("task_alarm").await, 1);
    }
}

/// argoproj/argo-workflows#1817: a nested graph with retries whose failure is to be ignored.
#[tokio::test(flavor = "multi_thread")]
async fn a_nested_failure_that_is_ignored_lets_the_parent_go_on_once_after_the_last_try() {
    for scene in Scene::on_each_database().await {
        let source = "\
name: inner
tasks: [{name: fails, retry: {max_attempts: 2}, shell: 'false'}]
---
name: outer
tasks:
  - {name: nested, on_failure: ignore, retry: {max_attempts: 2}, job: {name: inner}}
  - {name: after, needs: [nested], shell: 'true'}
";
        scene.store_file(source).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let job = scene.run_job("outer").await;
        for _ in 0..4 {
            runner.do_next("fails", 1).await;
        }
        runner.do_next("after", 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["nested"].0), (JobState::Finished, TaskState::Failed));
        assert_eq!(scene.jobs_of("inner").await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_parent_is_over_only_when_its_child_is() {
    for scene in Scene::on_each_database().await {
        scene.store_file(&format!("{LOAD}name: plan\ntasks: [{{name: load, job: {{name: load}}}}]\n")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run_job("plan").await;
        let (slot, fetch, spec) = runner.next_run().await;
        let child = spec.job_id;
        scene.terminate(job).await;
        let Command::Reset { task, .. } = runner.next().await else { panic!("expected RESET") };
        assert_eq!(task, fetch);
        // Its process still ends, and so nothing above it is over.
        scene.until(job, 1, TaskState::Terminating).await;
        scene.until(child, 1, TaskState::Terminating).await;
        runner
            .say(vec![SlotReport { answer: Some(Answer::NotHeld), ..report(slot, SlotStatus::Idle, Some(fetch)) }])
            .await;
        assert_eq!(scene.end_of(child).await.0, JobState::Terminated);
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["load"].0), (JobState::Terminated, TaskState::Terminated));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_a_person_terminates_is_not_made_again() {
    for scene in Scene::on_each_database().await {
        let plan = "name: plan\ntasks: [{name: load, retry: {max_attempts: 5}, job: {name: load}}]\n";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let job = scene.run_job("plan").await;
        scene.until(job, 1, TaskState::Running).await;
        let child = scene.jobs_of("load").await[0].id;
        scene.terminate(child).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["load"].0), (JobState::Failed, TaskState::Failed));
        assert!(tasks["load"].1.ends_with("was terminated: terminated on request"), "{}", tasks["load"].1);
        assert_eq!(scene.jobs_of("load").await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeout_of_a_job_task_ends_its_child_first() {
    for scene in Scene::on_each_database().await {
        let plan = "name: plan\ntasks: [{name: load, timeout: 1s, job: {name: load}}]\n";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let job = scene.run_job("plan").await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let reason = &tasks["load"].1;
        assert!(reason.ends_with("failed: the time of the task that it stands for is over"), "{reason}");
        assert_eq!(scene.jobs_of("load").await[0].state, JobState::Failed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_shard_stands_for_a_job_of_its_own() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
tasks:
  - name: load
    shards: {items: '[\"mon\", \"tue\", \"wed\"]', max_parallel: 2}
    job: {name: load, params: {day: '{{ shard.item }}'}}
";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run_job("plan").await;
        for _ in 0..6 {
            let (slot, task, _) = runner.next_run().await;
            // Its own output, if it is the last task of its job.
            runner.end_with(slot, task, "done=yes\n").await;
        }
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks.len()), (JobState::Finished, 4));
        let days: Vec<String> = scene.jobs_of("load").await.iter().map(|job| job.params["day"].clone()).collect();
        assert_eq!(days, ["mon", "tue", "wed"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_can_have_no_child_fails_and_says_why() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
tasks:
  - {name: unknown, job: {name: load, params: {dai: x}}}
  - {name: gone, job: {name: other}}
";
        scene
            .store_file(&format!("{LOAD}name: other\ntasks: [{{name: a, shell: 'true'}}]\n---\n{plan}"))
            .await
            .unwrap();
        scene.delete("other", true).await.unwrap();
        let (state, tasks) = scene.end_of(scene.run_job("plan").await).await;
        assert_eq!(state, JobState::Failed);
        let expected = "job.params.dai is not a param of this job: did you mean \"day\"?";
        assert_eq!(tasks["unknown"], (TaskState::Failed, expected.into()));
        let expected = "job config \"other\" does not exist; apply it, and run this job again";
        assert_eq!(tasks["gone"], (TaskState::Failed, expected.into()));
        assert!(scene.jobs_of("load").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_slipped_through_ends_at_its_bound() {
    for scene in Scene::on_each_database().await {
        let plan = "\
name: plan
tasks: [{name: first, shell: 'true'}, {name: load, needs: [first], job: {name: load}}]
";
        scene.store_file(&format!("{LOAD}{plan}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run_job("plan").await;
        let (slot, first, _) = runner.next_run().await;
        let deep = i64::from(DEPTH_MAX);
        scene
            .alter("UPDATE job SET depth = :deep WHERE id = :job", &[("deep", deep.into()), ("job", job.into())])
            .await;
        runner.end(slot, first, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert!(tasks["load"].1.starts_with("32 jobs led to one another already"), "{}", tasks["load"].1);
        assert!(scene.jobs_of("load").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_no_signal_told_of_is_found_in_the_rows() {
    for scene in Scene::on_each_database().await {
        scene.store_file(&format!("{LOAD}name: plan\ntasks: [{{name: load, job: {{name: load}}}}]\n")).await.unwrap();
        let job = scene.run_job("plan").await;
        scene.until(job, 1, TaskState::Running).await;
        let child = scene.jobs_of("load").await[0].id;
        scene.until(child, 1, TaskState::Queued).await;
        scene.engine.stop().await;
        // As if its scheduler had died between the end of the child and the turn that tells the parent.
        let ended = "UPDATE job SET state = 'FINISHED', ended_at = 1 WHERE id = :job";
        assert_eq!(scene.alter(ended, &[("job", child.into())]).await, 1);
        let (engine, _) = Engine::start(settings(scene.world.store.clone(), "127.0.0.1:7421"));
        let scene = Scene { engine, ..scene };
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_run_without_end_or_into_nothing_is_refused() {
    for scene in Scene::on_each_database().await {
        let refused = |answer: Result<(), Error>| match answer {
            Err(Error::Invalid(fields)) => fields.iter().map(|(field, text)| format!("{field}: {text}")).collect(),
            other => vec![format!("{other:?}")],
        };
        scene.store_file("name: a\ntasks: [{name: t, shell: 'true'}]\n").await.unwrap();
        scene.store_file("name: b\ntasks: [{name: t, job: {name: a}}]\n").await.unwrap();
        let said: Vec<String> = refused(scene.store_file("name: a\ntasks: [{name: t, job: {name: b}}]\n").await);
        let ring = "these 2 job configs would lead to one another without end: a → b → a";
        assert_eq!(said, [format!("tasks[0].job.name: {ring} (take out one of these names)")]);
        let said: Vec<String> = refused(scene.store_file("name: c\ntasks: [{name: t, job: {name: d}}]\n").await);
        assert_eq!(said, ["tasks[0].job.name: job config \"d\" does not exist (apply it first, or in the same file)"]);
        // The order of documents does not matter.
        scene
            .store_file(
                "name: e\ntasks: [{name: t, job: {name: f}}]\n---\nname: f\ntasks: [{name: t, shell: 'true'}]\n",
            )
            .await
            .unwrap();
    }
}

/// hey-hoho/ScheduleMasterCore#10: deleting what others name.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_name_is_deleted_only_by_force_and_they_stay_editable() {
    for scene in Scene::on_each_database().await {
        scene.store_file(&format!("{LOAD}name: plan\ntasks: [{{name: load, job: {{name: load}}}}]\n---\nname: next\nafter_jobs: [load]\ntasks: [{{name: t, shell: 'true'}}]\n")).await.unwrap();
        let Err(Error::Conflict { reason, message }) = scene.delete("load", false).await else { panic!("it is named") };
        assert_eq!(reason, "JOB_CONFIG_USED");
        assert!(message.contains("named by next (after_jobs), plan (a `job` task)"), "{message}");
        scene.delete("load", true).await.unwrap();
        scene.store_file("name: plan\ntasks: [{name: load, shell: 'true'}]\n").await.unwrap();
        scene.store_file("name: next\ntasks: [{name: t, shell: 'true'}]\n").await.unwrap();
        scene.delete("plan", false).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_applies_on_two_schedulers_never_close_a_ring_together() {
    for scene in Scene::on_each_database().await {
        if !scene.world.store.is_clustered() {
            continue;
        }
        let store = store::Store::open(&scene.world.settings).await.unwrap();
        let (engine, _) = Engine::start(settings(store.clone(), "127.0.0.1:7421"));
        let leaf = |name: &str| format!("name: {name}\ntasks: [{{name: t, shell: 'true'}}]\n");
        let user = |name: &str, of: &str| format!("name: {name}\ntasks: [{{name: t, job: {{name: {of}}}}}]\n");
        for round in 0..20 {
            let (a, b) = (format!("a{round}"), format!("b{round}"));
            scene.store_file(&format!("{}---\n{}", leaf(&a), leaf(&b))).await.unwrap();
            let apply = |source: String| {
                let documents = read(&source, "default").unwrap();
                let configs = documents.into_iter().map(|document| (document.config, document.source)).collect();
                Apply { caller: Caller::default(), configs }
            };
            let (first, second) =
                tokio::join!(scene.engine.apply(apply(user(&a, &b))), engine.apply(apply(user(&b, &a))));
            assert_eq!(u32::from(first.is_ok()) + u32::from(second.is_ok()), 1, "{first:?} {second:?}");
        }
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_children_are_made_in_slices_and_each_runs_once() {
    const COUNT: u32 = 450;
    for scene in Scene::on_each_database().await {
        scene.store_file(LOAD.trim_end_matches("---\n")).await.unwrap();
        let shards = Some(Shards { split: Split::Count(COUNT), max_parallel: 0, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..runs("load", "load", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 32)).await;
        let job = scene.run().await;
        for _ in 0..2 * COUNT {
            let (slot, task, _) = runner.next_run().await;
            runner.end(slot, task, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        assert_eq!(scene.jobs_of("load").await.len(), COUNT as usize);
    }
}
