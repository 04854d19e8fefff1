//! Errors that a user can act on: each says what is wrong and what to do next.

use std::{fs, process::Command};

use baton_tests::{
    Output, Part, RunnerSpec, World, one_task, programs, run_program, soon,
    v1::{RunnerState, TaskState},
};

async fn scheduler(arguments: &[&str]) -> Output {
    let mut command = programs::command("baton-scheduler");
    command.args(arguments);
    run_program(command).await
}

#[tokio::test]
async fn an_unreachable_scheduler_is_told_with_how_to_start_one() {
    let nobody = programs::free_address();
    let mut command = programs::command("baton");
    command.args(["--address", &nobody.to_string(), "get", "jobs"]);
    run_program(command).await.exits(6).complains(&[&nobody.to_string(), "baton dev"]);
}

#[tokio::test]
async fn a_port_in_use_is_told_with_its_address() {
    let cluster = World::plain().start().await;
    let address = cluster.address().to_string();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let database = format!("sqlite://{}", directory.path().join("other.db").display());
    let output = scheduler(&["--listen", &address, "--database-url", &database]).await;
    assert_ne!(output.code, 0);
    output.complains(&[&address, "taken", "--listen"]);
}

#[tokio::test]
async fn a_second_scheduler_on_one_sqlite_file_is_refused() {
    let cluster = World::plain().start().await;
    let other = programs::free_address().to_string();
    let output = scheduler(&["--listen", &other, "--database-url", cluster.database_url()]).await;
    assert_ne!(output.code, 0);
    output.complains(&["baton.db", "another scheduler"]);
    cluster.baton(&["get", "configs"]).await.exits(0);
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_named() {
    let listen = programs::free_address().to_string();
    // A missing directory is made; nothing can be made below a device.
    let output = scheduler(&["--listen", &listen, "--database-url", "sqlite:///dev/null/at/all/baton.db"]).await;
    assert_ne!(output.code, 0);
    output.complains(&["/dev/null/at/all"]);
    let nobody = programs::free_address();
    let url = format!("postgres://baton:s3cret@{nobody}/baton");
    let output = scheduler(&["--listen", &listen, "--database-url", &url]).await;
    assert_ne!(output.code, 0);
    output.complains(&[&nobody.to_string()]);
    assert!(!output.stderr.contains("s3cret"), "a password is never shown:\n{}", output.stderr);
}

#[tokio::test]
async fn a_scheduler_without_credentials_stays_on_loopback() {
    let port = programs::free_address().port();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let database = format!("sqlite://{}", directory.path().join("baton.db").display());
    for flags in [&["--no-auth"][..], &[]] {
        let listen = format!("0.0.0.0:{port}");
        let mut arguments = vec!["--listen", &listen, "--database-url", &database];
        arguments.extend(flags);
        let output = scheduler(&arguments).await;
        assert_ne!(output.code, 0);
        output.complains(&[&listen, "127.0.0.1"]);
    }
}

#[tokio::test]
async fn an_unknown_job_is_answered_with_the_nearest_name() {
    let cluster = World::plain().start().await;
    cluster.ask().apply(&one_task("orders-etl", "true")).await.expect("it is applied");
    cluster.baton(&["run", "order-etl"]).await.exits(3).complains(&["order-etl", "orders-etl"]);
    let gone = cluster.baton(&["get", "job", "00000000-0000-7000-8000-000000000000"]).await;
    gone.exits(3).complains(&["00000000-0000-7000-8000-000000000000"]);
}

const BAD: &str = "\
name: bad
tasks:
  - name: extract-orders
    shell: echo
    colour: red
  - name: join
    needs: [extract-order, join]
    shell: echo
    timeout: soon
  - name: join
    command: [echo]
    shell: echo
";

#[tokio::test]
async fn a_bad_file_is_answered_with_every_problem_at_its_place() {
    let cluster = World::plain().start().await;
    fs::write(cluster.directory().join("bad.yaml"), BAD).expect("it can be written");
    let applied = cluster.baton(&["apply", "-f", "bad.yaml"]).await;
    let problems = [
        "bad.yaml:5:5", // an unknown key
        "colour",
        "bad.yaml:7:13", // a parent that does not exist, and what was meant
        "extract-orders",
        "bad.yaml:7:28",  // an edge to itself
        "bad.yaml:9:14",  // no duration
        "bad.yaml:10:11", // a name that is taken
    ];
    applied.exits(1).complains(&problems);
    // Offline and from the server the answers are the same.
    let mut offline = programs::command("baton");
    offline.args(["validate", "-f", "bad.yaml"]).current_dir(cluster.directory());
    run_program(offline).await.exits(1).complains(&problems);
    cluster.baton(&["get", "config", "bad"]).await.exits(3);
}

#[tokio::test]
async fn keys_of_later_versions_are_refused_rather_than_ignored() {
    let cluster = World::plain().start().await;
    let file = "name: later\nenabled: true\ntasks: [{name: a, container: {image: x}}]\n";
    fs::write(cluster.directory().join("later.yaml"), file).expect("it can be written");
    let refused = cluster.baton(&["apply", "-f", "later.yaml"]).await;
    refused.exits(1).complains(&["enabled", "container", "not supported by this version"]);
}

#[tokio::test]
async fn a_runner_id_in_use_elsewhere_is_refused_while_the_first_one_lives() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("long", &gate.wait())).await;
    cluster.task_is(&id, "work", TaskState::Running).await;

    let elsewhere = cluster.directory().join("another-host");
    cluster.spawn_runner(RunnerSpec::named("one").state_dir(&elsewhere));
    let second = cluster.runner("one");
    soon("the second host is told", || {
        let said = second.part.output().to_lowercase();
        said.contains("one") && (said.contains("in use") || said.contains("another host"))
    })
    .await;

    gate.open();
    let view = cluster.done(&id).await;
    view.finished();
    assert_eq!(view.task("work").attempt, 1, "the first host was not disturbed");
    cluster.runner_is("one", RunnerState::Online).await;
}

#[tokio::test]
async fn two_runners_never_share_a_state_directory() {
    let mut cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let shared = cluster.directory().join("runner-one");
    let command = cluster.runner_command(&RunnerSpec::named("two").state_dir(&shared));
    let output = run_program(command).await;
    assert_ne!(output.code, 0);
    output.complains(&["runner-one"]);
    cluster.runner_is("one", RunnerState::Online).await;
    assert!(cluster.runner("one").part.ended().is_none());
}

#[tokio::test]
async fn dev_starts_everything_says_where_and_ends_in_order() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let address = programs::free_address();
    let mut command = programs::command("baton");
    command.args(["dev", "--listen", &address.to_string(), "--data"]).arg(directory.path().join("data"));
    command.current_dir(directory.path()).env("HOME", directory.path());
    let mut dev = Part::start("dev", command, &directory.path().join("dev.log"));
    soon("it says where it listens", || dev.output().contains(&address.to_string())).await;

    fs::write(directory.path().join("hello.yaml"), one_task("hello", "echo hello")).expect("it can be written");
    let baton = |arguments: &[&str]| {
        let mut command: Command = programs::command("baton");
        command.args(["--address", &address.to_string()]).args(arguments).current_dir(directory.path());
        command.env("HOME", directory.path());
        run_program(command)
    };
    baton(&["apply", "-f", "hello.yaml"]).await.exits(0);
    baton(&["run", "hello", "--wait"]).await.exits(0);

    dev.signal_group(rustix::process::Signal::INT);
    let status = dev.end(baton_tests::PATIENCE).await;
    assert!(status.success(), "{status}: {}", dev.output());
    baton(&["get", "jobs"]).await.exits(6);
}
