//! What the parts take of the processors. Other work on the machine changes times by multiples and this by little, so it is
//! what two versions are compared by.

use std::fs;

use baton_tests::{Cluster, processes};
use serde_json::{Value, json};

use crate::figure::round;

/// The ticks of `/proc/PID/stat` a second; Linux has them so on every architecture that Baton runs on.
const TICKS: f64 = 100.0;

/// What each part had taken at some moment, or took between two.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    scheduler: Taken,
    /// Runner and watchdog, without the tasks.
    runner: Taken,
    /// The processes of tasks, as far as they have ended.
    tasks: f64,
    /// The PostgreSQL server, everything below it included.
    database: f64,
    /// This process: clients, and the runner that it embeds.
    bench: Taken,
}

#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    seconds: f64,
    /// How often its threads gave a processor away because they had to wait.
    waits: u64,
}

impl Cost {
    /// What the first scheduler, this runner (if it is a process of its own) and the database have taken so far.
    pub(crate) fn so_far(cluster: &mut Cluster, runner: Option<&str>) -> Self {
        let scheduler = cluster.scheduler(0).pid();
        let mut cost =
            Self { scheduler: taken(scheduler), bench: taken(std::process::id().cast_signed()), ..Self::default() };
        if let Some(id) = runner {
            let runner = cluster.runner(id);
            let (watchdog, runner) = (runner.part.pid(), runner.pid());
            cost.runner = taken(runner);
            cost.tasks = seconds(runner).1;
            if watchdog != runner {
                cost.runner = cost.runner.and(taken(watchdog));
            }
        }
        if let Some(server) = cluster.database_server() {
            let (own, ended) = seconds(server);
            let backends: f64 = processes::descendants(server).into_iter().map(|pid| seconds(pid).0).sum();
            cost.database = own + ended + backends;
        }
        cost
    }

    /// What was taken since an earlier moment.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            scheduler: self.scheduler.since(earlier.scheduler),
            runner: self.runner.since(earlier.runner),
            tasks: self.tasks - earlier.tasks,
            database: self.database - earlier.database,
            bench: self.bench.since(earlier.bench),
        }
    }

    /// In microseconds, for each of so many.
    pub(crate) fn each(self, count: usize) -> Value {
        let micros = |seconds: f64| round(seconds * 1e6 / count as f64);
        let waits = |taken: Taken| round(taken.waits as f64 / count as f64);
        json!({
            "scheduler": micros(self.scheduler.seconds),
            "scheduler_waits": waits(self.scheduler),
            "runner": micros(self.runner.seconds),
            "runner_waits": waits(self.runner),
            "tasks": micros(self.tasks),
            "database": micros(self.database),
            "bench": micros(self.bench.seconds),
        })
    }
}

impl Taken {
    fn and(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, waits: self.waits + other.waits }
    }

    fn since(self, earlier: Self) -> Self {
        Self { seconds: self.seconds - earlier.seconds, waits: self.waits.saturating_sub(earlier.waits) }
    }
}

fn taken(pid: i32) -> Taken {
    Taken { seconds: seconds(pid).0, waits: waits(pid) }
}

/// The seconds that a process has taken itself, and those of its children that ended; nothing of one that is gone.
fn seconds(pid: i32) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything, so the fields are counted from its end.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace()).into_iter().flatten();
    // User and system time, of its own and of its children: the 14th to 17th field, of which 2 are before the name's end.
    let ticks: Vec<f64> = fields.skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    match ticks[..] {
        [user, system, children_user, children_system] => {
            ((user + system) / TICKS, (children_user + children_system) / TICKS)
        }
        _ => (0.0, 0.0),
    }
}

/// The voluntary switches of the threads that a process has.
fn waits(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads
        .filter_map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}
