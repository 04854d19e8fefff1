//! The `baton` program against a scheduler that answers as it was told to.

#![allow(unreachable_pub, missing_docs, clippy::unnecessary_wraps, clippy::wildcard_imports)]

mod support;

use std::collections::HashMap;

use baton::v1::*;
use prost_types::Timestamp;
use support::{Fake, command, run};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

const JOB: &str = "019366ab-1111-7222-8333-00007be0d21c";

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: 1_764_504_000 + seconds, nanos: 0 })
}

fn job(state: JobState) -> Job {
    Job {
        id: JOB.into(),
        namespace: "default".into(),
        name: "orders-etl".into(),
        version: 7,
        state: state.into(),
        trigger: TriggerKind::Manual.into(),
        params: HashMap::from([("region".into(), "eu".into()), ("day".into(), "2026-11-30".into())]),
        create_time: at(0),
        start_time: at(1),
        end_time: if matches!(state, JobState::Created | JobState::Running) { None } else { at(42) },
        seq: 12,
        tasks_total: 2,
        tasks_ended: 1,
        ..Job::default()
    }
}

fn task(name: &str, state: TaskState) -> Task {
    Task {
        id: format!("id-{name}"),
        job_id: JOB.into(),
        name: name.into(),
        kind: TaskKind::Task.into(),
        state: state.into(),
        attempt: 1,
        max_attempts: 1,
        runner_id: "etl-2".into(),
        start_time: at(1),
        end_time: if state == TaskState::Running { None } else { at(42) },
        ..Task::default()
    }
}

fn seen(seq: u64, state: JobState, tasks: Vec<Task>) -> Result<WatchJobResponse, Status> {
    Ok(WatchJobResponse { job: Some(job(state)), tasks, seq })
}

fn chunk(name: &str, data: &'static [u8]) -> LogChunk {
    LogChunk {
        name: name.into(),
        task_id: format!("id-{name}"),
        attempt: 1,
        stream: LogStream::Stdout.into(),
        data: data.into(),
        ..LogChunk::default()
    }
}

#[tokio::test]
async fn nobody_there_says_how_to_start_one() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = run(command(&port.to_string(), &["get", "jobs"])).await;
    assert_eq!(ended.code, 6);
    assert_eq!(ended.stdout, "");
    assert_eq!(
        ended.stderr,
        format!(
            "error: cannot reach a scheduler at {port}: connection refused\n\
             next: start one with `baton dev`, or set --address / BATON_ADDRESS\n"
        )
    );
    let ended = run(command(&port.to_string(), &["get", "jobs", "-o", "json"])).await;
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((error["error"]["code"].as_str(), error["error"]["exitCode"].as_i64()), (Some("UNAVAILABLE"), Some(6)));
}

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
async fn a_missing_config_comes_with_its_suggestion() {
    let fake = Fake::start().await;
    let details = ErrorDetails::with_help_link("did you mean \"hello\"? list them with `baton get configs`", "");
    let status = Status::with_error_details(Code::NotFound, "no job config \"helo\"", details);
    fake.answers::<RunResponse>(Err(status));
    let ended = fake.baton(&["run", "helo"]).await;
    assert_eq!(ended.code, 3);
    assert_eq!(
        ended.stderr,
        "error: no job config \"helo\"\nnext: did you mean \"hello\"? list them with `baton get configs`\n"
    );
}

#[tokio::test]
async fn every_violation_is_printed() {
    let fake = Fake::start().await;
    let details = ErrorDetails::with_bad_request(vec![
        FieldViolation::new("params[day]", "is 70000 bytes long; at most 65536 are taken"),
        FieldViolation::new("params[dya]", "is not declared; did you mean \"day\"?"),
    ]);
    fake.answers::<RunResponse>(Err(Status::with_error_details(
        Code::InvalidArgument,
        "2 parameters are wrong",
        details,
    )));
    let ended = fake.baton(&["run", "orders-etl", "-p", "dya=1"]).await;
    assert_eq!(ended.code, 1);
    assert!(
        ended.stderr.contains("\n  params[day]: is 70000 bytes long; at most 65536 are taken\n"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("\n  params[dya]: is not declared; did you mean \"day\"?"), "{}", ended.stderr);
    let ended = fake.baton(&["run", "orders-etl", "-o", "json"]).await;
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["violations"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn run_prints_the_id_and_nothing_else_when_asked() {
    let fake = Fake::start().await;
    fake.answers(Ok(RunResponse { job: Some(job(JobState::Created)) }));
    let ended = fake.baton(&["run", "orders-etl", "-p", "day=a=b", "-o", "name"]).await;
    assert_eq!((ended.code, ended.stdout, ended.stderr), (0, format!("{JOB}\n"), String::new()));
    let request = &fake.requests::<RunRequest>()[0];
    assert_eq!(request.params["day"], "a=b");
    assert!(uuid::Uuid::parse_str(&request.request_id).is_ok(), "a retry must be safe");
    fake.baton(&["run", "orders-etl", "--request-id", "nightly"]).await;
    assert_eq!(fake.requests::<RunRequest>()[1].request_id, "nightly");
}

#[tokio::test]
async fn a_write_whose_connection_broke_is_repeated_under_its_id() {
    let fake = Fake::start().await;
    fake.answers::<RunResponse>(Err(Status::unavailable("the database is away")));
    fake.answers(Ok(RunResponse { job: Some(job(JobState::Created)) }));
    let ended = fake.baton(&["run", "orders-etl"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let requests = fake.requests::<RunRequest>();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].request_id, requests[1].request_id);
}

#[tokio::test]
async fn waiting_tells_by_its_exit_code_how_the_job_ended() {
    for (state, code) in
        [(JobState::Finished, 0), (JobState::Failed, 7), (JobState::Terminated, 8), (JobState::Skipped, 9)]
    {
        let fake = Fake::start().await;
        fake.answers(Ok(RunResponse { job: Some(job(JobState::Created)) }));
        fake.streams(vec![seen(1, JobState::Running, vec![]), seen(2, state, vec![])]);
        let ended = fake.baton(&["run", "orders-etl", "--wait", "-o", "name", "-q"]).await;
        assert_eq!(
            (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
            (code, &*format!("{JOB}\n"), ""),
            "{state:?}"
        );
    }
}

#[tokio::test]
async fn a_watch_goes_on_where_its_connection_broke() {
    let fake = Fake::start().await;
    let running = || vec![task("extract", TaskState::Finished), task("join", TaskState::Running)];
    fake.streams(vec![seen(3, JobState::Running, running()), Err(Status::unavailable("moving"))]);
    fake.streams(vec![seen(9, JobState::Finished, vec![task("join", TaskState::Finished)])]);
    let ended = fake.baton(&["watch", "7be0d21c"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let requests = fake.requests::<WatchJobRequest>();
    assert_eq!(requests.iter().map(|request| request.after_seq).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(requests[1].job_id, JOB, "the full id is asked for once it is known");
    assert!(requests.iter().all(|request| request.until_done && request.fold_shards));
    assert_eq!(ended.stderr, "connection lost (moving); dialling again\nconnected again\n");
    let lines: Vec<_> = ended.stdout.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        lines,
        [
            "7be0d21c · orders-etl v7 · manual",
            "✔ finished    extract · 41s · etl-2",
            "▶ running     join · etl-2",
            "▶ running     job 7be0d21c",
            "✔ finished    join · 41s · etl-2",
            "✔ finished    job 7be0d21c · 41s",
            "job 7be0d21c finished in 41s · 2 tasks",
        ]
    );
}

#[tokio::test]
async fn a_watch_survives_the_restart_of_its_scheduler() {
    let mut fake = Fake::start().await;
    fake.streams_and_stays(vec![seen(3, JobState::Running, vec![task("join", TaskState::Running)])]);
    fake.streams(vec![seen(5, JobState::Finished, vec![task("join", TaskState::Finished)])]);
    let watch = tokio::spawn(run(fake.command(&["watch", "7be0d21c"])));
    fake.heard::<WatchJobRequest>(1).await;
    fake.restart().await;
    let ended = watch.await.unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("✔ finished    join"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_stream_that_ends_before_its_job_is_opened_again() {
    let fake = Fake::start().await;
    fake.streams(vec![seen(3, JobState::Running, vec![])]);
    fake.streams(vec![seen(5, JobState::Terminated, vec![])]);
    let ended = fake.baton(&["watch", "7be0d21c"]).await;
    assert_eq!(ended.code, 8, "{}", ended.stderr);
}

#[tokio::test]
async fn a_watched_job_that_fails_shows_last_words_and_the_way_on() {
    let fake = Fake::start().await;
    let failed = Task { reason: "exit code 3".into(), exit_code: Some(3), ..task("join", TaskState::Failed) };
    fake.answers(Ok(RunResponse { job: Some(job(JobState::Created)) }));
    fake.streams(vec![seen(4, JobState::Failed, vec![failed.clone()])]);
    fake.answers(Ok(ListTasksResponse { tasks: vec![failed], ..ListTasksResponse::default() }));
    fake.answers(Ok(ReadResponse {
        chunks: vec![chunk("join", b"opening\n\x1b[2Jno such file\n")],
        ..ReadResponse::default()
    }));
    let ended = fake.baton(&["run", "orders-etl", "--follow"]).await;
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    let tail = "\n✖ join failed: exit code 3 · on etl-2\n  │ opening\n  │ no such file\n  \
                all of it: baton logs 7be0d21c/join\n  why:       baton explain 7be0d21c/join\n";
    assert!(ended.stdout.ends_with(tail), "{}", ended.stdout);
    assert_eq!(fake.requests::<ReadRequest>()[0].tail_lines, 10);
}

#[tokio::test]
async fn watch_as_json_prints_every_change() {
    let fake = Fake::start().await;
    fake.streams(vec![seen(1, JobState::Running, vec![]), seen(2, JobState::Finished, vec![])]);
    let ended = fake.baton(&["watch", "7be0d21c", "-o", "json"]).await;
    let documents = serde_json::Deserializer::from_str(&ended.stdout).into_iter::<serde_json::Value>();
    let seqs: Vec<_> = documents.map(|document| document.unwrap()["seq"].as_str().unwrap().to_owned()).collect();
    assert_eq!(seqs, ["1", "2"]);
}

#[tokio::test]
async fn one_tasks_log_comes_out_byte_for_byte_over_all_pages() {
    let fake = Fake::start().await;
    fake.answers(Ok(GetTaskResponse { task: Some(task("join", TaskState::Finished)) }));
    fake.answers(Ok(ReadResponse { chunks: vec![chunk("join", b"\x1b]0;t\x07one\n")], next_cursor: "c1".into() }));
    fake.answers(Ok(ReadResponse { chunks: vec![chunk("join", b"two")], next_cursor: String::new() }));
    let ended = fake.baton(&["logs", "7be0d21c/join", "--stream", "stdout", "--attempt", "2"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "\x1b]0;t\x07one\ntwo"));
    let requests = fake.requests::<ReadRequest>();
    assert_eq!((requests[0].cursor.as_str(), requests[1].cursor.as_str()), ("", "c1"));
    let selector = requests[1].selector.clone().unwrap();
    assert_eq!((selector.attempt, selector.stream()), (2, LogStream::Stdout));
}

#[tokio::test]
async fn a_followed_log_goes_on_at_its_cursor() {
    let fake = Fake::start().await;
    fake.answers(Ok(GetJobResponse {
        job: Some(Job {
            tasks: vec![task("a", TaskState::Running), task("b", TaskState::Running)],
            ..job(JobState::Running)
        }),
        ..GetJobResponse::default()
    }));
    let said = |cursor: &str, chunks: Vec<LogChunk>| Ok(FollowResponse { chunks, cursor: cursor.into() });
    fake.streams(vec![said("c1", vec![chunk("a", b"one\ntw")]), Err(Status::unavailable("moving"))]);
    fake.streams(vec![said("c2", vec![chunk("b", b"other\n"), chunk("a", b"o\n")])]);
    let ended = fake.baton(&["logs", "7be0d21c", "-f", "--tail", "5"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "a | one\nb | other\na | two\n"), "{}", ended.stderr);
    let requests = fake.requests::<FollowRequest>();
    assert_eq!((requests[0].tail_lines, requests[0].cursor.as_str()), (5, ""));
    assert_eq!((requests[1].tail_lines, requests[1].cursor.as_str()), (0, "c1"));
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let fake = Fake::start().await;
    fake.answers(Ok(GetTaskResponse { task: Some(task("join", TaskState::Finished)) }));
    let page: &'static [u8] = vec![b'x'; 1024 * 1024].leak();
    for _ in 0..3 {
        fake.answers(Ok(ReadResponse { chunks: vec![chunk("join", page)], next_cursor: "more".into() }));
    }
    let mut child = fake.command(&["logs", "7be0d21c/join"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended =
        tokio::time::timeout(std::time::Duration::from_mins(1), child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test]
async fn writes_say_what_they_did_and_how_to_see_it() {
    let fake = Fake::start().await;
    fake.answers(Ok(TerminateResponse { job: Some(job(JobState::Terminating)), tasks: 2 }));
    let ended = fake.baton(&["terminate", "7be0d21c/join", "--grace", "1m", "--reason", "wrong day"]).await;
    assert_eq!(
        (ended.stdout.as_str(), ended.stderr.as_str()),
        ("7be0d21c/join: 2 tasks are being ended\n", "see it end: baton watch 7be0d21c\n")
    );
    let request = &fake.requests::<TerminateRequest>()[0];
    assert_eq!((request.name.as_str(), request.grace.map(|grace| grace.seconds)), ("join", Some(60)));
    assert!(!request.request_id.is_empty());

    let runner = Runner { id: "etl-2".into(), slots_busy: 1, ..Runner::default() };
    fake.answers(Ok(DrainRunnerResponse { runner: Some(runner) }));
    let ended = fake.baton(&["drain", "etl-2"]).await;
    assert_eq!(ended.stderr, "undo with: baton resume etl-2\n");
    fake.answers(Ok(ResumeRunnerResponse::default()));
    assert_eq!(fake.baton(&["resume", "etl-2"]).await.stdout, "runner etl-2 takes new work again\n");
    assert_eq!(fake.baton(&["drain"]).await.code, 2, "a command that names nothing is a usage error");

    fake.answers(Ok(DeleteResponse { live_jobs: 1 }));
    let ended = fake.baton(&["delete", "config", "orders-etl"]).await;
    assert_eq!(ended.stdout, "config orders-etl is deleted; 1 job is live and goes on\n");
}

#[tokio::test]
async fn a_diff_tells_by_its_exit_code_whether_something_would_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hello.yaml");
    let applied = |change: ApplyChange| ApplyResponse {
        job_configs: vec![AppliedJobConfig {
            job_config: Some(StoredJobConfig {
                version: 2,
                config: Some(JobConfig { name: "hello".into(), ..JobConfig::default() }),
                ..StoredJobConfig::default()
            }),
            change: change.into(),
            differences: vec![Difference { path: "timeout".into(), before: "1m".into(), after: "2m".into() }],
            ..AppliedJobConfig::default()
        }],
    };
    let fake = Fake::start().await;
    let ended = fake.baton(&["init", "hello", "-f", path.to_str().unwrap()]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(fake.baton(&["init", "-f", path.to_str().unwrap()]).await.code, 1, "it is never overwritten");

    fake.answers(Ok(applied(ApplyChange::Updated))).answers(Ok(applied(ApplyChange::Unchanged)));
    let ended = fake.baton(&["diff", "-f", path.to_str().unwrap()]).await;
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (10, "hello v1 → v2\n  ~ timeout  1m → 2m\n1 change\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(fake.baton(&["diff", "-f", path.to_str().unwrap()]).await.code, 0);
    assert!(fake.requests::<ApplyRequest>().iter().all(|request| request.dry_run));
}

#[tokio::test]
async fn a_bad_file_is_shown_where_it_is_bad_and_never_sent() {
    let fake = Fake::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.yaml");
    std::fs::write(&path, "name: bad\ntasks:\n  - name: a\n    needs: [aa]\n    shel: x\n").unwrap();
    let path = path.to_str().unwrap();
    for words in [&["validate", "-f", path][..], &["apply", "-f", path], &["diff", "-f", path]] {
        let ended = fake.baton(words).await;
        assert_eq!(ended.code, 1, "{words:?}");
        assert!(ended.stderr.contains(&format!("{path}:5:5 error: unknown key \"shel\"\n")), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("{path}:4:13 error:")), "{}", ended.stderr);
        assert!(ended.stderr.ends_with(&format!("problems in {path}\n")), "{}", ended.stderr);
    }
    assert!(fake.requests::<ApplyRequest>().is_empty());
}

#[tokio::test]
async fn what_only_the_scheduler_refuses_is_shown_in_the_file_too() {
    let fake = Fake::start().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hello.yaml");
    std::fs::write(&path, "name: hello\ntasks:\n  - name: a\n    shell: echo\n").unwrap();
    let path = path.to_str().unwrap();
    let details = ErrorDetails::with_bad_request_violation("tasks[0].shell", "line 4, column 12: no runner knows it");
    fake.answers::<ApplyResponse>(Err(Status::with_error_details(Code::InvalidArgument, "refused", details)));
    let ended = fake.baton(&["apply", "-f", path]).await;
    assert_eq!(ended.code, 1);
    let expected = format!("{path}:4:12 error: no runner knows it\n    3 |   - name: a\n    4 |     shell: echo\n");
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
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
            retry: Some(Retry { max_attempts: 3, delay: Some(prost_types::Duration { seconds: 30, nanos: 0 }) }),
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

#[tokio::test]
async fn a_completion_script_and_help_need_no_scheduler() {
    for words in [&["completion", "bash"][..], &["help"], &["version"], &["get", "jobs", "--help"]] {
        let ended = run(command("127.0.0.1:1", words)).await;
        assert_eq!(ended.code, 0, "{words:?}: {}", ended.stderr);
        assert!(!ended.stdout.is_empty());
    }
    assert_eq!(run(command("127.0.0.1:1", &["get", "nonsense"])).await.code, 2);
}
