//! The order in which a turn takes its locks.

use super::*;
use crate::{
    flow::{batch::Input, order::Order, turn::within},
    store::{Store, sql::statement},
};

/// A turn that stores a definition for the first time and ends a job waits for whoever makes that same config before it
/// locks any job: else that one, who wants the job next, and the turn would wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_config_is_locked_before_any_job() {
    let Some(scene) = Scene::on_each_database().await.into_iter().find(|scene| scene.world.store.is_clustered()) else {
        return;
    };
    scene.apply(vec![task("a", &[])]).await;
    let job_id = scene.run().await;
    scene.until(job_id, 1, TaskState::Queued).await;
    scene.engine.stop().await;

    let other = Store::open(&scene.world.settings).await.unwrap();
    let theirs = other.begin().await.unwrap();
    let made = "INSERT INTO job_config (id, namespace, name, version, created_at, updated_at)
                VALUES (:id, 'default', 'new', 0, 0, 0)";
    theirs.execute(statement(theirs.backend(), made, &[("id", Uuid::now_v7().into())])).await.unwrap();

    let store = Store::open(&scene.world.settings).await.unwrap();
    let mut context = context(store);
    let (caller, reason) = (Caller::default(), String::new());
    let end = Terminate { caller, job_id, task: None, shard_index: None, grace: None, reason };
    let orders = vec![Order::Terminate(end), Order::Apply(apply_of(config_of("new", vec![task("b", &[])])))];
    let turn = tokio::spawn(async move {
        let input = Input { orders, ..Input::default() };
        within(PATIENCE, &mut context, &input).await.map(|output| output.orders.len())
    });
    let watching = Store::open(&scene.world.settings).await.unwrap();
    tokio::time::timeout(PATIENCE, async {
        loop {
            let tx = watching.begin().await.unwrap();
            let question = "SELECT count(*) AS waiting FROM pg_stat_activity
                            WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let rows = tx.query(statement(tx.backend(), question, &[])).await.unwrap();
            if rows[0].column::<i64>("waiting").unwrap() > 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the turn waits for the other's config");

    let locked = "SELECT id FROM job WHERE id = :job FOR UPDATE NOWAIT";
    let rows = theirs.query(statement(theirs.backend(), locked, &[("job", job_id.into())])).await;
    assert_eq!(rows.expect("nobody has locked the job").len(), 1);
    theirs.commit().await.unwrap();
    assert_eq!(turn.await.unwrap().expect("the turn goes on"), 2);
}
