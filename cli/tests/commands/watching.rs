//! Running a job, and seeing it through broken connections to its end.

use baton::v1::*;
use tonic::Status;

use crate::{
    support::{Fake, run},
    world::{JOB, chunk, job, seen, task},
};

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
            "▶ running     job 7be0d21c",
            "✔ finished    extract · 41s · etl-2",
            "▶ running     join · etl-2",
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
