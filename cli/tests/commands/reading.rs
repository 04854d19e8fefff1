//! Lists and single things, in every form.

use std::collections::HashMap;

use baton::v1::*;

use crate::{
    support::Fake,
    world::{JOB, at, job, task},
};

#[tokio::test]
async fn a_pipe_gets_tabs_and_the_way_to_the_next_page() {
    let fake = Fake::start().await;
    fake.answers(Ok(ListJobsResponse { jobs: vec![job(JobState::Running)], next_page_token: "t 1".into() }));
    let ended = fake.baton(&["get", "jobs", "--state", "running", "-l", "team=data", "--limit", "1"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.starts_with("ID\tNAME\tSTATE\tTASKS\tCREATED\tTOOK\tREASON\n"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains(&format!("{JOB}\torders-etl\t▶ running\t1/2\t2025-11-30T12:00:00Z\t")),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains('\x1b'));
    assert_eq!(ended.stderr, "there is more: baton get jobs --state running -l team=data --limit 1 --page 't 1'\n");
    let request = &fake.requests::<ListJobsRequest>()[0];
    assert_eq!(request.states, [JobState::Running as i32]);
    assert_eq!((request.labels["team"].as_str(), request.page_size), ("data", 1));
}

#[tokio::test]
async fn json_is_the_response_as_the_protocol_writes_it() {
    let fake = Fake::start().await;
    fake.answers(Ok(GetJobResponse { job: Some(job(JobState::Finished)), ..GetJobResponse::default() }));
    let ended = fake.baton(&["get", "job", "7be0d21c", "-o", "json"]).await;
    let expected = r#"{
  "job": {
    "id": "019366ab-1111-7222-8333-00007be0d21c",
    "namespace": "default",
    "name": "orders-etl",
    "version": 7,
    "state": "JOB_STATE_FINISHED",
    "trigger": "TRIGGER_KIND_MANUAL",
    "params": {
      "day": "2026-11-30",
      "region": "eu"
    },
    "createTime": "2025-11-30T12:00:00Z",
    "startTime": "2025-11-30T12:00:01Z",
    "endTime": "2025-11-30T12:00:42Z",
    "seq": "12",
    "tasksTotal": 2,
    "tasksEnded": 1
  }
}
"#;
    assert_eq!(ended.stdout, expected);
    let yaml = fake.baton(&["get", "job", "7be0d21c", "-o", "yaml"]).await.stdout;
    assert!(yaml.contains("\n  params:\n    day: \"2026-11-30\"\n    region: eu\n"), "{yaml}");
    assert_eq!(fake.baton(&["get", "job", "7be0d21c", "-o", "name"]).await.stdout, format!("{JOB}\n"));
}

#[tokio::test]
async fn a_description_tells_everything_there_is() {
    let fake = Fake::start().await;
    let config = JobConfig {
        name: "orders-etl".into(),
        namespace: "data".into(),
        params: HashMap::from([("day".into(), "today".into())]),
        tasks: vec![TaskConfig {
            name: "join".into(),
            target: Some(task_config::Target::Shell("one\ntwo\n".into())),
            needs: vec!["extract".into()],
            retry: Some(Retry {
                max_attempts: 3,
                delay: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
                ..Retry::default()
            }),
            trigger_rule: TriggerRule::AllDone.into(),
            ..TaskConfig::default()
        }],
        ..JobConfig::default()
    };
    fake.answers(Ok(GetResponse {
        job_config: Some(StoredJobConfig {
            version: 6,
            latest_version: 7,
            task_count: 1,
            config: Some(config),
            source: "name: orders-etl\n".into(),
            create_time: at(0),
            ..StoredJobConfig::default()
        }),
        round: Vec::new(),
    }));
    let ended = fake.baton(&["describe", "config", "orders-etl", "--version", "6", "-n", "data"]).await;
    let expected = "\
config      orders-etl
namespace   data
version     v6 (the newest is v7)
applied     2025-11-30T12:00:00Z
params      day=today
tasks       1

  join
  shell     one
            two
  needs     extract
  rule      all_done
  attempts  3, 30s apart
";
    assert_eq!(ended.stdout, expected, "{}", ended.stderr);
    let request = &fake.requests::<GetRequest>()[0];
    assert_eq!((request.namespace.as_str(), request.version), ("data", 6));
    let source = fake.baton(&["describe", "config", "orders-etl", "--source"]).await;
    assert_eq!(source.stdout, "name: orders-etl\n", "it can be edited and applied again");

    let attempts = vec![Attempt {
        number: 1,
        runner_id: "etl-1".into(),
        reason: "exit code 1".into(),
        start_time: at(1),
        end_time: at(4),
        gone: true,
        ..Attempt::default()
    }];
    let second = Task { attempt: 2, max_attempts: 3, attempts, ..task("join", TaskState::Running) };
    fake.answers(Ok(GetTaskResponse { task: Some(second) }));
    let ended = fake.baton(&["describe", "task", "7be0d21c/join"]).await;
    assert!(ended.stdout.contains("attempt     2 of 3\n"), "{}", ended.stdout);
    assert!(ended.stdout.ends_with("\nearlier attempts\n  1      3s  etl-1  exit code 1\n"), "{}", ended.stdout);
    assert!(ended.stderr.contains("baton explain 7be0d21c/join"), "{}", ended.stderr);
}

#[tokio::test]
async fn tasks_are_listed_folded_and_a_group_with_its_shards() {
    let fake = Fake::start().await;
    let group = Task { kind: TaskKind::Group.into(), shard_count: Some(2), ..task("resize", TaskState::Running) };
    let shard = Task {
        id: "shard-1".into(),
        kind: TaskKind::Shard.into(),
        shard_index: Some(1),
        group_id: group.id.clone(),
        ..task("resize", TaskState::Running)
    };
    fake.answers(Ok(GetTaskResponse { task: Some(group.clone()) }));
    fake.answers(Ok(ListTasksResponse { tasks: vec![group, shard], ..ListTasksResponse::default() }));
    assert_eq!(fake.baton(&["get", "tasks", "7be0d21c"]).await.code, 0);
    let ended = fake.baton(&["get", "tasks", "7be0d21c/resize", "-o", "name"]).await;
    assert_eq!(ended.stdout, "7be0d21c/resize\n7be0d21c/resize#1\n", "names that every other command takes");
    let requests = fake.requests::<ListTasksRequest>();
    assert!(requests[0].fold_shards && requests[0].name.is_empty());
    assert!(!requests[1].fold_shards && requests[1].name == "resize");
}
