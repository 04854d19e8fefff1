//! P5: one task, then a thousand shards, then one: real processes.

use std::time::Instant;

use baton_tests::{Backend, job};
use serde_json::json;

use crate::{
    cost::Cost,
    figure::{Figure, percentile, round},
    floor,
    parts::{self, RUNNER},
    settings::Settings,
};

const SLOTS: u32 = 16;
const PROGRAM: &str = "/bin/true";

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let width = settings.amount(1_000, 50);
    let count = width + 2;
    let mut cluster = parts::start(backend, SLOTS).await;
    let ask = cluster.ask();
    let tasks = json!([
        {"name": "out", "command": [PROGRAM]},
        {"name": "wide", "needs": ["out"], "command": [PROGRAM], "shards": {"count": width}},
        {"name": "in", "needs": ["wide"], "command": [PROGRAM]},
    ]);
    ask.apply(&job("fan", &tasks)).await?;
    let seconds = || floor::children(count, PROGRAM, None).map(|rate| count as f64 / rate);
    let before = seconds()?;
    let (mut times, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..settings.runs {
        let before = Cost::so_far(&mut cluster, Some(RUNNER));
        let start = Instant::now();
        let job_id = ask.run("fan", &[]).await?;
        parts::finished(&ask, &job_id).await?;
        times.push(start.elapsed().as_secs_f64());
        costs.push(Cost::so_far(&mut cluster, Some(RUNNER)).since(before).each(count));
    }
    let floor = f64::midpoint(before, seconds()?);
    let value = percentile(&mut times, 50.0);
    let figure = Figure::new("p5", parts::name(backend), count, value, "s")
        .over(floor)
        .with("cost_us_each", costs)
        .with("run_seconds", times.iter().map(|time| round(*time)).collect::<Vec<_>>());
    Ok(vec![if settings.smoke { figure } else { figure.reach("<= 1.6 of the floor", value <= 1.6 * floor) }])
}
