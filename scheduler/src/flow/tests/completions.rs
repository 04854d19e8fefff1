//! Tasks that wait for their callbacks, completed with the token that went out with them.

use super::*;
use crate::{
    domain::{completion, definition::Http},
    flow::request::{ATTEMPT_OVER, Complete, Error, TOKEN_USED},
};

fn waits(name: &str) -> TaskConfig {
    let http = Http { urls: vec!["http://a/".into()], wait_for_callback: true, ..Http::default() };
    TaskConfig { target: Target::Http(Box::new(http)), timeout: Some(Duration::from_mins(1)), ..super::task(name, &[]) }
}

impl Scene {
    async fn complete(&self, job_id: Uuid, token: &str, failed: bool, output: &str) -> Result<(), Error> {
        let order = Complete {
            token_hash: completion::hash(token),
            job_id,
            failed,
            output: output.to_owned(),
            message: "told".to_owned(),
        };
        self.engine.complete(order).await
    }
}

fn reason(refusal: Result<(), Error>) -> &'static str {
    match refusal {
        Err(Error::Conflict { reason, .. }) => reason,
        other => panic!("a refusal, not {other:?}"),
    }
}

impl Puppet {
    /// Waits until it is told to end a task, and reports that it did.
    async fn is_reset(&mut self, slot: u32, task: TaskRef) {
        loop {
            match self.next().await {
                Command::Reset { task: reset, .. } if reset == task => break,
                Command::ResultAck { .. } => {}
                other => panic!("expected RESET, got {other:?}"),
            }
        }
        let result = TaskResult { end_reason: EndReason::Reset, exit_code: Some(499), ..exit(499) };
        self.say(vec![SlotReport { result: Some(result), ..report(slot, SlotStatus::Failed, Some(task)) }]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_completes_its_task_once_and_frees_the_slot_that_waits() {
    for scene in Scene::on_each_database().await {
        let env = BTreeMap::from([("ROWS".to_owned(), "{{ tasks.a.output.rows }}".to_owned())]);
        scene.apply(vec![waits("a"), TaskConfig { env, ..task("b", &["a"]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, spec) = runner.next_run().await;
        let token = spec.callback.expect("it is told how it is completed").token;
        runner.say(vec![report(slot, SlotStatus::Running, Some(a))]).await;
        assert!(matches!(scene.complete(job, "another", false, "").await, Err(Error::NotFound { kind: "token", .. })));
        scene.complete(job, &token, false, "rows=7").await.expect("the token is good");
        assert_eq!(reason(scene.complete(job, &token, false, "rows=8").await), TOKEN_USED);
        // What it says of the wait comes too late to change anything, and frees the only slot.
        runner.is_reset(slot, a).await;
        let (slot, b, spec) = runner.next_run().await;
        assert_eq!((spec.task_name.as_str(), spec.env["ROWS"].as_str(), spec.callback), ("b", "7", None));
        runner.end(slot, b, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        assert_eq!(tasks["a"], (TaskState::Finished, "told".into()));
        assert_eq!(reason(scene.complete(job, &token, true, "").await), TOKEN_USED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_failed_is_a_failed_attempt_and_the_next_has_a_token_of_its_own() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(2, Duration::ZERO));
        scene.apply(vec![TaskConfig { retry, ..waits("a") }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (slot, first, spec) = runner.next_run().await;
        let old = spec.callback.expect("a token").token;
        scene.complete(job, &old, true, "").await.expect("the token is good before RUNNING was reported");
        // The wait of the first attempt and the start of the second come in either order.
        let (mut second, mut reset) = (None, false);
        while second.is_none() || !reset {
            match runner.next().await {
                Command::RunNew { slot, task, spec } => second = Some((slot, task, *spec)),
                Command::Reset { task, .. } => reset = task == first,
                other => panic!("{other:?}"),
            }
        }
        let (_, again, spec) = second.expect("a second attempt");
        assert_eq!((again.attempt, again.lease > first.lease), (2, true));
        let new = spec.callback.expect("a token").token;
        assert_ne!(new, old);
        runner
            .say(vec![SlotReport { answer: Some(Answer::NotHeld), ..report(slot, SlotStatus::Idle, Some(first)) }])
            .await;
        assert_eq!(reason(scene.complete(job, &old, false, "").await), TOKEN_USED);
        scene.complete(job, &new, true, "").await.expect("the second token is good");
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert_eq!(tasks["a"], (TaskState::Failed, "completed as failed: told".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_over_with_its_attempt() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![waits("ends"), waits("killed")]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (ends, killed) = (runner.next_run().await, runner.next_run().await);
        let token = |spec: &RunSpec| spec.callback.clone().expect("a token").token;
        let timeout = TaskResult { end_reason: EndReason::Timeout, ..exit(499) };
        runner
            .say(vec![SlotReport { result: Some(timeout), ..report(ends.0, SlotStatus::Failed, Some(ends.1)) }])
            .await;
        scene.until(job, 1, TaskState::Failed).await;
        assert_eq!(reason(scene.complete(job, &token(&ends.2), false, "").await), ATTEMPT_OVER);
        scene.terminate(job).await;
        scene.until(job, 1, TaskState::Terminating).await;
        assert_eq!(reason(scene.complete(job, &token(&killed.2), false, "").await), ATTEMPT_OVER);
        runner.is_reset(killed.0, killed.1).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Terminated);
        assert_eq!(reason(scene.complete(job, &token(&killed.2), false, "").await), ATTEMPT_OVER);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_was_away_ends_the_wait_when_it_comes_back() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![waits("a")]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, spec) = runner.next_run().await;
        scene.engine.closed(runner.session).await;
        scene.complete(job, &spec.callback.expect("a token").token, false, "").await.expect("the token is good");
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let back = Hello { inventory: vec![report(slot, SlotStatus::Running, Some(a))], ..hello("r", "1", 2, 1) };
        let back = Puppet::dial(&scene, back).await;
        assert_eq!(back.welcome.verdicts[0].1, Verdict::Reset);
    }
}
