//! Definitions come in, change, go and come back, and what is wrong with them is told the same everywhere.

use std::fs;

use baton_tests::{RunnerSpec, World, job, stories, v1::TaskState};
use serde_json::json;
use tonic_types::StatusExt as _;

/// Wrong in as many ways as a tired person can be in one go.
const WRONG: &str = "\
name: wrong
param: {a: b}
params: {day: \"{{ logical_tim }}\"}
tasks:
  - name: a
    command: [echo, \"{{ params.dya }}\", \"{{ tasks.c-d.output.x }}\"]
  - name: b
    needs: [aa, b]
    when: tasks['zz'].state == 'FINISHD'
    shell: echo
    retry: {max_attempt: 3}
  - name: c-d
    needs: [b]
    shell: \"true\"
    timeout: 5 minutes
  - name: c-d
    shell: \"true\"
";

stories! {
    async fn versions_are_kept_compared_and_brought_back(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let file = cluster.directory().join("job.yaml");
        let write = |tasks: &serde_json::Value| fs::write(&file, job("edited", tasks)).expect("it is written");
        write(&json!([{"name": "a", "shell": gate.wait()}, {"name": "b", "needs": ["a"], "shell": "echo old"}]));
        let path = file.to_str().expect("a path of letters");
        cluster.baton(&["apply", "-f", path]).await.exits(0);
        cluster.baton(&["diff", "-f", path]).await.exits(0);
        let id = cluster.ask().run("edited", &[]).await.expect("it runs");
        cluster.task_is(&id, "a", TaskState::Running).await;

        write(&json!([{"name": "a", "shell": gate.wait()}, {"name": "b", "needs": ["a"], "shell": "echo new"}]));
        let diff = cluster.baton(&["diff", "-f", path]).await;
        let said = &diff.exits(10).stdout;
        assert!(said.contains("tasks[b].shell") && said.contains("1 job is live and stays on its version"), "{said}");
        cluster.baton(&["apply", "-f", path]).await.exits(0);
        let first = cluster.baton(&["get", "config", "edited", "--version", "1", "-o", "json"]).await;
        assert!(first.exits(0).stdout.contains("echo old"), "{}", first.stdout);
        let latest = cluster.baton(&["get", "config", "edited", "-o", "json"]).await;
        assert!(latest.exits(0).stdout.contains("echo new"), "{}", latest.stdout);

        cluster.baton(&["restore", "config", "edited", "--version", "1"]).await.exits(0);
        let third = cluster.baton(&["get", "config", "edited", "-o", "json"]).await;
        assert!(third.exits(0).stdout.contains("echo old"), "an earlier version is the newest again: {}", third.stdout);
        let versions = cluster.baton(&["get", "versions", "edited", "-o", "json"]).await.exits(0).json();
        assert_eq!(versions["versions"].as_array().map(Vec::len), Some(3), "{versions}");
        gate.open();
        let view = cluster.done(&id).await;
        assert_eq!((view.finished().job.version, view.summary().as_str()), (1, "FINISHED; a=FINISHED, b=FINISHED"));
        cluster.log_holds(&id, "b", "old").await;

        cluster.baton(&["delete", "config", "edited"]).await.exits(0);
        cluster.baton(&["run", "edited"]).await.exits(3);
        cluster.baton(&["get", "job", &id]).await.exits(0);
        cluster.baton(&["explain", &format!("{id}/b")]).await.exits(0);
    }
}

/// Nothing of a file is applied while anything in it is wrong, and both sides say the same about it.
#[tokio::test]
async fn validate_without_a_scheduler_says_what_a_scheduler_says() {
    let cluster = World::plain().start().await;
    let file = cluster.directory().join("wrong.yaml");
    fs::write(&file, WRONG).expect("it is written");
    let validated = cluster.baton(&["validate", "-f", file.to_str().expect("a path of letters"), "-o", "json"]).await;
    let told: serde_json::Value = serde_json::from_str(&validated.exits(1).stderr).expect("an error is JSON too");
    let offline: Vec<(String, String)> = told["error"]["violations"]
        .as_array()
        .expect("every problem is told")
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            let suggestion = one.get("suggestion").map(|_| format!(" ({})", text("suggestion"))).unwrap_or_default();
            let place = format!("line {}, column {}", one["line"], one["column"]);
            (text("field"), format!("{place}: {}{suggestion}", text("description")))
        })
        .collect();
    let refused = cluster.ask().apply(WRONG).await.expect_err("it makes no sense");
    let details = refused.get_error_details();
    let violations = &details.bad_request().expect("every problem is told").field_violations;
    let online: Vec<(String, String)> =
        violations.iter().map(|one| (one.field.clone(), one.description.clone())).collect();
    assert_eq!(offline, online);
    assert!(offline.len() >= 11, "{offline:#?}");
}

/// A thousand problems do not fit into the trailers that gRPC clients take: the first ones come, and how many more.
#[tokio::test]
async fn a_file_with_a_thousand_problems_shows_the_first_ones() {
    let cluster = World::plain().start().await;
    let tasks: Vec<_> =
        (0..1_200).map(|at| json!({"name": format!("t{at}"), "shell": "true", "needs": ["x"]})).collect();
    let source = job("thousand", &json!(tasks));
    let refused = cluster.ask().apply(&source).await.expect_err("it makes no sense");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
    let details = refused.get_error_details();
    let told = details.bad_request().expect("the first ones").field_violations.len();
    let left_out: usize =
        details.error_info().expect("a reason").metadata["violations_left_out"].parse().expect("a number");
    assert!(told >= 20 && left_out >= 900, "{told} told, {left_out} left out");
    let file = cluster.directory().join("thousand.yaml");
    fs::write(&file, &source).expect("it is written");
    let applied = cluster.baton(&["apply", "-f", file.to_str().expect("a path of letters")]).await;
    let said = &applied.exits(1).stderr;
    assert!(said.contains("does not exist") && said.contains("more, which -o json lists"), "{}", &said[..2_000]);
}

/// K02, K03.
#[tokio::test]
async fn names_are_short_and_each_is_given_once() {
    let cluster = World::plain().start().await;
    for length in [101, 251, 100_000] {
        let tasks = json!([{"name": "x".repeat(length), "shell": "true"}]);
        let refused = cluster.ask().apply(&job("long", &tasks)).await.expect_err("no name is that long");
        assert!(refused.message().contains("100"), "{}", refused.message());
    }
    let twice = json!([{"name": "a", "shell": "true"}, {"name": "a", "shell": "true"}]);
    let refused = cluster.ask().apply(&job("twice", &twice)).await.expect_err("one name, two tasks");
    assert!(refused.message().contains("\"a\""), "{}", refused.message());
    let once = json!([{"name": "a", "shell": "true"}]);
    for name in ["one", "other"] {
        cluster.ask().apply(&job(name, &once)).await.expect("the same name in two jobs is fine");
    }
}
