//! Cases that other schedulers were caught by: restarts, locks, connections that die, schedules that come beside others.

use std::time::Duration;

use uuid::Uuid;

use super::{
    Puppet, Scene, hello,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{
        callback::Event,
        definition::{
            Callback, JobConfig, Overlap,
            callback::{Action, Webhook},
        },
        job::JobState,
        schedule::Spec,
        time::micros,
    },
    flow::request::{Caller, Terminate},
    store::{Store, sql},
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn allowing(name: &str, spec: Spec) -> JobConfig {
    JobConfig { overlap: Some(Overlap::Allow), ..config(name, spec) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weekly_schedule_fires_on_its_day_though_every_day_brings_a_restart() {
    for mut scene in Scene::on_each_database().await {
        scene.store(vec![allowing("job", Spec::every(DAY * 7))]).await.unwrap();
        let due = scene.row().await.due_at;
        for day in 1..=6 {
            scene.engine.stop().await;
            scene.set_clock(micros(DAY)).await;
            scene.engine = engine_on(scene.world.store.clone());
            assert_eq!(scene.row().await.due_at, due, "day {day}");
        }
        scene.fire().await;
        assert_eq!(scene.fire_times().await, [due.unwrap()]);
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_comes_beside_others_changes_none_of_them() {
    for scene in Scene::on_each_database().await {
        let mut job = allowing("job", Spec::cron("0 * * * *", ""));
        scene.store(vec![job.clone()]).await.unwrap();
        scene.fire().await;
        let before = scene.row().await;
        job.schedules.push(crate::domain::definition::Schedule { name: "z".into(), spec: Spec::every(HOUR) });
        scene.store(vec![job, allowing("other", Spec::every(HOUR))]).await.unwrap();
        assert_eq!(scene.row().await, before);
        assert_eq!(scene.fire_times().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_job_counts_though_the_scheduler_that_made_it_is_gone() {
    for mut scene in Scene::on_each_database().await {
        scene.store(vec![config("job", Spec::cron("0 * * * *", ""))]).await.unwrap();
        scene.fire().await;
        scene.engine.stop().await;
        scene.engine = engine_on(scene.world.store.clone());
        scene.fire().await;
        scene.fire().await;
        assert_eq!(scene.fire_times().await.len(), 1);
        let reason = "skipped: a job of this config is live".to_owned();
        assert_eq!(scene.missed().await, [("job".to_owned(), 2, reason)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_its_turn_and_is_terminated_elsewhere_never_starts() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let mut job = config("job", Spec::cron("0 * * * *", ""));
        job.overlap = Some(Overlap::Queue);
        scene.store(vec![job]).await.unwrap();
        scene.fire().await;
        let (slot, first, _) = runner.next_run().await;
        scene.fire().await;
        let waiting = waiting(&scene).await;
        // Another scheduler where there can be one.
        let elsewhere = if scene.world.store.is_clustered() {
            engine_on(Store::open(&scene.world.settings).await.unwrap())
        } else {
            scene.engine.clone()
        };
        let order = Terminate {
            caller: Caller::default(),
            job_id: waiting,
            task: None,
            shard_index: None,
            grace: None,
            reason: String::new(),
        };
        elsewhere.terminate(order).await.unwrap();
        runner.end(slot, first, 0).await;
        until("the first has ended", async || states(&scene).await.iter().all(|state| state.is_terminal())).await;
        scene.engine.wake().await;
        assert_eq!(states(&scene).await, [JobState::Finished, JobState::Terminated]);
    }
}

async fn waiting(scene: &Scene) -> Uuid {
    let tx = scene.world.store.begin().await.unwrap();
    let rows = tx.query(sql::statement(tx.backend(), "SELECT id FROM job WHERE waiting", &[])).await.unwrap();
    rows[0].try_get("", "id").unwrap()
}

async fn states(scene: &Scene) -> Vec<JobState> {
    let tx = scene.world.store.begin().await.unwrap();
    let rows = tx.query(sql::statement(tx.backend(), "SELECT state FROM job ORDER BY fire_time", &[])).await.unwrap();
    rows.iter().map(|row| JobState::from_word(&row.try_get::<String>("", "state").unwrap()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_schedules_that_is_locked_delays_a_fire_and_loses_none() {
    for scene in Scene::on_each_database().await {
        if !scene.world.store.is_clustered() {
            continue;
        }
        scene.store(vec![allowing("job", Spec::cron("0 * * * *", ""))]).await.unwrap();
        let due = scene.row().await.next_fire_at.unwrap();
        let other = Store::open(&scene.world.settings).await.unwrap();
        let holder = other.begin().await.unwrap();
        let lock = "LOCK TABLE schedule IN ACCESS EXCLUSIVE MODE";
        holder.execute(sql::statement(holder.backend(), lock, &[])).await.unwrap();
        scene.world.store.clock_set.fetch_add(due.0 - micros_now() + 1_000_000, std::sync::atomic::Ordering::Relaxed);
        scene.engine.wake().await;
        // It waits for the lock, and until then nobody can look.
        until("a turn waits for the lock", async || {
            let text = "SELECT count(*) AS waiting FROM pg_locks JOIN pg_database ON pg_database.oid = database
                        WHERE NOT granted AND datname = current_database()";
            let rows = holder.query(sql::statement(holder.backend(), text, &[])).await.unwrap();
            rows[0].try_get::<i64>("", "waiting").unwrap() > 0
        })
        .await;
        holder.commit().await.unwrap();
        until("it has fired", async || scene.fire_times().await == [due]).await;
        assert_eq!(scene.missed().await, []);
    }
}

fn micros_now() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_die_at_any_moment_neither_lose_a_fire_nor_make_it_twice() {
    const CONFIGS: usize = 40;
    const ROUNDS: usize = 4;
    for scene in Scene::on_each_database().await {
        if !scene.world.store.is_clustered() {
            continue;
        }
        let configs = (0..CONFIGS).map(|n| allowing(&format!("c{n}"), Spec::every(HOUR))).collect();
        scene.store(configs).await.unwrap();
        let killer = Store::open(&scene.world.settings).await.unwrap();
        for round in 1..=ROUNDS {
            scene.set_clock(micros(HOUR)).await;
            // Wherever the transaction is just then.
            for _ in 0..12 {
                let tx = killer.begin().await.unwrap();
                let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                            WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()
                                AND query NOT LIKE '%LISTEN%'";
                let _ended = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
                drop(tx);
                scene.engine.wake().await;
                tokio::task::yield_now().await;
            }
            until("every schedule fired once more", async || {
                scene.engine.wake().await;
                made(&killer).await == i64::try_from(CONFIGS * round).unwrap()
            })
            .await;
        }
        let tx = killer.begin().await.unwrap();
        let text = "SELECT count(*) AS doubled FROM (SELECT 1 FROM job GROUP BY job_config_id, fire_time
                    HAVING count(*) > 1) AS twice";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        assert_eq!(rows[0].try_get::<i64>("", "doubled").unwrap(), 0);
    }
}

async fn made(store: &Store) -> i64 {
    let tx = store.begin().await.unwrap();
    let rows = tx.query(sql::statement(tx.backend(), "SELECT count(*) AS made FROM job", &[])).await.unwrap();
    rows[0].try_get("", "made").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn fires_held_up_one_after_the_other_are_told_once() {
    for scene in Scene::on_each_database().await {
        let mut job = config("job", Spec::cron("0 * * * *", ""));
        let webhook = Webhook { url: "http://127.0.0.1:9/hook".into(), ..Webhook::default() };
        job.callbacks =
            vec![Callback { events: vec![Event::Missed], action: Action::Http(webhook), ..Callback::default() }];
        scene.store(vec![job]).await.unwrap();
        for _ in 0..4 {
            scene.fire().await;
        }
        let reason = "skipped: a job of this config is live".to_owned();
        assert_eq!(scene.missed().await, [("job".to_owned(), 3, reason)]);
        let tx = scene.world.store.begin().await.unwrap();
        let text = "SELECT count(*) AS told FROM callback WHERE event = 'MISSED'";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        assert_eq!(rows[0].try_get::<i64>("", "told").unwrap(), 1);
    }
}
