//! Thousands of runners that hold nothing, each on a connection of its own: a stream that says hello, beats, and dials
//! again as rule 11 says when it breaks.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use baton::v1::{self, DrainState, Heartbeat, Hello, SlotReport, SlotStatus};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{Api, ByHand};

/// Files that this process needs besides one a session.
const OTHER_FILES: u64 = 500;
/// How long a hello may stay without an answer before another dial.
const HELLO_PATIENCE: Duration = Duration::from_secs(20);
/// The frames that may wait in one session.
const IN_FLIGHT: usize = 4;

/// The client of a stream.
type Heartbeats = v1::heartbeat_service_client::HeartbeatServiceClient<Channel>;

/// Runners without tasks. They go away when this is dropped.
#[derive(Debug)]
pub struct Crowd {
    online: watch::Sender<usize>,
    count: usize,
    _sessions: JoinSet<()>,
}

impl Crowd {
    /// How many sessions this process may have: a file each, as many as the system lets it open.
    pub fn most(wanted: usize) -> usize {
        let limit = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
        if room < wanted {
            eprintln!("{wanted} sessions need as many open files, and this process may have {files}: {room} are tried");
        }
        wanted.min(room)
    }

    /// Dials this scheduler with so many runners, each over a connection of its own.
    pub fn dial(scheduler: SocketAddr, count: usize) -> Self {
        Self::dial_over(scheduler, count, None)
    }

    /// The same over so many connections for all of them, as behind a proxy.
    pub fn dial_over(scheduler: SocketAddr, count: usize, connections: Option<usize>) -> Self {
        let online = watch::Sender::new(0);
        let shared: Vec<Heartbeats> = (0..connections.unwrap_or(0)).map(|_| Api::to(scheduler).heartbeats).collect();
        let mut sessions = JoinSet::new();
        for number in 0..count {
            let online = online.clone();
            let over = (!shared.is_empty()).then(|| shared[number % shared.len()].clone());
            let hello = ByHand::hello(&format!("crowd-{number}"));
            sessions.spawn(async move { live(scheduler, over, hello, online).await });
        }
        Self { online, count, _sessions: sessions }
    }

    /// How many have been welcomed and are connected.
    pub fn online(&self) -> usize {
        *self.online.borrow()
    }

    /// Waits until all of them are, and says how long that took.
    pub async fn all_online(&self, limit: Duration) -> Duration {
        let since = Instant::now();
        self.until(&format!("{} sessions are online", self.count), limit, |online| online == self.count).await;
        since.elapsed()
    }

    /// Waits until none of them is.
    pub async fn none_online(&self, limit: Duration) {
        self.until("every session has ended", limit, |online| online == 0).await;
    }

    async fn until(&self, what: &str, limit: Duration, holds: impl Fn(usize) -> bool) {
        let mut online = self.online.subscribe();
        let Ok(seen) = timeout(limit, online.wait_for(|online| holds(*online))).await else {
            panic!("waited {limit:?} in vain: {what}")
        };
        seen.expect("the crowd is there");
    }
}

/// One runner: session after session, with a back-off drawn from the whole window.
async fn live(scheduler: SocketAddr, over: Option<Heartbeats>, mut hello: Hello, online: watch::Sender<usize>) {
    let mut failures = 0;
    let dial = || over.clone().unwrap_or_else(|| Api::to(scheduler).heartbeats);
    let (mut base, mut cap) = (Duration::from_secs(1), Duration::from_secs(8));
    loop {
        if let Some((told_base, told_cap)) = session(dial(), &hello, &online).await {
            (base, cap, failures) = (told_base, told_cap, 0);
        }
        hello.conn += 1;
        let window = (base * 2_u32.pow(failures.min(3))).min(cap);
        failures += 1;
        // Full jitter, from the only source of chance at hand.
        let chance = (uuid::Uuid::new_v4().as_u128() % 1_000) as u32;
        sleep(window * chance / 1_000).await;
    }
}

/// One stream, from the dial to its end. Gives the back-off that the scheduler told, if it was welcomed.
async fn session(
    mut heartbeats: Heartbeats,
    hello: &Hello,
    online: &watch::Sender<usize>,
) -> Option<(Duration, Duration)> {
    let (frames, sent) = mpsc::channel(IN_FLIGHT);
    let first =
        Heartbeat { seq: 1, hello: Some(hello.clone()), drain: DrainState::Working.into(), ..Default::default() };
    frames.try_send(first).ok()?;
    let opening = async {
        let mut commands = heartbeats.beat(ReceiverStream::new(sent)).await.ok()?.into_inner();
        let first = commands.message().await.ok()??;
        Some((commands, first))
    };
    let (mut commands, first) = timeout(HELLO_PATIENCE, opening).await.ok()??;
    let welcome = first.welcome?;
    let span = |span: Option<prost_types::Duration>, default: u64| {
        span.and_then(|span| Duration::try_from(span).ok()).unwrap_or(Duration::from_secs(default))
    };
    let beat = span(welcome.heartbeat_interval, 10);
    let told = (span(welcome.backoff_base, 1), span(welcome.backoff_max, 8));
    let (mut seq, mut ack) = (1, first.seq);
    online.send_modify(|online| *online += 1);
    let mut ticks = tokio::time::interval(beat);
    loop {
        tokio::select! {
            command = commands.message() => match command {
                Ok(Some(command)) => ack = command.seq,
                _ => break,
            },
            _ = ticks.tick() => {
                seq += 1;
                let idle = SlotReport { slot: 0, status: SlotStatus::Idle.into(), ..Default::default() };
                let drain = DrainState::Working.into();
                if frames.try_send(Heartbeat { seq, ack, slots: vec![idle], drain, ..Default::default() }).is_err() {
                    break;
                }
            }
        }
    }
    online.send_modify(|online| *online -= 1);
    Some(told)
}
