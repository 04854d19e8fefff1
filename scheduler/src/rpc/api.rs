//! What every service works with, and how things are found by what people call them.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::Status;
use uuid::Uuid;

use super::status::{Error, Kind, Violation};
use crate::{
    domain::timing::Timing,
    flow::{Engine, request},
    store::{
        Store,
        read::{Definition, Found, Job},
    },
};

/// The namespace of those who name none.
const NAMESPACE_DEFAULT: &str = "default";
/// How many watches and followed logs a scheduler serves at once.
pub(crate) const STREAMS_MAX: usize = 1000;
/// How many messages of a stream wait for a slow reader.
pub(super) const STREAM_QUEUE_MAX: usize = 2;

/// What every service works with. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) engine: Engine,
    pub(crate) timing: Timing,
    /// Set when the scheduler stops: streams end.
    pub(crate) stop: CancellationToken,
    /// The tasks behind streams, for those who wait for them at the end.
    pub(crate) tasks: TaskTracker,
    pub(crate) streams: Arc<Semaphore>,
}

impl Api {
    /// The namespace that a request means.
    pub(super) fn namespace(given: String) -> String {
        if given.is_empty() { NAMESPACE_DEFAULT.to_owned() } else { given }
    }

    /// A job by its id, or by a unique beginning or end of it.
    pub(super) async fn job(&self, part: &str) -> Result<Job, Error> {
        match self.store.find_job(part).await? {
            Found::None => Err(self.no_job(part).await),
            found => self.job_by_id(one("job_id", Kind::Job, part, found)?).await,
        }
    }

    /// A job by its id.
    pub(super) async fn job_by_id(&self, id: Uuid) -> Result<Job, Error> {
        match self.store.job(id).await? {
            Some(job) => Ok(job),
            None => Err(self.no_job(&id.to_string()).await),
        }
    }

    /// "There is no such job", or not any more.
    async fn no_job(&self, part: &str) -> Error {
        match self.store.was_removed(part).await {
            Ok(true) => Error::Refused(request::Error::Expired { kind: "job", name: part.to_owned() }),
            Ok(false) => Error::not_found(Kind::Job, part),
            Err(error) => error.into(),
        }
    }

    /// The id of a callback by a unique beginning or end of it.
    pub(super) async fn callback_id(&self, part: &str) -> Result<Uuid, Error> {
        one("callback_id", Kind::Callback, part, self.store.find_callback(part).await?)
    }

    /// The id of a scheduler by a unique beginning or end of it.
    pub(super) async fn scheduler_id(&self, part: &str) -> Result<Uuid, Error> {
        one("scheduler_id", Kind::Scheduler, part, self.store.find_scheduler(part).await?)
    }

    /// The definition that a job was made from.
    pub(super) async fn definition(&self, job: &Job) -> Result<Arc<Definition>, Error> {
        let definition = self.store.definition_or_names(job.config_id, job.version).await?;
        definition.ok_or_else(|| Error::not_found(Kind::Version, format!("{} v{}", job.name, job.version)))
    }

    /// The node of a task of a job by its name.
    pub(super) async fn node(&self, job: &Job, name: &str) -> Result<u32, Error> {
        let definition = self.definition(job).await?;
        let known = || definition.tasks.iter().map(|task| task.name.as_str());
        definition.task(name).map(|(node, _)| node).ok_or_else(|| Error::unknown(Kind::Task, name, known()))
    }

    /// "There is no such job config", with the one that was meant.
    pub(super) async fn unknown_config(&self, namespace: &str, name: &str) -> Error {
        let known = self.store.config_names(namespace).await.unwrap_or_default();
        Error::unknown(Kind::JobConfig, name, known.iter().map(String::as_str))
    }

    /// "There is no such runner", with the one that was meant.
    pub(super) async fn unknown_runner(&self, id: &str) -> Error {
        let known = self.store.runner_ids().await.unwrap_or_default();
        Error::unknown(Kind::Runner, id, known.iter().map(String::as_str))
    }

    /// Adds what is known to a refusal of the engine: the name that was meant.
    pub(super) async fn with_suggestion(&self, refusal: request::Error, namespace: &str) -> Error {
        match refusal {
            request::Error::NotFound { kind: "job config", name } => self.unknown_config(namespace, &name).await,
            request::Error::NotFound { kind: "runner", name } => self.unknown_runner(&name).await,
            other => Error::Refused(other),
        }
    }

    /// The right to one more stream.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            Error::Refused(request::Error::Busy(format!("it serves {STREAMS_MAX} watches and followed logs already")))
        })
    }

    /// How a stream ends when the scheduler stops.
    pub(super) fn stopping() -> Status {
        Error::Refused(request::Error::Unavailable(
            "the scheduler is stopping; go on from here once it is back, or at another one".to_owned(),
        ))
        .into()
    }
}

pub(super) fn one(field: &'static str, kind: Kind, part: &str, found: Found) -> Result<Uuid, Error> {
    match found {
        Found::One(id) => Ok(id),
        Found::None => Err(Error::not_found(kind, part)),
        Found::Several(candidates) => Err(Error::Ambiguous { field, part: part.to_owned(), candidates }),
        Found::Malformed => Err(Error::invalid(
            field,
            format!("{part:?} is no id: give a UUID, or 4 or more hex digits of its beginning or end"),
        )),
    }
}

/// The values of several fields, or everything that is wrong with any of them.
#[derive(Debug, Default)]
pub(super) struct Fields {
    violations: Vec<Violation>,
}

impl Fields {
    /// The value of a field; a default while something is wrong.
    pub(super) fn take<T: Default>(&mut self, read: Result<T, impl Into<Violations>>) -> T {
        read.unwrap_or_else(|violations| {
            self.violations.extend(violations.into().0);
            T::default()
        })
    }

    /// Refuses a field.
    pub(super) fn refuse(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.violations.push(Violation::new(field, description));
    }

    /// Nothing, or everything that was wrong.
    pub(super) fn check(self) -> Result<(), Error> {
        self.whole(()).map_err(Error::Invalid)
    }

    /// What was read of all the fields, or everything that was wrong.
    pub(super) fn whole<T>(self, read: T) -> Result<T, Vec<Violation>> {
        if self.violations.is_empty() { Ok(read) } else { Err(self.violations) }
    }
}

/// One or several violations.
pub(super) struct Violations(Vec<Violation>);

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self(vec![violation])
    }
}

impl From<Vec<Violation>> for Violations {
    fn from(violations: Vec<Violation>) -> Self {
        Self(violations)
    }
}
