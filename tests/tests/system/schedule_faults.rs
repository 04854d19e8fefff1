//! Schedules while parts of the system freeze, die and come back: each fire makes one job or is written down, once, and
//! the next ones come by themselves.

use std::{
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use baton_tests::{
    Asked, Backend, PATIENCE, RunnerSpec, World, eventually,
    proxy::Proxy,
    soon, stories,
    v1::{DisableRequest, JobState, ListFiresRequest, ListJobsRequest, RunnerState},
};
use serde_json::{Value, json};

const NAME: &str = "tick";

/// A job that is due every second.
fn every_second(overlap: &str, misfire: &str, script: &str) -> String {
    config(NAME, overlap, &json!({"cron": "* * * * * *", "misfire": misfire}), script)
}

fn config(name: &str, overlap: &str, schedule: &Value, script: &str) -> String {
    let tasks = json!([{"name": "work", "shell": script}]);
    json!({"name": name, "overlap": overlap, "schedules": [schedule], "tasks": tasks}).to_string()
}

/// What became of the fires of one config, in seconds.
#[derive(Debug, Default)]
struct Told {
    /// Those that made a job, a job each.
    jobs: Vec<i64>,
    /// Those that made none, and why: a row each run of them.
    missed: Vec<(RangeInclusive<i64>, u64, String)>,
}

impl Told {
    async fn of(ask: &Asked, name: &str) -> Result<Self, tonic::Status> {
        let mut told = Self::default();
        told.jobs.extend(ask.jobs(name).await?.iter().filter_map(|job| job.fire_time).map(|time| time.seconds));
        let request = ListFiresRequest { job_config: name.to_owned(), page_size: 1_000, ..Default::default() };
        for row in ask.0.schedules.clone().list_fires(request).await?.into_inner().fires {
            let (first, last) = (row.first_time.unwrap_or_default(), row.last_time.unwrap_or_default());
            told.missed.push((first.seconds..=last.seconds, row.count, row.reason));
        }
        Ok(told)
    }

    /// Waits for so many jobs more than there are, however often the scheduler has to be asked.
    async fn more(ask: &Asked, name: &str, jobs: usize) {
        let reach = async |wanted: usize| {
            eventually(&format!("{wanted} fires have made their jobs"), PATIENCE, || async move {
                let made = Self::of(ask, name).await.ok()?.jobs.len();
                (made >= wanted).then_some(made)
            })
            .await
        };
        let made = reach(0).await;
        reach(made + jobs).await;
    }

    /// From the first fire to the last none was lost and none counted twice.
    #[track_caller]
    fn assert_each_once(&self, step: i64) {
        let mut fires = self.jobs.clone();
        for (range, count, reason) in &self.missed {
            let before = fires.len();
            fires.extend(range.clone().step_by(step as usize));
            assert_eq!((fires.len() - before) as u64, *count, "{range:?}: {reason}");
        }
        fires.sort_unstable();
        assert!(fires.windows(2).all(|pair| pair[1] - pair[0] == step), "{self:?}");
    }
}

/// Lets time pass, in which whatever is to go on goes on.
async fn pass(span: Duration) {
    let begin = Instant::now();
    soon(&format!("{span:?} pass"), || begin.elapsed() >= span).await;
}

/// Switches the schedules off, so that what is told of them is complete.
async fn switch_off(ask: &Asked, name: &str) -> Told {
    let request = DisableRequest { name: name.to_owned(), ..Default::default() };
    eventually("the schedules are off", PATIENCE, || async {
        ask.0.job_configs.clone().disable(request.clone()).await.ok()
    })
    .await;
    Told::of(ask, name).await.expect("the scheduler answers")
}

stories! {
    /// B06: what was due while the scheduler stood still is late, or gave way to a newer fire; none is lost.
    async fn a_scheduler_that_stands_still_for_some_fires_tells_what_became_of_each(world: World) {
        let mut cluster = world.start().await;
        let ask = cluster.ask();
        ask.apply(&every_second("allow", "run_once", "true")).await.expect("it is applied");
        for _ in 0..2 {
            Told::more(&ask, NAME, 1).await;
            cluster.scheduler(0).freeze();
            pass(Duration::from_millis(3_500)).await;
            cluster.scheduler(0).thaw();
        }
        Told::more(&ask, NAME, 1).await;
        let told = switch_off(&cluster.ask(), NAME).await;
        told.assert_each_once(1);
        let superseded = |reason: &str| reason == "missed: a newer fire was due" || reason.contains("switched off");
        assert!(told.missed.iter().all(|(_, _, reason)| superseded(reason)), "{told:?}");
        assert!(!told.missed.is_empty());
    }

    /// G05: the runner is started anew with an attempt open from its former life.
    async fn a_schedule_goes_on_when_its_runner_was_started_anew_in_the_midst_of_a_job(world: World) {
        let mut cluster = world.beat(Duration::from_secs(30)).runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        let ask = cluster.ask();
        ask.apply(&every_second("skip", "run_once", &marks.around(&gate.wait()))).await.expect("it is applied");
        marks.reach("begin", 1).await;
        cluster.runner("one").kill_with_watchdog().await;
        cluster.add_runner(RunnerSpec::named("one")).await;
        gate.open();
        marks.reach("end", 2).await;
        marks.assert_one_at_a_time();
        switch_off(&cluster.ask(), NAME).await.assert_each_once(1);
        cluster.nothing_left_running().await;
    }

    /// C03: scheduler and runner die together, and that runner does not come back.
    async fn a_job_whose_scheduler_and_runner_died_does_not_hold_its_schedule_up_for_ever(world: World) {
        let mut cluster = world.quick().runner(RunnerSpec::named("one")).start().await;
        let marks = cluster.marks("work");
        let gate = cluster.gate("go");
        cluster.ask().apply(&every_second("skip", "run_once", &marks.around(&gate.wait()))).await.expect("it is applied");
        marks.reach("begin", 1).await;
        cluster.scheduler(0).kill();
        drop(cluster.take_runner("one"));
        cluster.start_scheduler(0).await;
        cluster.add_runner(RunnerSpec::named("two")).await;
        gate.open();
        marks.reach("end", 1).await;
        assert_eq!(marks.count("begin"), marks.count("end") + 1, "{:?}", marks.lines());
        let request = ListJobsRequest { states: vec![JobState::Failed.into()], ..Default::default() };
        let failed = cluster.api().jobs.list_jobs(request).await.expect("the scheduler answers").into_inner().jobs;
        assert_eq!(failed.len(), 1, "{failed:?}");
        switch_off(&cluster.ask(), NAME).await.assert_each_once(1);
    }

    /// C04: cut off, it counts until the time is over in which its runner may go on without a word, and by then
    /// the runner has ended it.
    async fn a_job_that_is_cut_off_counts_until_its_processes_are_gone(world: World) {
        let mut cluster = world.quick().with_fronts().start().await;
        let proxy = Proxy::at(cluster.front(0), cluster.address()).await;
        cluster.add_runner(RunnerSpec::named("one").through(proxy.address())).await;
        let marks = cluster.marks("work");
        let (lock, first) = (cluster.directory().join("lock"), cluster.directory().join("first"));
        // A copy that began while the other still lived would find the lock taken.
        let script = format!(
            "exec 9> \"{}\"\nflock -n 9 || {}\n{}",
            lock.display(),
            marks.line("overlap"),
            marks.around(&format!("mkdir \"{}\" 2> /dev/null && sleep 600", first.display()) )
        );
        cluster.ask().apply(&every_second("skip", "run_once", &script)).await.expect("it is applied");
        marks.reach("begin", 1).await;
        proxy.part();
        let direct = cluster.address();
        cluster.add_runner(RunnerSpec::named("two").through(direct)).await;
        marks.reach("end", 1).await;
        assert_eq!(marks.count("overlap"), 0, "{:?}", marks.lines());
        proxy.heal();
        cluster.runner_is("one", RunnerState::Online).await;
        let told = switch_off(&cluster.ask(), NAME).await;
        told.assert_each_once(1);
        let held_up = |reason: &str| reason == "skipped: a job of this config is live";
        assert!(told.missed.iter().any(|(_, _, reason)| held_up(reason)), "{told:?}");
        assert_eq!(marks.count("overlap"), 0, "{:?}", marks.lines());
        cluster.nothing_left_running().await;
    }
}

/// H07: whatever a scheduler had in hand when its way to the database stood still, and whatever it believes when that
/// goes on, no fire is made twice and none is lost.
#[tokio::test]
async fn a_scheduler_whose_database_connections_pause_neither_doubles_a_fire_nor_loses_one() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let cluster = World::on(Backend::Postgres).with_way_to_database().schedulers(2).start().await;
    let ask = cluster.ask_of(1);
    ask.apply(&every_second("allow", "run_all", "true")).await.expect("it is applied");
    for pause in [300, 1_700, 7_000, 12_000] {
        Told::more(&ask, NAME, 1).await;
        cluster.way_to_database().part();
        pass(Duration::from_millis(pause)).await;
        // What it held it was made to let go, and the other fires.
        Told::more(&ask, NAME, 2).await;
        cluster.way_to_database().heal();
        Told::more(&ask, NAME, 2).await;
    }
    let told = switch_off(&ask, NAME).await;
    told.assert_each_once(1);
    assert!(told.missed.iter().all(|(_, _, reason)| reason.contains("switched off")), "{told:?}");
}

/// B11, H11: the database stands still for longer than a fire may be late, crashes and is restarted. No scheduler is.
#[tokio::test]
async fn schedules_of_every_kind_go_on_when_the_database_is_back() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let cluster = World::on(Backend::Postgres).with_own_server().schedulers(4).start().await;
    let ask = cluster.ask_of(3);
    let schedules = [
        ("cron", json!({"cron": "* * * * * *", "misfire_after": "1s"}), 1),
        ("interval", json!({"every": "2s", "misfire_after": "1s"}), 2),
        ("text", json!({"text": "every 2 seconds", "misfire": "skip", "misfire_after": "1s"}), 2),
    ];
    for (name, schedule, _) in &schedules {
        ask.apply(&config(name, "allow", schedule, "true")).await.expect("it is applied");
    }
    let fire = async || {
        for (name, ..) in &schedules {
            Told::more(&ask, name, 2).await;
        }
    };
    fire().await;
    cluster.freeze_database();
    pass(Duration::from_secs(3)).await;
    cluster.thaw_database();
    fire().await;
    for crash in [true, false] {
        cluster.restart_database(crash);
        fire().await;
    }
    for (name, _, step) in schedules {
        switch_off(&ask, name).await.assert_each_once(step);
    }
}
