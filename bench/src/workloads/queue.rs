//! Queue: 10,000 one-task jobs are queued while no runner is there, then worked off by an embedded runner. Neither may
//! become slower with what waits: the last thousand is to go as fast as the first.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use baton_tests::{Asked, Backend, job};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    figure::{Figure, percentile, round},
    parts::{self, Embedded, RUNNER},
    settings::Settings,
};

/// Clients that queue side by side.
const CLIENTS: usize = 64;
/// Slots of the runner.
const SLOTS: u32 = 64;
/// What is compared: so many parts of the whole.
const PARTS: usize = 10;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let jobs = settings.amount(10_000, 300);
    let (mut into, mut out) = (Vec::new(), Vec::new());
    for _ in 0..settings.runs {
        let cluster = parts::start(backend, 0).await;
        let ask = cluster.ask();
        ask.apply(&job("one", &json!([{"name": "work", "command": ["true"]}]))).await?;
        into.push(rates(&queue(&ask, jobs).await?));
        let done: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let each = {
            let done = done.clone();
            move || done.lock().expect("nobody panics with it").push(Instant::now())
        };
        let runner = Embedded::start(&cluster, RUNNER, SLOTS, &cluster.directory().join("embedded"), each);
        parts::nothing_lives(&ask).await?;
        runner.stop().await?;
        let done = std::mem::take(&mut *done.lock().expect("nobody panics with it"));
        anyhow::ensure!(done.len() == jobs, "{} of {jobs} tasks were done", done.len());
        out.push(rates(&done));
    }
    let figure = |workload, runs: &[Vec<f64>]| {
        // The same part of every run side by side: a moment's noise in one of them is not a slope.
        let parts: Vec<f64> = (0..PARTS)
            .map(|part| percentile(&mut runs.iter().map(|run| run[part]).collect::<Vec<_>>(), 50.0))
            .collect();
        let mean = |parts: &[f64]| parts.iter().sum::<f64>() / parts.len() as f64;
        let (first, last) = (mean(&parts[..PARTS / 3]), mean(&parts[PARTS - PARTS / 3..]));
        let figure = Figure::new(workload, parts::name(backend), jobs, last / first, "last/first third")
            .with("jobs_per_s", round(percentile(&mut parts.clone(), 50.0)))
            .with("jobs_per_s_each_tenth", parts.iter().map(|rate| rate.round()).collect::<Vec<_>>());
        if settings.smoke { figure } else { figure.reach(">= 0.8", last / first >= 0.8) }
    };
    Ok(vec![figure("queue-in", &into), figure("queue-out", &out)])
}

/// Runs the job so many times, many at once; when each was accepted.
async fn queue(ask: &Asked, jobs: usize) -> anyhow::Result<Vec<Instant>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (ask, next) = (ask.clone(), next.clone());
        clients.spawn(async move {
            let mut accepted = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < jobs {
                ask.run("one", &[]).await?;
                accepted.push(Instant::now());
            }
            anyhow::Ok(accepted)
        });
    }
    let mut all = Vec::with_capacity(jobs);
    while let Some(client) = clients.join_next().await {
        all.extend(client??);
    }
    all.sort();
    Ok(all)
}

/// Things a second in each part of the whole.
fn rates(moments: &[Instant]) -> Vec<f64> {
    let size = moments.len() / PARTS;
    (0..PARTS)
        .map(|part| {
            let (from, to) = (part * size, (part + 1) * size - 1);
            (to - from) as f64 / (moments[to] - moments[from]).as_secs_f64().max(1e-9)
        })
        .collect()
}
