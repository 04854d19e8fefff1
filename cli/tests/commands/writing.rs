//! Changing things, and job files.

use baton::v1::*;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    support::{Fake, command, run},
    world::job,
};

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
async fn a_completion_script_and_help_need_no_scheduler() {
    for words in [&["completion", "bash"][..], &["help"], &["version"], &["get", "jobs", "--help"]] {
        let ended = run(command("127.0.0.1:1", words)).await;
        assert_eq!(ended.code, 0, "{words:?}: {}", ended.stderr);
        assert!(!ended.stdout.is_empty());
    }
    assert_eq!(run(command("127.0.0.1:1", &["get", "nonsense"])).await.code, 2);
}
