//! Races: what must come out right every time is run again and again; a few times in an ordinary run of the tests, as often
//! as the case asks for where `BATON_TEST_LONG` is set.

use std::time::Duration;

use baton_tests::{
    Backend, PATIENCE, RunnerSpec, World, eventually, job, one_task, repeats, stories,
    v1::{JobState, TaskState},
};
use serde_json::json;
use tokio::time::sleep;

/// Schedulers on one PostgreSQL, with beats quick enough to notice a dead one, slow enough for a busy machine; none where
/// there is no PostgreSQL.
pub(crate) fn several(schedulers: usize) -> Option<World> {
    let world = World::on(Backend::Postgres).schedulers(schedulers).beat(Duration::from_secs(3));
    Backend::Postgres.is_available().then_some(world)
}

/// D12: two parents that end in the same instant, each on a scheduler of its own.
#[tokio::test]
async fn a_join_of_parents_on_two_schedulers_starts_once() {
    let Some(world) = several(2) else { return };
    let mut cluster = world.start().await;
    for scheduler in 0..2 {
        let spec = RunnerSpec::named(&format!("runner-{scheduler}")).label(&format!("side={scheduler}"));
        let spec = spec.through(cluster.address_of(scheduler));
        cluster.add_runner(spec).await;
    }
    let marks = cluster.marks("join");
    let on = |side: &str| json!({"match_labels": {"side": side}});
    let tasks = json!([
        {"name": "left", "shell": "true", "runner": on("0")},
        {"name": "right", "shell": "true", "runner": on("1")},
        {"name": "join", "needs": ["left", "right"], "shell": marks.line("join")},
    ]);
    cluster.ask().apply(&job("join", &tasks)).await.expect("it is applied");
    for round in 1..=repeats(25, 1_000) {
        let id = cluster.ask_of(round % 2).run("join", &[]).await.expect("it runs");
        let view = cluster.done(&id).await;
        view.finished();
        assert!(view.tasks.iter().all(|task| (task.attempt, task.lease) == (1, 1)), "{}", view.summary());
        assert_eq!(marks.count("join"), round);
    }
}

/// F08: whoever holds the runner must not start what was terminated through somebody else.
#[tokio::test]
async fn what_was_terminated_through_one_scheduler_is_not_started_by_another() {
    let Some(world) = several(2) else { return };
    let mut cluster = world.start().await;
    let spec = RunnerSpec::named("of-the-first").slots(8).through(cluster.address_of(0));
    cluster.add_runner(spec).await;
    let marks = cluster.marks("work");
    let text = job(
        "cancelled",
        &json!([{"name": "first", "shell": "true"}, {"name": "then", "needs": ["first"], "shell": marks.line("begin")}]),
    );
    let (first, second) = (cluster.ask_of(0), cluster.ask_of(1));
    first.apply(&text).await.expect("it is applied");
    let mut never = 0;
    for round in 0..repeats(40, 1_000) {
        let id = first.run("cancelled", &[]).await.expect("it runs");
        // Now before it is given out, now after it began.
        sleep(Duration::from_millis(round as u64 % 25)).await;
        // Whether it came in time is part of the race.
        let _ = second.terminate(&id, "").await;
        let view = cluster.done(&id).await;
        let then = view.task("then");
        if then.attempt == 0 {
            never += 1;
            let began = marks.lines().iter().any(|line| line.contains(&then.id));
            assert!(!began, "it began although it was never given out: {}", view.summary());
        }
        assert!(matches!(view.job.state(), JobState::Finished | JobState::Terminated), "{}", view.reasons());
    }
    assert!(never > 0, "the race was never won");
    cluster.nothing_left_running().await;
}

/// H04: however many schedulers look at the same due schedules, each fire makes one job.
#[tokio::test]
async fn two_hundred_schedules_of_one_second_make_two_hundred_jobs() {
    const SCHEDULES: usize = 200;
    for schedulers in [2, 3] {
        let Some(world) = several(schedulers) else { return };
        let cluster = world.start().await;
        for number in 0..SCHEDULES {
            let config = json!({
                "name": format!("due-{number}"),
                "overlap": "allow",
                "schedules": [{"name": "once", "every": "24h"}],
                "tasks": [{"name": "work", "shell": "true"}],
            });
            cluster.ask_of(number % schedulers).apply(&config.to_string()).await.expect("it is applied");
        }
        let count =
            |text: &str| -> usize { cluster.sql(text).expect("it is PostgreSQL")[0].parse().expect("a number") };
        for round in 1..=repeats(2, 100) {
            // The same second for all of them, a moment from now by the clock that counts.
            let due = "(extract(epoch FROM date_trunc('second', clock_timestamp())) * 1000000)::bigint + 2000000";
            cluster.sql(&format!("UPDATE schedule SET next_fire_at = {due}, due_at = {due}"));
            let want = round * SCHEDULES;
            eventually(&format!("{want} jobs are made"), PATIENCE, || {
                std::future::ready((count("SELECT count(*) FROM job") >= want).then_some(()))
            })
            .await;
            // Each of them has its next fire a day ahead: nothing is left that could make another.
            let left = "SELECT count(*) FROM schedule WHERE due_at <= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            assert_eq!(count(left), 0);
            assert_eq!(count("SELECT count(*) FROM job"), want);
            assert_eq!(
                count("SELECT count(*) FROM (SELECT DISTINCT job_config_id, fire_time FROM job) AS fires"),
                want
            );
        }
        assert_eq!(count("SELECT count(*) FROM fire"), 0, "and none is missed");
    }
}

stories! {
    /// F10: a stop that arrives in the same instant as the end of the work.
    async fn terminate_racing_the_end_always_ends(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let ask = cluster.ask();
        ask.apply(&one_task("race", "true")).await.expect("it is applied");
        for round in 0..repeats(40, 1_000) {
            let id = ask.run("race", &[]).await.expect("it runs");
            // From before the start to after the end.
            sleep(Duration::from_millis(round as u64 % 20)).await;
            // Whether it came in time is part of the race.
            let _ = ask.terminate(&id, "").await;
            let view = cluster.done(&id).await;
            let (job, task) = (view.job.state(), view.task("work").state());
            let agree = matches!(
                (job, task),
                (JobState::Finished, TaskState::Finished)
                    | (JobState::Terminated, TaskState::Terminated | TaskState::Finished)
            );
            assert!(agree, "{}", view.summary());
        }
        cluster.nothing_left_running().await;
    }
}
