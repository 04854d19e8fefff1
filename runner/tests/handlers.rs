//! A program that does the work itself has its output shipped like that of a process.

mod support;

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    sync::{Arc, Mutex},
};

use baton::v1::LogStream;
use baton_runner::{Config, Outcome, Runner, Writer, task::Target};
use support::{Fake, Inside, command, new_task, until};

/// A runner whose handler writes its second word to standard output and its third to standard error; `leak` leaves a writer
/// in `left`.
fn writers(fake: &Fake, left: Arc<Mutex<Option<Writer>>>) -> Inside {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::new("embedded", fake.address.clone(), dir.path().join("state"));
    let runner = Runner::new(config).handler(move |context| {
        let Target::Command(argv) = &context.spec.target else { panic!("only commands are sent here") };
        for (mut writer, text) in [context.stdout(), context.stderr()].into_iter().zip(&argv[1..]) {
            writer.write_all(text.as_bytes()).unwrap();
        }
        if argv[0] == "leak" {
            *left.lock().unwrap() = Some(context.stdout());
        }
        std::future::ready(Outcome::default())
    });
    Inside::run(dir, runner)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_writes_is_shipped_and_counted() {
    let mut fake = Fake::start().await;
    let _runner = writers(&fake, Arc::default());
    let mut session = fake.welcomed().await;
    let (task, result) = session.run(command(&["write", "out\n", "err\n"])).await;
    assert_eq!((result.exit_code, result.stdout_bytes, result.stderr_bytes), (Some(0), 4, 4));
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"out\n");
    assert_eq!(fake.logs.whole(&task, LogStream::Stderr).await.bytes, b"err\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_writes_nothing_makes_no_files() {
    let mut fake = Fake::start().await;
    let runner = writers(&fake, Arc::default());
    let mut session = fake.welcomed().await;
    let (_, result) = session.run(command(&["quiet"])).await;
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 0));
    assert_eq!(fs::read_dir(runner.state().join("logs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_outlives_its_task_writes_nowhere() {
    let mut fake = Fake::start().await;
    let left = Arc::default();
    let runner = writers(&fake, Arc::clone(&left));
    let mut session = fake.welcomed().await;
    let (first, _) = session.run(command(&["leak", "first\n"])).await;
    assert_eq!(fake.logs.whole(&first, LogStream::Stdout).await.bytes, b"first\n");
    let refused = left.lock().unwrap().as_mut().unwrap().write(b"late\n").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::BrokenPipe);
    let second = new_task();
    session.run_new(0, &second, command(&["write", "second\n"]));
    session.result(&second).await;
    assert_eq!(fake.logs.whole(&second, LogStream::Stdout).await.bytes, b"second\n");
    assert_eq!(fake.logs.get(&first, LogStream::Stdout).bytes, b"first\n");
    let logs = runner.state().join("logs");
    let empty = |entry: io::Result<fs::DirEntry>| entry.unwrap().metadata().unwrap().len() == 0;
    until("what is stored to be given back", || fs::read_dir(&logs).unwrap().all(empty)).await;
}
