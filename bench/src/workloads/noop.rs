//! P2: many small tasks that do nothing, in an embedded runner: what scheduling alone costs.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use baton_tests::{Backend, job};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    cost::Cost,
    figure::{Figure, percentile, round},
    parts::{self, Embedded, RUNNER},
    settings::Settings,
};

const SLOTS: u32 = 64;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let (jobs, each) = (settings.amount(50, 3), settings.amount(1_000, 50));
    let count = jobs * each;
    let (mut rates, mut floors, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..settings.runs {
        let mut cluster = parts::start(backend, 0).await;
        let ask = cluster.ask();
        let database = Bare::open(&cluster, backend).await?;
        if run == 0 {
            floors.push(database.lives(count).await?);
        }
        let tasks: Vec<Value> =
            (0..each).map(|number| json!({"name": format!("t{number}"), "command": ["true"]})).collect();
        ask.apply(&job("many", &json!(tasks))).await?;
        for _ in 0..jobs {
            ask.run("many", &[]).await?;
        }
        parts::all_run(&ask, jobs).await?;
        // From the first task that arrives, which is the frame after the welcome.
        let first: Arc<OnceLock<Instant>> = Arc::default();
        let begun = {
            let first = first.clone();
            move || {
                first.get_or_init(Instant::now);
            }
        };
        let before = Cost::so_far(&mut cluster, None);
        let runner = Embedded::start(&cluster, RUNNER, SLOTS, &cluster.directory().join("embedded"), begun);
        parts::nothing_lives(&ask).await?;
        let start = first.get().copied().unwrap_or_else(Instant::now);
        rates.push(count as f64 / start.elapsed().as_secs_f64());
        costs.push(Cost::so_far(&mut cluster, None).since(before).each(count));
        runner.stop().await?;
        if run + 1 == settings.runs {
            floors.push(database.lives(count).await?);
        }
    }
    let floor = floors.iter().sum::<f64>() / floors.len() as f64;
    let value = percentile(&mut rates, 50.0);
    let figure = Figure::new("p2", parts::name(backend), count, value, "tasks/s")
        .over(floor)
        .with("cost_us_each", costs)
        .with("run_rates", rates.iter().map(|rate| round(*rate)).collect::<Vec<_>>());
    let (reach, least) = match backend {
        Backend::Sqlite => (">= 12000", 12_000.0),
        Backend::Postgres => (">= 8000", 8_000.0),
    };
    Ok(vec![if settings.smoke { figure } else { figure.reach(reach, value >= least) }])
}
