//! Fires that lie in the past are made up for.

use std::time::Duration;

use uuid::Uuid;

use super::{
    Scene,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{
        definition::Overlap,
        retention::Policy,
        schedule::{Spec, backfill::State},
        time::{Timestamp, micros},
    },
    flow::request::{Backfill, Caller, CancelBackfill, Error},
    store::{read, sql, testing::Row as _},
};

const HOUR: Duration = Duration::from_hours(1);

impl Scene {
    async fn on_each_with_hours() -> Vec<Self> {
        let scenes = Self::on_each_database().await;
        for scene in &scenes {
            scene.store(vec![config("job", Spec::cron("0 * * * *", ""))]).await.unwrap();
        }
        scenes
    }

    /// The fires of the last hours, up to this one's.
    async fn backfill(&self, hours: i64, max_parallel: u32, again: bool) -> Result<Uuid, Error> {
        let to = self.this_hour().await;
        let order = Backfill {
            caller: Caller::default(),
            namespace: "default".into(),
            name: "job".into(),
            schedule: None,
            from: Timestamp(to.0 - hours * micros(HOUR)),
            to,
            max_parallel,
            again,
        };
        self.engine.backfill(order).await
    }

    async fn this_hour(&self) -> Timestamp {
        let now = self.virtual_now().await.0;
        Timestamp(now - now % micros(HOUR))
    }

    async fn progress(&self, id: Uuid) -> read::Backfill {
        self.world.store.backfill(id).await.unwrap().unwrap()
    }

    async fn until_progress(&self, what: &str, id: Uuid, wanted: impl Fn(&read::Backfill) -> bool) -> read::Backfill {
        until(what, async || {
            self.engine.wake().await;
            wanted(&self.progress(id).await)
        })
        .await;
        self.progress(id).await
    }

    /// Ends some of its jobs that live, as if their tasks had.
    async fn finish(&self, count: u32) {
        let text = format!(
            "UPDATE job SET state = 'FINISHED', ended_at = created_at WHERE id IN (
                 SELECT id FROM job WHERE backfill_id IS NOT NULL AND state IN ('CREATED', 'RUNNING')
                 ORDER BY id LIMIT {count})"
        );
        self.sql(&text).await;
    }

    /// Fire, rerun and trigger of every job, by fire.
    async fn made(&self) -> Vec<(Timestamp, i32, Option<String>)> {
        let tx = self.world.store.begin().await.unwrap();
        let text =
            "SELECT fire_time, rerun_no, cause FROM job WHERE fire_time IS NOT NULL ORDER BY fire_time, rerun_no";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        let read = rows.iter().map(|row| {
            let fire = Timestamp(row.column("fire_time").unwrap());
            (fire, row.column("rerun_no").unwrap(), row.column("cause").unwrap())
        });
        read.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fire_gets_one_job_and_a_second_one_only_when_asked() {
    for scene in Scene::on_each_with_hours().await {
        let first = scene.backfill(5, 10, false).await.unwrap();
        let seen = scene.until_progress("all are made", first, |one| one.row.made == 5).await;
        assert_eq!((seen.row.total, seen.live), (5, 5));
        scene.finish(5).await;
        let seen = scene.until_progress("it is done", first, |one| one.row.state == State::Done).await;
        assert_eq!((seen.finished, seen.row.passed_over), (5, 0));

        let second = scene.backfill(6, 10, false).await.unwrap();
        scene.until_progress("the sixth is made", second, |one| one.row.made == 1).await;
        scene.finish(1).await;
        let seen = scene.until_progress("it is done", second, |one| one.row.state == State::Done).await;
        assert_eq!((seen.row.made, seen.row.passed_over), (1, 5));

        let third = scene.backfill(2, 10, true).await.unwrap();
        scene.until_progress("both are made again", third, |one| one.row.made == 2).await;
        let made = scene.made().await;
        let reruns: Vec<i32> = made.iter().map(|(_, rerun, _)| *rerun).collect();
        assert_eq!(reruns, [0, 0, 0, 0, 0, 1, 0, 1]);
        assert!(made.iter().all(|(.., cause)| cause.as_deref() == Some("BACKFILL")), "{made:?}");
        // The schedule itself goes on where it was.
        assert_eq!(scene.row().await.last_fire_at, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_live_at_once_than_may_through_a_restart_and_oldest_go_first() {
    for mut scene in Scene::on_each_with_hours().await {
        let id = scene.backfill(5, 2, false).await.unwrap();
        scene.until_progress("two are made", id, |one| one.row.made == 2).await;
        scene.engine.stop().await;
        scene.engine = engine_on(scene.world.store.clone());
        for made in 2..5 {
            scene.engine.wake().await;
            scene.finish(1).await;
            let seen = scene.until_progress("one follows", id, |one| one.row.made == made + 1).await;
            assert!(seen.live <= 2, "{seen:?}");
        }
        let fires: Vec<Timestamp> = scene.made().await.into_iter().map(|(fire, ..)| fire).collect();
        let to = scene.this_hour().await;
        let wanted: Vec<Timestamp> = (1..=5).rev().map(|back| Timestamp(to.0 - back * micros(HOUR))).collect();
        assert_eq!(fires, wanted);
        scene.finish(5).await;
        scene.until_progress("it is done", id, |one| one.row.state == State::Done).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overlap_neither_holds_a_backfill_back_nor_is_held_by_it() {
    for scene in Scene::on_each_with_hours().await {
        let mut job = config("job", Spec::cron("0 * * * *", ""));
        job.overlap = Some(Overlap::Skip);
        scene.store(vec![job]).await.unwrap();
        scene.run().await;
        let id = scene.backfill(2, 5, false).await.unwrap();
        scene.until_progress("both are made beside the manual job", id, |one| one.row.made == 2).await;
        scene.sql("UPDATE job SET state = 'FINISHED', ended_at = created_at WHERE backfill_id IS NULL").await;
        scene.fire().await;
        assert_eq!((scene.fire_times().await.len(), scene.missed().await), (3, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_was_made_up_for_before_it_was_decided_makes_no_second_job() {
    for mut scene in Scene::on_each_with_hours().await {
        let fire = scene.row().await.next_fire_at.unwrap();
        scene.engine.stop().await;
        scene.set_clock(fire.0 + micros(HOUR / 2) - scene.virtual_now().await.0).await;
        // As if the schedule had been held up while the backfill was not.
        scene.sql("UPDATE schedule SET due_at = due_at + 7200000000").await;
        scene.engine = engine_on(scene.world.store.clone());
        let order = Backfill {
            caller: Caller::default(),
            namespace: "default".into(),
            name: "job".into(),
            schedule: Some("hourly".into()),
            from: fire,
            to: Timestamp(fire.0 + 1),
            max_parallel: 1,
            again: false,
        };
        let id = scene.engine.backfill(order).await.unwrap();
        scene.until_progress("it is made", id, |one| one.row.made == 1).await;
        scene.sql("UPDATE schedule SET due_at = next_fire_at").await;
        scene.engine.wake().await;
        until("the schedule goes on", async || scene.row().await.next_fire_at > Some(fire)).await;
        assert_eq!(scene.fire_times().await, [fire]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_backfill_makes_no_more_jobs_and_what_it_made_goes_on() {
    for scene in Scene::on_each_with_hours().await {
        let id = scene.backfill(5, 1, false).await.unwrap();
        scene.until_progress("one is made", id, |one| one.row.made == 1).await;
        let cancel = || CancelBackfill {
            caller: Caller::default(),
            id,
            namespace: "default".into(),
            name: "job".into(),
            reason: "enough".into(),
        };
        assert_eq!(scene.engine.cancel_backfill(cancel()).await.unwrap(), 1);
        let again = scene.engine.cancel_backfill(cancel()).await.unwrap_err();
        assert!(matches!(again, Error::Conflict { reason: "BACKFILL_ENDED", .. }), "{again:?}");
        scene.finish(1).await;
        scene.fire().await;
        let seen = scene.progress(id).await;
        assert_eq!((seen.row.state, seen.row.made, seen.row.reason.as_str()), (State::Cancelled, 1, "enough"));
        assert_eq!(scene.made().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_forgotten_with_the_last_of_its_jobs() {
    for scene in Scene::on_each_with_hours().await {
        let old = scene.backfill(2, 5, false).await.unwrap();
        scene.until_progress("both are made", old, |one| one.row.made == 2).await;
        scene.finish(2).await;
        scene.until_progress("it is done", old, |one| one.row.state == State::Done).await;
        let new = scene.backfill(1, 5, true).await.unwrap();
        scene.until_progress("it is made", new, |one| one.row.made == 1).await;
        scene.finish(1).await;
        scene.until_progress("it is done", new, |one| one.row.state == State::Done).await;
        let now = scene.virtual_now().await;
        scene.keep(now + HOUR * 24 * 29, Policy::default()).await;
        assert_eq!(scene.made().await.len(), 3, "all are kept still");
        scene.progress(old).await;
        scene.keep(now + HOUR * 24 * 31, Policy::default()).await;
        assert_eq!(scene.made().await.len(), 1, "the newest job of a config stays");
        assert!(scene.world.store.backfill(old).await.unwrap().is_none());
        assert_eq!(scene.progress(new).await.row.made, 1, "and with it the backfill that made it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_with_the_field() {
    for scene in Scene::on_each_with_hours().await {
        let field = |refused: Result<Uuid, Error>| match refused {
            Err(Error::Invalid(fields)) => fields[0].0.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(field(scene.backfill(0, 1, false).await), "to");
        assert_eq!(field(scene.backfill(20_000, 1, false).await), "to");
        assert_eq!(field(scene.backfill(5, 0, false).await), "max_parallel");
        scene
            .store(vec![crate::domain::definition::JobConfig {
                schedules: Vec::new(),
                ..config("job", Spec::cron("0 * * * *", ""))
            }])
            .await
            .unwrap();
        assert_eq!(field(scene.backfill(5, 1, false).await), "schedule");
        assert_eq!(scene.made().await, []);
    }
}
