//! What is done to the parts, at random but repeatable by its seed, and how they are healed afterwards.

use std::{collections::BTreeMap, fmt, time::Duration};

use baton_tests::{
    Cluster, PATIENCE, eventually, processes,
    proxy::{Cut, Proxy, Way},
};
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use crate::random::Random;

/// Everything that can be done to a part.
const DEEDS: [Deed; 14] = [
    Deed::KillScheduler,
    Deed::StopScheduler,
    Deed::FreezeScheduler,
    Deed::KillRunner,
    Deed::KillRunner,
    Deed::KillWatchdogAndRunner,
    Deed::FreezeRunner,
    Deed::StopRunner,
    Deed::DrainRunner,
    Deed::RollingRestart,
    Deed::RestartDatabase,
    Deed::CutStreams,
    Deed::HoldOneWay,
    Deed::PartThem,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    KillScheduler,
    StopScheduler,
    FreezeScheduler,
    KillRunner,
    KillWatchdogAndRunner,
    FreezeRunner,
    StopRunner,
    DrainRunner,
    RollingRestart,
    RestartDatabase,
    /// Every stream to one scheduler breaks.
    CutStreams,
    /// One direction between runners and one scheduler stands still.
    HoldOneWay,
    /// Both do.
    PartThem,
}

/// What was done, and how often.
#[derive(Debug, Default)]
pub(crate) struct Deeds(BTreeMap<Deed, usize>);

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<_> = self.0.iter().map(|(deed, count)| format!("{deed:?} {count}")).collect();
        write!(f, "done to the parts: {}", each.join(", "))
    }
}

/// Breaks one thing after the other until the time is over; every part, and every way to a scheduler, is whole again
/// when this returns.
pub(crate) async fn reign(cluster: &mut Cluster, ways: &[Proxy], seed: u64, runners: usize, until: Instant) -> Deeds {
    let mut random = Random::seeded(seed);
    let schedulers = cluster.schedulers();
    let has_server = cluster.try_sql("SELECT 1").is_some();
    let mut deeds = Deeds::default();
    while Instant::now() < until {
        pause(random.milliseconds(300..2500)).await;
        let deed = *random.of(&DEEDS);
        *deeds.0.entry(deed).or_default() += 1;
        let scheduler = random.below(schedulers);
        let runner = format!("runner-{}", random.below(runners));
        let absence = random.milliseconds(0..4000);
        match deed {
            Deed::KillScheduler => {
                cluster.scheduler(scheduler).kill();
                pause(absence).await;
                cluster.start_scheduler(scheduler).await;
            }
            Deed::StopScheduler => {
                cluster.scheduler(scheduler).terminate();
                cluster.scheduler(scheduler).end(PATIENCE).await;
                pause(absence).await;
                cluster.start_scheduler(scheduler).await;
            }
            Deed::RollingRestart => {
                for index in 0..schedulers {
                    cluster.scheduler(index).terminate();
                    cluster.scheduler(index).end(PATIENCE).await;
                    cluster.start_scheduler(index).await;
                }
            }
            // A file has no server: there it is the scheduler that goes and comes.
            Deed::RestartDatabase if !has_server => {
                cluster.scheduler(scheduler).kill();
                cluster.start_scheduler(scheduler).await;
            }
            Deed::RestartDatabase => cluster.restart_database(random.below(2) == 0),
            Deed::CutStreams => ways[scheduler].cut(*random.of(&[Cut::Close, Cut::Reset])),
            Deed::HoldOneWay => {
                ways[scheduler].hold(*random.of(&[Way::Up, Way::Down]));
                pause(absence * 2).await;
                ways[scheduler].heal();
            }
            Deed::PartThem => {
                ways[scheduler].part();
                pause(absence * 2).await;
                ways[scheduler].heal();
            }
            Deed::DrainRunner => {
                until_done(cluster, &["drain", &runner]).await;
                pause(absence).await;
                until_done(cluster, &["resume", &runner]).await;
            }
            Deed::FreezeScheduler => {
                cluster.scheduler(scheduler).freeze();
                pause(absence).await;
                cluster.scheduler(scheduler).thaw();
            }
            Deed::KillRunner => cluster.runner(&runner).kill(),
            Deed::KillWatchdogAndRunner => {
                cluster.runner(&runner).kill_with_watchdog().await;
                pause(absence).await;
                start_again(cluster, &runner);
            }
            Deed::FreezeRunner => {
                let frozen = cluster.runner(&runner).pid();
                processes::signal(frozen, Signal::STOP);
                pause(absence * 2).await;
                processes::signal(frozen, Signal::CONT);
            }
            Deed::StopRunner => {
                let stopping = cluster.runner(&runner);
                stopping.part.terminate();
                pause(absence).await;
                // The second time it stops its tasks instead of waiting for them.
                let stopping = cluster.runner(&runner);
                stopping.part.terminate();
                stopping.part.end(PATIENCE).await;
                start_again(cluster, &runner);
            }
        }
    }
    deeds
}

/// Asks for something until it is done: the database may just have been restarted.
async fn until_done(cluster: &Cluster, words: &[&str]) {
    eventually(&words.join(" "), PATIENCE, || async { (cluster.baton(words).await.code == 0).then_some(()) }).await;
}

fn start_again(cluster: &mut Cluster, id: &str) {
    let spec = cluster.take_runner(id).spec.clone();
    cluster.spawn_runner(spec);
}

async fn pause(span: Duration) {
    sleep_until(Instant::now() + span).await;
}
