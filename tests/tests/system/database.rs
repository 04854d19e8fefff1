//! A scheduler that loses its database gives out nothing, keeps its streams and recovers by itself.

use std::time::Duration;

use baton_tests::{
    Backend, Part, RunnerSpec, World, one_task,
    proxy::Cut,
    soon,
    v1::{RunnerState, TaskState},
};

/// Whether a scheduler has said that its database fails, or that it does not answer at all.
fn is_out_of_touch(scheduler: &Part) -> bool {
    let said = scheduler.output();
    said.contains("signs of life could not be committed") || said.contains("the database does not answer")
}

/// On PostgreSQL, behind a proxy; none where it is not installed.
fn behind_proxy() -> Option<World> {
    Backend::Postgres.is_available().then(|| World::on(Backend::Postgres).with_way_to_database())
}

#[tokio::test]
async fn a_database_that_was_away_is_found_again_and_no_attempt_is_burnt() {
    let Some(world) = behind_proxy() else { return };
    // An absence that a busy machine makes longer is still shorter than self-stop.
    let mut cluster = world.beat(Duration::from_secs(8)).runner(RunnerSpec::named("one")).start().await;
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("long", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&id, "work", TaskState::Running).await;

    cluster.way_to_database().refuse();
    cluster.way_to_database().cut(Cut::Reset);
    soon("the scheduler notices", || is_out_of_touch(cluster.scheduler(0))).await;
    // The result comes while nobody can store it.
    gate.open();
    marks.reach("end", 1).await;
    assert!(cluster.scheduler(0).ended().is_none(), "it waits for its database");
    cluster.way_to_database().heal();

    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
    let next = cluster.run(&one_task("next", "true")).await;
    cluster.done(&next).await.finished();
}

/// H03: a scheduler that is cut from its database, but not from its runners, cannot do harm beside one that works.
#[tokio::test]
async fn a_scheduler_cut_from_its_database_does_no_harm_beside_another() {
    let Some(world) = behind_proxy() else { return };
    let mut cluster = world.schedulers(2).beat(Duration::from_secs(3)).runner(RunnerSpec::named("one")).start().await;
    let marks = cluster.marks("work");
    cluster.way_to_database().part();
    soon("the scheduler notices", || is_out_of_touch(cluster.scheduler(0))).await;
    // The runner moves to the other one, if it was not there.
    let asked = cluster.ask_of(1);
    asked.apply(&one_task("meanwhile", &marks.around("true"))).await.expect("it is applied");
    let id = asked.run("meanwhile", &[]).await.expect("it is accepted");
    marks.reach("end", 1).await;
    cluster.way_to_database().heal();
    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!((view.task("work").attempt, marks.count("begin")), (1, 1));
    cluster.runner_is("one", RunnerState::Online).await;
    let next = cluster.run(&one_task("next", &marks.around("true"))).await;
    cluster.done(&next).await.finished();
    marks.assert_one_at_a_time();
}
