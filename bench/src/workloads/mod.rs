//! The workloads. Each is one file: what is started, what is asked of it, what is counted.

mod chain;
mod echo;
mod expand;
mod fan;
mod faults;
mod handlers;
mod history;
mod idle;
mod next;
mod noop;
mod queue;
mod saturation;
mod schedules;
mod second;
mod sessions;
mod single;
mod writers;

use baton_tests::Backend;

use crate::{
    figure::{Figure, round},
    floor::Single,
    settings::Settings,
};

/// Something that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Workload {
    /// From the Run RPC leaving a connected client to the child's first instruction
    P3,
    /// A chain of 100 tasks: parent's exit to the child's first instruction
    P4,
    /// A scheduler idle with one runner
    Idle,
    /// 10,000 one-task jobs queued at once
    Queue,
    /// Independent tasks, each a real child process, output stored and read back
    P1,
    /// 50 jobs of 1,000 tasks that do nothing, in an embedded runner with 64 slots
    P2,
    /// A fan of real processes: 1, 1,000, 1
    P5,
    /// Sessions of runners that have nothing to do: 1,000 and 10,000, and 10,000 over 10 connections
    P6,
    /// Idle: a scheduler alone, with 100 runners, with 10,000 schedules
    P7,
    /// A job of 10,000 tasks: apply and expand
    P8,
    /// The same work with millions of tasks in the database that are over (--rows); only when named
    P9,
    /// 200 processes that write 100 lines a second each
    P10,
    /// 5,000 handlers in an embedded runner that append 4 KiB a second each
    P10Handlers,
    /// Ever more clients at once, to far past the knee
    P11,
    /// 1,000,000 stored schedules, of which 100 a second are due
    SchedulesMillion,
    /// 5,000 schedules due in one second, with 1, 2 and 3 schedulers
    SchedulesBurst,
    /// A schedule that fires every second on an idle `baton dev`
    SchedulesSecond,
    /// When a schedule fires next: typical expressions, and the worst
    Next,
    /// One of two schedulers is killed: until each of its runners works for the other
    FaultsTakeover,
    /// Runners fall silent: until that is noticed
    FaultsSilent,
    /// Runners are killed: until their tasks are decided
    FaultsKilled,
    /// A scheduler with 9,000 sessions is killed and started again: until all are back
    FaultsSessions,
}

impl Workload {
    /// All of them.
    pub(crate) const ALL: [Self; 22] = [
        Self::P3,
        Self::P4,
        Self::Idle,
        Self::Queue,
        Self::P1,
        Self::P2,
        Self::P5,
        Self::P6,
        Self::P7,
        Self::P8,
        Self::P9,
        Self::P10,
        Self::P10Handlers,
        Self::P11,
        Self::SchedulesMillion,
        Self::SchedulesBurst,
        Self::SchedulesSecond,
        Self::Next,
        Self::FaultsTakeover,
        Self::FaultsSilent,
        Self::FaultsKilled,
        Self::FaultsSessions,
    ];

    /// Those that every change is measured by.
    pub(crate) const CORE: [Self; 4] = [Self::P3, Self::P4, Self::Idle, Self::Queue];

    /// Whether it takes so much time and room that it is measured only when named.
    pub(crate) fn is_vast(self) -> bool {
        matches!(self, Self::P9)
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Measures it on one database.
    pub(crate) async fn measure(self, backend: Backend, settings: &Settings) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::P1 => echo::measure(backend, settings).await,
            Self::P2 => noop::measure(backend, settings).await,
            Self::P3 => single::measure(backend, settings).await,
            Self::P4 => chain::measure(backend, settings).await,
            Self::P5 => fan::measure(backend, settings).await,
            Self::P6 => sessions::measure(backend, settings).await,
            Self::P7 => idle::alone_and_not(backend, settings).await,
            Self::P8 => expand::measure(backend, settings).await,
            Self::P9 => history::measure(backend, settings).await,
            Self::P10 => writers::measure(backend, settings).await,
            Self::P10Handlers => handlers::measure(backend, settings).await,
            Self::P11 => saturation::measure(backend, settings).await,
            Self::Idle => idle::measure(backend, settings).await,
            Self::Queue => queue::measure(backend, settings).await,
            Self::SchedulesMillion => schedules::million(backend, settings).await,
            Self::SchedulesBurst => schedules::burst(backend, settings).await,
            Self::SchedulesSecond => second::measure(backend, settings).await,
            Self::Next => Ok(next::measure(backend, settings)),
            Self::FaultsTakeover => faults::takeover(backend, settings).await,
            Self::FaultsSilent => faults::silent(backend, settings).await,
            Self::FaultsKilled => faults::killed(backend, settings).await,
            Self::FaultsSessions => faults::sessions(backend, settings).await,
        }
    }
}

/// A figure with the parts of its floor beside it.
fn with_floor(figure: Figure, floor: Single) -> Figure {
    figure
        .with("floor_spawn", round(floor.spawn))
        .with("floor_commit", round(floor.commit))
        .with("floor_round_trip", round(floor.round_trip))
}
