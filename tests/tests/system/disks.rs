//! A disk that is full: nothing that was accepted is lost, what fails says why, and all goes on once there is room.

use baton_tests::{Backend, PATIENCE, RunnerSpec, SmallDisk, World, eventually, one_task, soon, v1::TaskState};

/// The database of a test with little else in it, logs included.
const DATABASE_MEBIBYTES: u32 = 48;
/// The state of a runner.
const STATE_MEBIBYTES: u32 = 4;

#[tokio::test]
async fn a_full_disk_of_the_database_loses_nothing_and_is_told() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let Some(disk) = SmallDisk::mount(directory.path(), "database", DATABASE_MEBIBYTES) else { return };
    let mut cluster = World::on(Backend::Sqlite).sqlite_in(disk.path()).runner(RunnerSpec::named("one")).start().await;
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&held, "work", TaskState::Running).await;

    disk.fill();
    // Requests are accepted for as long as there is room in the files that the database has, then refused in words.
    let (mut accepted, mut refused) = (Vec::new(), None);
    while refused.is_none() {
        match cluster.ask().run("held", &[]).await {
            Ok(id) => accepted.push(id),
            Err(status) => refused = Some(status),
        }
    }
    let refused = refused.expect("the disk is full in the end");
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");
    assert!(refused.message().contains("full"), "{}", refused.message());
    // A result comes while nobody can store it: it is no failure of the task.
    gate.open();
    marks.reach("end", 1).await;
    assert!(cluster.scheduler(0).ended().is_none(), "it waits for room");

    disk.empty();
    let view = cluster.done(&held).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "{}", view.reasons());
    for id in &accepted {
        cluster.done(id).await.finished();
    }
    let next = cluster.run(&one_task("next", "echo next")).await;
    cluster.done(&next).await.finished();
    cluster.log_holds(&next, "work", "next").await;
    marks.assert_one_at_a_time();
    drop(cluster);
}

#[tokio::test]
async fn a_full_disk_of_a_runner_fails_what_it_touches_in_words_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let Some(disk) = SmallDisk::mount(directory.path(), "state", STATE_MEBIBYTES) else { return };
    let mut cluster = World::plain().start().await;
    cluster.add_runner(RunnerSpec::named("one").slots(2).state_dir(&disk.path().join("one"))).await;
    let marks = cluster.marks("work");
    let gate = cluster.gate("go");
    let held = cluster.run(&one_task("held", &marks.around(&gate.wait()))).await;
    marks.reach("begin", 1).await;
    cluster.task_is(&held, "work", TaskState::Running).await;

    disk.fill();
    // The other slot was never used: there is no room to write down what it would run.
    let refused = cluster.run(&one_task("refused", &marks.around("true"))).await;
    let view = cluster.done(&refused).await;
    let reason = &view.task("work").reason;
    assert_eq!(view.task("work").state(), TaskState::Failed, "{}", view.reasons());
    assert!(reason.contains("No space left on device"), "{reason}");
    // What runs already ends as it would.
    gate.open();
    let view = cluster.done(&held).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1);
    assert!(cluster.runner("one").part.ended().is_none(), "the runner goes on");

    disk.empty();
    let next = cluster.run(&one_task("next", &marks.around("echo next"))).await;
    cluster.done(&next).await.finished();
    cluster.log_holds(&next, "work", "next").await;
    marks.assert_one_at_a_time();
    assert_eq!(marks.count("begin"), 2, "what was refused never began");
    drop(cluster);
}

/// The log store is a file of its own: output that finds no room waits on its runner.
#[tokio::test]
async fn output_that_finds_no_room_is_sent_again() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let Some(disk) = SmallDisk::mount(directory.path(), "database", DATABASE_MEBIBYTES) else { return };
    let cluster = World::on(Backend::Sqlite).sqlite_in(disk.path()).runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let script = format!("{}\nhead -c 2000000 /dev/zero | tr '\\0' x", gate.wait());
    let id = cluster.run(&one_task("loud", &script)).await;
    cluster.task_is(&id, "work", TaskState::Running).await;
    disk.fill();
    gate.open();
    soon("output finds no room", || cluster.scheduler_output(0).contains("cannot store output")).await;
    disk.empty();
    cluster.done(&id).await.finished();
    eventually("all of it is stored", PATIENCE, || async {
        (cluster.log(&id, "work").await.len() == 2_000_000).then_some(())
    })
    .await;
    drop(cluster);
}
