//! The ledger loop: a client writes down what was accepted, tasks leave marks, parts are killed and frozen at random;
//! then everything heals, and ledger, scheduler and marks must agree.
//!
//! Settings are in the environment: `SEED` (random and printed when not given), `MINUTES` (3), `SCHEDULERS` (3 on
//! PostgreSQL; SQLite has one), `RUNNERS` (6; 3 on SQLite) and `DATABASE_URL` (`sqlite` for a file of its own; a private
//! PostgreSQL when not given and installed).

mod chaos;
mod client;
mod random;
mod settings;
mod shapes;
mod verdict;

use std::process::ExitCode;

use baton_tests::{Backend, RunnerSpec, World, proxy::Proxy, service::Service, v1::RunnerState};
use tokio::{sync::watch, time::Instant};

use crate::{client::Client, settings::Settings};

/// Clients that run jobs side by side.
const CLIENTS: u64 = 4;
const SLOTS: u32 = 4;

#[tokio::main]
async fn main() -> ExitCode {
    let settings = match Settings::read() {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    println!("{settings}");
    let mut world = World::on(settings.backend).quick().schedulers(settings.schedulers).with_fronts();
    // What is told to others is told to a service of ours, and soon again when it could not be.
    world = world.scheduler_arg("--callback-allow=127.0.0.0/8").scheduler_arg("--callback-backoff=100ms");
    // Its server is restarted too.
    if settings.backend == Backend::Postgres {
        world = world.with_own_server();
    }
    let mut cluster = world.start().await;
    // Runners reach each scheduler by a way that can be broken too.
    let mut ways = Vec::new();
    for index in 0..settings.schedulers {
        ways.push(Proxy::at(cluster.front(index), cluster.address_of(index)).await);
    }
    let fronts: Vec<_> = ways.iter().map(|way| format!("http://{}", way.address())).collect();
    for number in 0..settings.runners {
        let spec = RunnerSpec::named(&format!("runner-{number}")).slots(SLOTS).asks_this_machine();
        cluster.add_runner(RunnerSpec { dials: Some(fronts.join(",")), ..spec }).await;
    }
    let marks = cluster.marks("soak");
    let addresses: Vec<_> = (0..settings.schedulers).map(|index| cluster.address_of(index)).collect();
    let service = Service::start().await;
    shapes::apply(&cluster, &marks, &service).await;

    let (stop, stopped) = watch::channel(false);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client::new(settings.seed.wrapping_add(number), addresses.clone());
            tokio::spawn(client.work(stopped.clone()))
        })
        .collect();
    let until = Instant::now() + settings.time;
    let deeds = chaos::reign(&mut cluster, &ways, settings.seed, settings.runners, until).await;

    let _ = stop.send(true);
    let mut ledger = Vec::new();
    for client in clients {
        ledger.extend(client.await.expect("a client does not panic"));
    }
    for number in 0..settings.runners {
        cluster.runner_is(&format!("runner-{number}"), RunnerState::Online).await;
    }
    // Nothing new comes, so that what there is can come to rest.
    cluster.baton(&["disable", shapes::TICKING]).await.exits(0);
    let report = verdict::judge(&cluster, &marks, &service, &ledger).await;
    println!("{deeds}");
    println!("{report}");
    if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
