//! What is to be measured, how often and how much of it.

use baton_tests::Backend;

use crate::workloads::Workload;

/// Measures Baton against the floor of this machine.
#[derive(Debug, clap::Parser)]
#[command(name = "baton-bench", max_term_width = 110)]
pub(crate) struct Args {
    /// What to measure; everything when nothing is named
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<Workload>,
    /// Only what must never get worse: p3 p4 idle queue
    #[arg(long, conflicts_with = "workloads")]
    core: bool,
    /// Everything small, to see that it works; the figures mean nothing
    #[arg(long)]
    smoke: bool,
    /// Only on this database; on both when PostgreSQL is installed
    #[arg(long, value_name = "DATABASE")]
    backend: Option<Database>,
    /// How many times each workload runs
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// How many tasks that are over p9 has in the database; 20 million take 30 GB
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    rows: u64,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
}

/// The settings of one run of the program.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) backends: Vec<Backend>,
    pub(crate) smoke: bool,
    pub(crate) runs: usize,
    pub(crate) rows: usize,
}

impl Settings {
    pub(crate) fn of(args: &Args) -> Self {
        let workloads = match (args.core, args.workloads.as_slice()) {
            (true, _) => Workload::CORE.to_vec(),
            (false, []) => Workload::ALL.iter().copied().filter(|workload| args.smoke || !workload.is_vast()).collect(),
            (false, named) => named.to_vec(),
        };
        baton_tests::durable();
        let backends = match args.backend {
            Some(Database::Sqlite) => vec![Backend::Sqlite],
            Some(Database::Postgres) => vec![Backend::Postgres],
            None => [Backend::Sqlite, Backend::Postgres].into_iter().filter(|backend| backend.is_available()).collect(),
        };
        let runs = if args.smoke { 1 } else { args.runs as usize };
        Self { workloads, backends, smoke: args.smoke, runs, rows: args.rows as usize }
    }

    /// How much of something: this, or little in a smoke run.
    pub(crate) fn amount(&self, full: usize, smoke: usize) -> usize {
        if self.smoke { smoke } else { full }
    }
}
