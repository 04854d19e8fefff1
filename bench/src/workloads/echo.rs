//! P1: independent tasks, each a real child process whose output is captured, stored and read back.

use std::{path::Path, time::Instant};

use baton_tests::{Backend, job, v1};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    cost::Cost,
    figure::{Figure, percentile, round},
    floor,
    parts::{self, PATIENCE, RUNNER},
    settings::Settings,
};

const SLOTS: u32 = 16;
/// Clients that read logs back side by side.
const READERS: usize = 16;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let count = settings.amount(10_000, 100);
    let mut cluster = parts::start(backend, SLOTS).await;
    let ask = cluster.ask();
    let task = json!([{"name": "say", "command": ["/bin/echo", "{{ shard.index }}"], "shards": {"count": count}}]);
    ask.apply(&job("echo", &task)).await?;
    let directory = cluster.directory().to_owned();
    let floors = |at: &Path| anyhow::Ok([floor::children(count, "/bin/echo", Some(at))?, floor::xargs(count)?]);
    let fresh = |name: &str| {
        let at = directory.join(name);
        std::fs::create_dir(&at).map(|()| at)
    };
    let before = floors(&fresh("before")?)?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..settings.runs {
        let before = Cost::so_far(&mut cluster, Some(RUNNER));
        let start = Instant::now();
        let job_id = ask.run("echo", &[]).await?;
        parts::finished(&ask, &job_id).await?;
        rates.push(count as f64 / start.elapsed().as_secs_f64());
        costs.push(Cost::so_far(&mut cluster, Some(RUNNER)).since(before).each(count));
        read_back(&cluster, &job_id, count).await?;
    }
    let after = floors(&fresh("after")?)?;
    let [loops, xargs] = [0, 1].map(|at| f64::midpoint(before[at], after[at]));
    let value = percentile(&mut rates, 50.0);
    let figure = Figure::new("p1", parts::name(backend), count, value, "tasks/s")
        .over(loops)
        .with("run_rates", rates.iter().map(|rate| round(*rate)).collect::<Vec<_>>())
        .with("cost_us_each", costs)
        .with("xargs_per_s", round(xargs))
        .with("ratio_xargs", round(value / xargs));
    Ok(vec![if settings.smoke { figure } else { figure.reach(">= 0.75 of the floor", value >= 0.75 * loops) }])
}

/// Every shard said its own number, and nothing else.
async fn read_back(cluster: &baton_tests::Cluster, job_id: &str, count: usize) -> anyhow::Result<()> {
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let logs = cluster.api().logs;
        let job_id = job_id.to_owned();
        readers.spawn(async move {
            for shard in (reader..count).step_by(READERS) {
                let expected = format!("{shard}\n");
                let selector = v1::LogSelector {
                    job_id: job_id.clone(),
                    name: "say".to_owned(),
                    shard_index: u32::try_from(shard).ok(),
                    ..Default::default()
                };
                // Output may arrive a moment after its task has ended.
                baton_tests::eventually(&format!("the log of shard {shard} is {expected:?}"), PATIENCE, || {
                    let mut logs = logs.clone();
                    let request = v1::ReadRequest { selector: Some(selector.clone()), ..Default::default() };
                    let expected = expected.clone();
                    async move {
                        let page = logs.read(request).await.ok()?.into_inner();
                        let text: Vec<u8> = page.chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
                        (text == expected.as_bytes()).then_some(())
                    }
                })
                .await;
            }
        });
    }
    while let Some(reader) = readers.join_next().await {
        reader?;
    }
    Ok(())
}
