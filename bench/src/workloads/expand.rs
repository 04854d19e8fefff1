//! P8: large jobs, from their definitions to their rows. What a task costs must not grow with the job.

use std::time::Instant;

use baton_tests::{Asked, Backend, job};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    figure::{Figure, percentile, round},
    parts,
    settings::Settings,
};

/// How many tasks the jobs have.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];

/// A job of this size is to be written within a second.
const WITHIN_A_SECOND: usize = 10_000;

/// By how much a task of the largest job may cost more than one of the smallest.
const LEVEL: f64 = 1.25;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let cluster = parts::start(backend, 0).await;
    let ask = cluster.ask();
    let database = Bare::open(&cluster, backend).await?;
    let (mut figures, mut jobs, mut smallest) = (Vec::new(), 0, 0.0);
    for size in SIZES {
        let count = settings.amount(size, size / 100);
        let insert = async || anyhow::Ok(count as f64 / database.inserts(count).await?);
        let before = insert().await?;
        let (mut applies, mut expands, mut totals) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..settings.runs {
            jobs += 1;
            let (applied, expanded) = write(&ask, &format!("large-{count}-{run}"), count, jobs).await?;
            applies.push(applied);
            expands.push(expanded);
            totals.push(applied + expanded);
        }
        let floor = f64::midpoint(before, insert().await?);
        let value = percentile(&mut totals, 50.0);
        let each = value * 1e6 / count as f64;
        if size == SIZES[0] {
            smallest = each;
        }
        let figure = Figure::new("p8", parts::name(backend), count, value, "s")
            .over(floor)
            .with("apply_s", round(percentile(&mut applies, 50.0)))
            .with("expand_s", round(percentile(&mut expands, 50.0)))
            .with("us_a_task", round(each));
        figures.push(match size {
            _ if settings.smoke => figure,
            WITHIN_A_SECOND => figure.reach("<= 1 s", value <= 1.0),
            _ if size > WITHIN_A_SECOND => {
                figure.reach("a task <= 1.25 of the smallest job's", each <= LEVEL * smallest)
            }
            _ => figure,
        });
    }
    Ok(figures)
}

/// Seconds to store a job config of so many tasks, and to write the rows of a job of it, until all that live are so many.
async fn write(ask: &Asked, name: &str, count: usize, live: usize) -> anyhow::Result<(f64, f64)> {
    let tasks: Vec<Value> =
        (0..count).map(|number| json!({"name": format!("t{number}"), "command": ["true"]})).collect();
    let source = job(name, &json!(tasks));
    let start = Instant::now();
    ask.apply(&source).await?;
    let applied = start.elapsed().as_secs_f64();
    ask.run(name, &[]).await?;
    parts::all_run(ask, live).await?;
    Ok((applied, start.elapsed().as_secs_f64() - applied))
}
