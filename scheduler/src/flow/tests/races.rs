//! What goes wrong between two steps: a turn whose outcome nobody knows, a stream that died unnoticed, a stop under load.

use super::*;
use crate::{
    domain::{
        command::{Disconnect, DisconnectReason},
        heartbeat::Drain,
    },
    flow::{
        batch::Input,
        order::{Order, OrderAnswer},
        sessions::{Given, Opening, Session, ToEnd},
        turn::within,
    },
    store::Store,
};

const BEAT: Duration = Duration::from_secs(10);

fn timing() -> Timing {
    Timing::from_beat(BEAT, Duration::from_secs(10))
}

/// The scene on PostgreSQL, where there is one.
async fn clustered() -> Option<Scene> {
    Scene::on_each_database().await.into_iter().find(|scene| scene.world.store.is_clustered())
}

async fn change(store: &Store, text: &str, params: &[(&str, sea_orm::Value)]) -> u64 {
    let tx = store.begin().await.unwrap();
    let changed = tx.execute(store::sql::statement(tx.backend(), text, params)).await.unwrap();
    tx.commit().await.unwrap();
    changed
}

impl Puppet {
    /// Waits until everything said so far is committed.
    async fn until_acked(&mut self) {
        tokio::time::timeout(PATIENCE, async {
            loop {
                let frame = self.frames.recv().await.expect("the stream goes on");
                if frame.ack >= self.seq {
                    return;
                }
            }
        })
        .await
        .expect("the frame is acked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_unknown_turn_gave_out_is_taken_back() {
    let Some(scene) = clustered().await else { return };
    let mut runner = Puppet::dial(&scene, Hello { drain: Some(Drain::Draining), ..hello("r", "1", 1, 1) }).await;
    scene.apply(vec![task("a", &[])]).await;
    let job = scene.run().await;
    // The turn that gave it out was committed, but its scheduler never heard so: it lost its database at that moment.
    let outside = Store::open(&scene.world.settings).await.unwrap();
    let given = "UPDATE task SET state = 'DISPATCHED', attempt = 1, lease = 1, runner_id = 'r', slot = 0,
                     session_id = :session WHERE job_id = :job AND state = 'QUEUED'";
    let given = change(&outside, given, &[("session", runner.session.into()), ("job", job.into())]).await;
    assert_eq!(given, 1);
    let tx = outside.begin().await.unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE 'LISTEN%'";
    tx.query(store::sql::statement(tx.backend(), cut, &[])).await.unwrap();
    drop(tx);
    scene.engine.wake().await;
    let Command::Reset { slot, task, .. } = runner.next().await else { panic!("expected RESET") };
    assert_eq!((slot, task.lease), (0, 1));
    let gone = SlotReport { answer: Some(Answer::NotHeld), ..report(0, SlotStatus::Idle, Some(task)) };
    runner.say(vec![gone]).await;
    runner.seq += 1;
    let working = Frame { seq: runner.seq, ack: runner.ack, slots: Vec::new(), drain: Some(Drain::Working) };
    scene.engine.frame(runner.session, working).await;
    let (slot, again, _) = runner.next_run().await;
    assert_eq!(again.attempt, 1);
    assert!(again.lease > task.lease);
    runner.end(slot, again, 0).await;
    assert_eq!(scene.end_of(job).await.0, JobState::Finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_replaced_elsewhere_keeps_no_work_from_others() {
    let Some(scene) = clustered().await else { return };
    let store = Store::open(&scene.world.settings).await.unwrap();
    let address = "127.0.0.1:7421".to_owned();
    let (other, _) = Engine::start(Settings {
        store,
        timing: timing(),
        scheduler: Uuid::now_v7(),
        public_url: format!("http://{address}"),
        address,
        courier: crate::flow::courier::Settings::default(),
    });
    // A stream that looks alive to its scheduler, with more idle slots than anybody has.
    let mut dead = Puppet::dial(&scene, hello("r", "1", 1, 4)).await;
    dead.until_acked().await;
    let (out, _frames) = mpsc::channel(64);
    let moved = Hello { drain: Some(Drain::Draining), ..hello("r", "1", 2, 4) };
    other.connect(moved, 1, out).await.expect("the runner is let in elsewhere");
    let mut alive = Puppet::dial(&scene, hello("q", "1", 1, 1)).await;
    alive.until_acked().await;
    scene.apply(vec![task("a", &[])]).await;
    let job = scene.run().await;
    let (slot, a, _) = alive.next_run().await;
    alive.end(slot, a, 0).await;
    assert_eq!(scene.end_of(job).await.0, JobState::Finished);
    let told = dead.next().await;
    assert!(matches!(told, Command::Disconnect(Disconnect { reason: DisconnectReason::Replaced, .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_comes_to_its_end_although_requests_keep_coming() {
    for scene in Scene::on_each_database().await {
        scene.apply(vec![task("a", &[])]).await;
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let engine = scene.engine.clone();
                tokio::spawn(async move { while engine.run(run_of("job")).await.is_ok() {} })
            })
            .collect();
        tokio::time::timeout(PATIENCE, scene.engine.stop()).await.expect("it stops");
        for client in clients {
            client.await.expect("a client is told that the scheduler stops");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_stop_holds_tasks_for_longer_than_they_may_go_on() {
    for scene in Scene::on_each_database().await {
        let _runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        scene.engine.stop().await;
        let tx = scene.world.store.begin().await.unwrap();
        let now = store::scheduler::now(&tx).await.unwrap();
        let row = store::runner::lock(&tx, &["r".to_owned()]).await.unwrap().remove("r").unwrap();
        // It adds `hold_for` to a self-stop that may have been renewed a moment ago, and then its tasks have to end.
        let may_go_on = timing().hold_for + timing().self_stop_after() + timing().grace;
        let asked = Duration::from_secs(1);
        assert!(row.known.hold_until.unwrap() + asked > now + may_go_on, "{:?} at {now:?}", row.known);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_was_never_committed_is_not_planned_for() {
    let world = testing::sqlite().await;
    let context = || context(world.store.clone());
    let apply = |name: &str| Order::Apply(apply_of(config_of("job", vec![task(name, &[])])));
    let run = || Order::Run(run_of("job"));
    let turn = |orders| Input { orders, ..Input::default() };
    let (mut ours, mut theirs) = (context(), context());
    within(PATIENCE, &mut ours, &turn(vec![apply("first")])).await.unwrap();

    change(&world.store, "CREATE TRIGGER refuse BEFORE INSERT ON job BEGIN SELECT RAISE(ABORT, 'no'); END", &[]).await;
    within(PATIENCE, &mut ours, &turn(vec![apply("never"), run()])).await.unwrap_err();
    change(&world.store, "DROP TRIGGER refuse", &[]).await;

    within(PATIENCE, &mut theirs, &turn(vec![apply("second")])).await.unwrap();
    let mut output = within(PATIENCE, &mut ours, &turn(vec![run()])).await.unwrap();
    let OrderAnswer::Job(Ok(job)) = output.orders.remove(0) else { panic!("a job is made") };
    let tx = world.store.begin().await.unwrap();
    let text = "SELECT task_config.name FROM task JOIN task_config ON task_config.id = task.task_config_id
                WHERE task.job_id = :job";
    let rows = tx.query(store::sql::statement(tx.backend(), text, &[("job", job.into())])).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.column("name").unwrap()).collect();
    assert_eq!(names, ["second"]);
}

/// A session without a runner: its frames, and what it sends.
fn session(slots: u32) -> (Session, mpsc::Receiver<Down>) {
    let (out, frames) = mpsc::channel(64);
    let opening = Opening { id: Uuid::now_v7(), hello: hello("r", "1", 1, slots), out, first_seq: 1, drained: false };
    (Session::new(opening), frames)
}

fn frame(seq: u64, ack: u64, slots: Vec<SlotReport>) -> Frame {
    Frame { seq, ack, slots, drain: Some(Drain::Working) }
}

#[test]
fn a_beat_that_brings_nothing_new_is_no_reason_for_a_turn() {
    let (mut session, _frames) = session(2);
    let now = std::time::Instant::now();
    let idle = || vec![report(0, SlotStatus::Idle, None), report(1, SlotStatus::Idle, None)];
    assert!(session.hear(&frame(2, 1, idle()), now).freed);
    let heard = session.hear(&frame(3, 1, idle()), now);
    assert!(!heard.freed && heard.drain.is_none() && heard.told.is_empty());
    let draining = Frame { drain: Some(Drain::Draining), ..frame(4, 1, idle()) };
    assert_eq!(session.hear(&draining, now).drain, Some(Drain::Draining));
    assert_eq!(session.hear(&draining, now).drain, None);
    let heard = session.hear(&frame(6, 1, idle()), now);
    assert!(heard.freed && heard.drain == Some(Drain::Working));
}

#[test]
fn a_reset_that_is_asked_for_each_second_is_overdue_all_the_same() {
    let (mut session, _frames) = session(1);
    let start = std::time::Instant::now();
    session.hear(&frame(2, 1, Vec::new()), start);
    let task = TaskRef { task: Uuid::nil(), attempt: 1, lease: 1 };
    let (slot, job_id) = (0, Uuid::nil());
    session.give(
        Given { slot, task, job_id, timeout: None, warn_after: None },
        session.next_seq(),
        false,
        &timing(),
        start,
    );
    for second in 0..=11 {
        let now = start + Duration::from_secs(second);
        session.reset(ToEnd { slot, task, job_id, grace: None, told: false }, now);
        // It takes everything in and says nothing about the task.
        session.hear(&frame(second + 3, session.next_seq() - 1, Vec::new()), now);
    }
    let closed = session.check(&timing(), start + Duration::from_secs(11));
    assert_eq!(closed.map(|disconnect| disconnect.reason), Some(DisconnectReason::Unresponsive));
}

#[test]
fn a_beat_is_answered_although_a_long_turn_keeps_its_sign_of_life_from_being_committed() {
    let (mut session, mut frames) = session(1);
    let start = std::time::Instant::now();
    let patience = timing().answer_timeout / 2;
    session.hear(&frame(2, 0, Vec::new()), start);
    assert!(session.check(&timing(), start + patience).is_none());
    assert!(frames.try_recv().is_err(), "it may still be committed in time");
    for late in 1..4 {
        assert!(session.check(&timing(), start + patience + Duration::from_millis(late)).is_none());
    }
    let answer = frames.try_recv().expect("it is answered");
    assert_eq!((answer.ack, answer.commands), (1, vec![Command::GoOn { degraded: true }]), "the ack has not moved");
    assert!(frames.try_recv().is_err(), "once");
    session.seen(2, start + patience * 2);
    assert_eq!(frames.try_recv().expect("it is acknowledged").ack, 2);
    assert!(session.check(&timing(), start + patience * 8).is_none());
    assert!(frames.try_recv().is_err(), "nothing is owed any more");
}

#[test]
fn what_waits_for_a_runner_that_does_not_read_is_bounded() {
    let (mut session, frames) = session(1);
    let start = std::time::Instant::now();
    // Its queue is full; whatever it is answered now would wait.
    for seq in 2..10_000 {
        session.hear(&frame(seq, 0, Vec::new()), start);
        session.seen(seq, start);
    }
    assert!(session.check(&timing(), start).is_none(), "answers alone are not worth a word each");
    // It says so much that needs an answer that it is not waited for.
    for lease in 0..200 {
        let stray = TaskRef { task: Uuid::nil(), attempt: 1, lease };
        session.hear(&frame(10_000 + lease, 0, vec![report(0, SlotStatus::Failed, Some(stray))]), start);
    }
    let closed = session.check(&timing(), start);
    assert_eq!(closed.map(|disconnect| disconnect.reason), Some(DisconnectReason::Unresponsive));
    drop(frames);
}
