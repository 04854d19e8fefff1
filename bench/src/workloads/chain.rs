//! P4: a chain of 100 tasks, from the exit of each parent to its child's first instruction.

use baton_tests::{Backend, job};
use serde_json::{Value, json};

use crate::{
    cost::Cost,
    figure::{Figure, percentile, round},
    floor::Single,
    parts::{self, RUNNER},
    settings::Settings,
    stamps::{Stamps, ms},
};

/// How many chains a run has.
const CHAINS: usize = 5;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let mut cluster = parts::start(backend, 4).await;
    let ask = cluster.ask();
    let stamps = Stamps::fresh(cluster.directory(), "chain");
    let length = settings.amount(100, 10);
    let links: Vec<Value> = (0..length)
        .map(|number| {
            let needs: Vec<String> = number.checked_sub(1).map(|parent| format!("t{parent}")).into_iter().collect();
            let name = format!("t{number}");
            json!({"name": name, "needs": needs, "command": stamps.target(&name)})
        })
        .collect();
    ask.apply(&job("chain", &json!(links))).await?;
    let floor_samples = settings.amount(100, 10);
    let before = Single::measure(&cluster, backend, floor_samples).await?;
    let (mut samples, mut runs, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = 0;
    // The first chain warms up.
    for chain in 0..=settings.runs * settings.amount(CHAINS, 1) {
        let before = Cost::so_far(&mut cluster, Some(RUNNER));
        let job_id = ask.run("chain", &[]).await?;
        parts::finished(&ask, &job_id).await?;
        let cost = Cost::so_far(&mut cluster, Some(RUNNER)).since(before).each(length);
        let stamped = stamps.read().split_off(seen);
        anyhow::ensure!(stamped.len() == length, "{} of {length} tasks of a chain left a stamp", stamped.len());
        let in_order = stamped.iter().enumerate().all(|(number, stamp)| stamp.name == format!("t{number}"));
        anyhow::ensure!(in_order, "a chain ran out of order");
        seen += length;
        if chain > 0 {
            let mut times: Vec<f64> = stamped.windows(2).map(|pair| ms(pair[0].last, pair[1].first)).collect();
            samples.extend_from_slice(&times);
            costs.push(cost);
            runs.push(round(percentile(&mut times, 50.0)));
        }
    }
    let floor = before.between(Single::measure(&cluster, backend, floor_samples).await?);
    let figure = Figure::median("p4", parts::name(backend), &mut samples, "ms").over(floor.sum());
    let (p50, p99) = (figure.p50.unwrap_or_default(), figure.p99.unwrap_or_default());
    let mut figure = super::with_floor(figure, floor).with("run_medians", runs).with("cost_us_each", costs);
    if !settings.smoke {
        figure = figure.reach("p50 <= 2.5, p99 <= 9", p50 <= 2.5 && p99 <= 9.0);
    }
    Ok(vec![figure])
}
