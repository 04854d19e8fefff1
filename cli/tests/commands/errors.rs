//! What is said when something goes wrong.

use baton::v1::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use crate::{
    support::{Fake, command, run},
    world::{chunk, job, task},
};

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
async fn a_web_server_is_not_taken_for_a_scheduler() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
                while stream.read(&mut [0; 1024]).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    let ended = run(command(&address, &["get", "jobs"])).await;
    assert_eq!(ended.code, 6);
    // Whether the connection breaks before or after its answer is read is up to the machine.
    let expected = format!("error: cannot reach a scheduler at {address}: ");
    assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
}
