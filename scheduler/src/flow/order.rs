//! What was asked for through the API, as it waits for a turn, and what it came to.

use uuid::Uuid;

use super::keeper::{Keep, Kept};
use super::request::{
    Applied, Apply, Backfill, Caller, CancelBackfill, Complete, Delete, DeleteCalendar, Error, MarkTask, PutCalendar,
    PutCalendars, Repaired, Rerun, Run, Switch, Terminate,
};

/// Something asked for.
#[derive(Debug, Clone)]
pub(super) enum Order {
    Apply(Apply),
    Run(Run),
    Terminate(Terminate),
    Complete(Complete),
    Rerun(Rerun),
    Mark(MarkTask),
    Keep(Keep),
    Delete(Delete),
    Switch(Switch),
    Backfill(Backfill),
    CancelBackfill(CancelBackfill),
    PutCalendars(PutCalendars),
    DeleteCalendar(DeleteCalendar),
    DrainRunner {
        runner: String,
        drained: bool,
        reason: String,
    },
    DrainScheduler {
        scheduler: Uuid,
        drained: bool,
    },
    /// A callback is to be sent again.
    Resend(Uuid),
}

/// What an order came to.
#[derive(Debug, Clone)]
pub(super) enum OrderAnswer {
    Applied(Result<Vec<Applied>, Error>),
    Calendars(Result<Vec<PutCalendar>, Error>),
    Job(Result<Uuid, Error>),
    Count(Result<u32, Error>),
    Repaired(Result<Repaired, Error>),
    Kept(Result<Kept, Error>),
    Done(Result<(), Error>),
}

impl Order {
    /// The job it is about.
    pub(super) fn job(&self) -> Option<Uuid> {
        match self {
            Self::Terminate(terminate) => Some(terminate.job_id),
            Self::Complete(complete) => Some(complete.job_id),
            Self::Rerun(rerun) => Some(rerun.job_id),
            Self::Mark(mark) => Some(mark.job_id),
            _ => None,
        }
    }

    /// The callback it is about.
    pub(super) fn callback(&self) -> Option<Uuid> {
        match self {
            Self::Resend(callback) => Some(*callback),
            _ => None,
        }
    }

    /// Whether it changes what is scheduled.
    pub(super) fn reschedules(&self) -> bool {
        matches!(self, Self::Apply(_) | Self::Delete(_) | Self::Switch(_))
    }

    /// Whether the next turn has more to do because of it: schedules to be planned anew, or jobs to be made.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::PutCalendars(_) | Self::Backfill(_))
    }

    /// The runner it is about.
    pub(super) fn runner(&self) -> Option<&str> {
        match self {
            Self::DrainRunner { runner, .. } => Some(runner),
            _ => None,
        }
    }

    /// Whether other schedulers have to hear of it to carry it out.
    pub(super) fn is_drain(&self) -> bool {
        matches!(self, Self::DrainRunner { .. } | Self::DrainScheduler { .. })
    }

    /// Whether the runner that waits, wherever its session is, has to hear of it.
    pub(super) fn completes(&self) -> bool {
        matches!(self, Self::Complete(_))
    }

    /// Who asks for it, and by which method.
    pub(super) fn caller(&self) -> Option<(&'static str, &Caller)> {
        match self {
            Self::Apply(order) => Some(("Apply", &order.caller)),
            Self::Run(order) => Some(("Run", &order.caller)),
            Self::Terminate(order) => Some(("Terminate", &order.caller)),
            Self::Rerun(order) => Some(("Rerun", &order.caller)),
            Self::Mark(order) => Some(("Mark", &order.caller)),
            Self::Delete(order) => Some(("Delete", &order.caller)),
            Self::Switch(order) => Some(("Switch", &order.caller)),
            Self::Backfill(order) => Some(("Backfill", &order.caller)),
            Self::CancelBackfill(order) => Some(("CancelBackfill", &order.caller)),
            Self::PutCalendars(order) => Some(("PutCalendars", &order.caller)),
            Self::DeleteCalendar(order) => Some(("DeleteCalendar", &order.caller)),
            // A token is good only once.
            Self::Complete(_) => None,
            Self::Keep(_) | Self::DrainRunner { .. } | Self::DrainScheduler { .. } | Self::Resend(_) => None,
        }
    }

    /// What tells it from another request, when its caller gave it an id.
    pub(super) fn request(&self) -> Option<(&'static str, &Caller)> {
        self.caller().filter(|(_, caller)| !caller.request_id.is_empty())
    }

    /// The job configs it is about, by namespace and name.
    pub(super) fn configs(&self) -> Vec<(String, String)> {
        match self {
            Self::Apply(order) => {
                order.configs.iter().map(|(config, _)| (config.namespace.clone(), config.name.clone())).collect()
            }
            Self::Run(order) => vec![(order.namespace.clone(), order.name.clone())],
            Self::Delete(order) => vec![(order.namespace.clone(), order.name.clone())],
            Self::Backfill(order) => vec![(order.namespace.clone(), order.name.clone())],
            Self::CancelBackfill(order) => vec![(order.namespace.clone(), order.name.clone())],
            Self::Switch(order) => vec![(order.namespace.clone(), order.name.clone())],
            _ => Vec::new(),
        }
    }

    /// The answer that says it failed.
    pub(super) fn failed(&self, error: Error) -> OrderAnswer {
        match self {
            Self::Apply(_) => OrderAnswer::Applied(Err(error)),
            Self::Run(_) | Self::Backfill(_) => OrderAnswer::Job(Err(error)),
            Self::PutCalendars(_) => OrderAnswer::Calendars(Err(error)),
            Self::Rerun(_) | Self::Mark(_) => OrderAnswer::Repaired(Err(error)),
            Self::Keep(_) => OrderAnswer::Kept(Err(error)),
            Self::Terminate(_)
            | Self::Delete(_)
            | Self::Switch(_)
            | Self::DeleteCalendar(_)
            | Self::CancelBackfill(_) => OrderAnswer::Count(Err(error)),
            Self::Complete(_) | Self::DrainRunner { .. } | Self::DrainScheduler { .. } | Self::Resend(_) => {
                OrderAnswer::Done(Err(error))
            }
        }
    }
}
