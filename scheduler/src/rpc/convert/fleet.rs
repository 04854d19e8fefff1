//! Runners and schedulers as messages.

use baton::v1;

use super::timestamp;
use crate::{
    domain::{runner::RunnerState, scheduler::SchedulerState},
    store::read,
};

pub(crate) fn runner(runner: read::Runner, state: RunnerState) -> v1::Runner {
    let state = match state {
        RunnerState::Online => v1::RunnerState::Online,
        RunnerState::Draining => v1::RunnerState::Draining,
        RunnerState::Silent => v1::RunnerState::Silent,
        RunnerState::Offline => v1::RunnerState::Offline,
    };
    v1::Runner {
        id: runner.id,
        state: state.into(),
        labels: runner.labels.into_iter().collect(),
        version: runner.version,
        capabilities: runner.capabilities,
        slots: runner.slots,
        slots_busy: runner.slots_busy,
        last_seen_time: Some(timestamp(runner.last_seen_at)),
        scheduler_id: runner.scheduler_id.map(|id| id.to_string()).unwrap_or_default(),
        reason: runner.drain_reason,
        create_time: Some(timestamp(runner.created_at)),
    }
}

pub(crate) fn scheduler(scheduler: read::Scheduler, state: SchedulerState) -> v1::Scheduler {
    let state = match state {
        SchedulerState::Working => v1::SchedulerState::Working,
        SchedulerState::Drained => v1::SchedulerState::Drained,
        SchedulerState::Offline => v1::SchedulerState::Offline,
    };
    v1::Scheduler {
        id: scheduler.id.to_string(),
        address: scheduler.address,
        version: scheduler.version,
        state: state.into(),
        start_time: Some(timestamp(scheduler.started_at)),
        last_seen_time: Some(timestamp(scheduler.last_seen_at)),
        runners: scheduler.runners,
    }
}
