//! P8: a large job, from its definition to its rows.

use std::time::Instant;

use baton_tests::{Backend, job};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    figure::{Figure, percentile, round},
    parts,
    settings::Settings,
};

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let cluster = parts::start(backend, 0).await;
    let ask = cluster.ask();
    let count = settings.amount(10_000, 200);
    let database = Bare::open(&cluster, backend).await?;
    let insert = async || anyhow::Ok(count as f64 / database.inserts(count).await?);
    let before = insert().await?;
    let (mut applies, mut expands, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..settings.runs {
        let name = format!("large-{run}");
        let tasks: Vec<Value> =
            (0..count).map(|number| json!({"name": format!("t{number}"), "command": ["true"]})).collect();
        let source = job(&name, &json!(tasks));
        let start = Instant::now();
        ask.apply(&source).await?;
        let applied = start.elapsed().as_secs_f64();
        ask.run(&name, &[]).await?;
        parts::all_run(&ask, run + 1).await?;
        let total = start.elapsed().as_secs_f64();
        applies.push(applied);
        expands.push(total - applied);
        totals.push(total);
    }
    let floor = f64::midpoint(before, insert().await?);
    let value = percentile(&mut totals, 50.0);
    let figure = Figure::new("p8", parts::name(backend), count, value, "s")
        .over(floor)
        .with("apply_s", round(percentile(&mut applies, 50.0)))
        .with("expand_s", round(percentile(&mut expands, 50.0)));
    Ok(vec![if settings.smoke { figure } else { figure.reach("<= 1 s", value <= 1.0) }])
}
