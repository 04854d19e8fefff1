//! What a person repairs: failures are run again, ends are marked, and the rest of the job follows.

use sea_orm::ConnectionTrait as _;

use super::*;
use crate::{
    domain::repair::Mark,
    flow::request::{Again, Error, MarkTask, Repaired, Rerun, Said},
    store::read::AuditFilter,
};

fn again(name: &str) -> Again {
    Again::Task { name: name.into(), shard: None, following: false }
}

fn with_following(name: &str) -> Again {
    Again::Task { name: name.into(), shard: None, following: true }
}

fn reason_of<T: std::fmt::Debug>(refused: Result<T, Error>) -> &'static str {
    match refused {
        Err(Error::Conflict { reason, .. }) => reason,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

impl Scene {
    fn rerun_order(job_id: Uuid, again: Again) -> Rerun {
        Rerun { caller: Caller::default(), job_id, again, force: false, reason: "because".into() }
    }

    async fn rerun(&self, job: Uuid, again: Again) -> Result<Repaired, Error> {
        self.engine.rerun(Self::rerun_order(job, again)).await
    }

    fn mark_order(job_id: Uuid, task: &str, said: Said) -> MarkTask {
        MarkTask {
            caller: Caller::default(),
            job_id,
            task: task.into(),
            shard: None,
            said,
            waiting_only: false,
            reason: "by hand".into(),
        }
    }

    async fn mark(&self, job: Uuid, task: &str, mark: Mark) -> Result<Repaired, Error> {
        self.engine.mark(Self::mark_order(job, task, Said::Ended(mark))).await
    }

    async fn change(&self, text: &str, params: &[(&str, sea_orm::Value)]) {
        let tx = self.world.store.begin().await.unwrap();
        assert!(tx.execute(store::sql::statement(tx.backend(), text, params)).await.unwrap() > 0);
        tx.commit().await.unwrap();
    }

    /// The attempts that others followed: number, lease, reason, gone.
    async fn history(&self, job: Uuid) -> Vec<(i32, i64, String, bool)> {
        let text = "SELECT task_attempt.number, task_attempt.lease, task_attempt.reason, task_attempt.gone
                    FROM task_attempt JOIN task ON task.id = task_attempt.task_id WHERE task.job_id = :job
                    ORDER BY task_attempt.lease, task_attempt.task_id";
        let statement = store::sql::statement(self.world.store.backend(), text, &[("job", job.into())]);
        let rows = self.world.store.reader().query_all_raw(statement).await.unwrap();
        rows.iter()
            .map(|row| {
                let column = |name| row.column::<i32>(name).unwrap();
                (
                    column("number"),
                    row.column("lease").unwrap(),
                    row.column("reason").unwrap(),
                    row.column("gone").unwrap(),
                )
            })
            .collect()
    }
}

impl Puppet {
    /// Ends the next tasks so: each by its name (`work#3` for a shard) and exit code, in this order.
    async fn play(&mut self, script: &[(&str, i32)]) {
        for (expected, code) in script {
            let (slot, task, spec) = self.next_run().await;
            let shard = spec.shard.as_ref().map(|(index, ..)| format!("#{index}")).unwrap_or_default();
            assert_eq!(format!("{}{shard}", spec.task_name), *expected);
            self.end(slot, task, *code).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_goes_on_from_its_failure_and_keeps_what_finished() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["b"]), task("d", &["c"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 0), ("b", 7)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);

        let done = scene.rerun(job, Again::Failed).await.unwrap();
        assert_eq!((done.tasks, done.reconsidered), (1, 2));
        assert_eq!((done.before.as_str(), done.after.as_str()), ("FAILED", "RUNNING"));
        let (slot, b, spec) = runner.next_run().await;
        assert_eq!((spec.task_name.as_str(), b.attempt), ("b", 2));
        runner.end(slot, b, 0).await;
        runner.play(&[("c", 0), ("d", 0)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        assert!(tasks.values().all(|(state, _)| *state == TaskState::Finished));
        assert_eq!(scene.history(job).await, [(1, 1, "exit code 7".to_owned(), true)]);
        assert_eq!(reason_of(scene.rerun(job, Again::Failed).await), "NOTHING_FAILED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_word_about_the_attempt_before_changes_nothing() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        runner.end(slot, first, 1).await;
        scene.end_of(job).await;
        scene.rerun(job, Again::Failed).await.unwrap();
        let (slot, second, _) = runner.next_run().await;
        assert!(second.lease > first.lease);
        runner.end(slot, first, 0).await;
        // It was told before; this one only is acknowledged and changes nothing.
        runner.say(vec![report(slot, SlotStatus::Running, Some(second))]).await;
        scene.until(job, 1, TaskState::Running).await;
        runner.end(slot, second, 3).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["a"].1.as_str()), (JobState::Failed, "exit code 3"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_repair_at_once_the_second_is_told() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 1)]).await;
        scene.end_of(job).await;
        let order = || Scene::rerun_order(job, again("a"));
        let (one, other) = tokio::join!(scene.engine.rerun(order()), scene.engine.rerun(order()));
        let refused = if one.is_ok() { other } else { one };
        assert_eq!(reason_of(refused), "TASK_LIVE");
        let (slot, a, _) = runner.next_run().await;
        assert_eq!(a.attempt, 2);
        runner.end(slot, a, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        assert_eq!(scene.history(job).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_repairs_once() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 1)]).await;
        scene.end_of(job).await;
        let caller = Caller { request_id: "once".into(), ..Caller::default() };
        let order = || Rerun { caller: caller.clone(), ..Scene::rerun_order(job, Again::Failed) };
        let first = scene.engine.rerun(order()).await.unwrap();
        runner.play(&[("a", 1)]).await;
        scene.end_of(job).await;
        assert_eq!(scene.engine.rerun(order()).await.unwrap(), first);
        let events = scene.world.store.audit(&AuditFilter::default(), None, 10).await.unwrap();
        let events: Vec<&str> = events.rows.iter().map(|event| event.action.as_str()).collect();
        assert_eq!(events, ["Rerun", "Apply"]);
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_by_itself_keeps_what_follows_and_with_it_everything_runs_again() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["b"]), task("x", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 0), ("x", 0), ("b", 0), ("c", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        scene.rerun(job, again("a")).await.unwrap();
        runner.play(&[("a", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let done = scene.rerun(job, with_following("a")).await.unwrap();
        assert_eq!(done.tasks, 3);
        runner.play(&[("a", 0), ("b", 0), ("c", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        // It failed at the third time: what had finished is skipped by nobody.
        scene.rerun(job, again("a")).await.unwrap();
        runner.play(&[("a", 1)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["b"].0), (JobState::Failed, TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_marks_sets_free_what_waited_for_it() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["b"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 1)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        let done = scene.mark(job, "a", Mark::Finished).await.unwrap();
        assert_eq!((done.tasks, done.reconsidered), (1, 2));
        runner.play(&[("b", 0), ("c", 0)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        let said = "marked finished by local: by hand (was FAILED: exit code 1)";
        assert_eq!(tasks["a"], (TaskState::Finished, said.into()));
        // And back: nothing that ran is undone, but the job says that it failed.
        scene.mark(job, "a", Mark::Failed).await.unwrap();
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["c"].0), (JobState::Failed, TaskState::Finished));
        assert_eq!(reason_of(scene.mark(job, "a", Mark::Failed).await), "NOTHING_TO_MARK");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_skips_what_waits_and_it_stays_so() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["a"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, _) = runner.next_run().await;
        let skip = MarkTask { waiting_only: true, ..Scene::mark_order(job, "b", Said::Ended(Mark::Skipped)) };
        scene.engine.mark(skip.clone()).await.unwrap();
        let live = MarkTask { task: "a".into(), ..skip.clone() };
        assert_eq!(reason_of(scene.engine.mark(live).await), "TASK_NOT_WAITING");
        assert_eq!(reason_of(scene.mark(job, "a", Mark::Finished).await), "TASK_LIVE");
        runner.end(slot, a, 1).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        scene.rerun(job, Again::Failed).await.unwrap();
        runner.play(&[("a", 0), ("c", 0)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["b"].0), (JobState::Finished, TaskState::Skipped));
        // Named, it runs after all.
        scene.rerun(job, again("b")).await.unwrap();
        runner.play(&[("b", 0)]).await;
        assert_eq!(scene.end_of(job).await.1["b"].0, TaskState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_sharded_task_only_the_shards_that_failed_run_again() {
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(4), max_parallel: 1, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }, task("join", &["work"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        runner.play(&[("work#0", 0), ("work#1", 1), ("work#2", 0), ("work#3", 1)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        let done = scene.rerun(job, Again::Failed).await.unwrap();
        assert_eq!((done.tasks, done.reconsidered), (2, 1));
        runner.play(&[("work#1", 0), ("work#3", 1)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        // A person takes the last one for done.
        let mark = MarkTask { shard: Some(3), ..Scene::mark_order(job, "work", Said::Ended(Mark::Finished)) };
        assert_eq!(scene.engine.mark(mark).await.unwrap().reconsidered, 1);
        runner.play(&[("join", 0)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks.len()), (JobState::Finished, 6));
        assert_eq!(tasks["work"].0, TaskState::Finished);
        // As a whole it is split anew, and all of it runs again.
        scene.rerun(job, with_following("work")).await.unwrap();
        runner.play(&[("work#0", 0), ("work#1", 0), ("work#2", 0), ("work#3", 0), ("join", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_run_again_while_others_run_waits_for_its_turn() {
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(3), max_parallel: 1, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        runner.play(&[("work#0", 1), ("work#1", 0)]).await;
        let (slot, last, spec) = runner.next_run().await;
        assert_eq!(spec.shard.unwrap().0, 2);
        let shard = Again::Task { name: "work".into(), shard: Some(0), following: false };
        // The request and the last result may well come in one turn.
        let rerun = scene.engine.rerun(Scene::rerun_order(job, shard));
        let (done, ()) = tokio::join!(rerun, runner.end(slot, last, 0));
        done.unwrap();
        runner.play(&[("work#0", 0)]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["work"].0), (JobState::Finished, TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_ended_while_it_waits_lets_no_other_run_too_early() {
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(4), max_parallel: 1, min_success_percent: 75 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let job_id = scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        let mark = MarkTask { shard: Some(2), ..Scene::mark_order(job_id, "work", Said::Ended(Mark::Finished)) };
        scene.engine.mark(mark).await.unwrap();
        let (caller, reason) = (Caller::default(), String::new());
        let task = Some("work".to_owned());
        let end = Terminate { caller, job_id, task, shard_index: Some(3), grace: None, reason };
        assert_eq!(scene.engine.terminate(end).await.unwrap(), 1);
        // Shard 1 waits for shard 0 as before.
        let text = "SELECT state FROM task WHERE job_id = :job AND shard_index >= 0 ORDER BY shard_index";
        let tx = scene.world.store.begin().await.unwrap();
        let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job_id.into())])).await.unwrap();
        drop(tx);
        let states: Vec<String> = rows.iter().map(|row| row.column("state").unwrap()).collect();
        assert_eq!(states, ["DISPATCHED", "CREATED", "FINISHED", "TERMINATED"]);
        runner.end(slot, first, 0).await;
        runner.play(&[("work#1", 0)]).await;
        let (state, tasks) = scene.end_of(job_id).await;
        assert_eq!((state, tasks["work"].0), (JobState::Finished, TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_stopped_or_was_terminated_goes_on_where_it_was() {
    for scene in Scene::on_each_database().await {
        let stops = TaskConfig { on_failure: Some(OnFailure::Stop), ..task("stops", &[]) };
        scene.apply(vec![stops, task("x", &[]), task("after", &["x"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (stops, x) = (runner.next_run().await, runner.next_run().await);
        runner.end(stops.0, stops.1, 3).await;
        scene.until(job, 1, TaskState::Skipped).await;
        runner.end(x.0, x.1, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        assert_eq!(reason_of(scene.rerun(job, again("after")).await), "JOB_STOPPED");
        scene.rerun(job, Again::Failed).await.unwrap();
        let (one, other) = (runner.next_run().await, runner.next_run().await);
        let mut names = [one.2.task_name.clone(), other.2.task_name.clone()];
        names.sort();
        assert_eq!(names, ["after", "stops"]);
        scene.terminate(job).await;
        for (slot, task, _) in [one, other] {
            let gone = SlotReport { answer: Some(Answer::NotHeld), ..report(slot, SlotStatus::Idle, Some(task)) };
            runner.say(vec![gone]).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Terminated);
        while !matches!(runner.next().await, Command::Reset { .. }) {}
        scene.rerun(job, Again::Failed).await.unwrap();
        for _ in 0..2 {
            let (slot, task) = loop {
                match runner.next().await {
                    Command::RunNew { slot, task, .. } => break (slot, task),
                    Command::ResultAck { .. } | Command::Reset { .. } => {}
                    other => panic!("expected RUN_NEW, got {other:?}"),
                }
            };
            runner.end(slot, task, 0).await;
        }
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        assert!(tasks.values().all(|(state, _)| *state == TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_an_old_copy_may_live_a_rerun_is_refused_until_a_person_answers_for_it() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 1), ("b", 1)]).await;
        scene.end_of(job).await;
        scene.change("UPDATE task SET gone = false WHERE job_id = :job", &[("job", job.into())]).await;
        assert_eq!(reason_of(scene.rerun(job, Again::Failed).await), "NOT_PROVEN_GONE");
        scene.engine.mark(Scene::mark_order(job, "a", Said::Gone)).await.unwrap();
        assert_eq!(reason_of(scene.engine.mark(Scene::mark_order(job, "a", Said::Gone)).await), "NOTHING_TO_MARK");
        scene.rerun(job, again("a")).await.unwrap();
        runner.play(&[("a", 0)]).await;
        let forced = Rerun { force: true, ..Scene::rerun_order(job, again("b")) };
        scene.end_of(job).await;
        scene.engine.rerun(forced).await.unwrap();
        runner.play(&[("b", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        // The attempt that was overridden stays in doubt, and says so to the next.
        let mut proven: Vec<bool> = scene.history(job).await.into_iter().map(|(.., gone)| gone).collect();
        proven.sort_unstable();
        assert_eq!(proven, [false, true]);
        assert_eq!(reason_of(scene.rerun(job, again("b")).await), "NOT_PROVEN_GONE");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_run_again_has_all_its_retries_again() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(2, Duration::from_millis(1)));
        scene.apply(vec![TaskConfig { retry, ..task("a", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        runner.play(&[("a", 1), ("a", 1)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Failed);
        scene.rerun(job, Again::Failed).await.unwrap();
        runner.play(&[("a", 1), ("a", 0)]).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
        let numbers: Vec<i32> = scene.history(job).await.into_iter().map(|(number, ..)| number).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_only_be_skipped_again_is_refused_with_its_reason() {
    for scene in Scene::on_each_database().await {
        let never = TaskConfig { enabled: Some(false), ..task("never", &[]) };
        scene.apply(vec![task("a", &[]), task("b", &["a"]), never]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        assert_eq!(reason_of(scene.rerun(job, again("b")).await), "TASK_LIVE");
        runner.play(&[("a", 1)]).await;
        let (_, before) = scene.end_of(job).await;
        let Err(Error::Conflict { reason: "GATE_CLOSED", message }) = scene.rerun(job, again("b")).await else {
            panic!("b may not start");
        };
        let says = "b would only be skipped: all_success cannot hold: \"a\" failed; run \"a\" again, or mark it";
        assert_eq!(message, says);
        assert_eq!(reason_of(scene.rerun(job, again("never")).await), "TASK_DISABLED");
        assert!(matches!(scene.rerun(job, again("nobody")).await, Err(Error::NotFound { kind: "task", .. })));
        assert!(matches!(scene.rerun(Uuid::now_v7(), Again::Failed).await, Err(Error::NotFound { kind: "job", .. })));
        let (state, after) = scene.end_of(job).await;
        assert_eq!((state, after), (JobState::Failed, before));
    }
}
