//! The server of the database is restarted, killed or stands still: no attempt is burnt and all goes on by itself.

use std::time::Duration;

use baton_tests::{
    Backend, Cluster, RunnerSpec, World, one_task, soon,
    v1::{RunnerState, TaskState},
};

/// Two schedulers on a PostgreSQL server of their own; none where it is not installed.
async fn cluster(beat: Duration) -> Option<Cluster> {
    if !Backend::Postgres.is_available() {
        return None;
    }
    let world = World::on(Backend::Postgres).with_own_server().schedulers(2).beat(beat);
    Some(world.runner(RunnerSpec::named("one")).runner(RunnerSpec::named("two")).start().await)
}

fn out_of_touch(cluster: &Cluster, scheduler: usize) -> usize {
    let said = cluster.scheduler_output(scheduler);
    said.matches("signs of life could not be committed").count() + said.matches("turn failed").count()
}

/// H10, H13: leases are rows, and nobody recovers anything before it has been in touch for long enough.
#[tokio::test]
async fn a_restart_of_the_database_is_a_non_event() {
    // An absence that a busy machine makes longer is still shorter than self-stop.
    let Some(mut cluster) = cluster(Duration::from_secs(8)).await else { return };
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&held, "work", TaskState::Running).await;
    for crash in [false, true] {
        cluster.restart_database(crash);
        let next = loop {
            // Refused with "try again" until the connections are made anew.
            if cluster.ask().apply(&one_task("next", &marks.around("true"))).await.is_ok()
                && let Ok(id) = cluster.ask().run("next", &[]).await
            {
                break id;
            }
        };
        let view = cluster.done(&next).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
        for id in ["one", "two"] {
            cluster.runner_is(id, RunnerState::Online).await;
        }
    }
    gate.open();
    let view = cluster.done(&held).await;
    view.finished();
    assert_eq!((view.task("work").attempt, marks.count("begin")), (1, 3), "{}", view.reasons());
    marks.assert_one_at_a_time();
    assert!((0..2).all(|index| cluster.scheduler(index).ended().is_none()), "nobody had to be started again");
}

/// A server that answers nothing and closes nothing.
#[tokio::test]
async fn a_database_that_stands_still_costs_no_attempt() {
    let Some(cluster) = cluster(Duration::from_secs(8)).await else { return };
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&held, "work", TaskState::Running).await;
    cluster.freeze_database();
    soon("both schedulers notice", || (0..2).all(|index| out_of_touch(&cluster, index) > 0)).await;
    gate.open();
    marks.reach("end", 1).await;
    cluster.thaw_database();
    let view = cluster.done(&held).await;
    view.finished();
    assert_eq!((view.task("work").attempt, marks.count("begin")), (1, 1), "{}", view.reasons());
    let next = cluster.run(&one_task("next", &marks.around("true"))).await;
    cluster.done(&next).await.finished();
    for id in ["one", "two"] {
        cluster.runner_is(id, RunnerState::Online).await;
    }
}
