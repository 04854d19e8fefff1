//! Who dials whom: runners dial, and nobody dials a runner (G09). So they may be behind any wall that lets them out.

use baton_tests::{Backend, RunnerSpec, World, one_task, processes::sockets};

#[tokio::test]
async fn a_runner_listens_nowhere_and_no_scheduler_dials_it() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("long", &format!("echo begun\n{}", gate.wait()))).await;
    // Work, beats and output are on their way.
    cluster.log_holds(&id, "work", "begun").await;
    let port = cluster.address().port();
    let runner = cluster.runner("one");
    for pid in [runner.part.pid(), runner.pid()] {
        let all = sockets(pid);
        assert!(all.iter().all(|socket| socket.remote == Some(port)), "it only dials its scheduler: {all:?}");
    }
    assert!(!sockets(runner.pid()).is_empty(), "and has");
    // On SQLite a scheduler dials nobody at all: each of its connections came in at its own port.
    let all = sockets(cluster.scheduler(0).pid());
    assert!(all.iter().all(|socket| socket.local == port), "{all:?}");
    assert!(all.iter().any(|socket| socket.remote.is_none()), "it listens: {all:?}");
    gate.open();
    cluster.done(&id).await.finished();
}

#[tokio::test]
async fn a_scheduler_of_several_dials_its_database_and_nobody_else() {
    if !Backend::Postgres.is_available() {
        return;
    }
    let mut cluster = World::on(Backend::Postgres).schedulers(2).runner(RunnerSpec::named("one")).start().await;
    let id = cluster.run(&one_task("short", "true")).await;
    cluster.done(&id).await.finished();
    let database = cluster.database_url().rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()?.parse().ok());
    assert!(database.is_some(), "{}", cluster.database_url());
    for index in 0..2 {
        let port = cluster.address_of(index).port();
        let all = sockets(cluster.scheduler(index).pid());
        assert!(all.iter().all(|socket| socket.local == port || socket.remote == database), "{all:?}");
    }
}
