//! `baton-bench`: starts real parts on loopback, gives them work, and says how far they are from the floor of the
//! machine. Each workload prints one line of JSON; a table comes at the end.

mod bare;
mod bare_streams;
mod cost;
mod figure;
mod floor;
mod parts;
mod settings;
mod stamps;
mod workloads;

use std::{fs, process::ExitCode};

use clap::Parser as _;

use crate::settings::{Args, Settings};

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(address) = bare_streams::wanted() {
        let outcome = bare_streams::serve(address).await;
        eprintln!("error: {outcome:?}");
        return ExitCode::FAILURE;
    }
    let settings = Settings::of(&Args::parse());
    println!("{}", machine());
    let mut figures = Vec::new();
    let mut failed = false;
    for &backend in &settings.backends {
        for workload in &settings.workloads {
            match workload.measure(backend, &settings).await {
                Ok(found) => {
                    for figure in &found {
                        println!("{}", figure.line());
                    }
                    figures.extend(found);
                }
                Err(error) => {
                    eprintln!("error: {} on {backend:?}: {error:#}", workload.name());
                    failed = true;
                }
            }
        }
    }
    println!("\n{}", figure::table(&figures));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What the figures were taken on.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let busy = load.split(' ').next().unwrap_or_default();
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{cores} cores, {model}, Linux {}, load {busy} at the start, {build} build", kernel.trim())
}
