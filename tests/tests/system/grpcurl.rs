//! Everything can be done with grpcurl alone: the protocol explains itself.

use baton_tests::{Grpcurl, PATIENCE, RunnerSpec, World, eventually, one_task};
use serde_json::json;

#[tokio::test]
async fn the_protocol_is_listed_and_described_with_its_comments() {
    let cluster = World::plain().start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let listed = grpcurl.run(&["list"]).await.exits(0).stdout.clone();
    let services: Vec<_> = listed.lines().filter(|line| line.starts_with("baton.v1.")).collect();
    for service in ["CommandService", "HeartbeatService", "JobConfigService", "JobService", "LogService"] {
        assert!(services.contains(&format!("baton.v1.{service}").as_str()), "{service} is missing from {services:?}");
    }
    assert!(listed.contains("grpc.health.v1.Health"), "{listed}");
    for service in services {
        let described = grpcurl.run(&["describe", service]).await.exits(0).stdout.clone();
        // A comment above the service and one above each of its methods.
        let methods = described.matches("rpc ").count();
        let comments = described.lines().filter(|line| line.trim_start().starts_with("//")).count();
        assert!(comments > methods, "{service} is described without its comments:\n{described}");
    }
    let described = grpcurl.run(&["describe", "baton.v1.TaskConfig"]).await.exits(0).stdout.clone();
    assert!(described.contains("The names of the tasks this one comes after."), "{described}");
}

#[tokio::test]
async fn the_health_service_answers() {
    let cluster = World::plain().start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let health = grpcurl.call("grpc.health.v1.Health/Check", &json!({})).await.expect("it answers");
    assert_eq!(health, [json!({"status": "SERVING"})]);
}

#[tokio::test]
async fn a_job_is_applied_run_and_watched_with_grpcurl_alone() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let config = json!({"config": {
        "name": "by-hand",
        "tasks": [
            {"name": "a", "command": {"argv": ["echo", "a"]}, "timeout": "30s"},
            {"name": "b", "shell": "echo b", "needs": ["a"], "triggerRule": "TRIGGER_RULE_ALL_DONE"},
        ],
    }});
    let applied = grpcurl.call("baton.v1.JobConfigService/Apply", &config).await.expect("it is applied").remove(0);
    assert_eq!(applied["jobConfigs"][0]["change"], "APPLY_CHANGE_CREATED");
    let again = grpcurl.call("baton.v1.JobConfigService/Apply", &config).await.expect("it is applied").remove(0);
    assert_eq!(again["jobConfigs"][0]["change"], "APPLY_CHANGE_UNCHANGED");

    let run = json!({"name": "by-hand", "requestId": "only-once"});
    let first = grpcurl.call("baton.v1.CommandService/Run", &run).await.expect("it runs").remove(0);
    let second = grpcurl.call("baton.v1.CommandService/Run", &run).await.expect("it is known").remove(0);
    assert_eq!(first["job"]["id"], second["job"]["id"], "one request, one job");

    let watch = json!({"jobId": first["job"]["id"], "untilDone": true});
    let changes = grpcurl.call("baton.v1.JobService/WatchJob", &watch).await.expect("the watch ends by itself");
    let last = changes.iter().rev().find_map(|change| change.get("job")).expect("the job is in it");
    assert_eq!(last["state"], "JOB_STATE_FINISHED");

    let read = json!({"selector": {"jobId": first["job"]["id"], "name": "a"}});
    eventually("the log is there", PATIENCE, || async {
        let log = grpcurl.call("baton.v1.LogService/Read", &read).await.expect("a log can be read").remove(0);
        // Bytes are base64 in JSON: "a\n".
        (log["chunks"][0]["data"] == "YQo=").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_error_names_every_field_at_once() {
    let cluster = World::plain().start().await;
    let Some(grpcurl) = Grpcurl::to(&cluster.address().to_string()) else { return };
    let bad = json!({"config": {"name": "bad", "tasks": [
        {"name": "a", "shell": "true", "needs": ["b"]},
        {"name": "a", "shell": "true", "needs": ["a"]},
    ]}});
    let refused = grpcurl.call("baton.v1.JobConfigService/Apply", &bad).await.expect_err("it is refused");
    refused.complains(&["InvalidArgument", "tasks[0].needs", "tasks[1]"]);
    let unknown = json!({"name": "no-such"});
    grpcurl.call("baton.v1.CommandService/Run", &unknown).await.expect_err("it is unknown").complains(&["NotFound"]);
    let id = cluster.run(&one_task("known", "true")).await;
    let missing = json!({"jobId": id, "name": "nobody"});
    grpcurl.call("baton.v1.JobService/GetTask", &missing).await.expect_err("unknown").complains(&["NotFound"]);
}
