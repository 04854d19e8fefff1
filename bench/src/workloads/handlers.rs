//! P10, the other part: thousands of handlers in an embedded runner that append to their output all the time. None of them is
//! held up by where that goes, and other work is not either.

use std::{
    fmt::Write as _,
    fs,
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use baton_runner::{Config, Outcome};
use baton_tests::{Backend, Cluster, job, processes, v1};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::writers::Others;
use crate::{
    cost::Cost,
    figure::{Figure, percentile, round},
    parts::{self, Embedded, PATIENCE, RUNNER},
    settings::Settings,
};

/// What each appends at once.
const CHUNK_BYTES: usize = 4096;

/// The pause after each.
const CHUNK_EVERY: Duration = Duration::from_secs(1);

/// One output in so many is read back and compared.
const READ_BACK_EACH: usize = 50;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let (handlers, chunks) = (settings.amount(5_000, 20), settings.amount(15, 2));
    let mut cluster = parts::start(backend, 0).await;
    let others = Others::beside(&mut cluster).await?;
    let ask = cluster.ask();
    let tasks = json!([{"name": "write", "command": ["write", "{{ shard.index }}"], "shards": {"count": handlers},
                        "runner": {"match_labels": {"for": "writers"}}}]);
    ask.apply(&job("writers", &tasks)).await?;
    let before = alone(handlers, chunks, cluster.directory()).await?;

    let times: Arc<Mutex<Vec<f64>>> = Arc::default();
    let config = Config {
        slots: handlers as u32,
        labels: [("for".to_owned(), "writers".to_owned())].into(),
        ..Config::new(RUNNER, cluster.address().to_string(), cluster.directory().join("embedded"))
    };
    let begun = Arc::new(AtomicUsize::new(0));
    let (told, counted) = (times.clone(), begun.clone());
    let runner = Embedded::with(config, move |context| {
        let told = told.clone();
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let number = context.spec.shard_index.unwrap_or_default() as usize;
            match write(number, chunks, &mut context.stdout()).await {
                Ok(time) => told.lock().expect("no handler panics").push(time),
                Err(error) => return Outcome { exit_code: 1, message: error.to_string(), ..Outcome::default() },
            }
            Outcome::default()
        }
    });
    let cost = Cost::so_far(&mut cluster, None);
    let watched = [cluster.scheduler(0).pid(), std::process::id().cast_signed()];
    let job_id = ask.run("writers", &[]).await?;
    // To give them all out is another thing than what is measured here: what comes meanwhile waits in line behind them.
    let all = || std::future::ready((begun.load(Ordering::Relaxed) >= handlers).then_some(()));
    baton_tests::eventually("every handler has begun", PATIENCE, all).await;
    let mut starts = others.start(&ask, CHUNK_EVERY * (chunks - 1) as u32).await?;
    parts::finished(&ask, &job_id).await?;
    let ended = Instant::now();
    read_back(&cluster, &job_id, handlers, chunks).await?;
    let caught_up = ended.elapsed();
    let cost = Cost::so_far(&mut cluster, None).since(cost).each(handlers * chunks);
    let peaks = watched.map(|pid| processes::resident_bytes_max(pid) as f64 / 1e6);
    runner.stop().await?;
    let mut floors = before;
    floors.extend(alone(handlers, chunks, cluster.directory()).await?);

    let mut times = std::mem::take(&mut *times.lock().expect("no handler panics"));
    anyhow::ensure!(times.len() == handlers, "{} of {handlers} handlers came to their end", times.len());
    let slower = percentile(&mut times, 50.0) / percentile(&mut floors, 50.0);
    let (p50, p99) = (percentile(&mut starts, 50.0), percentile(&mut starts, 99.0));
    let figure = Figure::new("p10-handlers", parts::name(backend), handlers, slower, "of the time alone")
        .with("chunks_a_handler", chunks)
        .with("cost_us_a_chunk", cost)
        .with("dispatch_p50_ms", round(p50))
        .with("dispatch_p99_ms", round(p99))
        .with("all_stored_after_s", round(caught_up.as_secs_f64()))
        .with("scheduler_mb", round(peaks[0]))
        .with("bench_mb", round(peaks[1]));
    let reached = slower <= 1.05 && p99 < 50.0;
    Ok(vec![if settings.smoke { figure } else { figure.reach("<= 1.05, dispatch p99 < 50 ms", reached) }])
}

/// What one handler does: how long it took, in milliseconds. They begin spread over a second, as work does.
async fn write(number: usize, chunks: usize, output: &mut impl Write) -> std::io::Result<f64> {
    sleep(CHUNK_EVERY * (number % 1000) as u32 / 1000).await;
    let begin = Instant::now();
    for chunk in 0..chunks {
        output.write_all(text(number, chunk).as_bytes())?;
        sleep(CHUNK_EVERY).await;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

/// The lines of one chunk, which say whose they are.
fn text(number: usize, chunk: usize) -> String {
    let mut text = String::with_capacity(CHUNK_BYTES + 64);
    let mut line = chunk * 1_000;
    while text.len() < CHUNK_BYTES {
        // Some of it repeats and some does not, as in any log.
        let odd = (number * 1_000_003 + line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = writeln!(text, "worker {number:05} line {line:07} took {odd:016x} and went on");
        line += 1;
    }
    text.truncate(CHUNK_BYTES);
    text
}

/// The same without Baton, each into two fresh files, as a task has them.
async fn alone(count: usize, chunks: usize, directory: &Path) -> anyhow::Result<Vec<f64>> {
    let directory = directory.join("alone");
    fs::create_dir(&directory)?;
    let mut writers = JoinSet::new();
    for number in 0..count {
        let directory = directory.clone();
        writers.spawn(async move {
            let file = |kind: &str| fs::File::create(directory.join(format!("{number}.{kind}")));
            let (mut out, _err) = (file("out")?, file("err")?);
            write(number, chunks, &mut out).await
        });
    }
    let mut times = Vec::with_capacity(count);
    while let Some(time) = writers.join_next().await {
        times.push(time??);
    }
    fs::remove_dir_all(directory)?;
    Ok(times)
}

/// Waits until the last of everybody's output is stored, and compares that of some.
async fn read_back(cluster: &Cluster, job_id: &str, handlers: usize, chunks: usize) -> anyhow::Result<()> {
    let logs = cluster.api().logs;
    for shard in (0..handlers).step_by(READ_BACK_EACH) {
        let expected: String = (0..chunks).map(|chunk| text(shard, chunk)).collect();
        let selector = v1::LogSelector {
            job_id: job_id.to_owned(),
            name: "write".to_owned(),
            shard_index: u32::try_from(shard).ok(),
            ..Default::default()
        };
        baton_tests::eventually(&format!("the output of shard {shard} is stored"), PATIENCE, || {
            let (logs, selector, expected) = (logs.clone(), selector.clone(), expected.clone());
            async move { (whole(logs, selector).await? == expected.as_bytes()).then_some(()) }
        })
        .await;
    }
    Ok(())
}

/// All that is stored of one output.
async fn whole(
    mut logs: v1::log_service_client::LogServiceClient<tonic::transport::Channel>,
    selector: v1::LogSelector,
) -> Option<Vec<u8>> {
    let (mut bytes, mut cursor) = (Vec::new(), String::new());
    loop {
        let request = v1::ReadRequest { selector: Some(selector.clone()), cursor, ..Default::default() };
        let page = logs.read(request).await.ok()?.into_inner();
        page.chunks.iter().for_each(|chunk| bytes.extend_from_slice(&chunk.data));
        if page.chunks.is_empty() || page.next_cursor.is_empty() {
            return Some(bytes);
        }
        cursor = page.next_cursor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_of_one_size_and_says_whose_it_is() {
        assert_eq!((text(0, 0).len(), text(4_999, 14).len()), (CHUNK_BYTES, CHUNK_BYTES));
        assert_ne!(text(1, 0), text(2, 0));
        assert_ne!(text(1, 0), text(1, 1));
    }
}
