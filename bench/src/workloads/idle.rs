//! Idle: what a scheduler takes that has nothing to do: with one runner, alone (P7), with many runners, with many schedules.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use baton_tests::{Asked, Backend, Cluster, Crowd};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    figure::Figure,
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::now,
};

/// Clients that apply side by side.
const CLIENTS: usize = 32;

/// What the start left to do is over by then.
const SETTLE: Duration = Duration::from_secs(3);

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let mut cluster = parts::start(backend, 4).await;
    let scheduler = cluster.scheduler(0).pid();
    let runner = cluster.runner(parts::RUNNER).pid();
    let watched = Duration::from_secs(settings.amount(30, 3) as u64);
    sleep(SETTLE).await;
    let before = [cpu(scheduler)?, cpu(runner)?];
    let start = now();
    sleep(watched).await;
    let seconds = (now() - start) as f64 / 1e9;
    let percent = |pid, before: f64| anyhow::Ok((cpu(pid)? - before) / seconds * 100.0);
    let [scheduler_percent, runner_percent] = [percent(scheduler, before[0])?, percent(runner, before[1])?];
    let resident = resident_mb(scheduler)?;
    let backend = parts::name(backend);
    let mut load = Figure::new("idle-cpu", backend, 1, scheduler_percent, "% of a core")
        .with("seconds", watched.as_secs())
        .with("runner_percent", crate::figure::round(runner_percent));
    let mut memory = Figure::new("idle-memory", backend, 1, resident, "MB resident")
        .with("runner_mb", crate::figure::round(resident_mb(runner)?));
    if !settings.smoke {
        load = load.reach("< 1 %", scheduler_percent < 1.0);
        memory = memory.reach("< 40 MB", resident < 40.0);
    }
    Ok(vec![load, memory])
}

/// A scheduler alone; with many runners, none of which has anything to do; with many schedules, none of which is due.
pub(super) async fn alone_and_not(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let (runners, schedules) = (settings.amount(100, 5), settings.amount(10_000, 20));
    let mut cluster = parts::start(backend, 0).await;
    let mut figures = watch(&mut cluster, backend, settings, ["p7-alone-cpu", "p7-alone-memory"]).await?;
    let crowd = Crowd::dial(cluster.address(), runners);
    crowd.all_online(PATIENCE).await;
    figures.extend(watch(&mut cluster, backend, settings, ["p7-100-runners-cpu", "p7-100-runners-memory"]).await?);
    drop(crowd);
    apply_many(&cluster.ask(), schedules).await?;
    figures.extend(watch(&mut cluster, backend, settings, ["p7-schedules-cpu", "p7-schedules-memory"]).await?);
    if !settings.smoke {
        let (cpu, memory) = (figures[0].value < 0.3, figures[1].value < 30.0);
        figures[0] = figures[0].clone().reach("< 0.3 %", cpu);
        figures[1] = figures[1].clone().reach("< 30 MB", memory);
    }
    Ok(figures)
}

/// What the scheduler takes while nothing happens.
async fn watch(
    cluster: &mut Cluster,
    backend: Backend,
    settings: &Settings,
    names: [&'static str; 2],
) -> anyhow::Result<Vec<Figure>> {
    let scheduler = cluster.scheduler(0).pid();
    sleep(if settings.smoke { SETTLE / 6 } else { SETTLE }).await;
    let (before, start) = (cpu(scheduler)?, now());
    sleep(Duration::from_secs(settings.amount(30, 1) as u64)).await;
    let percent = (cpu(scheduler)? - before) / ((now() - start) as f64 / 1e9) * 100.0;
    let backend = parts::name(backend);
    Ok(vec![
        Figure::new(names[0], backend, 1, percent, "% of a core"),
        Figure::new(names[1], backend, 1, resident_mb(scheduler)?, "MB resident"),
    ])
}

/// Applies so many job configs with a schedule each that is not due for a day.
async fn apply_many(ask: &Asked, count: usize) -> anyhow::Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (ask, next) = (ask.clone(), next.clone());
        clients.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let schedules = json!([{"every": "24h"}]);
                let tasks = json!([{"name": "work", "command": ["true"]}]);
                let source = json!({"name": format!("daily-{number}"), "schedules": schedules, "tasks": tasks});
                ask.apply(&source.to_string()).await?;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// The seconds of CPU that a process has taken.
pub(super) fn cpu(pid: i32) -> anyhow::Result<f64> {
    // By the scheduler of the kernel, in nanoseconds: the ticks of /proc/PID/stat are too coarse for an idle process.
    let mut total = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(task?.path().join("schedstat"))?;
        total += stat.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9;
    }
    Ok(total)
}

/// The resident memory of a process, in megabytes of a million bytes.
fn resident_mb(pid: i32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024.0 / 1e6)
}
