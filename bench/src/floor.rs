//! What the bare machine does: the same work with nothing of Baton in it.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use anyhow::Context as _;
use baton_tests::{Backend, Cluster};

use crate::{
    bare::Bare,
    figure::percentile,
    stamps::{Stamps, ms, now},
};

/// The parts of the floor of a single task, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Single {
    /// A spawn, to the child's first instruction.
    pub(crate) spawn: f64,
    /// A durable commit of one row.
    pub(crate) commit: f64,
    /// A byte there and back over loopback.
    pub(crate) round_trip: f64,
}

impl Single {
    /// Measures them one after the other.
    pub(crate) async fn measure(cluster: &Cluster, backend: Backend, samples: usize) -> anyhow::Result<Self> {
        let stamps = Stamps::fresh(cluster.directory(), "floor");
        let spawn = spawn(&stamps, samples)?;
        let database = Bare::open(cluster, backend).await?;
        let commit = database.commit(samples).await?;
        let round_trip = round_trip(samples * 10)?;
        Ok(Self { spawn, commit, round_trip })
    }

    /// What a task cannot take less than.
    pub(crate) fn sum(self) -> f64 {
        self.spawn + self.commit + self.round_trip
    }

    /// Between two measurements, before and after.
    pub(crate) fn between(self, other: Self) -> Self {
        let mean = |a: f64, b: f64| f64::midpoint(a, b);
        Self {
            spawn: mean(self.spawn, other.spawn),
            commit: mean(self.commit, other.commit),
            round_trip: mean(self.round_trip, other.round_trip),
        }
    }
}

/// From a bare `posix_spawn` to the child's first instruction, the median.
fn spawn(stamps: &Stamps, samples: usize) -> anyhow::Result<f64> {
    let mut starts = Vec::with_capacity(samples);
    for _ in 0..samples {
        let words = stamps.command("bare");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        starts.push(now());
        command.status().context("a child is spawned")?;
    }
    let stamps = stamps.read();
    let mut times: Vec<f64> = starts.iter().zip(&stamps).map(|(start, stamp)| ms(*start, stamp.first)).collect();
    anyhow::ensure!(times.len() == samples, "a bare child left no stamp");
    Ok(percentile(&mut times, 50.0))
}

/// A byte there and back over loopback, the median.
fn round_trip(samples: usize) -> anyhow::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    for socket in [&here, &there] {
        socket.set_nodelay(true)?;
    }
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while there.read_exact(&mut byte).is_ok() && there.write_all(&byte).is_ok() {}
    });
    let mut times = Vec::with_capacity(samples);
    let mut byte = [1];
    for _ in 0..samples {
        let start = now();
        here.write_all(&byte)?;
        here.read_exact(&mut byte)?;
        times.push(ms(start, now()));
    }
    drop(here);
    echo.join().expect("the echo does not panic");
    Ok(percentile(&mut times, 50.0))
}

/// Spawns `count` children two at a time, each with standard output and error in two fresh files of `directory`, or
/// with none: children a second.
pub(crate) fn children(count: usize, program: &str, directory: Option<&Path>) -> anyhow::Result<f64> {
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return Ok(());
                        }
                        let mut command = Command::new(program);
                        command.arg(number.to_string()).stdin(Stdio::null());
                        if let Some(directory) = directory {
                            command.stdout(File::create(directory.join(format!("{number}.out")))?);
                            command.stderr(File::create(directory.join(format!("{number}.err")))?);
                        } else {
                            command.stdout(Stdio::null()).stderr(Stdio::null());
                        }
                        command.status().context("a child is spawned")?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a spawner does not panic"))
    })?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// The same children by `xargs -P16`, which gives no child files of its own: children a second.
pub(crate) fn xargs(count: usize) -> anyhow::Result<f64> {
    let start = Instant::now();
    let script = format!("seq {count} | xargs -P16 -n1 /bin/echo > /dev/null");
    let status = Command::new("sh").args(["-c", &script]).status().context("a shell is started")?;
    anyhow::ensure!(status.success(), "xargs failed");
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
