//! Schedules with real programs: schedulers that are killed, fires that are made up for, switches on the command line.

use baton_tests::{Backend, Cluster, PATIENCE, RunnerSpec, World, eventually, stories};
use serde_json::json;

/// A job that is due every second, whatever else of it still runs.
fn every_second() -> String {
    json!({
        "name": "tick",
        "overlap": "allow",
        "schedules": [{"name": "tick", "cron": "* * * * * *", "misfire": "run_all"}],
        "tasks": [{"name": "work", "command": ["true"]}],
    })
    .to_string()
}

/// How many jobs there are, of how many different fires, and how many seconds these span.
fn made(cluster: &Cluster) -> (i64, i64, i64) {
    let text =
        "SELECT count(*), count(DISTINCT fire_time), coalesce((max(fire_time) - min(fire_time)) / 1000000 + 1, 0)
                FROM job";
    let rows = cluster.sql(text).expect("it is PostgreSQL");
    let numbers: Vec<i64> = rows[0].split('\t').map(|number| number.parse().expect("a number")).collect();
    (numbers[0], numbers[1], numbers[2])
}

#[tokio::test]
async fn a_schedule_of_every_second_misses_none_while_schedulers_are_killed() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let mut cluster = World::on(Backend::Postgres).schedulers(3).start().await;
    cluster.ask().apply(&every_second()).await.expect("it is applied");
    for round in 0..5_usize {
        let before = made(&cluster).0;
        eventually("it fires", PATIENCE, || std::future::ready((made(&cluster).0 > before).then_some(()))).await;
        let killed = round % 3;
        cluster.scheduler(killed).kill();
        let before = made(&cluster).0;
        eventually("the others fire", PATIENCE, || std::future::ready((made(&cluster).0 > before).then_some(()))).await;
        cluster.start_scheduler(killed).await;
    }
    let (jobs, fires, seconds) = made(&cluster);
    assert_eq!((jobs, jobs), (fires, seconds), "one job for each second, and a second for each job");
    assert_eq!(cluster.sql("SELECT count(*) FROM fire").expect("it is PostgreSQL"), ["0"]);
}

stories! {
    async fn a_week_is_made_up_for_from_the_command_line_and_no_day_twice(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(2)).start().await;
        let config = json!({
            "name": "report",
            "params": {"day": "{{ logical_time | date('%Y-%m-%d') }}"},
            "schedules": [{"name": "nightly", "cron": "30 2 * * *"}],
            "tasks": [{"name": "work", "command": ["echo", "{{ params.day }}"]}],
        });
        cluster.ask().apply(&config.to_string()).await.expect("it is applied");
        let week = ["--from", "2026-03-01T00:00:00Z", "--to", "2026-03-08T00:00:00Z"];
        let backfill = |more: &[&'static str]| {
            let words: Vec<&str> = ["backfill", "report"].into_iter().chain(week).chain(more.iter().copied()).collect();
            words
        };
        let shown = cluster.baton(&backfill(&["--dry-run", "-o", "json"])).await;
        assert_eq!(shown.exits(0).json()["backfill"]["fires"], "7");
        let done = cluster.baton(&backfill(&["--wait", "--max-parallel", "3", "-o", "json"])).await;
        let done = done.exits(0).json();
        assert_eq!((&done["backfill"]["jobs"], &done["backfill"]["finished"]), (&json!("7"), &json!("7")));
        let again = cluster.baton(&backfill(&["--wait", "-o", "json"])).await;
        assert_eq!(again.exits(0).json()["backfill"]["passedOver"], "7");
        let jobs = cluster.baton(&["get", "jobs", "--name", "report", "-o", "json"]).await.exits(0).json();
        let mut days: Vec<String> = jobs["jobs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|job| {
                assert_eq!(job["trigger"], "TRIGGER_KIND_BACKFILL");
                job["params"]["day"].as_str().expect("a text").to_owned()
            })
            .collect();
        days.sort();
        assert_eq!(days, (1..=7).map(|day| format!("2026-03-0{day}")).collect::<Vec<_>>());

        cluster.baton(&["disable", "report", "--until", "2h", "--reason", "moving"]).await.exits(0);
        let off = cluster.baton(&["get", "schedules", "report", "-o", "json"]).await.exits(0).json();
        assert_eq!(off["schedules"][0]["state"], "SCHEDULE_STATE_PAUSED");
        cluster.baton(&["enable", "report"]).await.exits(0);
        for words in [vec!["disable", "reprot"], vec!["next", "reprot"], vec!["get", "schedules", "reprot"]] {
            cluster.baton(&words).await.exits(3).complains(&["did you mean \"report\"?"]);
        }
        cluster.nothing_left_running().await;
    }
}
