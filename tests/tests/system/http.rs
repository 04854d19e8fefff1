//! HTTP tasks, from the job file to the service and back.

use baton_tests::{
    Cluster, RunnerSpec, World, job,
    service::{Service, post, say},
    stories,
    v1::{self, TaskState},
};
use serde_json::json;

fn world(world: World) -> World {
    world.runner(RunnerSpec::named("one").asks_this_machine())
}

fn with_params(params: &serde_json::Value, tasks: &serde_json::Value) -> String {
    json!({"name": "ask", "params": params, "tasks": tasks}).to_string()
}

stories! {
    async fn what_a_service_answers_is_what_later_tasks_read(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let source = with_params(&json!({"day": "a/b"}), &json!([
            {"name": "ask", "http": {
                "urls": [service.url("/x?day={{ params.day | urlencode }}")],
                "headers": {"X-Job": "{{ job.name }}"},
                "body": "{\"n\": {{ 1 }}}",
            }},
            {"name": "use", "needs": ["ask"], "env": {"ASKED": "{{ tasks.ask.output.method }} {{ tasks.ask.output.path }}"},
             "shell": "echo $ASKED"},
        ]));
        let id = cluster.run(&source).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(cluster.log_holds(&id, "use", "\n").await, "POST /x?day=a%2Fb\n");
        let asked = service.asked_times(1).await;
        assert_eq!((asked.header("x-job"), asked.body.as_str()), ("ask", "{\"n\": 1}"));
        assert_eq!(asked.header("baton-task-id"), view.task("ask").id);
        assert_eq!(service.asked().len(), 1, "it was asked once");
    }

    async fn a_status_is_the_exit_code_and_every_attempt_asks_anew(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let id = cluster.run(&job("ask", &json!([
            {"name": "ask", "http": {"urls": [service.url("/status/418")]}, "retry": {"max_attempts": 2}},
        ]))).await;
        let view = cluster.done(&id).await;
        let task = view.task("ask");
        assert_eq!((task.state(), task.exit_code, task.attempt), (TaskState::Failed, Some(418), 2));
        assert!(task.reason.contains("answered 418"), "{}", task.reason);
        let keys: Vec<String> = service.asked().iter().map(|asked| asked.header("idempotency-key").to_owned()).collect();
        assert_eq!(keys, [format!("{}-1", task.id), format!("{}-2", task.id)]);
    }

    async fn a_text_that_no_request_can_carry_fails_its_task_alone(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let params = json!({"words": "a b", "lines": "a\nHost: b"});
        let id = cluster.run(&with_params(&params, &json!([
            {"name": "blank", "http": {"urls": [service.url("/{{ params.words }}")]}},
            {"name": "lines", "http": {"urls": [service.url("/")], "headers": {"X": "{{ params.lines }}"}}},
            {"name": "good", "http": {"urls": [service.url("/")]}},
        ]))).await;
        let view = cluster.done(&id).await;
        assert!(view.task("blank").reason.contains("http.urls[0]: a url holds no blanks"), "{}", view.reasons());
        assert!(view.task("lines").reason.contains("http.headers.X: "), "{}", view.reasons());
        assert_eq!(view.state("good"), TaskState::Finished);
        assert_eq!(service.asked().len(), 1);
    }

    async fn a_terminated_request_is_broken_off(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let id = cluster.run(&job("ask", &json!([{"name": "ask", "http": {"urls": [service.url("/hang")]}}]))).await;
        service.asked_times(1).await;
        cluster.ask().terminate(&id, "").await.expect("it can be terminated");
        let view = cluster.done(&id).await;
        assert_eq!(view.state("ask"), TaskState::Terminated);
        assert!(cluster.log_holds(&id, "ask", "* broken off").await.starts_with("> GET "));
        assert_eq!(service.asked().len(), 1);
    }
}

#[tokio::test]
async fn a_runner_asks_nothing_near_by_itself() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let service = Service::start().await;
    let id = cluster.run(&job("ask", &json!([{"name": "ask", "http": {"urls": [service.url("/")]}}]))).await;
    let view = cluster.done(&id).await;
    assert!(view.task("ask").reason.contains("--http-allow 127.0.0.1"), "{}", view.reasons());
    assert!(service.asked().is_empty());
}

/// A job whose task asks, and then waits; the job id and where its service was told to call back.
async fn waiting(cluster: &Cluster, service: &Service, timeout: &str) -> (String, String) {
    let id = cluster
        .run(&job("ask", &json!([
            {"name": "ask", "timeout": timeout,
             "http": {"urls": [service.url("/later")], "headers": {"X-Token": "{{ callback.token }}"}, "wait_for_callback": true}},
            {"name": "use", "needs": ["ask"], "env": {"ROWS": "{{ tasks.ask.output.rows }}"}, "shell": "echo $ROWS"},
        ])))
        .await;
    let asked = service.asked_times(1).await;
    let url = asked.header("baton-callback-url").to_owned();
    assert!(
        url.ends_with(asked.header("x-token"))
            && url.starts_with(&format!("http://{}/v1/complete/", cluster.address())),
        "{url}"
    );
    assert_eq!(asked.header("x-token"), asked.header("baton-callback-token"));
    cluster.log_holds(&id, "ask", "* waiting for the callback").await;
    (id, url)
}

stories! {
    async fn a_plain_post_completes_a_task_that_waits_and_only_once(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let (id, url) = waiting(&cluster, &service, "10m").await;
        let unknown = format!("{}{}", &url[..url.len() - 64], "0".repeat(64));
        assert_eq!(post(&unknown, "").await.0, 404);
        assert_eq!(post(&url[..url.len() - 1], "").await.0, 404);
        assert_eq!(say("GET", &url, "", b"").await.0, 405);
        let (status, why) = post(&url, "{\"output\": [1]}").await;
        assert!(status == 400 && why.contains("means nothing"), "{status} {why}");
        assert_eq!(post(&url, &format!("{{\"output\": \"{}\"}}", "x".repeat(300_000))).await.0, 413);
        assert_eq!(cluster.task_is(&id, "ask", TaskState::Running).await.state("use"), TaskState::Created);
        let (status, body) = post(&url, "{\"output\": {\"rows\": 12}}").await;
        assert!(status == 200 && body.contains(&id), "{status} {body}");
        let (status, why) = post(&url, "").await;
        assert!(status == 409 && why.contains("TOKEN_USED"), "{status} {why}");
        cluster.done(&id).await.finished();
        assert_eq!(cluster.log_holds(&id, "use", "\n").await, "12\n");
        assert_eq!(post(&url, "").await.0, 409, "also when all is over");
        assert_eq!(service.asked().len(), 1);
        let log = cluster.log_holds(&id, "ask", "* the wait is over").await;
        assert!(!log.contains(&url[url.len() - 64..]), "no log tells the token: {log}");
    }

    async fn a_token_outlives_the_death_of_the_scheduler_that_gave_it(world: World) {
        let mut cluster = self::world(world).start().await;
        let service = Service::start().await;
        let (id, url) = waiting(&cluster, &service, "10m").await;
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        assert_eq!(post(&url, "{\"output\": {\"rows\": 5}}").await.0, 200);
        // What was answered with 200 survives the next death, too.
        cluster.scheduler(0).kill();
        cluster.start_scheduler(0).await;
        cluster.done(&id).await.finished();
        assert_eq!(cluster.log_holds(&id, "use", "\n").await, "5\n");
        assert_eq!((post(&url, "").await.0, service.asked().len()), (409, 1));
    }

    async fn a_timeout_or_a_terminate_ends_the_wait_and_the_token(world: World) {
        let cluster = self::world(world).start().await;
        let service = Service::start().await;
        let (id, url) = waiting(&cluster, &service, "1s").await;
        let view = cluster.done(&id).await;
        assert_eq!(view.task("ask").reason, "timed out: no callback came");
        let (status, why) = post(&url, "").await;
        assert!(status == 410 && why.contains("ATTEMPT_OVER"), "{status} {why}");
        let service = Service::start().await;
        let (id, url) = waiting(&cluster, &service, "10m").await;
        cluster.ask().terminate(&id, "").await.expect("it can be terminated");
        assert_eq!(cluster.done(&id).await.state("ask"), TaskState::Terminated);
        assert_eq!(post(&url, "").await.0, 410);
        cluster.nothing_left_running().await;
    }

    async fn a_runner_that_dies_while_it_waits_loses_the_attempt_and_the_token_with_it(world: World) {
        let mut cluster = self::world(world).start().await;
        let service = Service::start().await;
        let source = job("ask", &json!([{"name": "ask", "timeout": "10m", "retry": {"max_attempts": 2},
            "http": {"urls": [service.url("/later")], "wait_for_callback": true}}]));
        let id = cluster.run(&source).await;
        let old = service.asked_times(1).await.header("baton-callback-url").to_owned();
        cluster.log_holds(&id, "ask", "* waiting for the callback").await;
        cluster.runner("one").kill();
        let new = service.asked_times(2).await.header("baton-callback-url").to_owned();
        assert_eq!(post(&old, "").await.0, 410);
        assert_eq!(post(&new, "").await.0, 200);
        let view = cluster.done(&id).await;
        assert_eq!((view.state("ask"), view.task("ask").attempt), (TaskState::Finished, 2));
    }
}

#[tokio::test]
async fn a_task_is_completed_by_grpc_and_from_a_terminal_too() {
    let cluster = self::world(World::plain()).start().await;
    let service = Service::start().await;
    let (id, url) = waiting(&cluster, &service, "10m").await;
    let token = url[url.len() - 64..].to_owned();
    let mut commands = cluster.api().commands;
    let wrong = v1::CompleteTaskRequest { token: token.clone(), output: "rows".to_owned(), ..Default::default() };
    let refused = commands.complete_task(wrong.clone()).await.expect_err("no output");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let good = v1::CompleteTaskRequest { output: "rows=3".to_owned(), ..wrong };
    let done = commands.complete_task(good.clone()).await.expect("the token is good").into_inner();
    assert_eq!(done.job_id, id);
    let refused = commands.complete_task(good).await.expect_err("it is good once");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    cluster.done(&id).await.finished();
    cluster.baton(&["complete", &token]).await.exits(5).complains(&["was used"]);
    cluster.baton(&["complete", "x"]).await.exits(3).complains(&["does not exist"]);

    let service = Service::start().await;
    let (id, url) = waiting(&cluster, &service, "10m").await;
    cluster.baton(&["complete", &url, "--failed", "--message", "no room"]).await.exits(0);
    let view = cluster.done(&id).await;
    assert_eq!(view.task("ask").reason, "completed as failed: no room");
}

#[tokio::test]
async fn a_port_of_grpc_says_so_to_who_speaks_an_older_http() {
    let cluster = World::plain().start().await;
    let (status, body) = say("GET", &format!("http://{}/", cluster.address()), "", b"").await;
    assert!(status == 404 && body.contains("gRPC"), "{status} {body}");
    let url = format!("http://{}/baton.v1.CommandService/Run", cluster.address());
    let (status, body) = say("POST", &url, "Content-Type: application/grpc\r\nContent-Length: 0\r\n", b"").await;
    assert!(status == 404 && body.contains("HTTP/2"), "{status} {body}");
}

#[tokio::test]
async fn an_endpoint_is_tried_from_a_runner() {
    let cluster = self::world(World::plain()).start().await;
    let service = Service::start().await;
    let tried =
        cluster.baton(&["test-endpoint", "--url", &service.url("/x"), "--header", "X-A: b", "--body", "hi"]).await;
    tried.exits(0);
    assert!(tried.stdout.contains("> POST ") && tried.stdout.contains("< 200 "), "{}", tried.stdout);
    assert!(tried.stdout.contains("\"body\":\"hi\"") && tried.stdout.contains("asked by one"), "{}", tried.stdout);
    assert_eq!(service.asked_times(1).await.header("x-a"), "b");
    let failed = cluster.baton(&["test-endpoint", "--url", &service.url("/status/500"), "-o", "json"]).await;
    failed.exits(7);
    assert!(failed.stdout.contains("\"succeeded\": false"), "{}", failed.stdout);
    let lacking = ["test-endpoint", "--url", "http://a/", "--label", "pool=none", "--wait", "500ms"];
    cluster.baton(&lacking).await.exits(1).complains(&["no runner took it", "pool=none"]);
    cluster.baton(&["test-endpoint"]).await.exits(2);
    // A runner that is named asks, and no other.
    let mut cluster = cluster;
    cluster.add_runner(RunnerSpec::named("two").asks_this_machine()).await;
    for runner in ["two", "one"] {
        let tried = cluster.baton(&["test-endpoint", "--url", &service.url("/x"), "--runner", runner]).await;
        assert!(tried.exits(0).stdout.contains(&format!("asked by {runner}")), "{}", tried.stdout);
    }
    let nobody = ["test-endpoint", "--url", &service.url("/x"), "--runner", "three", "--wait", "500ms"];
    cluster.baton(&nobody).await.exits(3).complains(&["runner \"three\" does not exist", "baton get runners"]);
    let left = cluster.baton(&["get", "configs", "-o", "name"]).await;
    assert_eq!(left.stdout, "", "no config is left behind");
    assert_eq!(service.asked().len(), 4);
}
