//! Jobs of jobs, seen by two at once: one attempt has one child, an end is seen by whoever waited for it, and of two that
//! end at once in a round one makes the next job.

use super::*;
use crate::{
    domain::origin::Parent,
    store::{
        after_jobs::{self, Finished},
        sub_job::{self, Place},
    },
};

impl Scene {
    /// A running job, its task that stands for another one, and that other one, which runs.
    async fn family(&self) -> (JobRow, TaskRow, JobRow) {
        let parent = a_job();
        let mut place = a_task(&parent, 0, TaskState::Running);
        place.class = "job;;".into();
        place.counters.attempt = 1;
        let child = child_of(&parent, &place);
        let tx = self.one().await;
        job::insert(&tx, &[&parent, &child]).await.unwrap();
        task::insert(&tx, &[&place]).await.unwrap();
        tx.commit().await.unwrap();
        (parent, place, child)
    }

    /// A config that comes after two others.
    async fn follower(&self) -> Uuid {
        let id = Uuid::now_v7();
        let tx = self.one().await;
        let config = "INSERT INTO job_config (id, namespace, name, version, created_at, updated_at)
                      VALUES (:id, 'default', 'after', 1, 0, 0)";
        tx.execute(sql::statement(tx.backend(), config, &[("id", id.into())])).await.unwrap();
        let uses = "INSERT INTO job_config_use (job_config_id, kind, namespace, name)
                    VALUES (:id, 'AFTER', 'default', 'left'), (:id, 'AFTER', 'default', 'right')";
        tx.execute(sql::statement(tx.backend(), uses, &[("id", id.into())])).await.unwrap();
        tx.commit().await.unwrap();
        id
    }
}

fn child_of(parent: &JobRow, place: &TaskRow) -> JobRow {
    let parent = Parent { job: parent.id, task: Some((place.id, place.counters.attempt)) };
    JobRow { trigger: Trigger::SubJob, parent: Some(parent), depth: 1, ..a_job() }
}

fn finished(name: &str) -> Finished {
    Finished { job: Uuid::now_v7(), namespace: "default".into(), name: name.into(), ended_at: Timestamp(1) }
}

async fn end(tx: &Tx, job: &JobRow) {
    let text = "UPDATE job SET state = 'FINISHED', ended_at = 1 WHERE id = :id";
    assert_eq!(tx.execute(sql::statement(tx.backend(), text, &[("id", job.id.into())])).await.unwrap(), 1);
}

async fn state_of_child(tx: &Tx, place: &TaskRow) -> JobState {
    sub_job::children(tx, &[place.id]).await.unwrap()[0].1.state
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_make_the_child_of_one_attempt_only_one_does() {
    let Some(scene) = Scene::set().await else { return };
    let (parent, place, _) = scene.family().await;
    let again = TaskRow { counters: Counters { attempt: 2, ..place.counters }, ..place };
    let (first, second) = (child_of(&parent, &again), child_of(&parent, &again));
    let (one, two) = (scene.one().await, scene.two().await);
    job::insert(&one, &[&first]).await.unwrap();
    let late = scene.waiting(async move { job::insert(&two, &[&second]).await }).await;
    one.commit().await.unwrap();
    let refused = late.await.unwrap().expect_err("the attempt has its child");
    assert!(format!("{refused:?}").contains("job_of_task"), "{refused:?}");
}

/// Who terminates a parent locks it and its child: when that waited for the child's end, there is nothing to end any more.
#[tokio::test(flavor = "multi_thread")]
async fn who_waited_for_the_end_of_a_child_sees_it() {
    let Some(scene) = Scene::set().await else { return };
    let (parent, place, child) = scene.family().await;
    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[child.id]).await.unwrap();
    end(&one, &child).await;
    // Without the lock the child would be taken for a running one.
    assert_eq!(state_of_child(&two, &place).await, JobState::Running);
    let ids = [parent.id, child.id];
    let waited = scene
        .waiting(async move {
            job::lock(&two, &ids).await.unwrap();
            let seen = state_of_child(&two, &place).await;
            two.commit().await.unwrap();
            seen
        })
        .await;
    one.commit().await.unwrap();
    assert_eq!(waited.await.unwrap(), JobState::Finished);
}

/// A child that ends while its parent is being locked is told to the parent by the turn after: its end is in the rows.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_came_a_moment_too_late_is_found_by_the_next_look() {
    let Some(scene) = Scene::set().await else { return };
    let (parent, place, child) = scene.family().await;
    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&two, &[parent.id]).await.unwrap();
    assert_eq!(sub_job::unsettled(&two, 9).await.unwrap(), []);
    job::lock(&one, &[child.id]).await.unwrap();
    end(&one, &child).await;
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    let left = Place { job: parent.id, task: place.id };
    for tx in [scene.one().await, scene.two().await] {
        assert_eq!(sub_job::unsettled(&tx, 9).await.unwrap(), [left]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_ends_at_once_neither_sees_the_round_and_the_next_look_makes_one_job_of_it() {
    let Some(scene) = Scene::set().await else { return };
    let after = scene.follower().await;
    let (one, two) = (scene.one().await, scene.two().await);
    assert_eq!(after_jobs::note(&one, &[finished("left")]).await.unwrap(), 1);
    assert_eq!(after_jobs::note(&two, &[finished("right")]).await.unwrap(), 1);
    for tx in [&one, &two] {
        assert!(after_jobs::claim_ready(tx, 9).await.unwrap().is_empty());
    }
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    // Each looks again, as a turn that noted an end asks the next one to; one of them gets it.
    let (one, two) = (scene.one().await, scene.two().await);
    let ready = after_jobs::claim_ready(&one, 9).await.unwrap();
    assert_eq!(ready.iter().map(|config| config.id).collect::<Vec<_>>(), [after]);
    assert!(after_jobs::claim_ready(&two, 9).await.unwrap().is_empty());
    assert_eq!(after_jobs::sources(&one, &[after]).await.unwrap()[&after].len(), 2);
    after_jobs::clear(&one, &[after]).await.unwrap();
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    let two = scene.two().await;
    assert!(after_jobs::claim_ready(&two, 9).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ends_of_one_config_at_once_count_once() {
    let Some(scene) = Scene::set().await else { return };
    scene.follower().await;
    let (one, two) = (scene.one().await, scene.two().await);
    assert_eq!(after_jobs::note(&one, &[finished("left")]).await.unwrap(), 1);
    let late = scene
        .waiting(async move {
            let noted = after_jobs::note(&two, &[finished("left")]).await.unwrap();
            two.commit().await.unwrap();
            noted
        })
        .await;
    one.commit().await.unwrap();
    assert_eq!(late.await.unwrap(), 0);
}
