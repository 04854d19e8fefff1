//! Cases that other schedulers were caught by: restarts, locks, connections that die, schedules that come beside others.

use std::time::Duration;

use sea_orm::{ConnectionTrait as _, SqliteTransactionMode, TransactionOptions, TransactionTrait as _};
use uuid::Uuid;

use super::{
    Command, Puppet, Scene, hello, report,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{
        callback::Event,
        definition::{
            Callback, JobConfig, Overlap,
            callback::{Action, Webhook},
        },
        heartbeat::{Answer, SlotReport, SlotStatus},
        job::JobState,
        schedule::{Misfire, Spec},
        time::{Timestamp, micros},
    },
    flow::{
        Engine,
        request::{Caller, Terminate},
    },
    store::{Store, sql, testing::Row as _},
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
        let elsewhere = elsewhere(&scene).await;
        elsewhere.terminate(whole(waiting)).await.unwrap();
        runner.end(slot, first, 0).await;
        until("the first has ended", async || states(&scene).await.iter().all(|state| state.is_terminal())).await;
        scene.engine.wake().await;
        assert_eq!(states(&scene).await, [JobState::Finished, JobState::Terminated]);
    }
}

/// Another scheduler where there can be one, by the same clock.
async fn elsewhere(scene: &Scene) -> Engine {
    if !scene.world.store.is_clustered() {
        return scene.engine.clone();
    }
    engine_on(scene.world.again().await.store)
}

/// Ends a whole job.
fn whole(job_id: Uuid) -> Terminate {
    let caller = Caller::default();
    Terminate { caller, job_id, task: None, shard_index: None, grace: None, reason: String::new() }
}

/// F08: it is cancelled on one scheduler in the moment its turn comes on the other. Whichever is first, it ends
/// terminated, and what had been given out by then is ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_elsewhere_as_its_turn_comes_is_over_all_the_same() {
    const ROUNDS: usize = 20;
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let elsewhere = elsewhere(&scene).await;
        let mut job = config("job", Spec::cron("0 * * * *", ""));
        job.overlap = Some(Overlap::Queue);
        scene.store(vec![job]).await.unwrap();
        for round in 1..=ROUNDS {
            scene.fire().await;
            let (slot, first, _) = runner.next_run().await;
            scene.fire().await;
            let waiting = waiting(&scene).await;
            let (cancelled, ()) = tokio::join!(elsewhere.terminate(whole(waiting)), runner.end(slot, first, 0));
            cancelled.unwrap();
            let mut given = None;
            let over = until("both jobs are over", async || {
                scene.engine.wake().await;
                states(&scene).await.iter().all(|state| state.is_terminal())
            });
            let mut over = std::pin::pin!(over);
            loop {
                let command = tokio::select! {
                    () = &mut over => break,
                    command = runner.next() => command,
                };
                match command {
                    Command::RunNew { task, .. } => given = Some(task),
                    Command::Reset { slot, task, .. } => {
                        assert_eq!(given, Some(task));
                        let idle = report(slot, SlotStatus::Idle, Some(task));
                        runner.say(vec![SlotReport { answer: Some(Answer::NotHeld), ..idle }]).await;
                    }
                    Command::ResultAck { .. } => {}
                    other => panic!("unexpected {other:?}"),
                }
            }
            let expected = [JobState::Finished, JobState::Terminated].repeat(round);
            assert_eq!(states(&scene).await, expected);
        }
        assert_eq!(scene.missed().await, []);
    }
}

/// C02: overlap counts in the whole cluster, wherever the job was made and wherever it runs.
#[tokio::test(flavor = "multi_thread")]
async fn one_job_of_a_config_lives_at_a_time_on_two_schedulers_with_a_runner_each() {
    for scene in Scene::on_each_database().await {
        let elsewhere = elsewhere(&scene).await;
        let mut one = Puppet::dial(&scene, hello("one", "1", 1, 4)).await;
        let mut two = Puppet::dial_to(&elsewhere, hello("two", "1", 1, 4)).await;
        scene.store(vec![config("job", Spec::cron("0 * * * *", ""))]).await.unwrap();
        for round in 1..=5 {
            scene.fire().await;
            let (runner, (slot, task, _)) = tokio::select! {
                given = one.next_run() => (&mut one, given),
                given = two.next_run() => (&mut two, given),
            };
            // Longer than its interval, with both schedulers at it.
            for _ in 0..3 {
                tokio::join!(scene.fire(), elsewhere.wake());
            }
            assert_eq!(scene.fire_times().await.len(), round);
            runner.end(slot, task, 0).await;
            until("its job is over", async || states(&scene).await.iter().all(|state| state.is_terminal())).await;
        }
        let held_up = ("job".to_owned(), 3, "skipped: a job of this config is live".to_owned());
        assert_eq!(scene.missed().await, vec![held_up; 5]);
    }
}

/// K06: every two of the edits come at once, each to a scheduler of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_edited_on_two_schedulers_fires_once_as_its_newest_version_says() {
    for scene in Scene::on_each_database().await {
        let elsewhere = Scene { engine: elsewhere(&scene).await, world: scene.world.shared() };
        let at = |minute: u32| vec![allowing("job", Spec::cron(&format!("{minute} * * * *"), ""))];
        scene.store(at(59)).await.unwrap();
        for round in 0..4 {
            for edit in 0..5 {
                let (here, there) = (at(round * 10 + edit), at(50 - round * 10 - edit));
                let (first, second) = tokio::join!(scene.store(here), elsewhere.store(there));
                first.unwrap();
                second.unwrap();
            }
            let newest = 7 + round;
            [&scene, &elsewhere][round as usize % 2].store(at(newest)).await.unwrap();
            let before = scene.fire_times().await;
            for _ in 0..3 {
                tokio::join!(scene.fire(), elsewhere.engine.wake());
            }
            let fired = scene.fire_times().await.split_off(before.len());
            let minutes: Vec<i64> = fired.iter().map(|fire| fire.0 / 60_000_000 % 60).collect();
            assert_eq!(minutes, [i64::from(newest); 3]);
            assert!(fired.windows(2).all(|pair: &[Timestamp]| pair[1].since(pair[0]) == HOUR), "{fired:?}");
        }
        assert_eq!(scene.missed().await, []);
    }
}

async fn waiting(scene: &Scene) -> Uuid {
    let tx = scene.world.store.begin().await.unwrap();
    let rows = tx
        .query(sql::statement(tx.backend(), "SELECT id FROM job WHERE waiting AND state = 'CREATED'", &[]))
        .await
        .unwrap();
    rows[0].column("id").unwrap()
}

async fn states(scene: &Scene) -> Vec<JobState> {
    let tx = scene.world.store.begin().await.unwrap();
    let rows = tx.query(sql::statement(tx.backend(), "SELECT state FROM job ORDER BY fire_time", &[])).await.unwrap();
    rows.iter().map(|row| JobState::from_word(&row.column::<String>("state").unwrap()).unwrap()).collect()
}

/// B06: even what runs no missed fire runs one that is merely late.
#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_was_busy_when_a_fire_was_due_fires_it_late() {
    const BUSY: i64 = 1_500_000;
    for scene in Scene::on_each_database().await {
        let spec = Spec { misfire: Some(Misfire::Skip), ..Spec::cron("0 * * * *", "") };
        scene.store(vec![config("job", spec)]).await.unwrap();
        let due = scene.row().await.next_fire_at.unwrap();
        // The engine has one connection to write by: its turn waits for as long as somebody else has it.
        let busy = scene.world.store.begin().await.unwrap();
        let now = crate::store::scheduler::now(&busy).await.unwrap();
        scene.set_clock(due.0 + BUSY - now.0).await;
        drop(busy);
        until("it has fired", async || scene.fire_times().await == [due]).await;
        let tx = scene.world.store.begin().await.unwrap();
        let text = "SELECT created_at - fire_time AS late FROM job";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        assert!(rows[0].column::<i64>("late").unwrap() >= BUSY);
        drop(tx);
        assert_eq!(scene.missed().await, []);
    }
}

/// B07: a daily schedule whose database is held by somebody for a minute across its due time, on either database.
#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_are_locked_for_a_minute_delay_a_fire_and_lose_none() {
    for scene in Scene::on_each_database().await {
        let spec = Spec { misfire: Some(Misfire::Skip), ..Spec::cron("30 4 * * *", "Europe/Berlin") };
        scene.store(vec![config("job", spec)]).await.unwrap();
        let due = scene.row().await.next_fire_at.unwrap();
        let clustered = scene.world.store.is_clustered();
        let other = sea_orm::Database::connect(&scene.world.settings.url).await.unwrap();
        let holder = other.begin_with_options(writing()).await.unwrap();
        if clustered {
            holder.execute_unprepared("LOCK TABLE schedule IN ACCESS EXCLUSIVE MODE").await.unwrap();
        }
        let by = due.0 - micros_now() + micros(Duration::from_mins(1));
        scene.set_clock(by).await;
        if clustered {
            until("a turn waits for the lock", async || {
                let text = "SELECT count(*) AS waiting FROM pg_locks JOIN pg_database ON pg_database.oid = database
                            WHERE NOT granted AND datname = current_database()";
                let rows =
                    holder.query_all_raw(sql::statement(holder.get_database_backend(), text, &[])).await.unwrap();
                rows[0].column::<i64>("waiting").unwrap() > 0
            })
            .await;
        }
        // On SQLite whoever writes has the whole file, and no turn so much as begins.
        holder.commit().await.unwrap();
        until("it has fired", async || scene.fire_times().await == [due]).await;
        assert_eq!(scene.missed().await, []);
    }
}

/// A transaction that writes from its first moment.
fn writing() -> TransactionOptions {
    let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() }
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
        assert_eq!(rows[0].column::<i64>("doubled").unwrap(), 0);
    }
}

async fn made(store: &Store) -> i64 {
    let tx = store.begin().await.unwrap();
    let rows = tx.query(sql::statement(tx.backend(), "SELECT count(*) AS made FROM job", &[])).await.unwrap();
    rows[0].column("made").unwrap()
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
        assert_eq!(rows[0].column::<i64>("told").unwrap(), 1);
    }
}
