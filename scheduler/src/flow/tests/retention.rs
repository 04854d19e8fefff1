//! What has ended long ago is removed, a slice at a time, and nothing else.

use std::{sync::Arc, time::Instant};

use super::{
    callbacks::{Answer, Receiver, quick},
    schedules::{config, engine_on, until},
    *,
};
use crate::{
    domain::{
        definition::Overlap,
        retention::{End, Policy, Retention},
        schedule::Spec,
        time::Timestamp,
    },
    flow::{
        keeper::{self, Going, Keep, Kept, LOOKED_MAX, Progress, ROWS_MAX},
        request::{Again, Error, Rerun},
    },
    store::{log, retention::Span, testing::Row as _},
};

const DAY: Duration = Duration::from_hours(24);

fn progress() -> Progress {
    Progress::begun(Instant::now())
}

fn look() -> Keep {
    Keep::Look { after: Uuid::nil(), policy: Policy::default(), progress: Arc::new(progress()) }
}

impl Scene {
    /// A finished job, made the ordinary way.
    async fn finished(&self) -> Uuid {
        self.apply(vec![task("a", &[]), task("b", &["a"])]).await;
        let mut runner = Puppet::dial(self, hello("r", "1", 1, 1)).await;
        let job = self.run().await;
        for _ in 0..2 {
            let (slot, task, _) = runner.next_run().await;
            runner.end(slot, task, 0).await;
        }
        assert_eq!(self.end_of(job).await.0, JobState::Finished);
        job
    }

    /// So many copies of a finished job that ended a while before it, each a second before the next.
    async fn copies(&self, of: Uuid, count: u32, before: Duration) -> Vec<Uuid> {
        let tx = self.world.store.begin().await.unwrap();
        let row = store::job::facts(&tx, &[of]).await.unwrap().remove(0);
        let graph = store::repair::lock_graph(&tx, of).await.unwrap();
        let end = row.ended_at.unwrap() - before;
        let jobs: Vec<_> = (0..count)
            .map(|at| {
                let mut job = row.clone();
                (job.id, job.ended_at) = (Uuid::now_v7(), Some(end - Duration::from_secs(u64::from(at))));
                job
            })
            .collect();
        let tasks: Vec<_> = jobs
            .iter()
            .flat_map(|job| {
                graph.iter().map(|task| {
                    let mut task = task.clone();
                    (task.id, task.job_id) = (Uuid::now_v7(), job.id);
                    task
                })
            })
            .collect();
        for slice in jobs.iter().collect::<Vec<_>>().chunks(1_000) {
            store::job::insert(&tx, slice).await.unwrap();
        }
        for slice in tasks.iter().collect::<Vec<_>>().chunks(1_000) {
            store::task::insert(&tx, slice).await.unwrap();
        }
        tx.commit().await.unwrap();
        jobs.into_iter().map(|job| job.id).collect()
    }

    async fn now(&self) -> Timestamp {
        self.world.store.now().await.unwrap()
    }

    async fn slice(&self, now: Timestamp, keep: Keep) -> Kept {
        let tx = self.world.store.begin().await.unwrap();
        let kept = keeper::pass(&tx, now, &keep).await.unwrap();
        tx.commit().await.unwrap();
        assert!(kept.rows <= ROWS_MAX && kept.looked <= LOOKED_MAX, "{kept:?}");
        assert!(kept.marked <= 50 && kept.going.jobs.len() <= 50 && kept.going.only_logs.len() <= 50, "{kept:?}");
        kept
    }

    /// Goes round until nothing is left to be removed. Returns how many jobs were looked at.
    pub(super) async fn keep(&self, now: Timestamp, policy: Policy) -> u32 {
        self.go_on(&mut progress(), now, policy).await
    }

    /// The same by a keeper that has come so far already.
    async fn go_on(&self, progress: &mut Progress, now: Timestamp, policy: Policy) -> u32 {
        let (mut looked, mut after) = (0, Uuid::nil());
        loop {
            let look = Keep::Look { after, policy, progress: Arc::new(progress.clone()) };
            let Kept { next, going, reached, looked: more, .. } = self.slice(now, look).await;
            for (config, reached) in reached {
                progress.note(config, reached);
            }
            looked += more;
            let all: Vec<Uuid> = going.all().collect();
            while self.world.store.logs().remove(&all, 2).await.unwrap() == 2 {}
            let done = going == Going::default();
            while self.slice(now, Keep::Remove(going.clone())).await.rows == ROWS_MAX {}
            after = next.unwrap_or_default();
            if done && next.is_none() {
                return looked;
            }
        }
    }

    async fn alter_job(&self, text: &str, job: Uuid) {
        assert!(self.alter(text, &[("job", job.into())]).await > 0);
    }

    async fn write(&self, job: Uuid) {
        let tx = self.world.store.begin().await.unwrap();
        let task = store::repair::lock_graph(&tx, job).await.unwrap().remove(0);
        drop(tx);
        for offset in 0..5 {
            let output = log::Output { task_id: task.id, lease: 1, stream: log::Stream::Stdout };
            let piece = log::Piece { output, job_id: job, attempt: 1, offset, data: "x".into() };
            self.world.store.logs().append(piece).await.unwrap().stored().await.unwrap();
        }
    }

    /// An id as it stands in a statement.
    fn literal(&self, id: Uuid) -> String {
        if self.world.store.is_clustered() { format!("'{id}'") } else { format!("x'{}'", id.simple()) }
    }

    /// A webhook of a job, in this state since then.
    async fn callback_of(&self, job: Uuid, state: &str, ended_at: &str) -> Uuid {
        let callback = Uuid::now_v7();
        let text = format!(
            "INSERT INTO callback (id, event_id, event, job_config_id, namespace, name, job_id, position, kind, action,
                 payload, blocking, state, next_try_at, created_at, ended_at)
             SELECT {id}, {event}, 'FINISHED', job_config_id, namespace, name, id, 0, 'HTTP', '{{}}', '{{}}', false,
                 {state}, {never}, 0, {ended_at} FROM job WHERE id = {job}",
            id = self.literal(callback),
            event = self.literal(Uuid::now_v7()),
            never = i64::MAX,
            job = self.literal(job),
        );
        self.sql(&text).await;
        callback
    }

    async fn log_pieces(&self, job: Uuid) -> usize {
        let selection = log::Selection { job_id: job, task_id: None, attempt: None, stream: None };
        self.world.store.logs().page(&selection, 0, 1 << 20).await.unwrap().rows.len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_old_jobs_go_in_small_slices_and_what_lives_stays() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 2_000, DAY * 31).await;
        let young = scene.copies(newest, 3, DAY).await;
        let live = scene.run().await;
        scene.write(old[7]).await;
        scene.write(young[0]).await;
        scene.keep(scene.now().await, Policy::default()).await;
        assert_eq!(scene.count("job").await, 5);
        assert_eq!(scene.count("task").await, 10);
        assert_eq!((scene.log_pieces(old[7]).await, scene.log_pieces(young[0]).await), (0, 5));
        for kept in young.into_iter().chain([newest, live]) {
            assert!(scene.world.store.job(kept).await.unwrap().is_some());
        }
        // Who asks for it by what the terminal shows is told what became of it; who mistyped it is not.
        let id = old[7].simple().to_string();
        let mistyped = if id.ends_with('0') { "1" } else { "0" };
        assert!(scene.world.store.was_removed(&id).await.unwrap());
        assert!(scene.world.store.was_removed(&id[24..]).await.unwrap());
        assert!(!scene.world.store.was_removed(&format!("{}{mistyped}", &id[..31])).await.unwrap());
        assert!(!scene.world.store.was_removed(&newest.to_string()).await.unwrap());
        // Twice does no harm.
        scene.keep(scene.now().await, Policy::default()).await;
        assert_eq!(scene.count("job").await, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_says_how_many_and_how_old_and_its_newest_job_always_stays() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        scene.copies(newest, 9, DAY).await;
        let own = |retention| JobConfig {
            namespace: "default".into(),
            name: "job".into(),
            tasks: vec![task("a", &[]), task("b", &["a"])],
            retention,
            ..JobConfig::default()
        };
        for (retention, left) in [
            (Retention { count: Some(4), ..Retention::default() }, 4),
            (Retention { age: Some(DAY * 2), count: Some(100), ..Retention::default() }, 4),
            (Retention { age: Some(Duration::from_secs(1)), ..Retention::default() }, 1),
        ] {
            let config = own(Some(retention));
            scene.apply_config(config).await;
            scene.keep(scene.now().await + DAY / 2, Policy::default()).await;
            assert_eq!(scene.count("job").await, left, "{retention:?}");
        }
        assert!(scene.world.store.job(newest).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_still_live_is_kept_and_output_may_go_before_its_job() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 3, DAY * 31).await;
        scene.alter_job("UPDATE task SET gone = false WHERE job_id = :job", old[1]).await;
        scene.keep(scene.now().await, Policy::default()).await;
        assert_eq!(scene.count("job").await, 2);
        assert!(scene.world.store.job(old[1]).await.unwrap().is_some());

        scene.write(newest).await;
        let policy = Policy { logs: DAY, ..Policy::default() };
        scene.keep(scene.now().await, policy).await;
        assert_eq!(scene.log_pieces(newest).await, 5);
        scene.keep(scene.now().await + DAY * 2, policy).await;
        assert_eq!(scene.log_pieces(newest).await, 0);
        assert!(scene.world.store.job(newest).await.unwrap().is_some_and(|job| job.logs_removed));
        // Run again, it has output again.
        let again = Again::Task { name: "a".into(), shard: None, following: false };
        let order = Rerun { caller: Caller::default(), job_id: newest, again, force: false, reason: String::new() };
        scene.engine.rerun(order).await.unwrap();
        assert!(scene.world.store.job(newest).await.unwrap().is_some_and(|job| !job.logs_removed));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_that_dies_in_the_middle_leaves_a_job_that_nobody_sees_and_the_next_removes() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 1, DAY * 31).await[0];
        let now = scene.now().await;
        // It dies before the commit: nothing has happened.
        let tx = scene.world.store.begin().await.unwrap();
        keeper::pass(&tx, now, &look()).await.unwrap();
        drop(tx);
        assert!(scene.world.store.job(old).await.unwrap().is_some());
        // It dies after the first row.
        scene.slice(now, look()).await;
        let tx = scene.world.store.begin().await.unwrap();
        assert_eq!(store::retention::claim(&tx, &[old]).await.unwrap(), [old]);
        assert_eq!(store::retention::remove(&tx, &[old], 1).await.unwrap(), 1);
        tx.commit().await.unwrap();
        assert!(scene.world.store.job(old).await.unwrap().is_none());
        let again = Again::Task { name: "a".into(), shard: None, following: false };
        let order = Rerun { caller: Caller::default(), job_id: old, again, force: false, reason: String::new() };
        assert!(matches!(scene.engine.rerun(order).await, Err(Error::Expired { kind: "job", .. })));
        scene.keep(now, Policy::default()).await;
        assert_eq!((scene.count("job").await, scene.count("task").await), (1, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_whose_job_was_removed_is_never_made_again() {
    for mut scene in Scene::on_each_database().await {
        let hourly = JobConfig { overlap: Some(Overlap::Allow), ..config("job", Spec::cron("0 * * * *", "")) };
        scene.store(vec![hourly.clone()]).await.unwrap();
        for _ in 0..3 {
            scene.fire().await;
        }
        let tx = scene.world.store.begin().await.unwrap();
        let rows = tx.query(store::sql::statement(tx.backend(), "SELECT id FROM job", &[])).await.unwrap();
        drop(tx);
        for row in &rows {
            let job = row.column("id").unwrap();
            scene.terminate(job).await;
            scene.end_of(job).await;
        }
        let fired = scene.fire_times().await;
        assert_eq!(fired.len(), 3);
        let policy = Policy { age: Duration::from_micros(1), ..Policy::default() };
        scene.keep(scene.virtual_now().await + DAY, policy).await;
        let left = scene.fire_times().await;
        assert_eq!(left.len(), 1);

        // Neither a restart nor an edit brings them back; the next fire comes at its time.
        scene.engine.stop().await;
        scene.engine = engine_on(scene.world.store.clone());
        scene.store(vec![JobConfig { fail_fast: true, ..hourly }]).await.unwrap();
        scene.engine.wake().await;
        assert_eq!(scene.fire_times().await, left);
        scene.fire().await;
        let after = scene.fire_times().await;
        assert_eq!(after.len(), 2);
        assert!(after.last() > fired.last(), "{after:?} {fired:?}");
        assert_eq!(scene.missed().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_live_thing_looks_at_stays_until_that_is_over() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 5, DAY * 31).await;
        let live = scene.run().await;
        let [sub_job, told, counted, followed, plain] = old[..] else { panic!("five were asked for") };
        let now = scene.now().await;
        let hex = |id: Uuid| scene.literal(id);
        let backfill = Uuid::now_v7();
        // A sub-job of one that is kept, one whose webhook is on its way, one of a backfill, one that a live job made.
        for text in [
            format!(
                "UPDATE job SET parent_job_id = {parent}, parent_task_id = {task}, parent_attempt = 1 WHERE id = {id}",
                parent = hex(newest),
                task = hex(Uuid::now_v7()),
                id = hex(sub_job)
            ),
            format!(
                "INSERT INTO backfill (id, job_config_id, namespace, name, schedule, spec, anchor_at, from_at, to_at,
                     max_parallel, again, state, total, created_at)
                 SELECT {backfill}, job_config_id, namespace, name, 'gone', '', 0, 0, 0, 1, false, 'RUNNING', 1, 0
                 FROM job WHERE id = {id}",
                backfill = hex(backfill),
                id = hex(counted)
            ),
            format!("UPDATE job SET backfill_id = {} WHERE id = {}", hex(backfill), hex(counted)),
            format!("UPDATE job SET parent_job_id = {} WHERE id = {}", hex(live), hex(followed)),
        ] {
            scene.sql(&text).await;
        }
        scene.callback_of(told, "'PENDING'", "NULL").await;
        scene.keep(now, Policy::default()).await;
        for kept in [newest, live, sub_job, told, counted, followed] {
            assert!(scene.world.store.job(kept).await.unwrap().is_some());
        }
        assert!(scene.world.store.job(plain).await.unwrap().is_none());

        // When that is over, they go; the sub-job after its parent.
        scene.sql("UPDATE callback SET state = 'DELIVERED', ended_at = 0").await;
        scene.sql("UPDATE backfill SET state = 'DONE'").await;
        scene.sql(&format!("UPDATE job SET parent_job_id = NULL WHERE id = {}", hex(followed))).await;
        scene.keep(now, Policy::default()).await;
        assert_eq!(scene.count("job").await, 3);
        let end = scene.now().await.0;
        scene.sql(&format!("UPDATE job SET state = 'TERMINATED', ended_at = {end} WHERE id = {}", hex(live))).await;
        scene.keep(now + DAY * 31, Policy::default()).await;
        // When the sub-job was asked about its parent was there; the next time it is not.
        assert_eq!(scene.count("job").await, 2);
        scene.keep(now + DAY * 31, Policy::default()).await;
        assert_eq!((scene.count("job").await, scene.count("callback").await), (1, 0));
        assert!(scene.world.store.job(live).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_jobs_that_have_to_stay_stand_in_nobodys_way_and_are_not_asked_about_for_ever() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let stay = scene.copies(newest, LOOKED_MAX + 100, DAY * 40).await;
        let go = scene.copies(newest, 3, DAY * 31).await;
        scene.sql("UPDATE job SET logs_removed = true").await;
        let text = format!("UPDATE task SET gone = false WHERE job_id NOT IN ({})", {
            let free: Vec<String> = go.iter().chain([&newest]).map(|id| scene.literal(*id)).collect();
            free.join(", ")
        });
        scene.sql(&text).await;
        let (now, mut progress) = (scene.now().await, progress());
        // Those that go lie beyond what one turn looks at.
        assert_eq!(scene.go_on(&mut progress, now, Policy::default()).await, LOOKED_MAX + 100 + 3);
        assert_eq!(scene.count("job").await, i64::from(LOOKED_MAX) + 100 + 1);
        assert_eq!(scene.go_on(&mut progress, now, Policy::default()).await, 0);
        // What has become old since is looked at, and nothing else.
        let more = scene.copies(newest, 2, DAY * 30).await;
        assert_eq!(scene.go_on(&mut progress, now + DAY, Policy::default()).await, 2);
        for job in more {
            assert!(scene.world.store.job(job).await.unwrap().is_none());
        }
        // Now and then everything is looked at from the start, and what has come to rest goes.
        scene.sql("UPDATE task SET gone = true").await;
        assert_eq!(scene.keep(now, Policy::default()).await, LOOKED_MAX + 100);
        assert_eq!(scene.count("job").await, 1);
        assert!(scene.world.store.was_removed(&stay[0].to_string()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_comes_when_its_job_is_gone_does_not_stay_for_ever() {
    for scene in Scene::on_each_database().await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 1, DAY * 31).await[0];
        let tx = scene.world.store.begin().await.unwrap();
        let task = store::repair::lock_graph(&tx, old).await.unwrap().remove(0).id;
        drop(tx);
        assert_eq!(scene.world.store.job_of_task(task).await.unwrap(), Some(old));
        let now = scene.now().await;
        scene.keep(now, Policy::default()).await;
        // A runner that asks is refused; one whose stream asked before gets its piece stored.
        assert_eq!(scene.world.store.job_of_task(task).await.unwrap(), None);
        let output = log::Output { task_id: task, lease: 1, stream: log::Stream::Stdout };
        let piece = log::Piece { output, job_id: old, attempt: 1, offset: 0, data: "late".into() };
        scene.world.store.logs().append(piece).await.unwrap().stored().await.unwrap();
        scene.keep(now + DAY, Policy::default()).await;
        assert_eq!(scene.log_pieces(old).await, 1);
        assert!(scene.world.store.was_removed(&old.to_string()).await.unwrap());
        // It goes with the memory of the job, which is as long as jobs are kept.
        scene.keep(now + DAY * 31, Policy::default()).await;
        assert_eq!(scene.log_pieces(old).await, 0);
        assert!(!scene.world.store.was_removed(&old.to_string()).await.unwrap());
        assert_eq!(scene.count("removed_job").await, 0);
        assert!(scene.world.store.job(newest).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_is_sent_again_or_goes_with_its_job_but_never_both() {
    for scene in Scene::on_each_database_with(&quick()).await {
        let newest = scene.finished().await;
        let old = scene.copies(newest, 2, DAY * 31).await;
        let [first, second] = old[..] else { panic!("two were asked for") };
        let now = scene.now().await;
        let never = i64::MAX.to_string();
        let (sent, gone) = (
            scene.callback_of(first, "'DELIVERED'", &never).await,
            scene.callback_of(second, "'DELIVERED'", &never).await,
        );
        let receiver = Receiver::that_answers(&[Answer::Never]).await;
        let action = serde_json::to_string(&receiver.hook(&[], false).action).unwrap();
        let tx = scene.world.store.begin().await.unwrap();
        let text = "UPDATE callback SET action = :action WHERE job_id IS NOT NULL";
        tx.execute(store::sql::statement(tx.backend(), text, &[("action", action.into())])).await.unwrap();
        tx.commit().await.unwrap();
        // The keeper of another scheduler; on SQLite there is one writer, and nothing comes between what it does.
        let clustered = scene.world.store.is_clustered();
        let other = if clustered {
            store::Store::open(&scene.world.settings).await.unwrap()
        } else {
            scene.world.store.clone()
        };
        // Asked for between the look of the keeper and its mark: the job stays.
        let tx = other.begin().await.unwrap();
        let span = Span { after: None, last: End { at: now, id: Uuid::max() }, limit: 10 };
        let facts = store::job::facts(&tx, &[newest]).await.unwrap().remove(0);
        let end = End { at: facts.ended_at.unwrap(), id: newest };
        let seen = store::retention::ended(&tx, facts.job_config_id, span, end).await.unwrap();
        assert!(seen.len() == 2 && seen.iter().all(|job| job.at_rest), "{seen:?}");
        let tx = if clustered {
            scene.engine.resend(sent).await.unwrap();
            tx
        } else {
            drop(tx);
            scene.engine.resend(sent).await.unwrap();
            other.begin().await.unwrap()
        };
        assert_eq!(store::retention::mark(&tx, &[first, second], now).await.unwrap(), 1);

        // Asked for while the mark is not committed: it waits, and is told that it came too late.
        let engine = scene.engine.clone();
        let late = tokio::spawn(async move { engine.resend(gone).await });
        if clustered {
            until("the order waits for the job", async || {
                let text = "SELECT count(*) AS waiting FROM pg_stat_activity
                            WHERE datname = current_database() AND wait_event_type = 'Lock'";
                let rows = tx.query(store::sql::statement(tx.backend(), text, &[])).await.unwrap();
                rows[0].column::<i64>("waiting").unwrap() > 0
            })
            .await;
        }
        assert!(!late.is_finished());
        tx.commit().await.unwrap();
        let refused = late.await.unwrap();
        assert!(matches!(refused, Err(Error::Expired { kind: "job of callback", .. })), "{refused:?}");
        assert!(scene.world.store.job(first).await.unwrap().is_some());
        assert!(scene.world.store.job(second).await.unwrap().is_none());
        assert!(!scene.world.store.was_removed(&first.to_string()).await.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_counted_counts_no_second_time_although_what_came_after_it_is_gone() {
    for scene in Scene::on_each_database().await {
        let after = "name: c\nafter_jobs: [a]\nretention: {count: 1}\ntasks: [{name: tc, shell: 'true'}]\n";
        scene.store_file(&format!("name: a\ntasks: [{{name: ta, shell: 'true'}}]\n---\n{after}")).await.unwrap();
        let mut runner = Puppet::dial(&scene, hello("r", "1", 1, 1)).await;
        let mut sources = Vec::new();
        for _ in 0..2 {
            sources.push(scene.run_through(&mut runner, "a", 0).await);
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.job_name, "c");
            runner.end(slot, task, 0).await;
            scene.end_of(spec.job_id).await;
        }
        scene.keep(scene.now().await, Policy::default()).await;
        assert_eq!((scene.jobs_of("c").await.len(), scene.jobs_of("a").await.len()), (1, 2));
        assert_eq!((scene.count("job_source").await, scene.count("after_counted").await), (1, 1));
        for source in sources {
            let again = Again::Task { name: "ta".into(), shard: None, following: false };
            let order = Rerun { caller: Caller::default(), job_id: source, again, force: false, reason: String::new() };
            scene.engine.rerun(order).await.unwrap();
            let (slot, task, spec) = runner.next_run().await;
            assert_eq!(spec.job_id, source);
            runner.end(slot, task, 0).await;
            scene.end_of(source).await;
        }
        assert_eq!(scene.count("after_end").await, 0);
        assert_eq!(scene.jobs_of("c").await.len(), 1);
        // What was counted goes with the job it was.
        scene.keep(scene.now().await + DAY * 31, Policy::default()).await;
        assert_eq!((scene.jobs_of("a").await.len(), scene.count("after_counted").await), (1, 0));
    }
}
