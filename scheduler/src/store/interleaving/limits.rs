//! Keys and places, counted by two at once: with their locks they are never given out twice, without they are.

use std::collections::BTreeSet;

use super::*;
use crate::{
    domain::{
        definition::JobConfig,
        placement::{Holders, Limit},
    },
    store::{concurrency, config, place},
};

impl Scene {
    /// Two queued tasks of one job, which need the same key.
    async fn two_for_a_key(&self) -> [TaskRow; 2] {
        let job = a_job();
        let tasks = [a_task(&job, 0, TaskState::Queued), a_task(&job, 1, TaskState::Queued)];
        let tx = self.one().await;
        job::insert(&tx, &[&job]).await.unwrap();
        task::insert(&tx, &[&tasks[0], &tasks[1]]).await.unwrap();
        tx.commit().await.unwrap();
        tasks
    }

    /// A config with one place, and two jobs that wait for it.
    async fn two_for_a_place(&self) -> (Uuid, [Uuid; 2]) {
        let tx = self.one().await;
        let name = ("default".to_owned(), "job".to_owned());
        config::ensure(&tx, &BTreeSet::from([name.clone()]), Timestamp(1)).await.unwrap();
        let id = config::lock(&tx, std::slice::from_ref(&name)).await.unwrap()[&name].id;
        let definition = JobConfig { max_active_jobs: Some(1), ..JobConfig::default() };
        config::insert_version(&tx, id, 1, &definition, "", &[], Timestamp(1)).await.unwrap();
        let waits = || JobRow {
            job_config_id: id,
            state: JobState::Created,
            waiting: true,
            held: true,
            expanded: 0,
            ..a_job()
        };
        let jobs = [waits(), waits()];
        job::insert(&tx, &[&jobs[0], &jobs[1]]).await.unwrap();
        tx.commit().await.unwrap();
        (id, jobs.map(|job| job.id))
    }
}

fn key() -> BTreeSet<String> {
    BTreeSet::from(["default/db".to_owned()])
}

async fn holders(tx: &Tx) -> Holders {
    concurrency::holders(tx, &key()).await.unwrap().remove("default/db").unwrap_or_default()
}

/// Gives a task out under the key.
async fn give_out(tx: &Tx, task: &TaskRow) {
    let mut task = task.clone();
    task.counters.lease += 1;
    (task.runner_id, task.slot, task.session_id) = (Some("r".into()), Some(0), Some(Uuid::now_v7()));
    assert_eq!(task::dispatch(tx, &[&task]).await.unwrap(), 1);
    concurrency::hold(tx, &[(task.id, &Limit::new("default", "db", 1))]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_counts_a_key_has_it_alone_and_the_other_does_not_wait() {
    let Some(scene) = Scene::set().await else { return };
    let [first, second] = scene.two_for_a_key().await;
    let (one, two) = (scene.one().await, scene.two().await);
    assert_eq!(concurrency::lock(&one, &key()).await.unwrap(), key(), "a new key is its maker's");
    one.commit().await.unwrap();

    let one = scene.one().await;
    assert_eq!(concurrency::lock(&one, &key()).await.unwrap(), key());
    assert_eq!(concurrency::lock(&two, &key()).await.unwrap(), BTreeSet::new(), "it is in other hands");
    assert!(holders(&one).await.admits(1));
    give_out(&one, &first).await;
    one.commit().await.unwrap();

    assert_eq!(concurrency::lock(&two, &key()).await.unwrap(), key());
    assert!(!holders(&two).await.admits(1), "the second one waits");
    // It has its turn once the first one is over.
    finish(&two, &first).await;
    assert!(holders(&two).await.admits(1));
    give_out(&two, &second).await;
    assert_eq!(holders(&two).await, Holders { count: 1, lowest: Some(1) });
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_of_the_key_both_give_it_out() {
    let Some(scene) = Scene::set().await else { return };
    let [first, second] = scene.two_for_a_key().await;
    let (one, two) = (scene.one().await, scene.two().await);
    assert!(holders(&one).await.admits(1));
    assert!(holders(&two).await.admits(1));
    give_out(&one, &first).await;
    give_out(&two, &second).await;
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    assert_eq!(holders(&scene.one().await).await.count, 2, "two hold what one may");
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_counted_in_the_statement_that_waited_for_the_lock_are_those_of_before() {
    let Some(scene) = Scene::set().await else { return };
    let [first, _] = scene.two_for_a_key().await;
    let (one, two) = (scene.one().await, scene.two().await);
    concurrency::lock(&one, &key()).await.unwrap();
    one.commit().await.unwrap();
    let one = scene.one().await;
    concurrency::lock(&one, &key()).await.unwrap();
    give_out(&one, &first).await;
    let second = scene
        .waiting(async move {
            let at_once = "SELECT (SELECT count(*) FROM task WHERE concurrency_key = key) AS holders
                           FROM concurrency_limit FOR UPDATE";
            let rows = two.query(sql::statement(two.backend(), at_once, &[])).await.unwrap();
            let at_once: i64 = rows[0].column("holders").unwrap();
            (at_once, holders(&two).await.count)
        })
        .await;
    one.commit().await.unwrap();
    let (at_once, later) = second.await.unwrap();
    assert_eq!((at_once, later), (0, 1), "the later statement sees the one that holds it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_end_is_not_proven_holds_its_key() {
    for world in testing::worlds().await {
        let tx = world.store.begin().await.unwrap();
        let job = a_job();
        let task = a_task(&job, 0, TaskState::Queued);
        job::insert(&tx, &[&job]).await.unwrap();
        task::insert(&tx, &[&task]).await.unwrap();
        assert_eq!(holders(&tx).await, Holders::default(), "what is queued holds nothing");
        give_out(&tx, &task).await;
        let set = async |text: &str| {
            tx.execute(sql::statement(tx.backend(), text, &[("id", task.id.into())])).await.unwrap();
            holders(&tx).await.count
        };
        assert_eq!(set("UPDATE task SET state = 'TERMINATING' WHERE id = :id").await, 1);
        assert_eq!(set("UPDATE task SET state = 'FAILED', gone = false WHERE id = :id").await, 1);
        assert_eq!(set("UPDATE task SET gone = true WHERE id = :id").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_is_given_out_by_whoever_has_the_config_locked() {
    let Some(scene) = Scene::set().await else { return };
    let (config, [first, second]) = scene.two_for_a_place().await;
    let (one, two) = (scene.one().await, scene.two().await);
    assert_eq!(place::claim(&one, 10).await.unwrap(), [config]);
    assert!(place::claim(&two, 10).await.unwrap().is_empty(), "it is in other hands");
    let places = place::of_configs(&one, &[config]).await.unwrap()[&config];
    assert_eq!((places.free(), places.held), (1, 2));
    assert_eq!(place::held(&one, config, places.free()).await.unwrap(), [first]);
    begin(&one, first).await;
    one.commit().await.unwrap();
    assert!(place::claim(&two, 10).await.unwrap().is_empty(), "there is no place any more");
    end(&two, first).await;
    assert_eq!(place::claim(&two, 10).await.unwrap(), [config]);
    assert_eq!(place::held(&two, config, 1).await.unwrap(), [second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_of_the_config_both_begin_a_job() {
    let Some(scene) = Scene::set().await else { return };
    let (config, [first, second]) = scene.two_for_a_place().await;
    let (one, two) = (scene.one().await, scene.two().await);
    for (tx, job) in [(&one, first), (&two, second)] {
        assert_eq!(place::of_configs(tx, &[config]).await.unwrap()[&config].free(), 1);
        begin(tx, job).await;
    }
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    let places = place::of_configs(&scene.one().await, &[config]).await.unwrap()[&config];
    assert_eq!((places.max, places.active), (Some(1), 2), "two run where one may");
}

async fn begin(tx: &Tx, job: Uuid) {
    let text = "UPDATE job SET waiting = false, held = false WHERE id = :id";
    tx.execute(sql::statement(tx.backend(), text, &[("id", job.into())])).await.unwrap();
}

async fn end(tx: &Tx, job: Uuid) {
    let text = "UPDATE job SET state = 'FINISHED' WHERE id = :id";
    tx.execute(sql::statement(tx.backend(), text, &[("id", job.into())])).await.unwrap();
}
