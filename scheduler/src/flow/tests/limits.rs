//! Three schedulers on one database give out tasks that must never run two at a time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::watch;

use super::{schedules::until, *};
use crate::{domain::definition::Concurrency, store::Store};

/// How many tasks there are; `BATON_LIMIT_TASKS=10000` is the whole story.
fn tasks() -> u32 {
    std::env::var("BATON_LIMIT_TASKS").ok().and_then(|text| text.parse().ok()).unwrap_or(120)
}

/// Who runs tasks that need the key, counted by the runners themselves.
#[derive(Debug)]
struct Watch {
    running: AtomicUsize,
    most: AtomicUsize,
    ended: watch::Sender<usize>,
}

/// Runs what it is given, for ever, and beats while there is nothing.
async fn work(mut runner: Puppet, watch: Arc<Watch>) {
    let mut beat = tokio::time::interval(Duration::from_secs(1));
    loop {
        let frame = tokio::select! {
            frame = runner.frames.recv() => frame.expect("the stream goes on"),
            _ = beat.tick() => {
                runner.say(Vec::new()).await;
                continue;
            }
        };
        runner.ack = frame.seq;
        for command in frame.commands {
            let Command::RunNew { slot, task, .. } = command else { continue };
            let running = watch.running.fetch_add(1, Ordering::SeqCst) + 1;
            watch.most.fetch_max(running, Ordering::SeqCst);
            tokio::task::yield_now().await;
            watch.running.fetch_sub(1, Ordering::SeqCst);
            watch.ended.send_modify(|ended| *ended += 1);
            runner.end(slot, task, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_limit_one_and_three_schedulers_never_two_run_at_once() {
    let Some(world) = testing::worlds().await.into_iter().find(|world| world.store.is_clustered()) else { return };
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let watch = Arc::new(Watch { running, most, ended: watch::Sender::new(0) });
    let (mut scenes, mut runners) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let store = Store::open(&world.settings).await.unwrap();
        let (engine, _) = Engine::start(settings(store, "127.0.0.1:7420"));
        let runner = Puppet::dial_to(&engine, hello(name, "1", 1, 4)).await;
        runners.push(tokio::spawn(work(runner, watch.clone())));
        scenes.push(engine);
    }
    // Two configs share the key, and each has half of the tasks.
    let mut jobs = Vec::new();
    for name in ["left", "right"] {
        let shards = Some(Shards { split: Split::Count(tasks() / 2), max_parallel: 0, min_success_percent: 100 });
        let concurrency = Some(Concurrency { key: "db".into(), limit: 1 });
        let tasks = vec![TaskConfig { shards, concurrency, ..task("work", &[]) }];
        scenes[0].apply(apply_of(config_of(name, tasks))).await.unwrap();
        jobs.push(scenes[1].run(run_of(name)).await.unwrap());
    }
    // Each task is an event of its own, and has the patience of one.
    let total = tasks() as usize / 2 * 2;
    let (started, mut ended) = (std::time::Instant::now(), watch.ended.subscribe());
    while *ended.borrow_and_update() < total {
        tokio::time::timeout(PATIENCE, ended.changed()).await.expect("one task ends after the other").unwrap();
    }
    println!("{total} tasks one after the other on three schedulers in {:?}", started.elapsed());
    for job in jobs {
        let done = async || world.store.job(job).await.unwrap().is_some_and(|job| job.state == JobState::Finished);
        until("the job finishes with its last task", done).await;
    }
    assert_eq!(watch.most.load(Ordering::SeqCst), 1, "never two at once");
    assert_eq!(*watch.ended.borrow(), total, "each ran once");
    runners.iter().for_each(tokio::task::JoinHandle::abort);
}
