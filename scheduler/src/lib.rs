//! Baton's scheduler: decides what runs, when and where.
//!
//! Four rooms, and the arrows between them point one way: `rpc → flow → store → domain`. [`Scheduler`] puts them
//! together in one process.

pub mod config;
pub mod domain;
pub mod flow;
mod rpc;
pub mod store;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};
use uuid::Uuid;

use crate::{
    config::Config,
    domain::retention,
    flow::Engine,
    rpc::{Api, STREAMS_MAX, server},
    store::Store,
};

/// How long the engine may take to finish its turn and take leave of its runners. Its database may be gone.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How long what is left of streams may take to end.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(5);

/// A scheduler that is ready to serve: its database is open, its port is taken.
#[derive(Debug)]
pub struct Scheduler {
    api: Api,
    turning: JoinHandle<()>,
    retention: retention::Policy,
    listener: TcpListener,
    local_addr: SocketAddr,
}

/// Why a scheduler does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its port cannot be had.
    #[error("cannot listen on {address}: {problem}")]
    Listen {
        /// Where it should listen.
        address: SocketAddr,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Its database cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// It could not serve.
    #[error("cannot serve: {0}")]
    Serve(String),
    /// The engine ended although nobody stopped it.
    #[error("the engine ended by itself, which is a fault of Baton; the log says more")]
    Engine,
}

impl Scheduler {
    /// Takes the port, opens the database and starts the engine. Nothing is served before [`Scheduler::run`].
    pub async fn start(config: Config) -> Result<Self, Error> {
        let listener = TcpListener::bind(config.listen).await.map_err(|error| cannot_listen(config.listen, &error))?;
        let local_addr = listener.local_addr().map_err(|error| cannot_listen(config.listen, &error))?;
        let store = Store::open(&config.database).await?;
        let id = Uuid::now_v7();
        let address = config.advertise.unwrap_or_else(|| local_addr.to_string());
        let tx = store.begin().await?;
        store::scheduler::register(&tx, id, &address, env!("CARGO_PKG_VERSION")).await?;
        // Whoever had callbacks in hand before at this address, or on this file, is gone.
        let before = if store.is_clustered() { Some(address.as_str()) } else { None };
        let now = store::scheduler::now(&tx).await?;
        store::callback::release_of_gone(&tx, id, before, now).await?;
        tx.commit().await?;
        let public_url = config.public_url.unwrap_or_else(|| format!("http://{address}"));
        let settings = flow::Settings {
            store: store.clone(),
            timing: config.timing,
            scheduler: id,
            address,
            public_url,
            courier: config.courier,
        };
        let (engine, turning) = Engine::start(settings);
        let retention = config.retention;
        let api = Api {
            store,
            engine,
            timing: config.timing,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        };
        Ok(Self { api, turning, retention, listener, local_addr })
    }

    /// Where it listens: the port that was chosen when port 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` ends. Then it stops in order: nothing is given out any more, the runners are told where
    /// to go, the turn under way is finished, streams end, the database is closed. Runners go on with what they have.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { api, mut turning, retention, listener, local_addr } = self;
        info!(address = %local_addr, version = env!("CARGO_PKG_VERSION"), "serving");
        let mut serving = tokio::spawn(server::serve(api.clone(), listener));
        api.tasks.spawn(flow::keep(api.store.clone(), api.engine.clone(), retention, api.stop.clone()));
        if let Some(wakes) = api.store.wakes() {
            api.tasks.spawn(listen(api.clone(), wakes));
        }
        let mut ended = tokio::select! {
            () = shutdown => Ok(()),
            served = &mut serving => Err(Error::Serve(match served {
                Ok(Ok(())) => "the server ended by itself".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(panic) => panic.to_string(),
            })),
            _ = &mut turning => Err(Error::Engine),
        };
        info!("stopping");
        if !turning.is_finished() && time::timeout(STOP_TIMEOUT, api.engine.stop()).await.is_err() {
            warn!("the engine did not stop within {STOP_TIMEOUT:?}");
        }
        api.stop.cancel();
        if !serving.is_finished()
            && let Ok(Err(error)) = serving.await
        {
            ended = ended.and(Err(Error::Serve(error.to_string())));
        }
        api.tasks.close();
        if time::timeout(STREAMS_TIMEOUT, api.tasks.wait()).await.is_err() {
            warn!("some streams did not end within {STREAMS_TIMEOUT:?}");
        }
        turning.abort();
        if let Err(error) = api.store.close().await {
            warn!(%error, "the database did not close cleanly");
        }
        info!("stopped");
        ended
    }
}

/// Has the engine look whenever another scheduler calls.
async fn listen(api: Api, mut wakes: store::Wakes) {
    loop {
        tokio::select! {
            () = wakes.next() => api.engine.wake().await,
            () = api.stop.cancelled() => return,
        }
    }
}

fn cannot_listen(address: SocketAddr, error: &io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {} is taken, perhaps by another scheduler: stop that one, or give --listen another port (port 0 takes \
             any that is free)",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => "permission denied: give --listen a port above 1023".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address: look at --listen".to_owned(),
        _ => error.to_string(),
    };
    Error::Listen { address, problem }
}
