//! Idle: what a scheduler takes that has one runner and nothing to do.

use std::{fs, time::Duration};

use baton_tests::Backend;
use tokio::time::sleep;

use crate::{figure::Figure, parts, settings::Settings, stamps::now};

/// What the start left to do is over by then.
const SETTLE: Duration = Duration::from_secs(3);

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let mut cluster = parts::start(backend, 4).await;
    let scheduler = cluster.scheduler(0).pid();
    let runner = cluster.runner("bench").pid();
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
