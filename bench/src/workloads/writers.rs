//! P10: many real processes that write lines all the time: none of them is held up by it, and other work is not either.

use std::{
    fs::File,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use baton_tests::{Asked, Backend, Cluster, RunnerSpec, job, processes};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    figure::{Figure, percentile, round},
    parts::{self, PATIENCE, RUNNER},
    settings::Settings,
    stamps::{Stamps, ms, now},
};

/// The pause between two lines of a process, in microseconds.
const LINE_EVERY: usize = 10_000;

/// The pause between two tasks that are started meanwhile.
const START_EVERY: Duration = Duration::from_millis(100);

/// The slots of the runner that runs them.
const ASIDE_SLOTS: u32 = 4;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let (writers, lines) = (settings.amount(200, 10), settings.amount(2_000, 50));
    let mut cluster = parts::start(backend, 0).await;
    cluster.add_runner(RunnerSpec::named(RUNNER).slots(writers as u32).label("for=writers")).await;
    let others = Others::beside(&mut cluster).await?;
    let ask = cluster.ask();
    let words = |stamps: &Stamps| {
        let mut words = stamps.command("writer");
        words.extend([lines.to_string(), LINE_EVERY.to_string()]);
        words
    };

    let bare = Stamps::fresh(cluster.directory(), "bare-writers");
    let before = alone(&words(&bare), writers, cluster.directory())?;
    let written = Stamps::fresh(cluster.directory(), "writers");
    let wide = json!([{"name": "write", "command": words(&written), "shards": {"count": writers},
                       "runner": {"match_labels": {"for": "writers"}}}]);
    ask.apply(&job("writers", &wide)).await?;
    let job_id = ask.run("writers", &[]).await?;
    let mut starts = others.start(&ask, Duration::from_micros((lines * LINE_EVERY) as u64)).await?;
    parts::finished(&ask, &job_id).await?;
    let resident = [cluster.scheduler(0).pid(), cluster.runner(RUNNER).pid()].map(processes::resident_bytes);
    let stamped = written.count(writers, PATIENCE).await;
    let mut times: Vec<f64> = stamped.iter().map(|stamp| ms(stamp.first, stamp.last)).collect();
    let mut floors = before;
    floors.extend(alone(&words(&bare), writers, cluster.directory())?);

    let slower = percentile(&mut times, 50.0) / percentile(&mut floors, 50.0);
    let (p50, p99) = (percentile(&mut starts, 50.0), percentile(&mut starts, 99.0));
    let figure = Figure::new("p10", parts::name(backend), writers, slower, "of the time alone")
        .with("lines_a_process", lines)
        .with("dispatch_p50_ms", round(p50))
        .with("dispatch_p99_ms", round(p99))
        .with("scheduler_mb", round(resident[0] as f64 / 1e6))
        .with("runner_mb", round(resident[1] as f64 / 1e6));
    let reached = slower <= 1.05 && p99 < 50.0;
    Ok(vec![if settings.smoke { figure } else { figure.reach("<= 1.05, dispatch p99 < 50 ms", reached) }])
}

/// The same processes without Baton, each with two fresh files: how long each of them ran, in milliseconds.
fn alone(words: &[String], count: usize, directory: &std::path::Path) -> anyhow::Result<Vec<f64>> {
    let begun = now();
    let children: Vec<Child> = (0..count)
        .map(|number| {
            let file = |kind: &str| File::create(directory.join(format!("alone-{number}.{kind}")));
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
            command.spawn().context("a child is spawned")
        })
        .collect::<Result<_, _>>()?;
    for mut child in children {
        child.wait()?;
    }
    let text = std::fs::read_to_string(&words[1])?;
    let stamps = text.lines().filter_map(crate::stamps::parse).filter(|stamp| stamp.first >= begun);
    Ok(stamps.map(|stamp| ms(stamp.first, stamp.last)).collect())
}

/// Small tasks that are started now and then on a runner of their own, to see whether other work is held up.
pub(super) struct Others {
    stamps: Stamps,
}

impl Others {
    /// Adds the runner, and the job.
    pub(super) async fn beside(cluster: &mut Cluster) -> anyhow::Result<Self> {
        cluster.add_runner(RunnerSpec::named("aside").slots(ASIDE_SLOTS).label("for=others")).await;
        let stamps = Stamps::fresh(cluster.directory(), "others");
        let command = stamps.command("start");
        let task = json!([{"name": "start", "command": command, "runner": {"match_labels": {"for": "others"}}}]);
        cluster.ask().apply(&job("others", &task)).await?;
        Ok(Self { stamps })
    }

    /// Starts one every now and then for so long, and says how long each took to its first instruction, in milliseconds.
    pub(super) async fn start(&self, ask: &Asked, span: Duration) -> anyhow::Result<Vec<f64>> {
        let (begin, mut asked) = (Instant::now(), Vec::new());
        while asked.is_empty() || begin.elapsed() < span {
            asked.push(now());
            ask.run("others", &[]).await?;
            sleep(START_EVERY).await;
        }
        let mut stamped = self.stamps.count(asked.len(), PATIENCE).await;
        stamped.sort_by_key(|stamp| stamp.first);
        Ok(asked.iter().zip(&stamped).map(|(asked, stamp)| ms(*asked, stamp.first)).collect())
    }
}
