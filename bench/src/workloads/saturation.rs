//! P11: more and more clients at once, to far beyond what the system can do. Past the knee it must go on at its pace, and go
//! on answering.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use baton_tests::{Asked, Backend, job, v1};
use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    cost::Cost,
    figure::{Figure, percentile, round},
    parts::{self, Embedded, RUNNER},
    settings::Settings,
};

/// Slots of the runner.
const SLOTS: u32 = 64;

/// How many clients ask at once, one level after the other; each asks again as soon as it has its answer.
const LEVELS: [usize; 6] = [1, 4, 16, 64, 256, 1_024];

/// The pause between two questions of somebody who only looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let each = Duration::from_millis(settings.amount(5_000, 300) as u64);
    let levels = if settings.smoke { &LEVELS[..3] } else { &LEVELS[..] };
    let mut cluster = parts::start(backend, 0).await;
    // Whoever looks has a connection of his own.
    let (ask, looker) = (cluster.ask(), cluster.ask_of(0));
    ask.apply(&job("one", &json!([{"name": "work", "command": ["true"]}]))).await?;
    let done: Arc<AtomicUsize> = Arc::default();
    let count = {
        let done = done.clone();
        move || {
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    let runner = Embedded::start(&cluster, RUNNER, SLOTS, &cluster.directory().join("embedded"), count);
    cluster.runner_is(RUNNER, v1::RunnerState::Online).await;
    let (mut rates, mut accepted, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut looks, mut refused) = (Vec::new(), 0);
    for clients in levels {
        let (before, spent, begin) = (done.load(Ordering::Relaxed), Cost::so_far(&mut cluster, None), Instant::now());
        let offered = offer(&ask, &looker, *clients, each).await?;
        let (ended, seconds) = (done.load(Ordering::Relaxed) - before, begin.elapsed().as_secs_f64());
        rates.push(ended as f64 / seconds);
        accepted.push(round(offered.accepted as f64 / seconds));
        costs.push(Cost::so_far(&mut cluster, None).since(spent).each(ended.max(1)));
        refused += offered.refused;
        looks = offered.looks;
    }
    parts::nothing_lives(&ask).await?;
    runner.stop().await?;
    let best = rates.iter().copied().fold(0.0, f64::max);
    let last = rates.last().copied().unwrap_or_default();
    let mut figure =
        Figure::new("p11", parts::name(backend), done.load(Ordering::Relaxed), last, "jobs/s past the knee")
            .over(best)
            .with("clients", levels.to_vec())
            .with("rates", rates.iter().map(|rate| round(*rate)).collect::<Vec<_>>())
            .with("accepted", accepted)
            .with("cost_us_each", costs)
            .with("refused", refused);
    (figure.p50, figure.p99) = (Some(round(percentile(&mut looks, 50.0))), Some(round(percentile(&mut looks, 99.0))));
    let level = last >= 0.9 * best && refused == 0;
    Ok(vec![if settings.smoke { figure } else { figure.reach(">= 0.9 of the best, none refused", level) }])
}

/// What came of one level.
struct Offered {
    /// Requests that were carried out.
    accepted: usize,
    /// Requests that were not.
    refused: usize,
    /// How long somebody who only looks waited, in milliseconds.
    looks: Vec<f64>,
}

/// Has so many clients ask for so long.
async fn offer(ask: &Asked, looker: &Asked, clients: usize, each: Duration) -> anyhow::Result<Offered> {
    let over: Arc<AtomicBool> = Arc::default();
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let (ask, over) = (ask.clone(), over.clone());
        asking.spawn(async move {
            let (mut accepted, mut refused) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                *if ask.run("one", &[]).await.is_ok() { &mut accepted } else { &mut refused } += 1;
            }
            (accepted, refused)
        });
    }
    let (mut looks, begin) = (Vec::new(), Instant::now());
    while begin.elapsed() < each {
        let asked = Instant::now();
        look(looker).await?;
        looks.push(asked.elapsed().as_secs_f64() * 1e3);
        sleep(LOOK_EVERY).await;
    }
    over.store(true, Ordering::Relaxed);
    let asked = asking.join_all().await;
    let (accepted, refused) = asked.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok(Offered { accepted, refused, looks })
}

/// Looks at the runner, whose beats go on whatever else there is to do.
async fn look(ask: &Asked) -> anyhow::Result<()> {
    let request = v1::GetRunnerRequest { runner_id: RUNNER.to_owned() };
    let runner = ask.0.runners.clone().get_runner(request).await?.into_inner().runner.unwrap_or_default();
    anyhow::ensure!(runner.state() == v1::RunnerState::Online, "the runner is {}", runner.state().as_str_name());
    Ok(())
}
