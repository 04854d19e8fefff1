//! HTTP tasks, from the job file to the service and back.

use baton_tests::{RunnerSpec, World, job, service::Service, stories, v1::TaskState};
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
        assert_eq!(cluster.log(&id, "use").await, b"POST /x?day=a%2Fb\n");
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
