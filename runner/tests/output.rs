//! What tasks write arrives byte for byte, while they write it, and never holds anything up.

mod support;

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use baton::v1::{LogStream, RunSpec};
use support::{Fake, Inside, new_task, shell, until};

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_as_they_were_written_on_both_outputs() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let all: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    fs::write(runner.work().join("input"), &all).unwrap();
    let (task, result) = session.run(shell("cat input; printf '\\306\\377 ok\\n' >&2")).await;
    assert_eq!((result.stdout_bytes, result.stderr_bytes), (3_000_000, 6));
    let stdout = fake.logs.whole(&task, LogStream::Stdout).await;
    assert!(stdout.bytes == all, "{} bytes arrived", stdout.bytes.len());
    assert_eq!(fake.logs.whole(&task, LogStream::Stderr).await.bytes, b"\xc6\xff ok\n");
    let logs = runner.state().join("logs");
    until("the room on disk to be given back", || on_disk(&logs) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_there_while_the_task_still_runs() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let session = fake.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("echo one; until [ -e go ]; do sleep 0.01; done; echo two"));
    let log = fake.logs.wait(&task, LogStream::Stdout, |log| log.bytes == b"one\n").await;
    assert!(!log.last);
    fs::write(runner.work().join("go"), "").unwrap();
    assert_eq!(fake.logs.whole(&task, LogStream::Stdout).await.bytes, b"one\ntwo\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_the_limit_keeps_head_and_tail_and_says_what_is_cut() {
    let mut fake = Fake::start().await;
    let _runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let spec = RunSpec { log_limit_bytes: 1000, ..shell("seq 1 100000") };
    let (task, result) = session.run(spec).await;
    let whole = lines(100_000);
    assert_eq!(result.stdout_bytes, whole.len() as u64);
    let log = fake.logs.whole(&task, LogStream::Stdout).await;
    assert_eq!((log.bytes.len(), log.skipped, log.end), (1000, whole.len() as u64 - 1000, whole.len() as u64));
    assert_eq!(&log.bytes[..500], &whole.as_bytes()[..500]);
    assert_eq!(&log.bytes[500..], &whole.as_bytes()[whole.len() - 500..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_without_end_does_not_fill_the_disk() {
    const MIB: u64 = 1024 * 1024;
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let task = new_task();
    let script = "head -c 64M /dev/zero; until [ -e go ]; do sleep 0.01; done; head -c 64M /dev/zero | tr '\\0' x";
    session.run_new(0, &task, RunSpec { log_limit_bytes: 4 * MIB, ..shell(script) });
    let logs = runner.state().join("logs");
    let on_disk = || {
        let files = fs::read_dir(&logs).unwrap().filter_map(|entry| entry.ok()?.metadata().ok());
        files.map(|file| (file.len(), file.blocks() * 512)).max().unwrap_or_default()
    };
    until("the room beyond the limit to be freed", || {
        let (written, room) = on_disk();
        written >= 64 * MIB && room <= 6 * MIB
    })
    .await;
    fs::write(runner.work().join("go"), "").unwrap();
    assert_eq!(session.result(&task).await.stdout_bytes, 128 * MIB);
    let log = fake.logs.whole(&task, LogStream::Stdout).await;
    assert_eq!((log.bytes.len() as u64, log.skipped), (4 * MIB, 124 * MIB));
    assert!(log.bytes[2 * MIB as usize..].iter().all(|byte| *byte == b'x'));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_does_not_wait_for_a_log_that_nobody_takes() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    fake.logs.refuse();
    let (_, result) = session.run(shell("echo unwanted")).await;
    assert_eq!((result.exit_code, result.stdout_bytes), (Some(0), 9));
    let logs = runner.state().join("logs");
    until("refused output to be given up", || on_disk(&logs) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_goes_on_where_the_old_one_broke() {
    let mut first = Fake::start().await;
    let address = first.address.clone();
    let runner = Inside::start(&[&address], 1);
    let session = first.welcomed().await;
    let task = new_task();
    session.run_new(0, &task, shell("seq 1 5000; until [ -e go ]; do sleep 0.01; done; seq 5001 10000"));
    let half: usize = (1..=5000).map(|n: u32| n.to_string().len() + 1).sum();
    first.logs.wait(&task, LogStream::Stdout, |log| log.bytes.len() == half).await;
    let stored = first.logs.clone();
    session.cut();
    drop(first);
    fs::write(runner.work().join("go"), "").unwrap();
    let mut again = Fake::with_logs(&address, stored.clone()).await;
    again.welcomed().await;
    let whole = lines(10_000);
    assert!(stored.whole(&task, LogStream::Stdout).await.bytes == whole.as_bytes());
}

/// A process that hides from its group and its environment is outside the promise to end it. What it writes must not
/// appear in another task's log all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_hides_writes_into_no_other_tasks_log() {
    let mut fake = Fake::start().await;
    let runner = Inside::start(&[&fake.address], 1);
    let mut session = fake.welcomed().await;
    let hidden = "setsid env -i /bin/sh -c 'echo $$ > pid; while :; do echo hidden; sleep 0.01; done' &
                  until [ -s pid ]; do sleep 0.01; done; echo mine";
    session.run(shell(hidden)).await;
    let mut logs = Vec::new();
    for _ in 0..5 {
        let (task, _) = session.run(shell("echo mine; sleep 0.05")).await;
        logs.push(fake.logs.whole(&task, LogStream::Stdout).await.bytes);
    }
    let pid: i32 = fs::read_to_string(runner.work().join("pid")).unwrap().trim().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
        .expect("it was alive all the time");
    assert_eq!(logs, [b"mine\n"; 5]);
}

/// How many bytes of output a directory still holds.
fn on_disk(dir: &Path) -> u64 {
    fs::read_dir(dir).unwrap().filter_map(|entry| entry.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

/// What `seq 1 n` prints.
fn lines(n: u32) -> String {
    (1..=n).flat_map(|n| [n.to_string(), "\n".to_owned()]).collect()
}
