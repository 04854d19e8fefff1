//! Schedules on a clock that tests set: through a year, through restarts, and through clocks that jump.

use std::{sync::atomic::Ordering, time::Duration};

use super::{
    Scene,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{
        definition::Overlap,
        schedule::{Language, Schedule, Spec, identity},
        time::{Timestamp, micros},
    },
    store::{schedule::ScheduleRow, sql, testing::Row as _},
};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

impl Scene {
    /// Sets the clock of the database on, or back.
    pub(super) async fn set_clock(&self, by: i64) {
        self.world.store.levers.clock_set.fetch_add(by, Ordering::Relaxed);
        self.engine.wake().await;
    }

    pub(super) async fn virtual_now(&self) -> Timestamp {
        let tx = self.world.store.begin().await.unwrap();
        crate::store::scheduler::now(&tx).await.unwrap()
    }

    /// The one schedule there is.
    pub(super) async fn row(&self) -> ScheduleRow {
        let tx = self.world.store.begin().await.unwrap();
        let rows = tx.query(sql::statement(tx.backend(), "SELECT id FROM job_config ORDER BY id", &[])).await.unwrap();
        let id = rows[0].column("id").unwrap();
        crate::store::schedule::of_configs(&tx, &[id]).await.unwrap().remove(0)
    }

    pub(super) async fn fire_times(&self) -> Vec<Timestamp> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT fire_time FROM job WHERE fire_time IS NOT NULL ORDER BY fire_time";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        rows.iter().map(|row| Timestamp(row.column("fire_time").unwrap())).collect()
    }

    /// Sets the clock to when the schedule is due, and waits until it waits for another fire.
    pub(super) async fn fire(&self) {
        let before = self.row().await;
        self.set_clock(before.due_at.unwrap().0 - self.virtual_now().await.0).await;
        until("the fire has been decided", async || self.row().await.next_fire_at != before.next_fire_at).await;
    }

    /// Waits until the schedule was planned after the clock was set.
    async fn planned_anew(&self) -> ScheduleRow {
        until("the schedule is planned by the present clock", async || {
            self.engine.wake().await;
            let (row, now) = (self.row().await, self.virtual_now().await);
            row.planned_at.is_some_and(|at| at <= now)
        })
        .await;
        self.row().await
    }

    async fn with(spec: Spec) -> Vec<Self> {
        let scenes = Self::on_each_database().await;
        for scene in &scenes {
            let mut job = config("job", spec.clone());
            job.overlap = Some(Overlap::Allow);
            scene.store(vec![job]).await.unwrap();
        }
        scenes
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_year_of_firing_is_what_was_shown_before_it_restarts_included() {
    for mut scene in Scene::with(Spec::cron("30 2 * * *", "America/Santiago")).await {
        let begin = scene.row().await;
        let spec: Spec = serde_json::from_str(&begin.spec).unwrap();
        let schedule = Schedule::new(&spec, &identity("default", "job", "hourly"), begin.created_at, &[]).unwrap();
        let shown = schedule.preview(begin.created_at, 366, Language::English).unwrap().fires;
        for day in 0..shown.len() {
            scene.fire().await;
            if day % 60 == 59 {
                scene.engine.stop().await;
                scene.engine = engine_on(scene.world.store.clone());
            }
        }
        let shown: Vec<Timestamp> = shown.iter().map(|fire| fire.time).collect();
        assert_eq!(scene.fire_times().await, shown);
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_repeats_no_fire_and_loses_none() {
    for scene in Scene::with(Spec::cron("0 * * * *", "")).await {
        for _ in 0..3 {
            scene.fire().await;
        }
        let before = scene.row().await;
        scene.set_clock(-micros(HOUR * 2)).await;
        let after = scene.planned_anew().await;
        assert_eq!(after.next_fire_at, before.next_fire_at);
        scene.fire().await;
        let fires = scene.fire_times().await;
        assert!(fires.windows(2).all(|pair| pair[1].since(pair[0]) == HOUR), "{fires:?}");
        assert_eq!((fires.len(), scene.missed().await), (4, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_worked_out_while_the_clock_was_decades_ahead_is_worked_out_anew() {
    for scene in Scene::on_each_database().await {
        scene.set_clock(micros(DAY * 365 * 70)).await;
        let mut job = config("job", Spec::cron("0 * * * *", ""));
        job.overlap = Some(Overlap::Allow);
        scene.store(vec![job]).await.unwrap();
        scene.fire().await;
        scene.set_clock(-micros(DAY * 365 * 70)).await;
        let row = scene.planned_anew().await;
        let now = scene.virtual_now().await;
        assert!(row.next_fire_at.unwrap().since(now) <= HOUR, "{row:?}");
        scene.fire().await;
        assert_eq!(scene.fire_times().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interval_goes_on_within_one_interval_whichever_way_the_clock_is_set() {
    let period = Duration::from_secs(5);
    for scene in Scene::with(Spec::every(period)).await {
        scene.fire().await;
        let last = scene.row().await.last_fire_at.unwrap();
        scene.set_clock(-micros(HOUR)).await;
        let row = scene.planned_anew().await;
        assert!(row.due_at.unwrap() <= scene.virtual_now().await + period, "{row:?}");
        // Its nominal time only grows.
        assert_eq!(row.next_fire_at, Some(last + period));
        for _ in 0..3 {
            scene.fire().await;
        }
        assert_eq!(scene.row().await.last_fire_at, Some(last + period * 3));

        let made = scene.fire_times().await.len();
        scene.set_clock(micros(HOUR * 3)).await;
        until("one fire makes up for all", async || scene.fire_times().await.len() == made + 1).await;
        let row = scene.row().await;
        assert!(row.due_at.unwrap() <= scene.virtual_now().await + period, "{row:?}");
        scene.fire().await;
        assert_eq!(scene.fire_times().await.len(), made + 2);
        let missed = scene.missed().await;
        assert!(missed.len() == 1 && missed[0].2 == "missed: a newer fire was due", "{missed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_while_no_scheduler_ran_is_noticed_at_the_start() {
    for mut scene in Scene::on_each_database().await {
        scene.set_clock(micros(DAY * 30)).await;
        scene.store(vec![config("job", Spec::cron("0 * * * *", ""))]).await.unwrap();
        scene.engine.stop().await;
        scene.set_clock(-micros(DAY * 30)).await;
        scene.engine = engine_on(scene.world.store.clone());
        let row = scene.planned_anew().await;
        assert!(row.next_fire_at.unwrap().since(scene.virtual_now().await) <= HOUR, "{row:?}");
    }
}
