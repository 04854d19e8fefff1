//! P3: one task on an idle system, from the Run RPC leaving a connected client to the child's first instruction.

use std::time::Duration;

use baton_tests::{Backend, job};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    figure::Figure,
    floor::Single,
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::{Stamps, ms, now},
};

/// Runs before the first one that counts.
const WARM_UP: usize = 20;

/// The system is idle again when a sample begins: what the one before left to do is done.
const PAUSE: Duration = Duration::from_millis(40);

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let cluster = parts::start(backend, 4).await;
    let ask = cluster.ask();
    let stamps = Stamps::fresh(cluster.directory(), "single");
    ask.apply(&job("single", &json!([{"name": "work", "command": stamps.target("work")}]))).await?;
    let per_run = settings.amount(200, 10);
    let floor_samples = settings.amount(100, 10);
    let mut samples = Vec::new();
    let mut runs = Vec::new();
    let before = Single::measure(&cluster, backend, floor_samples).await?;
    let mut seen = 0;
    for run in 0..settings.runs {
        let mut times = Vec::new();
        let warm_up = if run == 0 { WARM_UP.min(per_run) } else { 0 };
        for number in 0..warm_up + per_run {
            let start = now();
            ask.run("single", &[]).await?;
            seen += 1;
            // Nobody looks for the stamp while it is being made: that would take a core from those who make it.
            sleep(PAUSE).await;
            let stamped = stamps.count(seen, PATIENCE).await;
            if number >= warm_up {
                times.push(ms(start, stamped[seen - 1].first));
            }
        }
        runs.push(crate::figure::round(crate::figure::percentile(&mut times, 50.0)));
        samples.extend(times);
    }
    let floor = before.between(Single::measure(&cluster, backend, floor_samples).await?);
    let figure = Figure::median("p3", parts::name(backend), &mut samples, "ms").over(floor.sum());
    let (p50, p99) = (figure.p50.unwrap_or_default(), figure.p99.unwrap_or_default());
    let mut figure = super::with_floor(figure, floor).with("run_medians", runs);
    if !settings.smoke {
        figure = figure.reach("p50 <= 3, p99 <= 12", p50 <= 3.0 && p99 <= 12.0);
    }
    Ok(vec![figure])
}
