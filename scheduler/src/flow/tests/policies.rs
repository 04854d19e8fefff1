//! What follows failures: another attempt, another runner, or nothing; and what is known of an attempt whose runner is lost.

use std::time::Instant;

use super::*;
use crate::{
    domain::{
        definition::{Overlap, WhenCutOff},
        time::micros,
    },
    flow::{batch::Input, pulse::Judge, turn::within},
};

fn transfers(name: &str) -> TaskConfig {
    TaskConfig { on_failure: Some(OnFailure::Transfer), ..task(name, &[]) }
}

fn killed() -> TaskResult {
    TaskResult { end_reason: EndReason::Signal, exit_code: None, signal: Some(9), ..exit(0) }
}

impl Scene {
    async fn set(&self, text: &str, params: &[(&str, sea_orm::Value)]) {
        let tx = self.world.store.begin().await.unwrap();
        tx.execute(store::sql::statement(tx.backend(), text, params)).await.unwrap();
        tx.commit().await.unwrap();
    }

    /// One value of the only task of a job.
    async fn of_task<T: testing::Readable>(&self, job: Uuid, column: &str) -> T {
        let tx = self.world.store.begin().await.unwrap();
        let text = format!("SELECT {column} AS value FROM task WHERE job_id = :job");
        let rows = tx.query(store::sql::statement(tx.backend(), &text, &[("job", job.into())])).await.unwrap();
        rows[0].column("value").unwrap()
    }

    /// The earlier attempts of the only task of a job: runner and reason.
    async fn attempts(&self, job: Uuid) -> Vec<(String, String)> {
        let tx = self.world.store.begin().await.unwrap();
        let text = "SELECT task_attempt.runner_id, task_attempt.reason FROM task_attempt
                    JOIN task ON task.id = task_attempt.task_id WHERE task.job_id = :job ORDER BY number";
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
        rows.iter().map(|row| (row.column("runner_id").unwrap(), row.column("reason").unwrap())).collect()
    }

    /// A runner falls silent for longer than it may, and is given up.
    async fn lose(&self, runner: &str) {
        let timing = Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10));
        let tx = self.world.store.begin().await.unwrap();
        let now = store::scheduler::now(&tx).await.unwrap();
        drop(tx);
        let then = now.0 - micros(timing.lost_after) - 1_000_000;
        self.set(
            "UPDATE runner SET last_seen_at = :then WHERE id = :id",
            &[("then", then.into()), ("id", runner.into())],
        )
        .await;
        let mut context = context(self.world.store.clone());
        let input = Input { sweep: Some(Judge::trusting(now)), ..Input::default() };
        let output = within(PATIENCE, &mut context, &input).await.unwrap();
        assert_eq!(output.lost.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), [runner]);
        self.engine.wake().await;
    }
}

impl Puppet {
    async fn fail(&mut self, slot: u32, task: TaskRef, result: TaskResult) {
        self.say(vec![SlotReport { result: Some(result), ..report(slot, SlotStatus::Failed, Some(task)) }]).await;
    }

    /// The task runs, and that is committed.
    async fn start(&mut self, scene: &Scene, job: Uuid, slot: u32, task: TaskRef) {
        self.say(vec![report(slot, SlotStatus::Running, Some(task))]).await;
        scene.until(job, 1, TaskState::Running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_runner_is_given_up_and_each_other_one_gets_the_task_once() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![transfers("a")]).await;
        let mut first = Puppet::dial(&scene, hello("r1", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = first.next_run().await;
        let mut second = Puppet::dial(&scene, hello("r2", "1", 1, 1)).await;
        first.fail(slot, task, exit(3)).await;
        let (slot, again, _) = second.next_run().await;
        assert_eq!((again.task, again.attempt), (task.task, 2));
        assert!(again.lease > task.lease);
        second.fail(slot, again, killed()).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        let reason = "killed by signal 9; no runner is left to transfer to";
        assert_eq!(tasks["a"], (TaskState::Failed, reason.to_owned()));
        assert_eq!(scene.attempts(job).await, [("r1".to_owned(), "exit code 3".to_owned())]);
        assert_eq!(scene.of_task::<i32>(job, "attempt").await, 2, "nothing was begun after the last one");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_stay_on_their_runner_until_its_turn_is_over() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(2, Duration::from_millis(1)));
        let policy = Some(OnFailure::RetryThenTransfer);
        scene.apply(vec![TaskConfig { retry, on_failure: policy, ..task("a", &[]) }]).await;
        let mut first = Puppet::dial(&scene, hello("r1", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = first.next_run().await;
        // An idle runner more does not draw it away.
        let mut second = Puppet::dial(&scene, hello("r2", "1", 1, 4)).await;
        first.fail(slot, task, exit(1)).await;
        let (slot, task, _) = first.next_run().await;
        assert_eq!(task.attempt, 2);
        first.fail(slot, task, exit(1)).await;
        let (slot, task, _) = second.next_run().await;
        assert_eq!(task.attempt, 3);
        second.fail(slot, task, exit(1)).await;
        let (slot, task, _) = second.next_run().await;
        assert_eq!(task.attempt, 4);
        second.fail(slot, task, exit(1)).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert_eq!(tasks["a"].1, "exit code 1; no runner is left to transfer to");
        let runners: Vec<String> = scene.attempts(job).await.into_iter().map(|(runner, _)| runner).collect();
        assert_eq!(runners, ["r1", "r1", "r2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_goes_away_in_its_turn_leaves_the_task_to_another() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(9, Duration::from_millis(1)));
        let policy = Some(OnFailure::RetryThenTransfer);
        scene.apply(vec![TaskConfig { retry, on_failure: policy, ..task("a", &[]) }]).await;
        let mut first = Puppet::dial(&scene, hello("r1", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = first.next_run().await;
        first.start(&scene, job, slot, task).await;
        scene.lose("r1").await;
        let mut second = Puppet::dial(&scene, hello("r2", "1", 1, 1)).await;
        let (slot, again, _) = second.next_run().await;
        assert_eq!(again.attempt, 2);
        second.end(slot, again, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_that_says_so_ends_the_tries() {
    for scene in Scene::on_each_database().await {
        let retry = Retry { no_retry_exit_codes: vec![2], ..Retry::times(5, Duration::from_millis(1)) };
        scene.apply(vec![TaskConfig { retry: Some(retry), ..task("a", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.fail(slot, task, exit(1)).await;
        let (slot, task, _) = runner.next_run().await;
        runner.fail(slot, task, exit(2)).await;
        let (_, tasks) = scene.end_of(job).await;
        assert_eq!(tasks["a"], (TaskState::Failed, "exit code 2, one of no_retry_exit_codes".to_owned()));
        assert_eq!(scene.of_task::<i32>(job, "attempt").await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_stop_of_the_runner_burns_no_attempt_and_gives_nobody_up() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![transfers("a")]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.fail(slot, task, TaskResult { end_reason: EndReason::RunnerStop, exit_code: None, ..exit(0) }).await;
        let (slot, again, _) = runner.next_run().await;
        assert_eq!(again.attempt, 1);
        let busy = SlotReport { answer: Some(Answer::RejectedBusy), ..report(slot, SlotStatus::Idle, Some(again)) };
        runner.say(vec![busy]).await;
        scene.until(job, 1, TaskState::Queued).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 2, 1)).await;
        let (slot, again, _) = runner.next_run().await;
        assert_eq!(again.attempt, 1);
        runner.end(slot, again, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        assert_eq!(scene.attempts(job).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_go_on_at_a_lost_runner_fails_and_is_doubted_until_it_is_heard() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(3, Duration::from_millis(1)));
        let goes_on = TaskConfig { retry, when_cut_off: Some(WhenCutOff::Continue), ..task("a", &[]) };
        scene.apply(vec![goes_on]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, spec) = runner.next_run().await;
        assert_eq!(spec.self_stop_after, None);
        runner.start(&scene, job, slot, task).await;
        scene.lose("r").await;
        let (_, tasks) = scene.end_of(job).await;
        let (state, reason) = &tasks["a"];
        assert_eq!(*state, TaskState::Failed);
        assert!(reason.contains("runner r lost") && reason.contains("end not proven"), "{reason}");
        assert!(!scene.of_task::<bool>(job, "gone").await);

        // It comes back and still runs the task: it is told to end it, and its answer is the proof.
        let running = Hello { inventory: vec![report(0, SlotStatus::Running, Some(task))], ..hello("r", "1", 2, 1) };
        let mut runner = Puppet::dial(&scene, running).await;
        assert_eq!(runner.welcome.verdicts[0].1, Verdict::Reset);
        assert!(!scene.of_task::<bool>(job, "gone").await, "a verdict is no proof");
        runner
            .fail(0, task, TaskResult { end_reason: EndReason::Reset, signal: Some(15), exit_code: None, ..exit(0) })
            .await;
        let ack = runner.next().await;
        assert!(matches!(ack, Command::ResultAck { .. }), "{ack:?}");
        assert!(scene.of_task::<bool>(job, "gone").await);
        assert_eq!(scene.of_task::<String>(job, "state").await, "FAILED", "the end stays what it was");
        assert_eq!(scene.attempts(job).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_runner_no_longer_runs_when_it_is_heard_is_gone() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![TaskConfig { when_cut_off: Some(WhenCutOff::Continue), ..task("a", &[]) }]).await;
        for (conn, boot) in [(1, "1"), (3, "2")] {
            let mut runner = Puppet::dial(&scene, hello("r", boot, conn, 1)).await;
            let job = scene.run().await;
            let (slot, task, _) = runner.next_run().await;
            runner.start(&scene, job, slot, task).await;
            scene.lose("r").await;
            scene.end_of(job).await;
            assert!(!scene.of_task::<bool>(job, "gone").await);
            let _back = Puppet::dial(&scene, hello("r", "2", conn + 1, 1)).await;
            assert!(scene.of_task::<bool>(job, "gone").await, "of boot {boot}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_proves_nothing_about_the_one_before_it() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![TaskConfig { when_cut_off: Some(WhenCutOff::Continue), ..task("a", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.start(&scene, job, slot, task).await;
        scene.lose("r").await;
        scene.end_of(job).await;
        let other = Hello { install_id: "another".into(), ..hello("r", "9", 1, 1) };
        let _other = Puppet::dial(&scene, other).await;
        assert!(!scene.of_task::<bool>(job, "gone").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_task_may_go_on_holds_the_next_fire_back() {
    for scene in Scene::on_each_database().await {
        let goes_on = TaskConfig { when_cut_off: Some(WhenCutOff::Continue), ..task("a", &[]) };
        scene.apply(vec![goes_on]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.start(&scene, job, slot, task).await;
        scene.lose("r").await;
        scene.end_of(job).await;
        let unproven = || async {
            let tx = scene.world.store.begin().await.unwrap();
            let row = store::job::facts(&tx, &[job]).await.unwrap().remove(0);
            let live = store::schedule::live(&tx, &[row.job_config_id]).await.unwrap();
            live.get(&row.job_config_id).copied().unwrap_or_default().unproven
        };
        assert_eq!(unproven().await, 1);
        let _back = Puppet::dial(&scene, hello("r", "1", 2, 1)).await;
        assert_eq!(unproven().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_starts_another_copy_nothing_ends_the_first() {
    for scene in Scene::on_each_database().await {
        let config = |overlap| JobConfig {
            namespace: "default".into(),
            name: "job".into(),
            tasks: vec![task("a", &[])],
            overlap,
            ..JobConfig::default()
        };
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        for (overlap, stops) in [(Some(Overlap::Allow), false), (Some(Overlap::Queue), true), (None, true)] {
            let configs = vec![(config(overlap), String::new())];
            scene.engine.apply(Apply { caller: Caller::default(), configs }).await.unwrap();
            let job = scene.run().await;
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.self_stop_after.is_some(), stops, "{overlap:?}");
            runner.end(slot, task, 0).await;
            scene.end_of(job).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_a_runner_is_a_failed_attempt_where_the_task_has_ended() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![transfers("a")]).await;
        let mut first = Puppet::dial(&scene, hello("r1", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, spec) = first.next_run().await;
        assert!(spec.self_stop_after.is_some());
        first.start(&scene, job, slot, task).await;
        let mut second = Puppet::dial(&scene, hello("r2", "1", 1, 1)).await;
        scene.lose("r1").await;
        let (slot, again, _) = second.next_run().await;
        assert_eq!(again.attempt, 2);
        // The first comes back: its copy is to be ended, and it does not get the task again.
        let running = Hello { inventory: vec![report(0, SlotStatus::Running, Some(task))], ..hello("r1", "1", 2, 1) };
        let first = Puppet::dial(&scene, running).await;
        assert_eq!(first.welcome.verdicts[0].1, Verdict::Reset);
        second.end(slot, again, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        assert_eq!(scene.attempts(job).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_and_its_job_that_take_long_are_reported_once() {
    for scene in Scene::on_each_database().await {
        let moment = Some(Duration::from_millis(1));
        let config = JobConfig {
            warn_after: moment,
            ..config_of("job", vec![TaskConfig { warn_after: moment, ..task("a", &[]) }])
        };
        scene.apply_config(config).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, task, _) = runner.next_run().await;
        runner.start(&scene, job, slot, task).await;
        let warned = scene.until_warned(job).await;
        assert_eq!(scene.of_task::<String>(job, "reason").await, "runs longer than 1ms");
        let tx = scene.world.store.begin().await.unwrap();
        assert!(store::job::to_warn_of(&tx, crate::domain::time::Timestamp(i64::MAX), 9).await.unwrap().is_empty());
        drop(tx);
        // Whoever adopts it finds that this was said.
        let running = Hello { inventory: vec![report(0, SlotStatus::Running, Some(task))], ..hello("r", "1", 2, 1) };
        let mut runner = Puppet::dial(&scene, running).await;
        runner.end(slot, task, 0).await;
        scene.end_of(job).await;
        assert_eq!(scene.of_task::<i64>(job, "warned_at").await, warned);
    }
}

impl Scene {
    /// Waits until both the only task of a job and the job itself are reported as taking long; tells when the task was.
    async fn until_warned(&self, job: Uuid) -> i64 {
        tokio::time::timeout(PATIENCE, async {
            let mut changes = self.engine.subscribe(job);
            loop {
                let tx = self.world.store.begin().await.unwrap();
                let row = store::job::facts(&tx, &[job]).await.unwrap().remove(0);
                drop(tx);
                let task: Option<i64> = self.of_task(job, "warned_at").await;
                if let (Some(at), Some(_)) = (task, row.warned_at) {
                    return at;
                }
                changes.changed().await;
            }
        })
        .await
        .expect("both are reported")
    }
}

/// A runner that says nothing about a task past its time is asked, and its answer counts as the timeout it should have
/// seen itself.
#[test]
fn a_timeout_of_which_nobody_tells_is_decided_by_the_answer_to_reset() {
    let timing = Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10));
    let (out, mut frames) = mpsc::channel(8);
    let opening = crate::flow::sessions::Opening {
        id: Uuid::now_v7(),
        hello: hello("r", "1", 1, 1),
        out,
        first_seq: 1,
        drained: false,
    };
    let mut session = crate::flow::sessions::Session::new(opening);
    let task = TaskRef { task: Uuid::now_v7(), attempt: 1, lease: 1 };
    let start = Instant::now();
    let timeout = Some(Duration::from_mins(1));
    let given = crate::flow::sessions::Given { slot: 0, task, job_id: Uuid::now_v7(), timeout, warn_after: None };
    session.give(given, 1, true, &timing, start);
    let in_time = start + Duration::from_mins(1) + timing.grace * 2;
    assert!(session.check(&timing, in_time).is_none());
    assert!(frames.try_recv().is_err(), "its runner has the time to tell");
    assert!(session.check(&timing, in_time + Duration::from_millis(1)).is_none());
    let frame = frames.try_recv().unwrap();
    assert!(matches!(frame.commands[..], [Command::Reset { task: asked, .. }] if asked == task));
    let ended = TaskResult { end_reason: EndReason::Reset, exit_code: None, signal: Some(9), ..exit(0) };
    let answer = SlotReport { result: Some(ended), ..report(0, SlotStatus::Failed, Some(task)) };
    let mut heard = session.hear(&Frame { seq: 2, ack: 1, slots: vec![answer], drain: None }, in_time);
    let crate::flow::batch::News::Result(result) = heard.told.remove(0).news else { panic!("it tells a result") };
    assert_eq!(result.reason(), "timed out");
    assert!(heard.told.is_empty());
}
