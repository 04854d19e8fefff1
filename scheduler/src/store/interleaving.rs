//! Two connections, interleaved by hand: each rule about locks is shown to hold, and the fault is shown that comes when
//! it is left out. PostgreSQL alone: on SQLite one writer is all there is.

mod families;
mod limits;

use std::{collections::BTreeMap, future::Future, time::Duration};

use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{
    Store, Tx,
    job::{self, JobRow},
    request::{self, Answer, Asked, Claim},
    row::Row as _,
    runner, scheduler, sql,
    task::{self, TaskRow},
    testing::{
        self, World,
        rows::{a_job, a_task},
    },
};
use crate::domain::{
    definition::TriggerRule,
    gate::{Gate, Outcome, Parents},
    heartbeat::Hello,
    job::JobState,
    origin::Trigger,
    task::{Counters, TaskState},
    time::Timestamp,
};

/// A test that waits longer than this for something has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two schedulers on one PostgreSQL database, and somebody who looks on.
struct Scene {
    world: World,
    other: Store,
    onlooker: Store,
}

impl Scene {
    /// Nothing where there is no PostgreSQL: that is said already.
    async fn set() -> Option<Self> {
        let world = testing::worlds().await.into_iter().find(|world| world.store.is_clustered())?;
        let other = Store::open(&world.settings).await.unwrap();
        let onlooker = Store::open(&world.settings).await.unwrap();
        Some(Self { world, other, onlooker })
    }

    async fn one(&self) -> Tx {
        self.world.store.begin().await.unwrap()
    }

    async fn two(&self) -> Tx {
        self.other.begin().await.unwrap()
    }

    /// Begins something that has to wait for a lock, and returns once it does.
    async fn waiting<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let work = tokio::spawn(work);
        // Of this database alone: those of other tests, on the same server, have waits of their own.
        let asked = "SELECT count(*) AS waiting FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let looking = async {
            loop {
                assert!(!work.is_finished(), "it was to wait for a lock");
                let tx = self.onlooker.begin().await.unwrap();
                let rows = tx.query(sql::statement(tx.backend(), asked, &[])).await.unwrap();
                if rows[0].column::<i64>("waiting").unwrap() > 0 {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("it waits for a lock");
        work
    }

    /// A running job of two parents that run and a child that waits for both; all of one class.
    async fn diamond(&self) -> (JobRow, [TaskRow; 3]) {
        let job = a_job();
        let parents = [a_task(&job, 0, TaskState::Running), a_task(&job, 1, TaskState::Running)];
        let mut child = a_task(&job, 2, TaskState::Created);
        child.parents = Parents::waiting(2);
        let [left, right] = parents;
        let tx = self.one().await;
        job::insert(&tx, &[&job]).await.unwrap();
        task::insert(&tx, &[&left, &right, &child]).await.unwrap();
        tx.commit().await.unwrap();
        (job, [left, right, child])
    }

    /// A runner whose session counts.
    async fn runner(&self, id: &str, session: Uuid) {
        let tx = self.one().await;
        let now = scheduler::now(&tx).await.unwrap();
        runner::ensure(&tx, &hello(id, 1), now).await.unwrap();
        runner::take(&tx, &hello(id, 1), session, Uuid::nil(), now).await.unwrap();
        tx.commit().await.unwrap();
    }
}

fn hello(id: &str, conn: u64) -> Hello {
    Hello {
        runner_id: id.into(),
        install_id: format!("install of {id}"),
        boot_id: "1".into(),
        boot_number: 0,
        conn,
        protocol_version: 1,
        version: "0.1.0".into(),
        labels: BTreeMap::new(),
        slots: 1,
        capabilities: vec!["command".into()],
        inventory: Vec::new(),
        ended: Vec::new(),
        drain: None,
    }
}

async fn finish(tx: &Tx, parent: &TaskRow) {
    let text = "UPDATE task SET state = 'FINISHED' WHERE id = :id";
    tx.execute(sql::statement(tx.backend(), text, &[("id", parent.id.into())])).await.unwrap();
}

/// The gate of a child, as the states of its parents say by this question.
async fn gate_by(tx: &Tx, job: &JobRow, question: &str) -> Gate {
    let rows = tx.query(sql::statement(tx.backend(), question, &[("job", job.id.into())])).await.unwrap();
    let mut parents = Parents::waiting(2);
    for row in rows {
        if row.column::<String>("state").unwrap() == "FINISHED" {
            parents.count(Outcome::Succeeded);
        }
    }
    parents.gate(TriggerRule::AllSuccess)
}

const PARENTS: &str = "SELECT state FROM task WHERE job_id = :job AND node < 2";
const PARENTS_WITH_THE_LOCK: &str = "SELECT task.state FROM job JOIN task ON task.job_id = job.id AND task.node < 2
                                     WHERE job.id = :job FOR UPDATE OF job";

#[tokio::test(flavor = "multi_thread")]
async fn of_two_parents_that_end_at_once_the_later_one_opens_the_gate() {
    let Some(scene) = Scene::set().await else { return };
    let (job, [left, right, _]) = scene.diamond().await;
    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[job.id]).await.unwrap();
    finish(&one, &left).await;
    assert_eq!(gate_by(&one, &job, PARENTS).await, Gate::Wait);
    let theirs = job.clone();
    let second = scene
        .waiting(async move {
            job::lock(&two, &[theirs.id]).await.unwrap();
            finish(&two, &right).await;
            let gate = gate_by(&two, &theirs, PARENTS).await;
            two.commit().await.unwrap();
            gate
        })
        .await;
    one.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), Gate::Open);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_lock_of_the_job_each_parent_sees_the_other_run() {
    let Some(scene) = Scene::set().await else { return };
    let (job, [left, right, _]) = scene.diamond().await;
    let (one, two) = (scene.one().await, scene.two().await);
    finish(&one, &left).await;
    finish(&two, &right).await;
    assert_eq!(gate_by(&one, &job, PARENTS).await, Gate::Wait);
    assert_eq!(gate_by(&two, &job, PARENTS).await, Gate::Wait);
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    // Both ended, and nobody will look again.
    assert_eq!(gate_by(&scene.one().await, &job, PARENTS).await, Gate::Open);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_in_the_statement_that_waited_is_as_it_was() {
    let Some(scene) = Scene::set().await else { return };
    let (job, [left, ..]) = scene.diamond().await;
    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[job.id]).await.unwrap();
    finish(&one, &left).await;
    let theirs = job.clone();
    let second = scene
        .waiting(async move {
            let at_once = gate_by(&two, &theirs, PARENTS_WITH_THE_LOCK).await;
            let rows = two.query(sql::statement(two.backend(), PARENTS, &[("job", theirs.id.into())])).await.unwrap();
            let later = rows.iter().filter(|row| row.column::<String>("state").unwrap() == "FINISHED").count();
            (at_once, later)
        })
        .await;
    one.commit().await.unwrap();
    let (at_once, later) = second.await.unwrap();
    assert_eq!(at_once, Gate::Wait);
    assert_eq!(later, 1, "the later statement sees the parent that ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pickers_never_take_the_same_task() {
    let Some(scene) = Scene::set().await else { return };
    let job = a_job();
    let queued: Vec<TaskRow> = (0..2).map(|node| a_task(&job, node, TaskState::Queued)).collect();
    let tx = scene.one().await;
    job::insert(&tx, &[&job]).await.unwrap();
    task::insert(&tx, &queued.iter().collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();

    let given = |row: &TaskRow, session: Uuid| {
        let counters = Counters { attempt: 1, lease: row.counters.lease + 1, ..row.counters };
        TaskRow { counters, runner_id: Some("r".into()), slot: Some(0), session_id: Some(session), ..row.clone() }
    };
    let (one, two) = (scene.one().await, scene.two().await);
    let first = task::lock_queued(&one, "command;;", Timestamp(9), 1, &[]).await.unwrap();
    // It does not wait, and gets the next.
    let second = task::lock_queued(&two, "command;;", Timestamp(9), 1, &[]).await.unwrap();
    assert_eq!((first[0].id, second[0].id), (queued[0].id, queued[1].id));
    assert!(task::lock_queued(&two, "command;;", Timestamp(9), 2, &[]).await.unwrap().len() == 1);

    // Without the lock both would choose the same; then the guard of the write is what is left between them.
    let text = "SELECT id FROM task WHERE state = 'QUEUED' ORDER BY queued_at LIMIT 1";
    let seen = two.query(sql::statement(two.backend(), text, &[])).await.unwrap()[0].column::<Uuid>("id").unwrap();
    assert_eq!(seen, first[0].id);
    assert_eq!(task::dispatch(&one, &[&given(&first[0], Uuid::now_v7())]).await.unwrap(), 1);
    let same = given(&first[0], Uuid::now_v7());
    let second = scene
        .waiting(async move {
            let written = task::dispatch(&two, &[&same]).await.unwrap();
            two.commit().await.unwrap();
            written
        })
        .await;
    one.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_says_hello_while_it_is_swept_is_not_lost() {
    let Some(scene) = Scene::set().await else { return };
    scene.runner("r", Uuid::now_v7()).await;
    let (sweep, hears) = (scene.one().await, scene.two().await);
    let long_ago = scheduler::now(&sweep).await.unwrap();
    let ids = runner::silent(&sweep, long_ago, long_ago, 10).await.unwrap();
    assert_eq!(ids, ["r"], "by this reading it is lost");
    let now = scheduler::now(&hears).await.unwrap();
    runner::lock(&hears, &ids).await.unwrap();
    runner::take(&hears, &hello("r", 2), Uuid::now_v7(), Uuid::nil(), now).await.unwrap();
    let second = scene.waiting(async move { runner::lock(&sweep, &ids).await.unwrap().remove("r").unwrap() }).await;
    hears.commit().await.unwrap();
    let under_lock = second.await.unwrap();
    assert!(under_lock.known.last_seen_at > long_ago, "what the lock shows decides");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_waited_for_the_sweep_knows_that_its_runner_was_given_up() {
    let Some(scene) = Scene::set().await else { return };
    scene.runner("r", Uuid::now_v7()).await;
    let (sweep, hears) = (scene.one().await, scene.two().await);
    let ids = vec!["r".to_owned()];
    runner::lock(&sweep, &ids).await.unwrap();
    runner::end_session(&sweep, "r").await.unwrap();
    let second = scene.waiting(async move { runner::lock(&hears, &ids).await.unwrap().remove("r").unwrap() }).await;
    sweep.commit().await.unwrap();
    assert!(!second.await.unwrap().known.has_session);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_given_to_a_session_that_is_being_replaced() {
    let Some(scene) = Scene::set().await else { return };
    let (before, after) = (Uuid::now_v7(), Uuid::now_v7());
    scene.runner("r", before).await;
    let sessions = [("r".to_owned(), before)];
    let (hears, picks) = (scene.one().await, scene.two().await);
    runner::lock(&hears, &["r".to_owned()]).await.unwrap();
    let now = scheduler::now(&hears).await.unwrap();
    runner::take(&hears, &hello("r", 2), after, Uuid::nil(), now).await.unwrap();
    // The pick does not wait; what it would read without the lock is the session that is about to be over.
    assert!(runner::counting(&picks, &sessions).await.unwrap().is_empty());
    let nothing = (Vec::new(), Vec::new());
    assert_eq!(runner::classes_and_counting(&picks, 9, &sessions, true).await.unwrap(), nothing);
    assert_eq!(runner::still_counting(&picks, &sessions).await.unwrap(), [before]);
    hears.commit().await.unwrap();
    assert!(runner::counting(&picks, &sessions).await.unwrap().is_empty());
    let sessions = [("r".to_owned(), after)];
    assert_eq!(runner::counting(&picks, &sessions).await.unwrap(), [after]);
    assert_eq!(runner::classes_and_counting(&picks, 9, &sessions, true).await.unwrap(), (Vec::new(), vec![after]));
    // Where nothing waits, nobody is locked for it.
    assert_eq!(runner::classes_and_counting(&picks, 9, &sessions, false).await.unwrap(), nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_sees_what_was_given_out_a_moment_before_it() {
    let Some(scene) = Scene::set().await else { return };
    let session = Uuid::now_v7();
    scene.runner("r", session).await;
    let job = a_job();
    let queued = a_task(&job, 0, TaskState::Queued);
    let tx = scene.one().await;
    job::insert(&tx, &[&job]).await.unwrap();
    task::insert(&tx, &[&queued]).await.unwrap();
    tx.commit().await.unwrap();

    let (picks, hears) = (scene.one().await, scene.two().await);
    let found = runner::classes_and_counting(&picks, 9, &[("r".to_owned(), session)], false).await.unwrap();
    assert_eq!(found, (vec![queued.class.clone()], vec![session]));
    // A hello that did not lock the row would settle now, without the task that is on its way.
    assert!(task::jobs_held_by(&hears, "r").await.unwrap().is_empty());
    let second = scene
        .waiting(async move {
            runner::lock(&hears, &["r".to_owned()]).await.unwrap();
            task::jobs_held_by(&hears, "r").await.unwrap()
        })
        .await;
    let counters = Counters { attempt: 1, lease: 1, ..queued.counters };
    let (runner_id, session_id) = (Some("r".to_owned()), Some(session));
    let given = TaskRow { counters, runner_id, slot: Some(0), session_id, ..queued };
    assert_eq!(task::dispatch(&picks, &[&given]).await.unwrap(), 1);
    picks.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), [job.id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn signs_of_life_do_not_wait_for_a_turn() {
    let Some(scene) = Scene::set().await else { return };
    let sessions = [("a".to_owned(), Uuid::now_v7()), ("b".to_owned(), Uuid::now_v7())];
    for (id, session) in &sessions {
        scene.runner(id, *session).await;
    }
    let (turn, beats) = (scene.one().await, scene.two().await);
    runner::lock(&turn, &["a".to_owned()]).await.unwrap();
    assert_eq!(runner::touch(&beats, &sessions).await.unwrap(), [sessions[1].1]);
    // Neither heard nor replaced: the next beat takes it.
    assert_eq!(runner::still_counting(&beats, &sessions[..1]).await.unwrap(), [sessions[0].1]);
    drop((turn, beats));

    // A pick is not even in their way: a busy scheduler picks all the time.
    let (picks, beats) = (scene.one().await, scene.two().await);
    assert_eq!(runner::counting(&picks, &sessions).await.unwrap().len(), 2);
    assert_eq!(runner::touch(&beats, &sessions).await.unwrap().len(), 2);
    beats.commit().await.unwrap();
    picks.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_after_a_lock_is_not_the_time_before_it() {
    let Some(scene) = Scene::set().await else { return };
    let (job, _) = scene.diamond().await;
    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[job.id]).await.unwrap();
    let second = scene
        .waiting(async move {
            let (_, locked_at) = job::lock(&two, &[job.id]).await.unwrap();
            let text = "SELECT CAST(extract(epoch FROM now()) * 1000000 AS bigint) AS began";
            let began = two.query(sql::statement(two.backend(), text, &[])).await.unwrap();
            (Timestamp(began[0].column("began").unwrap()), locked_at)
        })
        .await;
    let first = scheduler::now(&one).await.unwrap();
    one.commit().await.unwrap();
    let (began, after) = second.await.unwrap();
    assert!(after >= first, "what comes later in the graph has the later time");
    assert!(began < first, "now() is from before the wait, and would be wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_asked_for_in_opposite_order_are_taken_in_one() {
    let Some(scene) = Scene::set().await else { return };
    let jobs = [a_job(), a_job()];
    let tx = scene.one().await;
    job::insert(&tx, &[&jobs[0], &jobs[1]]).await.unwrap();
    tx.commit().await.unwrap();
    let [low, high] = [jobs[0].id, jobs[1].id];

    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[low]).await.unwrap();
    let second = scene
        .waiting(async move {
            let locked = job::lock(&two, &[high, low]).await.map(|(rows, _)| rows.len());
            two.commit().await.unwrap();
            locked
        })
        .await;
    // Had the other begun with the higher one, this would be a deadlock.
    job::lock(&one, &[high]).await.unwrap();
    one.commit().await.unwrap();
    assert_eq!(second.await.unwrap().unwrap(), 2);

    let (one, two) = (scene.one().await, scene.two().await);
    job::lock(&one, &[low]).await.unwrap();
    job::lock(&two, &[high]).await.unwrap();
    let second = scene.waiting(async move { job::lock(&two, &[low]).await.map(drop) }).await;
    let first = job::lock(&one, &[high]).await.map(drop);
    drop(one);
    let second = second.await.unwrap();
    let refused = [first, second].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(matches!(refused.as_slice(), [error] if error.is_contended()), "{refused:?}");
}

fn asked<'a>(request_id: &'a str, body_hash: &'a [u8]) -> Asked<'a> {
    Asked { principal: "me", method: "Run", request_id, body_hash }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_twin_of_a_request_waits_for_its_answer() {
    let Some(scene) = Scene::set().await else { return };
    let (one, two) = (scene.one().await, scene.two().await);
    let kept = "SELECT 1 FROM request WHERE request_id = 'once'";
    // Who looks first and inserts later finds nothing, twice.
    for tx in [&one, &two] {
        assert!(tx.query(sql::statement(tx.backend(), kept, &[])).await.unwrap().is_empty());
    }
    assert_eq!(request::claim(&one, &[asked("once", b"body")]).await.unwrap(), [Claim::New]);
    let second = scene
        .waiting(async move {
            let claim = request::claim(&two, &[asked("once", b"body")]).await.unwrap();
            two.commit().await.unwrap();
            claim
        })
        .await;
    let answer = Answer { principal: "me", method: "Run", request_id: "once", response: "the job".into() };
    request::answer(&one, &[answer]).await.unwrap();
    one.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), [Claim::Repeated("the job".into())]);
    let other_body = request::claim(&scene.one().await, &[asked("once", b"other")]).await.unwrap();
    assert_eq!(other_body, [Claim::OtherBody]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_twin_of_a_request_that_failed_may_succeed() {
    let Some(scene) = Scene::set().await else { return };
    for rolled_back in [true, false] {
        let (one, two) = (scene.one().await, scene.two().await);
        assert_eq!(request::claim(&one, &[asked("again", b"body")]).await.unwrap(), [Claim::New]);
        let second =
            scene.waiting(async move { request::claim(&two, &[asked("again", b"body")]).await.unwrap() }).await;
        if rolled_back {
            drop(one);
        } else {
            request::release(&one, "me", "Run", "again").await.unwrap();
            one.commit().await.unwrap();
        }
        assert_eq!(second.await.unwrap(), [Claim::New]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_that_stands_still_in_a_turn_holds_nobody_up_for_long() {
    let Some(scene) = Scene::set().await else { return };
    let (job, _) = scene.diamond().await;
    let (frozen, two) = (scene.one().await, scene.two().await);
    job::lock(&frozen, &[job.id]).await.unwrap();
    let second = scene.waiting(async move { job::lock(&two, &[job.id]).await.map(|(rows, _)| rows.len()) }).await;
    // Nothing more comes from the first; the database ends what it began.
    let got = tokio::time::timeout(PATIENCE, second).await.expect("the lock comes free").unwrap();
    assert_eq!(got.unwrap(), 1);
    let thawed = job::lock(&frozen, &[job.id]).await.unwrap_err();
    assert!(thawed.is_unreachable(), "{thawed:?}");
}

#[tokio::test]
async fn a_planned_stop_holds_a_runner_until_it_is_heard_after_its_hello() {
    for world in testing::worlds().await {
        let session = Uuid::now_v7();
        let tx = world.store.begin().await.unwrap();
        let now = scheduler::now(&tx).await.unwrap();
        runner::ensure(&tx, &hello("r", 1), now).await.unwrap();
        runner::take(&tx, &hello("r", 1), session, Uuid::nil(), now).await.unwrap();
        runner::hold(&tx, Uuid::nil(), Timestamp(now.0 + 1_000_000)).await.unwrap();
        runner::take(&tx, &hello("r", 2), session, Uuid::nil(), now).await.unwrap();
        let held = runner::lock(&tx, &["r".to_owned()]).await.unwrap();
        assert_eq!(held["r"].known.hold_until, Some(Timestamp(now.0 + 1_000_000)));
        runner::touch(&tx, &[("r".to_owned(), session)]).await.unwrap();
        let heard = runner::lock(&tx, &["r".to_owned()]).await.unwrap();
        assert_eq!(heard["r"].known.hold_until, None);
    }
}
