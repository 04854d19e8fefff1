//! Schedules that fire, with time made by writing rows: a schedule is moved into the past instead of waiting for it.

use std::time::Duration;

use uuid::Uuid;

use super::{PATIENCE, Puppet, Scene, exit, hello, report, settings, task};
use crate::{
    domain::{
        command::Command,
        definition::{JobConfig, Overlap, Schedule},
        heartbeat::{Answer, SlotReport, SlotStatus},
        job::JobState,
        schedule::{After, Misfire, RuleSpec, Spec},
        time::micros,
    },
    flow::{
        Engine,
        request::{Apply, Caller, Error},
    },
    store::{
        Store, sql,
        testing::{self, Row as _},
    },
};

const HOUR: Duration = Duration::from_hours(1);

pub(super) fn config(name: &str, spec: Spec) -> JobConfig {
    JobConfig {
        namespace: "default".into(),
        name: name.into(),
        tasks: vec![task("a", &[])],
        schedules: vec![Schedule { name: "hourly".into(), spec }],
        ..JobConfig::default()
    }
}

fn hourly() -> Spec {
    Spec::every(HOUR)
}

/// A job as these tests see it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    id: Uuid,
    name: String,
    state: JobState,
    /// Which fire it was made for, counted from the making of its schedule.
    fire: Option<i64>,
    waiting: bool,
    reason: String,
}

impl Scene {
    pub(super) async fn store(&self, configs: Vec<JobConfig>) -> Result<(), Error> {
        let configs = configs.into_iter().map(|config| (config, String::new())).collect();
        self.engine.apply(Apply { caller: Caller::default(), configs }).await.map(|_| ())
    }

    pub(super) async fn sql(&self, text: &str) {
        self.alter(text, &[]).await;
    }

    /// Lets time pass for every schedule, and for what it has done.
    async fn pass(&self, span: Duration) {
        let span = micros(span);
        let tx = self.world.store.begin().await.unwrap();
        // Times that are unique are shifted by way of negative ones, so that no row meets another on its way.
        for text in [
            format!(
                "UPDATE schedule SET created_at = created_at - {span}, next_fire_at = next_fire_at - {span},
                 due_at = due_at - {span}, last_fire_at = last_fire_at - {span}, last_made_at = last_made_at - {span},
                 planned_at = planned_at - {span}, burst_at = burst_at - {span}"
            ),
            format!("UPDATE job SET fire_time = {span} - fire_time"),
            "UPDATE job SET fire_time = -fire_time".to_owned(),
            format!("UPDATE fire SET first_at = {span} - first_at, last_at = last_at - {span}"),
            "UPDATE fire SET first_at = -first_at".to_owned(),
        ] {
            tx.execute(sql::statement(tx.backend(), &text, &[])).await.unwrap();
        }
        tx.commit().await.unwrap();
        self.engine.wake().await;
    }

    async fn jobs(&self) -> Vec<Seen> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT job.id, job.name, job.state, job.waiting, job.reason,
                        (job.fire_time - schedule.created_at) / 3600000000 AS fire
                    FROM job LEFT JOIN schedule ON schedule.job_config_id = job.job_config_id
                        AND schedule.key = job.schedule
                    ORDER BY job.name, job.fire_time, job.id";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        rows.iter()
            .map(|row| Seen {
                id: row.column("id").unwrap(),
                name: row.column("name").unwrap(),
                state: JobState::from_word(&row.column::<String>("state").unwrap()).unwrap(),
                fire: row.column("fire").unwrap(),
                waiting: row.column("waiting").unwrap(),
                reason: row.column("reason").unwrap(),
            })
            .collect()
    }

    /// The fires that made no job: config, how many, why.
    pub(super) async fn missed(&self) -> Vec<(String, i64, String)> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT job_config.name, fire.count, fire.reason FROM fire
                    JOIN job_config ON job_config.id = fire.job_config_id ORDER BY job_config.name, fire.first_at";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        let read = rows
            .iter()
            .map(|row| (row.column("name").unwrap(), row.column("count").unwrap(), row.column("reason").unwrap()));
        read.collect()
    }

    /// Every schedule: config, state, reason.
    pub(super) async fn schedules(&self) -> Vec<(String, String, String)> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT job_config.name, schedule.state, schedule.reason FROM schedule
                    JOIN job_config ON job_config.id = schedule.job_config_id ORDER BY job_config.name, schedule.key";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        let read = rows
            .iter()
            .map(|row| (row.column("name").unwrap(), row.column("state").unwrap(), row.column("reason").unwrap()));
        read.collect()
    }

    /// How many schedules wait to fire although they are due.
    async fn due(&self) -> i64 {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT count(*) AS due FROM schedule WHERE state IN ('DUE', 'PAUSED') AND due_at <= {now}";
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        rows[0].column("due").unwrap()
    }

    /// The number that a question of one row and one column `n` is answered with.
    pub(super) async fn number(&self, text: &str) -> i64 {
        let tx = self.world.store.begin().await.unwrap();
        let rows = tx.query(sql::statement(tx.backend(), text, &[])).await.unwrap();
        rows[0].column("n").unwrap()
    }

    /// Waits until every due schedule has been decided.
    async fn settled(&self) {
        until("no schedule is due", async || self.due().await == 0).await;
    }

    /// Waits until the jobs are as wanted, and gives them.
    async fn until_jobs(&self, what: &str, wanted: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        until(what, async || {
            self.engine.wake().await;
            wanted(&self.jobs().await)
        })
        .await;
        self.jobs().await
    }
}

/// Asks again and again, each time after another turn of the engine or another scheduler had its chance at the database.
pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let holding = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, holding).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

pub(super) fn engine_on(store: Store) -> Engine {
    Engine::start(settings(store, "127.0.0.1:7420")).0
}

/// H04. A hundred times over where there is time for that.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_schedules_due_together_make_one_job_each_with_two_and_with_three_schedulers() {
    const CONFIGS: i64 = 200;
    let repeats = if std::env::var_os("BATON_SOAK").is_some() { 100 } else { 3 };
    for schedulers in [2, 3] {
        for world in testing::worlds().await.into_iter().filter(|world| world.store.is_clustered()) {
            let mut engines = Vec::new();
            for _ in 0..schedulers {
                engines.push(engine_on(world.again().await.store));
            }
            let scene = Scene { engine: engines[0].clone(), world };
            let allowing = |n| JobConfig { overlap: Some(Overlap::Allow), ..config(&format!("c{n}"), hourly()) };
            scene.store((0..CONFIGS).map(allowing).collect()).await.unwrap();
            for repeat in 1..=repeats {
                scene.set_clock(micros(HOUR)).await;
                for engine in &engines {
                    engine.wake().await;
                }
                until("all have fired", async || {
                    scene.number("SELECT count(*) AS n FROM job").await >= CONFIGS * repeat
                })
                .await;
            }
            // One job for each fire of each schedule, and nothing else.
            let fires = "SELECT count(*) AS n FROM (SELECT DISTINCT job_config_id, fire_time FROM job) AS fires";
            let lacking = "SELECT count(*) AS n FROM (SELECT job_config_id FROM job GROUP BY job_config_id
                           HAVING count(*) <> :repeats) AS lacking";
            let lacking = lacking.replace(":repeats", &repeats.to_string());
            let jobs = "SELECT count(*) AS n FROM job";
            let found = [scene.number(jobs).await, scene.number(fires).await, scene.number(&lacking).await];
            assert_eq!(found, [CONFIGS * repeats, CONFIGS * repeats, 0]);
            assert_eq!(scene.missed().await, []);
            println!("{schedulers} schedulers: {repeats} times {CONFIGS} schedules due together, one job each");
            for engine in engines {
                engine.stop().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_while_nothing_could_fire_follows_the_policy() {
    for scene in Scene::on_each_database().await {
        let with = |misfire| Spec { misfire, catchup_limit: 3, ..hourly() };
        let mut all = config("all", with(Some(Misfire::RunAll)));
        all.overlap = Some(Overlap::Allow);
        let old = Spec { catchup_window: Duration::from_mins(10), ..hourly() };
        let configs =
            vec![all, config("old", old), config("once", with(None)), config("skip", with(Some(Misfire::Skip)))];
        scene.store(configs).await.unwrap();
        scene.pass(HOUR * 10 + HOUR / 2).await;
        scene.settled().await;
        let jobs = scene.jobs().await;
        let made: Vec<(&str, i64)> = jobs.iter().map(|job| (job.name.as_str(), job.fire.unwrap())).collect();
        assert_eq!(made, [("all", 8), ("all", 9), ("all", 10), ("once", 10)]);
        let missed = |name: &str, count, reason: &str| (name.to_owned(), count, reason.to_owned());
        assert_eq!(
            scene.missed().await,
            [
                missed("all", 7, "missed: more than catchup_limit were due"),
                missed("old", 10, "missed: older than catchup_window"),
                missed("once", 9, "missed: a newer fire was due"),
                missed("skip", 10, "missed: misfire is skip"),
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_fires_that_are_made_up_for_run_one_after_the_other() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let spec = Spec { misfire: Some(Misfire::RunAll), ..hourly() };
        scene.store(vec![config("all", spec)]).await.unwrap();
        scene.pass(HOUR * 3 + HOUR / 2).await;
        for fire in 1..=3 {
            let (slot, a, spec) = runner.next_run().await;
            let jobs = scene.jobs().await;
            let live: Vec<i64> =
                jobs.iter().filter(|job| !job.state.is_terminal()).map(|job| job.fire.unwrap()).collect();
            assert_eq!((spec.task_name.as_str(), live), ("a", vec![fire]));
            runner.end(slot, a, 0).await;
        }
        scene.until_jobs("all three have ended", |jobs| jobs.iter().all(|job| job.state.is_terminal())).await;
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_job_counts_for_overlap_and_a_row_tells_of_all_fires_it_held_up() {
    for scene in Scene::on_each_database().await {
        let mut job = config("job", hourly());
        scene.store(vec![job.clone()]).await.unwrap();
        let manual = scene.run().await;
        for _ in 0..3 {
            scene.pass(HOUR).await;
            scene.settled().await;
        }
        let jobs = scene.jobs().await;
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [manual]);
        let reason = "skipped: a job of this config is live".to_owned();
        assert_eq!(scene.missed().await, [("job".to_owned(), 3, reason)]);
        // Allowed, it starts beside the other.
        job.overlap = Some(Overlap::Allow);
        scene.store(vec![job]).await.unwrap();
        scene.pass(HOUR).await;
        scene.settled().await;
        assert_eq!(scene.jobs().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_edited_five_times_fires_once_when_it_is_due() {
    for scene in Scene::on_each_database().await {
        let mut job = config("job", hourly());
        job.overlap = Some(Overlap::Allow);
        for round in 1..=2 {
            for edit in 1..=5 {
                job.schedules[0].spec.catchup_limit = edit;
                scene.store(vec![job.clone()]).await.unwrap();
            }
            scene.pass(HOUR).await;
            scene.settled().await;
            for edit in 6..=10 {
                job.schedules[0].spec.catchup_limit = edit;
                scene.store(vec![job.clone()]).await.unwrap();
            }
            scene.settled().await;
            let fires: Vec<i64> = scene.jobs().await.iter().map(|job| job.fire.unwrap()).collect();
            assert_eq!(fires, (1..=round).collect::<Vec<_>>());
        }
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_fires_nothing_twice_and_neither_does_a_row_set_back() {
    for mut scene in Scene::on_each_database().await {
        let mut job = config("job", hourly());
        job.overlap = Some(Overlap::Allow);
        scene.store(vec![job]).await.unwrap();
        scene.pass(HOUR).await;
        scene.settled().await;
        scene.engine.stop().await;
        scene.engine = engine_on(scene.world.store.clone());
        scene.engine.wake().await;
        scene.settled().await;
        assert_eq!(scene.jobs().await.len(), 1);
        // As if the row came from a backup taken before the fire.
        scene.sql("UPDATE schedule SET next_fire_at = last_fire_at, due_at = last_fire_at, last_fire_at = NULL").await;
        scene.engine.wake().await;
        scene.settled().await;
        assert_eq!(scene.jobs().await.len(), 1);
        scene.pass(HOUR).await;
        scene.settled().await;
        assert_eq!(scene.jobs().await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_understood_is_parked_alone() {
    for scene in Scene::on_each_database().await {
        scene.store(vec![config("bad", hourly()), config("good", hourly())]).await.unwrap();
        scene
            .sql(
                "UPDATE schedule SET spec = replace(spec, '\"time_zone\":\"\"', '\"time_zone\":\"Mars/Olympus\"')
                 WHERE job_config_id = (SELECT id FROM job_config WHERE name = 'bad')",
            )
            .await;
        scene.pass(HOUR).await;
        scene.settled().await;
        let names: Vec<String> = scene.jobs().await.into_iter().map(|job| job.name).collect();
        assert_eq!(names, ["good"]);
        let schedules = scene.schedules().await;
        assert_eq!((schedules[0].1.as_str(), schedules[1].1.as_str()), ("PARKED", "DUE"));
        assert!(schedules[0].2.contains("\"Mars/Olympus\" is unknown"), "{schedules:?}");
        // Applying it again, though unchanged, takes it up again.
        scene.store(vec![config("bad", hourly())]).await.unwrap();
        assert_eq!(scene.schedules().await[0].1, "DUE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_fires_wait_for_their_turn_and_no_more_than_may() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let mut job = config("job", hourly());
        (job.overlap, job.queue_limit) = (Some(Overlap::Queue), Some(2));
        scene.store(vec![job]).await.unwrap();
        for _ in 0..4 {
            scene.pass(HOUR).await;
            scene.settled().await;
        }
        let waiting: Vec<bool> = scene.jobs().await.iter().map(|job| job.waiting).collect();
        assert_eq!(waiting, [false, true, true]);
        assert_eq!(scene.missed().await, [("job".to_owned(), 1, "skipped: queue_limit is reached".to_owned())]);
        for fire in 0..3 {
            let (slot, a, _) = runner.next_run().await;
            let jobs = scene.jobs().await;
            let running = jobs.iter().position(|job| job.state == JobState::Running);
            assert_eq!(running, Some(fire), "{jobs:?}");
            runner.end(slot, a, 0).await;
        }
        scene.until_jobs("all have ended", |jobs| jobs.iter().all(|job| job.state == JobState::Finished)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_job_that_waited_too_long_is_skipped() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let mut job = config("job", hourly());
        (job.overlap, job.start_deadline) = (Some(Overlap::Queue), Some(HOUR / 2));
        scene.store(vec![job]).await.unwrap();
        scene.pass(HOUR).await;
        scene.settled().await;
        let (slot, a, _) = runner.next_run().await;
        scene.pass(HOUR).await;
        scene.settled().await;
        scene.pass(Duration::from_mins(59)).await;
        runner.end(slot, a, 0).await;
        let jobs = scene.until_jobs("both have ended", |jobs| jobs.iter().all(|job| job.state.is_terminal())).await;
        let ends: Vec<(JobState, &str)> = jobs.iter().map(|job| (job.state, job.reason.as_str())).collect();
        assert_eq!(ends, [(JobState::Finished, ""), (JobState::Skipped, "missed: start_deadline is over")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_replaces_starts_when_the_old_job_is_over() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let mut job = config("job", hourly());
        job.overlap = Some(Overlap::Replace);
        scene.store(vec![job]).await.unwrap();
        scene.pass(HOUR).await;
        let (slot, old, _) = runner.next_run().await;
        for _ in 0..2 {
            scene.pass(HOUR).await;
            scene.settled().await;
        }
        let jobs = scene.jobs().await;
        let states: Vec<JobState> = jobs.iter().map(|job| job.state).collect();
        assert_eq!(states, [JobState::Terminating, JobState::Skipped, JobState::Created]);
        let Command::Reset { task: reset, .. } = runner.next().await else { panic!("expected RESET") };
        assert_eq!(reset, old);
        runner
            .say(vec![SlotReport { answer: Some(Answer::NotHeld), ..report(slot, SlotStatus::Idle, Some(old)) }])
            .await;
        let (slot, new, _) = runner.next_run().await;
        runner.say(vec![SlotReport { result: Some(exit(0)), ..report(slot, SlotStatus::Finished, Some(new)) }]).await;
        let jobs = scene.until_jobs("all have ended", |jobs| jobs.iter().all(|job| job.state.is_terminal())).await;
        assert_eq!((jobs[0].state, jobs[0].reason.as_str()), (JobState::Terminated, "replaced by a newer fire"));
        assert_eq!((jobs[1].state, jobs[2].state), (JobState::Skipped, JobState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_delay_counts_from_the_end_of_the_job_before() {
    for scene in Scene::on_each_database().await {
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let spec: Spec = RuleSpec::Every { period: HOUR, after: After::Completion }.into();
        scene.store(vec![config("job", spec)]).await.unwrap();
        scene.pass(HOUR).await;
        let (slot, a, _) = runner.next_run().await;
        assert_eq!(scene.schedules().await[0].1, "END");
        // Its job takes long: nothing is due, and nothing missed.
        scene.pass(HOUR * 5).await;
        scene.settled().await;
        runner.end(slot, a, 0).await;
        until("it waits again", async || {
            scene.engine.wake().await;
            scene.schedules().await[0].1 == "DUE"
        })
        .await;
        assert_eq!(scene.jobs().await.len(), 1);
        scene.pass(HOUR).await;
        let _second = runner.next_run().await;
        assert_eq!((scene.jobs().await.len(), scene.missed().await), (2, vec![]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_over_says_so_and_one_that_never_will_fire_is_refused() {
    for scene in Scene::on_each_database().await {
        let soon = chrono::Utc::now() + chrono::TimeDelta::minutes(30);
        scene.store(vec![config("job", RuleSpec::At(soon).into())]).await.unwrap();
        let span = micros(HOUR);
        scene
            .sql(&format!(
                "UPDATE schedule SET spec = replace(spec, '{}', '{}'), next_fire_at = next_fire_at - {span},
                 due_at = due_at - {span}",
                soon.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true),
                (soon - chrono::TimeDelta::hours(1)).to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
            ))
            .await;
        scene.engine.wake().await;
        scene.settled().await;
        assert_eq!(scene.jobs().await.len(), 1);
        let over = ("job".to_owned(), "OVER".to_owned(), "its last fire has passed".to_owned());
        assert_eq!(scene.schedules().await, [over]);
        let past = RuleSpec::At(soon - chrono::TimeDelta::hours(2)).into();
        let refused = scene.store(vec![config("fine", hourly()), config("late", past)]).await.unwrap_err();
        assert!(matches!(&refused, Error::Invalid(fields) if fields[0].0 == "schedules[0].at"), "{refused:?}");
        // All or none.
        assert_eq!(scene.schedules().await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_params_of_a_fire_are_those_of_its_time_in_its_zone() {
    for scene in Scene::on_each_database().await {
        let spec = Spec { time_zone: "Asia/Kathmandu".into(), ..hourly() };
        let mut job = config("job", spec);
        job.params.insert("at".into(), "{{ logical_time | date('%z') }}".into());
        scene.store(vec![job]).await.unwrap();
        scene.pass(HOUR).await;
        scene.settled().await;
        let id = scene.jobs().await[0].id;
        let tx = scene.world.store.begin().await.unwrap();
        let row = crate::store::job::facts(&tx, &[id]).await.unwrap().remove(0);
        assert_eq!(row.params["at"], "+0545");
    }
}
