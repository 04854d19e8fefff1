//! Several schedulers on one PostgreSQL: all work, none matters.

use baton_tests::{
    Backend, Cluster, PATIENCE, RunnerSpec, View, World, eventually, job, one_task,
    service::Service,
    v1::{JobState, ListSchedulersRequest, RunnerState, SchedulerState, TaskState},
};
use serde_json::json;

use crate::races::several;

/// A runner that knows only the scheduler with this number.
fn runner_of(cluster: &Cluster, id: &str, scheduler: usize) -> RunnerSpec {
    RunnerSpec::named(id).through(cluster.address_of(scheduler))
}

#[tokio::test]
async fn a_job_of_one_scheduler_runs_on_a_runner_of_the_other() {
    let Some(world) = several(2) else { return };
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
    let Some(world) = several(2) else { return };
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

/// E03: a loss is settled by whoever sees it first, with the policy of the task: also by a scheduler that never had the
/// runner.
#[tokio::test]
async fn a_loss_is_settled_by_a_scheduler_that_never_served_the_runner() {
    let Some(world) = several(2) else { return };
    let mut cluster = world.quick().start().await;
    for (number, id) in ["mine", "yours"].into_iter().enumerate() {
        let spec = runner_of(&cluster, id, number).label(&format!("kind={id}"));
        cluster.add_runner(spec).await;
    }
    let marks = cluster.marks("work");
    let only = json!({"match_labels": {"kind": "yours"}});
    let script = marks.around("test $BATON_ATTEMPT = 2 || sleep 600");
    let tasks = json!([
        {"name": "once", "shell": script, "runner": only},
        {"name": "again", "shell": script, "runner": only, "retry": {"max_attempts": 2}},
    ]);
    let id = cluster.run(&job("theirs", &tasks)).await;
    marks.reach("begin", 2).await;
    cluster.scheduler(1).kill();
    drop(cluster.take_runner("yours"));
    let view = cluster.task_is(&id, "again", TaskState::Queued).await;
    assert_eq!(view.state("once"), TaskState::Failed, "{}", view.reasons());
    let spec = runner_of(&cluster, "another", 0).label("kind=yours");
    cluster.add_runner(spec).await;
    let view = cluster.done(&id).await;
    assert_eq!(view.summary(), "FAILED; once=FAILED, again=FINISHED");
    assert_eq!((view.task("once").attempt, view.task("again").attempt), (1, 2));
    assert_eq!((marks.count("begin"), marks.count("end")), (3, 1));
}

/// H02: three schedulers see the same loss, and it happens once.
#[tokio::test]
async fn a_loss_that_three_schedulers_see_is_settled_once_and_told_once() {
    const TASKS: usize = 12;
    if !Backend::Postgres.is_available() {
        return;
    }
    let told = Service::start().await;
    let world = World::on(Backend::Postgres).schedulers(3).quick().scheduler_arg("--callback-allow=127.0.0.0/8");
    let mut cluster = world.runner(RunnerSpec::named("lost").slots(TASKS as u32)).start().await;
    let marks = cluster.marks("work");
    let script = marks.around("test $BATON_ATTEMPT = 2 || sleep 600");
    let callbacks = json!([{"events": ["failed"], "http": {"url": told.url("/failed")}}]);
    let tasks = json!([
        {"name": "again", "shards": {"count": TASKS - 1}, "shell": script, "retry": {"max_attempts": 2}},
        {"name": "once", "shell": script, "callbacks": callbacks},
    ]);
    let id = cluster.run(&job("lost", &tasks)).await;
    marks.reach("begin", TASKS).await;
    let run = |view: &View| view.tasks.iter().all(|task| task.state() == TaskState::Running);
    cluster.until(&id, "all of them run", run).await;
    drop(cluster.take_runner("lost"));
    cluster.task_is(&id, "once", TaskState::Failed).await;
    told.asked_times(1).await;
    cluster.add_runner(RunnerSpec::named("other").slots(4)).await;
    let view = cluster.done(&id).await;
    assert_eq!(view.summary(), "FAILED; again=FINISHED, once=FAILED");
    // One lease for the first dispatch, one for its loss, one for the second dispatch.
    assert!(view.shards("again").iter().all(|shard| (shard.attempt, shard.lease) == (2, 3)), "{}", view.reasons());
    let rows = cluster.sql("SELECT count(*), count(DISTINCT task_id) FROM task_attempt").expect("it is PostgreSQL");
    let attempts = TASKS - 1;
    assert_eq!(rows, [format!("{attempts}\t{attempts}")], "one attempt was lost of each that was tried again");
    assert_eq!((marks.count("begin"), marks.count("end")), (2 * TASKS - 1, TASKS - 1));
    assert_eq!(cluster.sql("SELECT count(*) FROM callback").expect("it is PostgreSQL"), ["1"]);
    assert_eq!(told.asked().len(), 1, "and nobody was told twice");
}

#[tokio::test]
async fn a_frozen_scheduler_does_no_harm_when_it_thaws() {
    let Some(world) = several(2) else { return };
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
    let Some(world) = several(2) else { return };
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
    let Some(world) = several(2) else { return };
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
    let Some(world) = several(2) else { return };
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
    let Some(world) = several(2) else { return };
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
