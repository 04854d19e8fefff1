//! P6: runners that hold a stream each and have nothing to do: what one takes of the scheduler's memory, and what its beats
//! take of a processor.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use baton_tests::{Backend, Crowd, processes};
use tokio::time::sleep;

use super::idle::cpu;
use crate::{
    bare_streams,
    figure::{Figure, round},
    parts::{self, PATIENCE},
    settings::Settings,
    stamps::now,
};

/// What the dials left to do is over by then.
const SETTLE: Duration = Duration::from_secs(5);

/// How often each runner beats.
const BEAT_SECONDS: f64 = 10.0;

/// A few connections for all.
const SHARED: usize = 10;

pub(super) async fn measure(backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
    let (few, many) = (settings.amount(1_000, 50), settings.amount(10_000, 200));
    let watched = Duration::from_secs(settings.amount(30, 2) as u64);
    let settle = if settings.smoke { SETTLE / 10 } else { SETTLE };
    let mut figures = Vec::new();
    for (workload, wanted, connections) in
        [("p6-1000", few, None), ("p6-10000", many, None), ("p6-10000-over-10", many, Some(SHARED))]
    {
        let count = if connections.is_some() { wanted } else { Crowd::most(wanted) };
        let mut cluster = parts::start(backend, 0).await;
        let (bare, bare_address) = bare_streams::start(cluster.directory());
        until_it_listens(bare_address).await?;
        let floor = hold(bare.pid(), bare_address, count, connections, watched, settle).await?;
        drop(bare);
        let address = cluster.address();
        let held = hold(cluster.scheduler(0).pid(), address, count, connections, watched, settle).await?;
        let figure = Figure::new(workload, parts::name(backend), count, held.kilobytes, "KB a session")
            .over(floor.kilobytes)
            .with("cpu_percent", round(held.percent))
            .with("cpu_us_a_beat", round(held.micros))
            .with("floor_cpu_us_a_beat", round(floor.micros))
            .with("online_s", round(held.online));
        let reached = held.kilobytes <= 0.85 * floor.kilobytes && (count < 10_000 || held.percent <= 10.0);
        figures.push(if settings.smoke { figure } else { figure.reach("<= 0.85 of the floor", reached) });
    }
    Ok(figures)
}

/// What so many sessions take of a process.
struct Held {
    /// Resident memory, for each.
    kilobytes: f64,
    /// Of a core, for all.
    percent: f64,
    /// Of a core, for each beat.
    micros: f64,
    /// How long it took until all were there, in seconds.
    online: f64,
}

async fn hold(
    pid: i32,
    address: SocketAddr,
    count: usize,
    connections: Option<usize>,
    watched: Duration,
    settle: Duration,
) -> anyhow::Result<Held> {
    let before = processes::resident_bytes(pid);
    let crowd = Crowd::dial_over(address, count, connections);
    let online = crowd.all_online(PATIENCE).await.as_secs_f64();
    sleep(settle).await;
    let (begin, cpu_before) = (now(), cpu(pid)?);
    sleep(watched).await;
    let (seconds, taken) = ((now() - begin) as f64 / 1e9, cpu(pid)? - cpu_before);
    let resident = processes::resident_bytes(pid).saturating_sub(before);
    anyhow::ensure!(crowd.online() == count, "{} of {count} sessions are left", crowd.online());
    Ok(Held {
        kilobytes: resident as f64 / 1e3 / count as f64,
        percent: taken / seconds * 100.0,
        micros: taken * 1e6 / (count as f64 * seconds / BEAT_SECONDS),
        online,
    })
}

async fn until_it_listens(address: SocketAddr) -> anyhow::Result<()> {
    let dial = async {
        while tokio::net::TcpStream::connect(address).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, dial).await.context("the bare server does not listen")
}
