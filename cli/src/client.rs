//! The connection to a scheduler.
//!
//! Every call may be sent again when its connection breaks or when the scheduler asks for it: reads change nothing, writes carry a request id under
//! which the scheduler answers a repetition with the stored answer, draining twice is draining once.

use std::{
    future::Future,
    time::{Duration, Instant},
};

// The table of calls below names nearly every message there is.
#[allow(clippy::wildcard_imports)]
use baton::v1::{
    audit_service_client::AuditServiceClient, backfill_service_client::BackfillServiceClient,
    calendar_service_client::CalendarServiceClient, callback_service_client::CallbackServiceClient,
    command_service_client::CommandServiceClient, job_config_service_client::JobConfigServiceClient,
    job_service_client::JobServiceClient, log_service_client::LogServiceClient,
    runner_service_client::RunnerServiceClient, schedule_service_client::ScheduleServiceClient,
    scheduler_service_client::SchedulerServiceClient, *,
};
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tracing::debug;
use uuid::Uuid;

use crate::{
    backoff::Backoff,
    errors::{Error, is_broken_connection, not_a_scheduler, retry_after, root_cause},
};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call that did not get through is repeated.
const RETRY_FOR: Duration = Duration::from_secs(5);
/// The largest answer that is taken in. A job carries up to 1,000 tasks with 64 KiB of output each.
const MESSAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// How much a stream may send ahead of being read. Small windows and many small frames break HTTP/2 connections.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// How often a quiet connection is asked whether it still lives.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Calls to one scheduler.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    address: String,
    timeout: Duration,
}

/// One method a unary call: the name of the method, its service and its messages.
macro_rules! unary {
    ($($call:ident: $service:ident, $request:ty => $response:ty;)*) => {
        $(
            #[doc = concat!("Calls `", stringify!($call), "`.")]
            pub async fn $call(&self, request: $request) -> Result<$response, Error> {
                self.call(request, |request| {
                    let mut service = self.$service();
                    async move { service.$call(request).await }
                })
                .await
            }
        )*
    };
}

/// Both a client of a service and its bounds.
macro_rules! services {
    ($($service:ident: $client:ident;)*) => {
        $(
            fn $service(&self) -> $client<Channel> {
                $client::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
            }
        )*
    };
}

impl Client {
    /// Connects, so that a scheduler that is not there is known before anything is asked of it.
    pub async fn connect(address: &str, timeout: Duration) -> Result<Self, Error> {
        let unreachable = |cause: String| Error::Unreachable { address: address.to_owned(), cause };
        let endpoint = Endpoint::from_shared(url(address)?)
            .map_err(|_| Error::Usage(format!("\"{address}\" is not an address such as 127.0.0.1:7420")))?
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_while_idle(true)
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            .map_err(|error| unreachable(error.to_string()))?;
        debug!(address, "connecting");
        let channel = endpoint.connect().await.map_err(|error| unreachable(root_cause(&error)))?;
        Ok(Self { channel, address: address.to_owned(), timeout })
    }

    services! {
        callbacks: CallbackServiceClient;
        audit: AuditServiceClient;
        backfills: BackfillServiceClient;
        calendars: CalendarServiceClient;
        commands: CommandServiceClient;
        configs: JobConfigServiceClient;
        jobs: JobServiceClient;
        logs: LogServiceClient;
        runners: RunnerServiceClient;
        schedules: ScheduleServiceClient;
        schedulers: SchedulerServiceClient;
    }

    unary! {
        list_callbacks: callbacks, ListCallbacksRequest => ListCallbacksResponse;
        get_callback: callbacks, GetCallbackRequest => GetCallbackResponse;
        resend_callback: callbacks, ResendCallbackRequest => ResendCallbackResponse;
        apply: configs, ApplyRequest => ApplyResponse;
        get: configs, GetRequest => GetResponse;
        list: configs, ListRequest => ListResponse;
        list_versions: configs, ListVersionsRequest => ListVersionsResponse;
        restore: configs, RestoreRequest => RestoreResponse;
        delete: configs, DeleteRequest => DeleteResponse;
        disable: configs, DisableRequest => DisableResponse;
        enable: configs, EnableRequest => EnableResponse;
        create_backfill: backfills, CreateBackfillRequest => CreateBackfillResponse;
        get_backfill: backfills, GetBackfillRequest => GetBackfillResponse;
        list_backfills: backfills, ListBackfillsRequest => ListBackfillsResponse;
        cancel_backfill: backfills, CancelBackfillRequest => CancelBackfillResponse;
        apply_calendars: calendars, ApplyCalendarsRequest => ApplyCalendarsResponse;
        get_calendar: calendars, GetCalendarRequest => GetCalendarResponse;
        list_calendars: calendars, ListCalendarsRequest => ListCalendarsResponse;
        delete_calendar: calendars, DeleteCalendarRequest => DeleteCalendarResponse;
        run: commands, RunRequest => RunResponse;
        terminate: commands, TerminateRequest => TerminateResponse;
        complete_task: commands, CompleteTaskRequest => CompleteTaskResponse;
        rerun: commands, RerunRequest => RerunResponse;
        mark: commands, MarkRequest => MarkResponse;
        drain_runner: commands, DrainRunnerRequest => DrainRunnerResponse;
        resume_runner: commands, ResumeRunnerRequest => ResumeRunnerResponse;
        drain_scheduler: commands, DrainSchedulerRequest => DrainSchedulerResponse;
        resume_scheduler: commands, ResumeSchedulerRequest => ResumeSchedulerResponse;
        list_audit_events: audit, ListAuditEventsRequest => ListAuditEventsResponse;
        get_job: jobs, GetJobRequest => GetJobResponse;
        list_jobs: jobs, ListJobsRequest => ListJobsResponse;
        get_task: jobs, GetTaskRequest => GetTaskResponse;
        list_tasks: jobs, ListTasksRequest => ListTasksResponse;
        explain: jobs, ExplainRequest => ExplainResponse;
        get_runner: runners, GetRunnerRequest => GetRunnerResponse;
        list_runners: runners, ListRunnersRequest => ListRunnersResponse;
        preview: schedules, PreviewRequest => PreviewResponse;
        list_schedules: schedules, ListSchedulesRequest => ListSchedulesResponse;
        list_fires: schedules, ListFiresRequest => ListFiresResponse;
        list_schedulers: schedulers, ListSchedulersRequest => ListSchedulersResponse;
        read: logs, ReadRequest => ReadResponse;
    }

    /// Opens a watch. Not repeated here: who watches knows where to go on.
    pub async fn watch_job(&self, request: WatchJobRequest) -> Result<Streaming<WatchJobResponse>, Status> {
        Ok(self.jobs().watch_job(request).await?.into_inner())
    }

    /// Opens a log. Not repeated here: who follows knows where to go on.
    pub async fn follow(&self, request: FollowRequest) -> Result<Streaming<FollowResponse>, Status> {
        Ok(self.logs().follow(request).await?.into_inner())
    }

    /// Sends a request, and again when it does not get through, until an answer comes or time is up.
    async fn call<Q, A, F>(&self, request: Q, send: impl Fn(Request<Q>) -> F) -> Result<A, Error>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let begin = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            let left = self.timeout.saturating_sub(begin.elapsed());
            let mut attempt = Request::new(request.clone());
            attempt.set_timeout(left);
            let status = match tokio::time::timeout(left, send(attempt)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) => return Err(self.timed_out()),
            };
            if let Some(cause) = not_a_scheduler(&status) {
                return Err(Error::Unreachable { address: self.address.clone(), cause });
            }
            let asked_for = retry_after(&status);
            if asked_for.is_none() && !is_broken_connection(&status) {
                return Err(status.into());
            }
            let wait = backoff.next().max(asked_for.unwrap_or_default());
            debug!(code = ?status.code(), message = status.message(), ?wait, "sending the request again");
            if begin.elapsed() + wait >= RETRY_FOR.min(self.timeout) {
                return Err(self.broken(status));
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// What to say when a connection broke and did not come back.
    pub fn broken(&self, status: Status) -> Error {
        match std::error::Error::source(&status) {
            Some(source) => Error::Unreachable { address: self.address.clone(), cause: root_cause(source) },
            None => status.into(),
        }
    }

    fn timed_out(&self) -> Error {
        Error::TimedOut { address: self.address.clone(), seconds: self.timeout.as_secs_f64() }
    }
}

/// A fresh id for a write, unless the user brought one.
pub fn request_id(given: Option<&str>) -> String {
    given.map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}

fn url(address: &str) -> Result<String, Error> {
    if address.starts_with("https://") {
        return Err(Error::Usage("this version of `baton` does not speak TLS: use http://HOST:PORT".to_owned()));
    }
    let bare = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    // A host alone means the usual port; a bare IPv6 address has colons and no port.
    let has_port = bare.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']'))
    });
    let host = if bare.matches(':').count() > 1 && !bare.starts_with('[') { format!("[{bare}]") } else { bare.into() };
    Ok(if has_port { format!("http://{bare}") } else { format!("http://{host}:{}", baton::DEFAULT_PORT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_scheme_and_no_port() {
        for (address, expected) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://scheduler:1234/", "http://scheduler:1234"),
            ("scheduler", "http://scheduler:7420"),
            ("::1", "http://[::1]:7420"),
            ("[::1]:1234", "http://[::1]:1234"),
        ] {
            assert_eq!(url(address).unwrap(), expected);
        }
        assert!(url("https://scheduler").is_err());
    }
}
