//! The engine with a runner played by the test, on each database.

mod after_jobs;
mod backfills;
mod callbacks;
mod clocks;
mod completions;
mod cut_off;
mod explain;
mod firing;
mod graphs;
mod limits;
mod locks;
mod nested;
mod parked;
mod picks;
mod placement;
mod policies;
mod races;
mod repair;
mod retention;
mod schedules;
mod statements;
mod sub_jobs;
mod switches;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::{
    Engine, Settings,
    batch::Context,
    picker::Memory,
    plan::Plans,
    request::{Apply, Caller, Run, Terminate},
};
use crate::{
    domain::{
        callback::delivery::Backoff,
        command::{Command, Down, RunSpec, Welcome},
        definition::{JobConfig, OnFailure, Retry, Shards, Split, Target, TaskConfig, TriggerRule},
        heartbeat::{Answer, EndReason, Frame, Hello, SlotReport, SlotStatus, TaskRef, TaskResult, Verdict},
        job::JobState,
        task::TaskState,
        timing::Timing,
    },
    store::{
        self,
        testing::{self, Row as _},
    },
};

/// A test that waits longer than this for something has failed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    world: testing::World,
    engine: Engine,
}

/// What an engine is started with: a scheduler of its own on this store, with a beat so long that nothing is lost by it.
fn settings(store: store::Store, address: &str) -> Settings {
    Settings {
        store,
        timing: Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10)),
        scheduler: Uuid::now_v7(),
        address: address.to_owned(),
        public_url: format!("http://{address}"),
        courier: super::courier::Settings::default(),
    }
}

impl Scene {
    async fn on_each_database() -> Vec<Self> {
        Self::on_each_database_with(&super::courier::Settings::default()).await
    }

    async fn on_each_database_with(courier: &super::courier::Settings) -> Vec<Self> {
        let mut scenes = Vec::new();
        for world in testing::worlds().await {
            let settings = settings(world.store.clone(), "127.0.0.1:7420");
            let (engine, _) = Engine::start(Settings { courier: courier.clone(), ..settings });
            scenes.push(Self { world, engine });
        }
        scenes
    }

    /// From now on every statement of the engine is heard of.
    async fn overhear(&mut self) -> Arc<testing::Fuse> {
        let fuse = Arc::new(testing::Fuse::default());
        self.engine.stop().await;
        self.engine = schedules::engine_on(self.world.with(&fuse));
        fuse
    }

    async fn apply(&self, tasks: Vec<TaskConfig>) {
        self.apply_config(config_of("job", tasks)).await;
    }

    async fn apply_config(&self, config: JobConfig) {
        self.engine.apply(apply_of(config)).await.unwrap();
    }

    async fn run(&self) -> Uuid {
        self.run_as("").await
    }

    async fn run_as(&self, request_id: &str) -> Uuid {
        let caller = Caller { request_id: request_id.into(), ..Caller::default() };
        self.engine.run(Run { caller, ..run_of("job") }).await.unwrap()
    }

    async fn terminate(&self, job_id: Uuid) -> u32 {
        let order = Terminate {
            caller: Caller::default(),
            job_id,
            task: None,
            shard_index: None,
            grace: None,
            reason: String::new(),
        };
        self.engine.terminate(order).await.unwrap()
    }

    /// Waits until a job with this many tasks in this state is there.
    async fn until(&self, job: Uuid, count: i64, state: TaskState) {
        tokio::time::timeout(PATIENCE, async {
            let mut changes = self.engine.subscribe(job);
            loop {
                let tx = self.world.store.begin().await.unwrap();
                let text = "SELECT count(*) AS count FROM task WHERE job_id = :job AND state = :state";
                let params = [("job", job.into()), ("state", state.word().into())];
                let rows = tx.query(store::sql::statement(tx.backend(), text, &params)).await.unwrap();
                drop(tx);
                if rows[0].column::<i64>("count").unwrap() == count {
                    return;
                }
                changes.changed().await;
            }
        })
        .await
        .expect("the tasks come to this state");
    }

    /// Waits until the job has ended, then tells how it and its tasks ended.
    async fn end_of(&self, job: Uuid) -> (JobState, BTreeMap<String, (TaskState, String)>) {
        tokio::time::timeout(PATIENCE, async {
            let mut changes = self.engine.subscribe(job);
            loop {
                let tx = self.world.store.begin().await.unwrap();
                let row = store::job::facts(&tx, &[job]).await.unwrap().remove(0);
                let text = "SELECT task.state, task.reason, task.shard_index, task_config.name FROM task
                            JOIN task_config ON task_config.id = task.task_config_id WHERE task.job_id = :job";
                let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
                drop(tx);
                if row.state.is_terminal() {
                    let tasks = rows.iter().map(|row| {
                        let (name, shard): (String, i32) =
                            (row.column("name").unwrap(), row.column("shard_index").unwrap());
                        let state: String = row.column("state").unwrap();
                        let name = if shard < 0 { name } else { format!("{name}#{shard}") };
                        (name, (TaskState::from_word(&state).unwrap(), row.column("reason").unwrap()))
                    });
                    return (row.state, tasks.collect());
                }
                changes.changed().await;
            }
        })
        .await
        .expect("the job ends")
    }
}

/// A runner played by the test.
struct Puppet {
    engine: Engine,
    session: Uuid,
    frames: mpsc::Receiver<Down>,
    seq: u64,
    ack: u64,
    waiting: Vec<Command>,
    welcome: Welcome,
}

fn hello(id: &str, boot: &str, conn: u64, slots: u32) -> Hello {
    Hello {
        runner_id: id.into(),
        install_id: format!("install of {id}"),
        boot_id: boot.into(),
        boot_number: 0,
        conn,
        protocol_version: 1,
        version: "0.1.0".into(),
        labels: BTreeMap::new(),
        slots,
        capabilities: ["command", "shell", "http"].map(Into::into).to_vec(),
        inventory: Vec::new(),
        ended: Vec::new(),
        drain: None,
    }
}

fn report(slot: u32, status: SlotStatus, task: Option<TaskRef>) -> SlotReport {
    SlotReport { slot, status, task, answer: None, message: String::new(), result: None }
}

fn exit(code: i32) -> TaskResult {
    TaskResult {
        end_reason: EndReason::Exit,
        exit_code: Some(code),
        signal: None,
        message: String::new(),
        output: Vec::new(),
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

impl Puppet {
    async fn dial(scene: &Scene, hello: Hello) -> Self {
        Self::dial_to(&scene.engine, hello).await
    }

    async fn dial_to(engine: &Engine, hello: Hello) -> Self {
        let (out, mut frames) = mpsc::channel(64);
        let session = engine.connect(hello, 1, out).await.expect("the runner is let in");
        let first = frames.recv().await.expect("a welcome");
        let mut puppet = Self {
            engine: engine.clone(),
            session,
            frames,
            seq: 1,
            ack: first.seq,
            waiting: Vec::new(),
            welcome: *first.welcome.expect("the first frame is the welcome"),
        };
        puppet.say(Vec::new()).await;
        puppet
    }

    async fn say(&mut self, slots: Vec<SlotReport>) {
        self.seq += 1;
        self.engine.frame(self.session, Frame { seq: self.seq, ack: self.ack, slots, drain: None }).await;
    }

    /// The next command that is not GO_ON.
    async fn next(&mut self) -> Command {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if !self.waiting.is_empty() {
                    return self.waiting.remove(0);
                }
                let frame = self.frames.recv().await.expect("the stream goes on");
                self.ack = frame.seq;
                self.waiting
                    .extend(frame.commands.into_iter().filter(|command| !matches!(command, Command::GoOn { .. })));
            }
        })
        .await
        .expect("a command comes")
    }

    async fn next_run(&mut self) -> (u32, TaskRef, RunSpec) {
        loop {
            match self.next().await {
                Command::RunNew { slot, task, spec } => return (slot, task, *spec),
                Command::ResultAck { message, .. } => assert_eq!(message, ""),
                other => panic!("expected RUN_NEW, got {other:?}"),
            }
        }
    }

    async fn end(&mut self, slot: u32, task: TaskRef, code: i32) {
        let status = if code == 0 { SlotStatus::Finished } else { SlotStatus::Failed };
        self.say(vec![SlotReport { result: Some(exit(code)), ..report(slot, status, Some(task)) }]).await;
    }
}

/// A job config of this name.
fn config_of(name: &str, tasks: Vec<TaskConfig>) -> JobConfig {
    JobConfig { namespace: "default".into(), name: name.into(), tasks, ..JobConfig::default() }
}

/// What stores a job config.
fn apply_of(config: JobConfig) -> Apply {
    Apply { caller: Caller::default(), configs: vec![(config, String::new())] }
}

/// What runs the job config of this name.
fn run_of(name: &str) -> Run {
    Run {
        caller: Caller::default(),
        namespace: "default".into(),
        name: name.into(),
        params: BTreeMap::new(),
        runner: None,
    }
}

/// What a turn works with that a test makes by itself, on a scheduler that has done nothing yet.
fn context(store: store::Store) -> Context {
    Context {
        backoff: Backoff::default(),
        clustered: store.is_clustered(),
        store,
        timing: Timing::from_beat(Duration::from_secs(10), Duration::from_secs(10)),
        scheduler: Uuid::now_v7(),
        plans: Plans::default(),
        memory: Memory::default(),
        public_url: String::new(),
        followed: None,
    }
}

fn task(name: &str, needs: &[&str]) -> TaskConfig {
    TaskConfig {
        name: name.into(),
        target: Target::Command(vec!["true".into()]),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        ..TaskConfig::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diamond_runs_in_order_and_its_join_once() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["a"]), task("d", &["b", "c"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
        let job = scene.run().await;
        let (slot, a, spec) = runner.next_run().await;
        assert_eq!((spec.task_name.as_str(), a.attempt, a.lease), ("a", 1, 1));
        runner.end(slot, a, 0).await;
        let (b, c) = (runner.next_run().await, runner.next_run().await);
        let mut names = [b.2.task_name.clone(), c.2.task_name.clone()];
        names.sort();
        assert_eq!(names, ["b", "c"]);
        // Both parents end in one frame.
        runner
            .say(vec![
                SlotReport { result: Some(exit(0)), ..report(b.0, SlotStatus::Finished, Some(b.1)) },
                SlotReport { result: Some(exit(0)), ..report(c.0, SlotStatus::Finished, Some(c.1)) },
            ])
            .await;
        let (slot, d, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "d");
        runner.end(slot, d, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        assert!(tasks.values().all(|(state, _)| *state == TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_shards_run_at_once_and_the_child_waits_for_all() {
    for scene in Scene::on_each_database().await {
        let shards = Some(Shards { split: Split::Count(5), max_parallel: 2, min_success_percent: 100 });
        scene.apply(vec![TaskConfig { shards, ..task("work", &[]) }, task("join", &["work"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 5)).await;
        let job = scene.run().await;
        let mut running = vec![runner.next_run().await, runner.next_run().await];
        let mut seen = Vec::new();
        for _ in 0..5 {
            let (slot, shard, spec) = running.remove(0);
            seen.push(spec.shard.clone().unwrap().0);
            runner.end(slot, shard, 0).await;
            if seen.len() + running.len() < 5 {
                running.push(runner.next_run().await);
            }
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        let (slot, join, spec) = runner.next_run().await;
        assert_eq!(spec.task_name, "join");
        runner.end(slot, join, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks.len()), (JobState::Finished, 7));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_skips_what_depends_on_it_and_leaves_the_rest_alone() {
    for scene in Scene::on_each_database().await {
        let tidy = TaskConfig { trigger_rule: Some(TriggerRule::AllDone), ..task("tidy", &["c"]) };
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &["b"]), tidy, task("other", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        for expected in ["a", "other", "tidy"] {
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.task_name, expected);
            runner.end(slot, task, i32::from(expected == "a")).await;
        }
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert_eq!(tasks["a"], (TaskState::Failed, "exit code 1".into()));
        assert_eq!(tasks["b"], (TaskState::Skipped, "all_success cannot hold: \"a\" failed".into()));
        assert_eq!(tasks["c"].0, TaskState::Skipped);
        assert_eq!(tasks["tidy"].0, TaskState::Finished);
        assert_eq!(tasks["other"].0, TaskState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_skips_what_has_not_started_and_lets_what_runs_finish() {
    for scene in Scene::on_each_database().await {
        let stops = TaskConfig { on_failure: Some(OnFailure::Stop), ..task("stops", &[]) };
        scene.apply(vec![stops, task("runs", &[]), task("after", &["runs"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (stops, runs) = (runner.next_run().await, runner.next_run().await);
        runner.end(stops.0, stops.1, 3).await;
        assert!(matches!(runner.next().await, Command::ResultAck { .. }));
        runner.end(runs.0, runs.1, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert_eq!(tasks["runs"].0, TaskState::Finished);
        assert_eq!(tasks["after"], (TaskState::Skipped, "its job stopped".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_attempt_is_tried_again_under_a_new_lease() {
    for scene in Scene::on_each_database().await {
        let retry = Some(Retry::times(2, Duration::from_millis(1)));
        scene.apply(vec![TaskConfig { retry, ..task("a", &[]) }]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, first, _) = runner.next_run().await;
        runner.end(slot, first, 1).await;
        let (slot, second, _) = runner.next_run().await;
        assert_eq!(second.attempt, 2);
        assert!(second.lease > first.lease);
        // A late word about the first attempt changes nothing, and its sender is told to end it.
        runner.say(vec![report(slot, SlotStatus::Running, Some(first))]).await;
        assert!(matches!(runner.next().await, Command::Reset { task, .. } if task == first));
        runner.end(slot, second, 0).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!((state, tasks["a"].0), (JobState::Finished, TaskState::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terminate_ends_what_waits_at_once_and_what_runs_when_it_is_gone() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &["a"]), task("c", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, _) = runner.next_run().await;
        assert_eq!(scene.terminate(job).await, 3);
        let Command::Reset { task: reset, .. } = runner.next().await else { panic!("expected RESET") };
        assert_eq!(reset, a);
        let gone = SlotReport { answer: Some(Answer::NotHeld), ..report(slot, SlotStatus::Idle, Some(a)) };
        runner.say(vec![gone]).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Terminated);
        assert!(tasks.values().all(|(state, _)| *state == TaskState::Terminated), "{tasks:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_dials_again_goes_on_with_what_it_has() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[]), task("b", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        let (a, b) = (runner.next_run().await, runner.next_run().await);
        // The RUN_NEW of b never reached it.
        let inventory = vec![report(a.0, SlotStatus::Running, Some(a.1))];
        let mut runner = Puppet::dial(&scene, Hello { inventory, ..hello("r", "1", 2, 2) }).await;
        assert_eq!(runner.welcome.verdicts, [(a.1, Verdict::Adopt, None)]);
        let (slot, again, spec) = runner.next_run().await;
        assert_eq!((spec.task_name, again.attempt), (b.2.task_name, 1));
        assert!(again.lease > b.1.lease);
        runner.end(slot, again, 0).await;
        runner.end(a.0, a.1, 0).await;
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_restarted_runner_no_longer_has_is_lost() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, _) = runner.next_run().await;
        runner.say(vec![report(slot, SlotStatus::Running, Some(a))]).await;
        let _runner = Puppet::dial(&scene, hello("r", "2", 1, 1)).await;
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Failed);
        assert_eq!(tasks["a"], (TaskState::Failed, "its runner was restarted".into()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_makes_no_second_job() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let first = scene.run_as("once").await;
        assert_eq!(scene.run_as("once").await, first);
        assert_ne!(scene.run_as("twice").await, first);
        // At once they come into one turn, or the later ones find the answer: each gets the same job.
        let (one, two, three) = tokio::join!(scene.run_as("thrice"), scene.run_as("thrice"), scene.run_as("thrice"));
        assert_eq!((one, one), (two, three));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_task_is_skipped_and_its_child_decides_by_its_rule() {
    for scene in Scene::on_each_database().await {
        let off = TaskConfig { enabled: Some(false), ..task("off", &["a"]) };
        let goes_on = TaskConfig { trigger_rule: Some(TriggerRule::NoneFailed), ..task("goes-on", &["off"]) };
        scene.apply(vec![task("a", &[]), off, goes_on, task("needs", &["off"])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 2)).await;
        let job = scene.run().await;
        for _ in 0..2 {
            let (slot, task, spec) = runner.next_run().await;
            assert_ne!(spec.task_name, "off");
            runner.end(slot, task, 0).await;
        }
        let (state, tasks) = scene.end_of(job).await;
        assert_eq!(state, JobState::Finished);
        assert_eq!(tasks["off"], (TaskState::Skipped, "it is disabled".into()));
        assert_eq!(tasks["goes-on"].0, TaskState::Finished);
        assert_eq!(tasks["needs"].0, TaskState::Skipped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_seen_running_though_nothing_else_happens() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let job = scene.run().await;
        let (slot, a, _) = runner.next_run().await;
        runner.say(vec![report(slot, SlotStatus::Running, Some(a))]).await;
        scene.until(job, 1, TaskState::Running).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_larger_than_a_turn_is_written_by_the_turns_that_follow() {
    for scene in Scene::on_each_database().await {
        scene.apply((0..5_100).map(|number| task(&format!("t{number}"), &[])).collect()).await;
        let job = scene.run().await;
        scene.until(job, 5_100, TaskState::Queued).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_that_wait_for_different_times_are_each_given_out_again() {
    for scene in Scene::on_each_database().await {
        let retry = |delay| Some(Retry::times(2, Duration::from_millis(delay)));
        let tasks = [("a", 30), ("b", 60), ("c", 90)];
        scene
            .apply(tasks.iter().map(|(name, delay)| TaskConfig { retry: retry(*delay), ..task(name, &[]) }).collect())
            .await;
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 3)).await;
        let job = scene.run().await;
        for _ in tasks {
            let (slot, first, _) = runner.next_run().await;
            runner.end(slot, first, 1).await;
        }
        for _ in tasks {
            let (slot, second, _) = runner.next_run().await;
            assert_eq!(second.attempt, 2);
            runner.end(slot, second, 0).await;
        }
        assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    }
}
