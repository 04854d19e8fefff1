//! Several schedulers on one PostgreSQL: all work, none matters.

use std::time::Duration;

use baton_tests::{
    Backend, Cluster, PATIENCE, RunnerSpec, World, eventually, job, one_task,
    v1::{JobState, ListSchedulersRequest, RunnerState, SchedulerState, TaskState},
};
use serde_json::json;

/// Two schedulers and beats quick enough to notice a dead one, slow enough for a busy machine; none where there is no PostgreSQL.
fn two() -> Option<World> {
    Backend::Postgres.is_available().then(|| World::on(Backend::Postgres).schedulers(2).beat(Duration::from_secs(3)))
}

/// A runner that knows only the scheduler with this number.
fn runner_of(cluster: &Cluster, id: &str, scheduler: usize) -> RunnerSpec {
    RunnerSpec::named(id).through(cluster.address_of(scheduler))
}

#[tokio::test]
async fn a_job_of_one_scheduler_runs_on_a_runner_of_the_other() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    let spec = runner_of(&cluster, "far", 1);
    cluster.add_runner(spec).await;
    let id = cluster.run(&one_task("far", "echo far")).await;
    cluster.done(&id).await.finished();
    cluster.log_holds(&id, "work", "far").await;
    // And is seen through either.
    let view = cluster.ask_of(1).get(&id).await.expect("both know it");
    assert_eq!(view.summary(), "FINISHED; work=FINISHED");
}

#[tokio::test]
async fn runners_of_a_killed_scheduler_move_and_their_tasks_go_on() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    for number in 0..4 {
        cluster.add_runner(RunnerSpec::named(&format!("runner-{number}"))).await;
    }
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let tasks = json!([
        {"name": "work", "shards": {"count": 12}, "shell": marks.around(&gate.wait())},
        {"name": "after", "needs": ["work"], "shell": marks.line("after")},
    ]);
    let id = cluster.run(&job("moving", &tasks)).await;
    marks.reach("begin", 12).await;
    cluster.scheduler(1).kill();
    for number in 0..4 {
        cluster.runner_is(&format!("runner-{number}"), RunnerState::Online).await;
    }
    let next = cluster.run(&one_task("next", "true")).await;
    cluster.done(&next).await.finished();
    gate.open();
    let view = cluster.done(&id).await;
    view.finished();
    assert!(view.shards("work").iter().all(|shard| shard.attempt == 1), "{}", view.reasons());
    assert_eq!((marks.count("begin"), marks.count("after")), (12, 1));
}

/// D12: two parents that end in the same instant, each on a scheduler of its own.
#[tokio::test]
async fn a_join_of_parents_on_two_schedulers_starts_once() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    for scheduler in 0..2 {
        let spec = runner_of(&cluster, &format!("runner-{scheduler}"), scheduler);
        cluster.add_runner(spec.label(&format!("side={scheduler}"))).await;
    }
    let marks = cluster.marks("join");
    let on = |side: &str| json!({"match_labels": {"side": side}});
    let tasks = json!([
        {"name": "left", "shell": "true", "runner": on("0")},
        {"name": "right", "shell": "true", "runner": on("1")},
        {"name": "join", "needs": ["left", "right"], "shell": marks.line("join")},
    ]);
    let text = job("join", &tasks);
    for round in 1..=25 {
        let id = cluster.run(&text).await;
        cluster.done(&id).await.finished();
        assert_eq!(marks.count("join"), round);
    }
}

#[tokio::test]
async fn a_frozen_scheduler_does_no_harm_when_it_thaws() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    for number in 0..2 {
        cluster.add_runner(RunnerSpec::named(&format!("runner-{number}"))).await;
    }
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.scheduler(1).freeze();
    let while_frozen = cluster.run(&one_task("meanwhile", &marks.around("true"))).await;
    cluster.done(&while_frozen).await.finished();
    cluster.scheduler(1).thaw();
    gate.open();
    let view = cluster.done(&held).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
    eventually("the thawed one answers again", PATIENCE, || async { cluster.ask_of(1).get(&held).await.ok() }).await;
    assert_eq!((marks.count("begin"), marks.count("end")), (2, 2));
    marks.assert_one_at_a_time();
}

/// H05, H12: a scheduler that comes or goes touches nothing of the others.
#[tokio::test]
async fn schedulers_that_come_and_go_settle_nothing() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    let spec = runner_of(&cluster, "steady", 0);
    cluster.add_runner(spec).await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("steady", &gate.wait())).await;
    let before = cluster.task_is(&id, "work", TaskState::Running).await;
    for _ in 0..3 {
        cluster.scheduler(1).kill();
        cluster.start_scheduler(1).await;
    }
    gate.open();
    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!((view.task("work").attempt, view.task("work").lease), (1, before.task("work").lease));
}

#[tokio::test]
async fn a_rolling_restart_loses_and_repeats_nothing() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    for number in 0..2 {
        cluster.add_runner(RunnerSpec::named(&format!("runner-{number}"))).await;
    }
    let marks = cluster.marks("work");
    cluster.ask().apply(&one_task("load", &marks.around("sleep 0.2"))).await.expect("it is applied");
    let mut accepted = Vec::new();
    for restarting in [0, 1, 0, 1] {
        for _ in 0..5 {
            accepted.push(cluster.ask_of(1 - restarting).run("load", &[]).await.expect("one of them is there"));
        }
        cluster.scheduler(restarting).terminate();
        let status = cluster.scheduler(restarting).end(PATIENCE).await;
        assert!(status.success(), "{status}");
        cluster.start_scheduler(restarting).await;
    }
    for id in &accepted {
        let view = cluster.done(id).await;
        view.finished();
        assert_eq!(view.task("work").attempt, 1);
    }
    assert_eq!((marks.count("begin"), marks.count("end")), (accepted.len(), accepted.len()));
}

#[tokio::test]
async fn every_scheduler_is_listed_and_a_dead_one_as_such() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    cluster.scheduler(1).kill();
    let api = cluster.api();
    eventually("one works and one is offline", PATIENCE, || {
        let mut schedulers = api.schedulers.clone();
        async move {
            let request = ListSchedulersRequest::default();
            let listed = schedulers.list_schedulers(request).await.ok()?.into_inner().schedulers;
            let count = |state: SchedulerState| listed.iter().filter(|one| one.state() == state).count();
            (count(SchedulerState::Working) == 1 && count(SchedulerState::Offline) == 1).then_some(())
        }
    })
    .await;
}

#[tokio::test]
async fn a_drained_scheduler_keeps_its_streams_and_gives_out_nothing() {
    let Some(world) = two() else { return };
    let mut cluster = world.start().await;
    let spec = runner_of(&cluster, "one", 1);
    cluster.add_runner(spec).await;
    let listed = cluster.ask_of(1).0.schedulers.list_schedulers(ListSchedulersRequest::default()).await;
    let listed = listed.expect("they are listed").into_inner().schedulers;
    let address = cluster.address_of(1).to_string();
    let id = listed.iter().find(|one| one.address.ends_with(&address)).expect("it is listed").id.clone();
    cluster.baton(&["drain", "--scheduler", &id]).await.exits(0);
    let job = cluster.run(&one_task("waits", "true")).await;
    cluster.task_is(&job, "work", TaskState::Queued).await;
    cluster.runner_is("one", RunnerState::Online).await;
    assert_eq!(cluster.ask().get(&job).await.expect("it is there").job.state(), JobState::Running);
    cluster.baton(&["resume", "--scheduler", &id]).await.exits(0);
    cluster.done(&job).await.finished();
}

#[tokio::test]
async fn a_drained_runner_finishes_what_it_has_and_takes_nothing_new() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &gate.wait())).await;
    cluster.task_is(&held, "work", TaskState::Running).await;
    cluster.baton(&["drain", "one"]).await.exits(0);
    cluster.runner_is("one", RunnerState::Draining).await;
    let next = cluster.run(&one_task("next", "true")).await;
    gate.open();
    cluster.done(&held).await.finished();
    cluster.add_runner(RunnerSpec::named("two")).await;
    let view = cluster.done(&next).await;
    assert_eq!(view.task("work").runner_id, "two");
    cluster.baton(&["resume", "one"]).await.exits(0);
    cluster.runner_is("one", RunnerState::Online).await;
}
