//! What tasks write arrives whole, as it was written, however much it is.

use baton_tests::{
    Cluster, PATIENCE, RunnerSpec, World, eventually, job, one_task, stories,
    v1::{LogSelector, LogStream, TaskState},
};
use serde_json::json;

const MEBIBYTE: usize = 1 << 20;

async fn stream(cluster: &Cluster, job: &str, task: &str, stream: LogStream) -> Vec<u8> {
    let selector =
        LogSelector { job_id: job.to_owned(), name: task.to_owned(), stream: stream.into(), ..Default::default() };
    cluster.log_of(selector).await
}

stories! {
    /// I04: more than a pipe holds, on both outputs at once, must not block the task.
    async fn ten_mebibytes_on_both_outputs_arrive(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let script = "head -c 10485760 /dev/zero | tr '\\0' o & head -c 10485760 /dev/zero | tr '\\0' e >&2; wait";
        let id = cluster.run(&one_task("loud", script)).await;
        let view = cluster.done(&id).await;
        view.finished();
        assert_eq!(view.task("work").stdout_bytes, 10 * MEBIBYTE as u64);
        assert_eq!(view.task("work").stderr_bytes, 10 * MEBIBYTE as u64);
        for (which, byte) in [(LogStream::Stdout, b'o'), (LogStream::Stderr, b'e')] {
            let bytes = eventually("all of it is stored", PATIENCE, || async {
                let bytes = stream(&cluster, &id, "work", which).await;
                (bytes.len() >= 10 * MEBIBYTE).then_some(bytes)
            })
            .await;
            assert_eq!(bytes.len(), 10 * MEBIBYTE);
            assert!(bytes.iter().all(|found| *found == byte));
        }
    }

    /// I01: output is bytes, not text.
    async fn bytes_that_are_no_text_stay_as_they_are(world: World) {
        let cluster = world.runner(RunnerSpec::named("one")).start().await;
        let script = r"printf '\306\377 ok\n\033[31mred\000end \360\237\222\274'";
        let id = cluster.run(&one_task("bytes", script)).await;
        cluster.done(&id).await.finished();
        cluster.log_holds(&id, "work", "end").await;
        let expected = b"\xc6\xff ok\n\x1b[31mred\0end \xf0\x9f\x92\xbc";
        eventually("all of it is stored", PATIENCE, || async {
            (cluster.log(&id, "work").await.len() >= expected.len()).then_some(())
        })
        .await;
        assert_eq!(cluster.log(&id, "work").await, expected);
    }
}

#[tokio::test]
async fn output_can_be_read_while_the_task_runs() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let gate = cluster.gate("go");
    let id = cluster.run(&one_task("slow", &format!("printf begun\n{}", gate.wait()))).await;
    // Not even a whole line.
    cluster.log_holds(&id, "work", "begun").await;
    cluster.task_is(&id, "work", TaskState::Running).await;
    gate.open();
    cluster.done(&id).await.finished();
}

#[tokio::test]
async fn the_output_of_each_shard_can_be_read_by_itself() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let tasks = json!([{"name": "part", "shards": {"count": 3}, "shell": "echo part $BATON_SHARD_INDEX of $BATON_SHARD_COUNT"}]);
    let id = cluster.run(&job("parts", &tasks)).await;
    cluster.done(&id).await.finished();
    for index in 0..3 {
        let selector =
            LogSelector { job_id: id.clone(), name: "part".to_owned(), shard_index: Some(index), ..Default::default() };
        let expected = format!("part {index} of 3\n");
        eventually("its line is stored", PATIENCE, || async {
            (cluster.log_of(selector.clone()).await == expected.as_bytes()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn one_line_without_an_end_is_carried_like_any_other() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let id = cluster.run(&one_task("line", "head -c 5000000 /dev/zero | tr '\\0' x")).await;
    cluster.done(&id).await.finished();
    eventually("all of it is stored", PATIENCE, || async {
        (cluster.log(&id, "work").await.len() == 5_000_000).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_retried_task_keeps_the_log_of_each_attempt() {
    let cluster = World::plain().runner(RunnerSpec::named("one")).start().await;
    let tasks = json!([{
        "name": "flaky",
        "retry": {"max_attempts": 2},
        "shell": "echo attempt $BATON_ATTEMPT; test $BATON_ATTEMPT = 2",
    }]);
    let id = cluster.run(&job("flaky", &tasks)).await;
    cluster.done(&id).await.finished();
    for attempt in [1, 2] {
        let selector = LogSelector { job_id: id.clone(), name: "flaky".to_owned(), attempt, ..Default::default() };
        let expected = format!("attempt {attempt}\n");
        eventually("its line is stored", PATIENCE, || async {
            (cluster.log_of(selector.clone()).await == expected.as_bytes()).then_some(())
        })
        .await;
    }
}
