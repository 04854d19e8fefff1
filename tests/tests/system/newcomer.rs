//! The first hour with the command line: apply, run, watch, read, terminate, and what it says to scripts.

use std::{fs, process::Stdio};

use baton_tests::{
    Cluster, Grpcurl, PATIENCE, RunnerSpec, World, eventually, job, one_task, stories,
    v1::{JobState, TaskState},
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};

const HELLO: &str = "\
name: hello
tasks:
  - name: greet
    shell: echo \"hello from $BATON_TASK_NAME\"
";

async fn apply(cluster: &Cluster, file: &str, text: &str) {
    fs::write(cluster.directory().join(file), text).expect("a job file can be written");
    let applied = cluster.baton(&["apply", "-f", file]).await;
    applied.exits(0);
}

stories! {
    async fn a_first_job_runs_and_can_be_read_back(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        apply(&cluster, "hello.yaml", HELLO).await;

        let ran = cluster.baton(&["run", "hello", "--wait", "-o", "name"]).await;
        let id = ran.exits(0).line().to_owned();
        assert_eq!(id.len(), 36, "`-o name` prints the id and nothing else: {:?}", ran.stdout);

        let short = &id[28..];
        let read = cluster.baton(&["get", "job", short]).await;
        assert!(read.exits(0).stdout.to_uppercase().contains("FINISHED"), "{}", read.stdout);
        let selector = format!("{short}/greet");
        eventually("the log is there", PATIENCE, || async {
            let logs = cluster.baton(&["logs", &selector]).await;
            (logs.exits(0).line() == "hello from greet").then_some(())
        })
        .await;

        for kind in ["config", "configs", "job", "jobs", "task", "tasks", "runner", "runners"] {
            let listed = cluster.baton(&["get", kind]).await;
            assert!(!listed.exits(0).stdout.is_empty(), "get {kind} lists nothing");
            assert!(!listed.stdout.contains('\u{1b}'), "no colour in a pipe");
        }
    }

    async fn exit_codes_tell_how_a_job_ended(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        apply(&cluster, "bad.yaml", &one_task("bad", "exit 3")).await;
        cluster.baton(&["run", "bad", "--wait"]).await.exits(7);

        apply(&cluster, "long.yaml", &one_task("long", "sleep 600")).await;
        let ran = cluster.baton(&["run", "long", "-o", "name"]).await;
        let id = ran.exits(0).line().to_owned();
        cluster.task_is(&id, "work", TaskState::Running).await;
        let mut waiting = Command::from(cluster.baton_command(&["watch", &id]));
        let waiting = waiting.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        cluster.baton(&["terminate", &id]).await.exits(0);
        let mut waiting = waiting;
        let status = timeout(PATIENCE, waiting.wait()).await.expect("a watch ends with its job").expect("it is ours");
        assert_eq!(status.code(), Some(8));
        assert_eq!(cluster.done(&id).await.job.state(), JobState::Terminated);
        cluster.nothing_left_running().await;

        cluster.baton(&["get", "job", "ffffffff"]).await.exits(3);
        cluster.baton(&["run"]).await.exits(2);
    }
}

#[tokio::test]
async fn follow_prints_one_line_a_change_where_there_is_no_terminal() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let tasks = json!([{"name": "first", "shell": "true"}, {"name": "second", "needs": ["first"], "shell": "true"}]);
    apply(&cluster, "two.yaml", &job("two", &tasks)).await;
    let followed = cluster.baton(&["run", "two", "--follow"]).await;
    let stdout = &followed.exits(0).stdout;
    assert!(stdout.contains("first") && stdout.contains("second"), "{stdout}");
    assert!(!stdout.contains('\u{1b}'), "it moves the cursor although this is no terminal: {stdout:?}");
    let position = |word: &str| stdout.find(word).expect("it is there");
    assert!(position("first") < position("second"));
}

#[tokio::test]
async fn logs_follow_a_task_while_it_writes_and_end_with_it() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("talk", &format!("echo before\n{}\necho after", gate.wait()))).await;
    let mut command = Command::from(cluster.baton_command(&["logs", &id, "-f"]));
    let mut following = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("it starts");
    let mut lines = BufReader::new(following.stdout.take().expect("it is piped")).lines();
    let mut next = async || timeout(PATIENCE, lines.next_line()).await.expect("a line comes").expect("it is text");
    assert!(next().await.is_some_and(|line| line.ends_with("before")), "seen while the task still runs");
    gate.open();
    assert!(next().await.is_some_and(|line| line.ends_with("after")));
    assert_eq!(next().await, None, "following ends with the job");
    let status = timeout(PATIENCE, following.wait()).await.expect("it ends").expect("it is ours");
    assert!(status.success());
}

#[tokio::test]
async fn one_task_of_a_job_can_be_terminated_alone() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let tasks = json!([{"name": "stays", "shell": gate.wait()}, {"name": "goes", "shell": "sleep 600"}]);
    let id = cluster.run(&job("pair", &tasks)).await;
    cluster.task_is(&id, "goes", TaskState::Running).await;
    cluster.baton(&["terminate", &format!("{id}/goes")]).await.exits(0);
    cluster.task_is(&id, "goes", TaskState::Terminated).await;
    gate.open();
    let view = cluster.done(&id).await;
    assert_eq!(view.summary(), "FAILED; stays=FINISHED, goes=TERMINATED", "a task terminated alone is a failure");
}

#[tokio::test]
async fn json_output_is_what_grpcurl_prints() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let id = cluster.run(&one_task("plain", "echo text; exit 4")).await;
    cluster.done(&id).await;
    let same = async |arguments: &[&str], method: &str, request: serde_json::Value| {
        let ours = cluster.baton(arguments).await.exits(0).json();
        let theirs = grpcurl.call(method, &request).await.expect("grpcurl can ask").remove(0);
        assert_eq!(ours, theirs, "{arguments:?} against {method}");
    };
    same(&["get", "job", &id, "-o", "json"], "baton.v1.JobService/GetJob", json!({"jobId": id})).await;
    same(&["get", "jobs", "-o", "json"], "baton.v1.JobService/ListJobs", json!({})).await;
    same(&["get", "configs", "-o", "json"], "baton.v1.JobConfigService/List", json!({})).await;
    same(&["get", "config", "plain", "-o", "json"], "baton.v1.JobConfigService/Get", json!({"name": "plain"})).await;
}

#[tokio::test]
async fn parameters_reach_the_task_byte_for_byte() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let values = [
        r#"it's "2026-05-06 10:59:09"; id"#,
        "2023-10-26 14:00:00",
        "$[${x}-1] ${ {{ }} %s `id` $(id)",
        "two\nlines\tand a tab",
        "ünïcödé \u{202e} 漢字 💼",
    ];
    let file = json!({
        "name": "echo",
        "params": {"value": "unset"},
        "tasks": [
            {"name": "argument", "command": ["printf", "%s", "{{ params.value }}"]},
            {"name": "environment", "env": {"VALUE": "{{ params.value }}"}, "shell": "printf '%s' \"$VALUE\""},
        ],
    });
    for value in values {
        let id = cluster.run_with(&file.to_string(), &[("value", value)]).await;
        cluster.done(&id).await.finished();
        for task in ["argument", "environment"] {
            assert_eq!(cluster.log_holds(&id, task, value).await, value, "as {task}");
        }
    }
}
