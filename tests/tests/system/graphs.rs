//! Graphs end right: gates, failures, versions and pages, seen from the outside.

use std::collections::BTreeSet;

use baton_tests::{
    RunnerSpec, World, job, one_task, stories,
    v1::{DeleteRequest, JobState, ListJobsRequest, RunRequest, TaskState},
};
use serde_json::json;
use tonic::Code;

stories! {
    /// D05, D06, D07: a failure does not touch what does not depend on it, and the job fails when all has ended.
    async fn a_failed_branch_leaves_the_others_alone(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let tasks = json!([
            {"name": "s1", "shell": "true"},
            {"name": "s2", "shell": gate.wait()},
            {"name": "s3", "needs": ["s1"], "shell": "exit 1"},
            {"name": "s4", "needs": ["s2"], "shell": "true"},
            {"name": "s5", "needs": ["s3", "s4"], "shell": "true"},
        ]);
        let id = cluster.run(&job("branches", &tasks)).await;
        let view = cluster.until(&id, "it is known that it will fail", |view| view.job.tasks_failed == 1).await;
        assert_eq!(view.state("s3"), TaskState::Failed);
        assert_eq!(view.job.state(), JobState::Running, "it runs as long as a task of it runs");
        gate.open();
        let view = cluster.done(&id).await;
        assert_eq!(view.summary(), "FAILED; s1=FINISHED, s2=FINISHED, s3=FAILED, s4=FINISHED, s5=SKIPPED");
        assert!(view.task("s5").reason.contains("s3"), "it names the parent that closed its gate");
    }

    /// D12 on one scheduler: parents that end in the same instant open the gate once.
    async fn a_join_starts_once(world: World) {
        let cluster = world.runner(RunnerSpec::named("one").slots(8)).start().await;
        let marks = cluster.marks("join");
        let parents: Vec<_> = (0..6).map(|number| format!("p{number}")).collect();
        let mut tasks: Vec<_> = parents.iter().map(|name| json!({"name": name, "shell": "true"})).collect();
        tasks.push(json!({"name": "join", "needs": parents, "shell": marks.line("join")}));
        let text = job("join", &json!(tasks));
        for round in 1..=15 {
            let id = cluster.run(&text).await;
            cluster.done(&id).await.finished();
            assert_eq!(marks.count("join"), round);
        }
    }

    async fn a_running_job_stays_on_its_version(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let old = json!([{"name": "a", "shell": gate.wait()}, {"name": "b", "needs": ["a"], "shell": "echo old"}]);
        let id = cluster.run(&job("edited", &old)).await;
        cluster.task_is(&id, "a", TaskState::Running).await;
        let new = json!([{"name": "b", "shell": "echo new"}]);
        let again = cluster.run(&job("edited", &new)).await;
        let view = cluster.done(&again).await;
        assert_eq!((view.job.version, view.summary().as_str()), (2, "FINISHED; b=FINISHED"));
        gate.open();
        let view = cluster.done(&id).await;
        assert_eq!((view.job.version, view.summary().as_str()), (1, "FINISHED; a=FINISHED, b=FINISHED"));
        cluster.log_holds(&id, "b", "old").await;
    }

    /// K04.
    async fn a_deleted_config_keeps_its_jobs(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let gate = cluster.gate("go");
        let id = cluster.run(&one_task("doomed", &gate.wait())).await;
        cluster.task_is(&id, "work", TaskState::Running).await;
        let delete = DeleteRequest { name: "doomed".to_owned(), ..Default::default() };
        let deleted = cluster.api().job_configs.delete(delete).await.expect("it is deleted").into_inner();
        assert_eq!(deleted.live_jobs, 1);
        let refused = cluster.ask().run("doomed", &[]).await.expect_err("there is no such config any more");
        assert_eq!(refused.code(), Code::NotFound);
        gate.open();
        cluster.done(&id).await.finished();
    }

    /// K01: what existed throughout is on exactly one page, whatever is added meanwhile.
    async fn pages_lose_nothing_and_repeat_nothing(world: World) {
        let cluster = world.start().await;
        let ask = cluster.ask();
        ask.apply(&one_task("many", "true")).await.expect("it is applied");
        let mut existing = BTreeSet::new();
        for _ in 0..30 {
            existing.insert(ask.run("many", &[]).await.expect("it is accepted"));
        }
        let mut seen = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListJobsRequest { page_size: 7, page_token, ..Default::default() };
            let page = cluster.api().jobs.list_jobs(request).await.expect("it can be listed").into_inner();
            assert!(page.jobs.len() <= 7);
            seen.extend(page.jobs.into_iter().map(|job| job.id));
            ask.run("many", &[]).await.expect("one more comes in between");
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let unique: BTreeSet<_> = seen.iter().cloned().collect();
        assert_eq!(unique.len(), seen.len(), "a job is on two pages");
        assert!(unique.is_superset(&existing), "a job is on no page");
    }

    async fn one_request_id_makes_one_job(world: World) {
        let cluster = world.start().await;
        cluster.ask().apply(&one_task("once", "true")).await.expect("it is applied");
        cluster.ask().apply(&one_task("other", "true")).await.expect("it is applied");
        let request = |name: &str| RunRequest {
            name: name.to_owned(),
            request_id: "the-same".to_owned(),
            ..Default::default()
        };
        // Ten at once: all but one of them wait for the first.
        let twins: Vec<_> = (0..10)
            .map(|_| {
                let (mut commands, request) = (cluster.api().commands, request("once"));
                tokio::spawn(async move { commands.run(request).await })
            })
            .collect();
        let mut ids = BTreeSet::new();
        for twin in twins {
            let answer = twin.await.expect("it does not panic").expect("it is answered").into_inner();
            ids.insert(answer.job.expect("with a job").id);
        }
        assert_eq!(ids.len(), 1);
        let refused = cluster.api().commands.run(request("other")).await.expect_err("it means something else");
        assert_eq!(refused.code(), Code::AlreadyExists);
    }
}

/// K08, D03: what makes no sense is refused with its place.
#[tokio::test]
async fn graphs_that_make_no_sense_are_refused_with_the_edge_that_is_wrong() {
    let cluster = World::plain().start().await;
    let cases = [
        (json!([]), vec!["tasks"]),
        (json!([{"name": "a", "shell": "true", "needs": ["a"]}]), vec!["a", "itself"]),
        (json!([{"name": "a", "shell": "true", "needs": ["nobody"]}]), vec!["nobody"]),
        (
            json!([
                {"name": "one", "shell": "true", "needs": ["three"]},
                {"name": "two", "shell": "true", "needs": ["one"]},
                {"name": "three", "shell": "true", "needs": ["two"]},
            ]),
            vec!["wait for each other", "one", "two", "three"],
        ),
        (json!([{"name": "a", "shell": "true"}, {"name": "a", "shell": "true"}]), vec!["a"]),
        (json!([{"name": "x".repeat(251), "shell": "true"}]), vec!["name"]),
        (json!([{"name": "nothing-to-do"}]), vec!["command", "shell"]),
    ];
    for (tasks, words) in cases {
        let refused = cluster.ask().apply(&job("senseless", &tasks)).await.expect_err("it makes no sense");
        assert_eq!(refused.code(), Code::InvalidArgument, "{tasks}");
        let said = format!("{} {:?}", refused.message(), tonic_types::StatusExt::get_error_details(&refused));
        for word in words {
            assert!(said.contains(word), "{word:?} is missing from {said}");
        }
    }
    assert_eq!(cluster.ask().run("senseless", &[]).await.expect_err("nothing was stored").code(), Code::NotFound);
}

#[tokio::test]
async fn an_edge_given_twice_is_one_edge_and_a_job_of_disabled_tasks_finishes() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let twice = json!([{"name": "a", "shell": "true"}, {"name": "b", "needs": ["a", "a"], "shell": "true"}]);
    let id = cluster.run(&job("twice", &twice)).await;
    assert_eq!(cluster.done(&id).await.summary(), "FINISHED; a=FINISHED, b=FINISHED");
    let resting = json!([{"name": "a", "shell": "true", "enabled": false}]);
    let id = cluster.run(&job("resting", &resting)).await;
    assert_eq!(cluster.done(&id).await.summary(), "FINISHED; a=SKIPPED");
}

#[tokio::test]
async fn explain_says_what_holds_a_task_and_what_would_free_it() {
    let cluster = World::plain().runner(RunnerSpec::named("one").label("pool=web")).start().await;
    let tasks = json!([
        {"name": "waits", "shell": "true", "runner": {"match_labels": {"pool": "etl"}}},
        {"name": "child", "needs": ["waits"], "shell": "true"},
    ]);
    let id = cluster.run(&job("held", &tasks)).await;
    cluster.task_is(&id, "waits", TaskState::Queued).await;
    let explained = cluster.baton(&["explain", &format!("{id}/waits")]).await;
    let said = &explained.exits(0).stdout;
    assert!(said.contains("pool=etl") && said.contains("--label pool=etl"), "{said}");
    let explained = cluster.baton(&["explain", &format!("{id}/child")]).await;
    assert!(explained.exits(0).stdout.contains("waits"), "{}", explained.stdout);
}
