//! A scheduler that dies, or loses its database, between any two statements of the turn that fires (H09): nothing of
//! the turn is there, and the next one finds all of it to do.

use std::{sync::Arc, time::Duration};

use super::{
    Scene,
    schedules::{config, engine_on, until},
};
use crate::{
    domain::{definition::Overlap, schedule::Spec, time::micros},
    store::{
        sql,
        testing::{CutOff, Fuse, Row as _},
    },
};

const HOUR: Duration = Duration::from_hours(1);

/// What becomes of the fires of a config, by its policy.
#[derive(Debug, PartialEq, Eq)]
struct Fires {
    name: String,
    /// How many made a job.
    jobs: i64,
    /// How many made none and are written down.
    missed: i64,
}

impl Scene {
    /// Lets an hour pass while no scheduler runs. The one that starts then is cut off once; whether it was.
    async fn fire_cut_off(&mut self, place: CutOff) -> bool {
        self.engine.stop().await;
        self.world.store.levers.clock_set.fetch_add(micros(HOUR), std::sync::atomic::Ordering::Relaxed);
        let fuse = Arc::new(Fuse::at(place));
        self.engine = engine_on(self.world.with(&fuse));
        until("everything that was due has been decided", async || self.nothing_is_due().await).await;
        fuse.has_blown()
    }

    async fn nothing_is_due(&self) -> bool {
        let now = self.virtual_now().await;
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT count(*) AS due FROM schedule WHERE due_at IS NULL OR due_at <= :now";
        let rows = tx.query(sql::statement(tx.backend(), text, &[("now", now.0.into())])).await.unwrap();
        rows[0].column::<i64>("due").unwrap() == 0
    }

    async fn fires(&self) -> Vec<Fires> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT name,
                        (SELECT count(*) FROM job WHERE job.job_config_id = job_config.id) AS jobs,
                        (SELECT CAST(coalesce(sum(count), 0) AS BIGINT) FROM fire
                         WHERE fire.job_config_id = job_config.id) AS missed
                    FROM job_config ORDER BY name";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        let read = rows.iter().map(|row| Fires {
            name: row.column("name").unwrap(),
            jobs: row.column("jobs").unwrap(),
            missed: row.column("missed").unwrap(),
        });
        read.collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_cut_off_at_any_statement_fires_each_schedule_once_all_the_same() {
    for mut scene in Scene::on_each_database().await {
        let policies = [
            ("allow", Overlap::Allow),
            ("queue", Overlap::Queue),
            ("replace", Overlap::Replace),
            ("skip", Overlap::Skip),
        ];
        let configs = policies.map(|(name, policy)| {
            let mut config = config(name, Spec::every(HOUR));
            config.overlap = Some(policy);
            config
        });
        scene.store(configs.to_vec()).await.unwrap();
        let mut rounds = 0;
        let mut statements = 0;
        loop {
            let cut_off = scene.fire_cut_off(CutOff::Before(statements)).await;
            rounds += 1;
            scene.assert_fired(rounds, CutOff::Before(statements)).await;
            if !cut_off {
                break;
            }
            statements += 1;
        }
        assert!(statements > 20, "the turn that fires has {statements} statements");
        for place in [CutOff::BeforeCommit, CutOff::AfterCommit] {
            assert!(scene.fire_cut_off(place).await, "every turn comes to its commit");
            rounds += 1;
            scene.assert_fired(rounds, place).await;
        }
        println!("cut off at each of {statements} statements, and before and after the commit");
    }
}

impl Scene {
    /// So many fires of each config were decided, each once.
    async fn assert_fired(&self, rounds: i64, place: CutOff) {
        let expected = [
            ("allow", rounds, 0),
            // One lives and one waits.
            ("queue", rounds.min(2), (rounds - 2).max(0)),
            ("replace", rounds, 0),
            ("skip", 1, rounds - 1),
        ];
        let expected = expected.map(|(name, jobs, missed)| Fires { name: name.to_owned(), jobs, missed });
        assert_eq!(self.fires().await, expected, "cut off {place:?}");
        let states: Vec<String> = self.schedules().await.into_iter().map(|(_, state, _)| state).collect();
        assert_eq!(states, ["DUE"; 4], "cut off {place:?}");
    }
}
