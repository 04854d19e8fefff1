//! Faults: how long it takes until what died is noticed, decided and made up for, with default times.

use std::time::{Duration, Instant};

use baton_tests::{
    Asked, Backend, Cluster, Crowd, RunnerSpec, World, job,
    processes::{resident_bytes, resident_bytes_max},
    v1::{ListRunnersRequest, ListSchedulersRequest, RunnerState, SchedulerState, TaskState},
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::{
    figure::{Figure, percentile, round},
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::{Stamps, now},
};

/// Runners of [`takeover`], all of which know both schedulers.
const MOVED: usize = 6;
/// Tasks that each runner of [`killed`] and [`silent`] has in hand.
const HELD: u32 = 4;
/// How far one runner of [`silent`] falls silent after another: no divisor of any interval, so that their losses are
/// spread over the time between two sweeps.
const APART: Duration = Duration::from_millis(1_370);
/// How often rows are looked at that send no event.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One of two schedulers dies (kill -9). Until its runners have dialled the other one, and each has begun another task.
pub(super) async fn takeover(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    if backend != Backend::Postgres {
        return Ok(Vec::new());
    }
    let runners = settings.amount(MOVED, 2);
    let mut world = parts::world(backend).schedulers(2);
    for number in 0..runners {
        world = world.runner(RunnerSpec::named(&runner(number)).label(&format!("number={number}")));
    }
    let mut cluster = world.start().await;
    let stamps = Stamps::fresh(cluster.directory(), "takeover");
    let tasks: Vec<_> = (0..runners)
        .map(|number| {
            let only = json!({"match_labels": {"number": number.to_string()}});
            json!({"name": format!("t{number}"), "command": stamps.target("t"), "runner": only})
        })
        .collect();
    cluster.ask().apply(&job("takeover", &json!(tasks))).await?;

    let (mut samples, mut moved, mut seen) = (Vec::new(), Vec::new(), 0);
    for _ in 0..settings.runs * settings.amount(5, 1) {
        // Both have worked for as long as it takes to be sure of their database.
        let (dying, at_stake) = busier(&cluster).await?;
        anyhow::ensure!(at_stake > 0, "no runner is connected");
        let survivor = cluster.ask_of(1 - dying);
        let begin = now();
        cluster.scheduler(dying).kill();
        let job_id = survivor.run("takeover", &[]).await?;
        seen += runners;
        let stamped = stamps.count(seen, PATIENCE).await;
        let last = stamped.iter().skip(seen - runners).map(|stamp| stamp.first).max().unwrap_or(begin);
        samples.push((last - begin) as f64 / 1e9);
        moved.push(at_stake);
        parts::finished(&survivor, &job_id).await?;
        cluster.start_scheduler(dying).await;
    }
    let worst = percentile(&mut samples, 100.0);
    let figure = Figure::median("faults-takeover", parts::name(backend), &mut samples, "s until all work again")
        .with("runners", runners)
        .with("moved", moved)
        .with("max", round(worst));
    Ok(vec![if settings.smoke { figure } else { figure.reach("< 3", worst < 3.0) }])
}

/// Runners fall silent (their time stops, their connection stays). Until their tasks are decided.
pub(super) async fn silent(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let runners = settings.amount(8, 2);
    // A minute is too long for a look at whether it works.
    let world = if settings.smoke { World::on(backend).quick() } else { parts::world(backend) };
    let mut cluster = with_runners(world, runners).await;
    let limit = (cluster.lost_after() + cluster.beat() / 2 + Duration::from_secs(2)).as_secs_f64();
    let held = hold(&cluster, runners).await?;
    let mut waiting = Vec::new();
    for (number, job_id) in held.into_iter().enumerate() {
        let silent = cluster.runner(&runner(number));
        let parts = [silent.part.pid(), silent.pid()];
        let begin = Instant::now();
        // The watchdog too: nobody is left who could say anything.
        for pid in parts {
            baton_tests::processes::signal(pid, rustix::process::Signal::STOP);
        }
        let ask = cluster.ask();
        waiting.push(tokio::spawn(async move { decided(&ask, &job_id, begin).await }));
        sleep(APART).await;
    }
    let mut samples = Vec::new();
    for waiting in waiting {
        samples.push(waiting.await??.as_secs_f64());
    }
    let worst = percentile(&mut samples, 100.0);
    let figure = Figure::median("faults-silent", parts::name(backend), &mut samples, "s until noticed")
        .with("lost_after", cluster.lost_after().as_secs_f64())
        .with("limit", limit)
        .with("max", round(worst));
    Ok(vec![if settings.smoke { figure } else { figure.reach("< lost_after + sweep + 2", worst < limit) }])
}

/// Runners die (kill -9). Until their watchdog has ended their tasks and started them again, and the tasks are decided.
pub(super) async fn killed(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let runners = settings.amount(4, 1);
    let mut samples = Vec::new();
    for _ in 0..settings.runs {
        // Fresh ones each time: a watchdog waits longer before it starts again what dies again and again.
        let mut cluster = with_runners(parts::world(backend), runners).await;
        let held = hold(&cluster, runners).await?;
        for (number, job_id) in held.into_iter().enumerate() {
            let begin = Instant::now();
            cluster.runner(&runner(number)).kill();
            samples.push(decided(&cluster.ask(), &job_id, begin).await?.as_secs_f64() * 1e3);
        }
    }
    let worst = percentile(&mut samples, 100.0);
    let figure = Figure::median("faults-killed", parts::name(backend), &mut samples, "ms until decided")
        .with("tasks_each", HELD)
        .with("max", round(worst));
    Ok(vec![if settings.smoke { figure } else { figure.reach("< 1000", worst < 1_000.0) }])
}

/// A scheduler with thousands of sessions, each on a connection of its own, dies (kill -9) and is started again. Until
/// the last of them is back, and what that takes in memory.
pub(super) async fn sessions(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let count = Crowd::most(settings.amount(9_000, 200));
    let mut cluster = parts::start(backend, 0).await;
    let crowd = Crowd::dial(cluster.address(), count);
    let first = crowd.all_online(PATIENCE).await.as_secs_f64();
    let mut samples = Vec::new();
    let (mut peak, mut resident) = (0, 0);
    for _ in 0..settings.runs {
        cluster.scheduler(0).kill();
        crowd.none_online(PATIENCE).await;
        let begin = Instant::now();
        cluster.start_scheduler(0).await;
        crowd.all_online(PATIENCE).await;
        samples.push(begin.elapsed().as_secs_f64());
        let pid = cluster.scheduler(0).pid();
        // What a beat of all of them takes as well.
        sleep(if settings.smoke { Duration::ZERO } else { cluster.beat() }).await;
        anyhow::ensure!(crowd.online() == count, "{} of {count} sessions stayed", crowd.online());
        peak = peak.max(resident_bytes_max(pid));
        resident = resident.max(resident_bytes(pid));
    }
    let worst = percentile(&mut samples, 100.0);
    let back = Figure::median("faults-sessions", parts::name(backend), &mut samples, "s until all are back")
        .with("sessions", count)
        .with("first_dial", round(first))
        .with("max", round(worst));
    let memory = Figure::new("faults-sessions-memory", parts::name(backend), count, megabytes(peak), "MB at the peak")
        .with("afterwards", round(megabytes(resident)))
        .with("kb_a_session", round(peak as f64 / 1e3 / count.max(1) as f64));
    if settings.smoke {
        return Ok(vec![back, memory]);
    }
    let most = megabytes(peak);
    Ok(vec![back.reach("< 30", worst < 30.0 && count >= 9_000), memory.reach("< 1000 MB", most < 1_000.0)])
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn runner(number: usize) -> String {
    format!("runner-{number}")
}

async fn with_runners(mut world: World, count: usize) -> Cluster {
    for number in 0..count {
        let label = format!("number={number}");
        world = world.runner(RunnerSpec::named(&runner(number)).slots(HELD).label(&label));
    }
    world.start().await
}

/// Gives each runner a job whose tasks go on for ever; returns once they all run.
async fn hold(cluster: &Cluster, runners: usize) -> anyhow::Result<Vec<String>> {
    let ask = cluster.ask();
    let mut held = Vec::new();
    for number in 0..runners {
        let only = json!({"match_labels": {"number": number.to_string()}});
        let task = json!({"name": "held", "shards": {"count": HELD}, "shell": "sleep 3600", "runner": only});
        let name = format!("held-{number}");
        ask.apply(&job(&name, &json!([task]))).await?;
        held.push(ask.run(&name, &[]).await?);
    }
    for job_id in &held {
        let runs = |view: &baton_tests::View| {
            view.shards("held").iter().filter(|shard| shard.state() == TaskState::Running).count() == HELD as usize
        };
        cluster.until_within(PATIENCE, job_id, "its tasks run", runs).await;
    }
    Ok(held)
}

/// How long after `begin` the last task of a job was seen to have ended.
async fn decided(ask: &Asked, job_id: &str, begin: Instant) -> anyhow::Result<Duration> {
    let looking = async {
        while !baton_tests::is_over(ask.get(job_id).await?.job.state()) {
            sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(begin.elapsed())
    };
    timeout(PATIENCE, looking).await?
}

/// The scheduler with more runners, and how many; both are there, and every runner has a stream.
async fn busier(cluster: &Cluster) -> anyhow::Result<(usize, usize)> {
    let looking = async {
        loop {
            let api = cluster.api();
            let schedulers = api.schedulers.clone().list_schedulers(ListSchedulersRequest::default()).await?;
            let runners = api.runners.clone().list_runners(ListRunnersRequest::default()).await?.into_inner().runners;
            let schedulers = schedulers.into_inner().schedulers;
            let of = |index: usize| {
                let address = cluster.address_of(index).to_string();
                let here = |one: &&baton_tests::v1::Scheduler| {
                    one.address.ends_with(&address) && one.state() == SchedulerState::Working
                };
                let id = &schedulers.iter().find(here)?.id;
                let online = runners.iter().filter(|one| one.state() == RunnerState::Online);
                Some(online.filter(|one| one.scheduler_id == *id).count())
            };
            if let (Some(left), Some(right)) = (of(0), of(1))
                && left + right == runners.len()
            {
                return anyhow::Ok(if left >= right { (0, left) } else { (1, right) });
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, looking).await?
}
