//! The server: which services and plain paths are served, on one port, and within which bounds.

use std::time::Duration;

use baton::v1::{
    audit_service_server::AuditServiceServer, backfill_service_server::BackfillServiceServer,
    calendar_service_server::CalendarServiceServer, callback_service_server::CallbackServiceServer,
    command_service_server::CommandServiceServer, heartbeat_service_server::HeartbeatServiceServer,
    job_config_service_server::JobConfigServiceServer, job_service_server::JobServiceServer,
    log_service_server::LogServiceServer, runner_service_server::RunnerServiceServer,
    schedule_service_server::ScheduleServiceServer, scheduler_service_server::SchedulerServiceServer,
};
use tokio::{net::TcpListener, time};
use tonic::{
    server::NamedService,
    service::Routes,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::warn;

use super::{
    api::Api, audit::Audit, backfills::Backfills, calendars::Calendars, callbacks::Callbacks, commands::Commands,
    completions, heartbeat::Heartbeats, job_configs::JobConfigs, jobs::Jobs, logs::Logs, runners::Runners,
    schedulers::Schedulers, schedules::Schedules,
};

/// Bytes of a message that is taken in.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// What is added for the text of a job file of exactly 4 MiB, whose message is a little longer.
const APPLY_BYTES_MARGIN: usize = 64 << 10;
/// Requests of one connection that are worked on at once.
const CONCURRENCY_MAX: usize = 256;
/// Streams that one connection may have open. A proxy may carry thousands of runners on one.
const CONNECTION_STREAMS_MAX: u32 = 10_000;
/// How often a silent connection is asked for a sign of life, and how long it may take to answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// HTTP/2 ends a whole connection over small frames that nobody read yet; what it bears grows with this window.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// How often the database is asked whether it is there, and how long it may take to answer.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long open streams may take to end when the scheduler stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The services of the protocol that are served, as reflection and health tell them.
const SERVICES: [&str; 12] = [
    name::<CallbackServiceServer<Callbacks>>(),
    name::<AuditServiceServer<Audit>>(),
    name::<BackfillServiceServer<Backfills>>(),
    name::<CalendarServiceServer<Calendars>>(),
    name::<CommandServiceServer<Commands>>(),
    name::<HeartbeatServiceServer<Heartbeats>>(),
    name::<JobConfigServiceServer<JobConfigs>>(),
    name::<JobServiceServer<Jobs>>(),
    name::<LogServiceServer<Logs>>(),
    name::<RunnerServiceServer<Runners>>(),
    name::<ScheduleServiceServer<Schedules>>(),
    name::<SchedulerServiceServer<Schedulers>>(),
];
/// The services that tell of the others.
const OWN_SERVICES: [&str; 3] =
    ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"];

const fn name<S: NamedService>() -> &'static str {
    S::NAME
}

/// Serves until the scheduler stops, then lets what is open end.
pub(crate) async fn serve(api: Api, listener: TcpListener) -> Result<(), Error> {
    let (health, health_service) = tonic_health::server::health_reporter();
    // Who asks before the database was asked hears that nothing serves yet, and not that there is no such service.
    tell_health(&health, ServingStatus::NotServing).await;
    let reporting = api.tasks.spawn(report_health(api.clone(), health));
    let apply_bytes_max = MESSAGE_BYTES_MAX + APPLY_BYTES_MARGIN;
    let services = Routes::new(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(CallbackServiceServer::new(Callbacks(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(AuditServiceServer::new(Audit(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(BackfillServiceServer::new(Backfills(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(CalendarServiceServer::new(Calendars(api.clone())).max_decoding_message_size(apply_bytes_max))
        .add_service(CommandServiceServer::new(Commands(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(HeartbeatServiceServer::new(Heartbeats(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(JobConfigServiceServer::new(JobConfigs(api.clone())).max_decoding_message_size(apply_bytes_max))
        .add_service(JobServiceServer::new(Jobs(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(LogServiceServer::new(Logs(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(RunnerServiceServer::new(Runners(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(ScheduleServiceServer::new(Schedules(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX))
        .add_service(SchedulerServiceServer::new(Schedulers(api.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX));
    let server = Server::builder()
        // A plain POST is welcome to be of the older kind; what is gRPC stays HTTP/2.
        .accept_http1(true)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .http2_adaptive_window(Some(false))
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(CONNECTION_STREAMS_MAX)
        .concurrency_limit_per_connection(CONCURRENCY_MAX)
        .add_routes(completions::plain(services.prepare().into_axum_router(), api.clone()).into());
    let stopped = api.stop.clone();
    // Small frames leave at once: waiting to fill a packet would cost an idle dispatch 40 ms.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = server.serve_with_incoming_shutdown(incoming, stopped.cancelled_owned());
    let overdue = async {
        api.stop.cancelled().await;
        time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        served = serving => served?,
        () = overdue => warn!("open connections did not end within {DRAIN_TIMEOUT:?} and are closed"),
    }
    let _panicked = reporting.await;
    Ok(())
}

/// Why the server could not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The descriptors are no descriptors.
    #[error("cannot describe the services")]
    Describe(#[from] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("cannot serve")]
    Serve(#[from] tonic::transport::Error),
}

/// Tells the services that are served, and those alone, with everything they mention.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    let builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(baton::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET)
        .include_reflection_service(false);
    SERVICES.into_iter().chain(OWN_SERVICES).fold(builder, tonic_reflection::server::Builder::with_service_name)
}

/// Keeps the health of every service true: they serve while the database answers and the scheduler does not stop.
async fn report_health(api: Api, health: HealthReporter) {
    let mut serving = None;
    loop {
        let answered = matches!(time::timeout(HEALTH_TIMEOUT, api.store.ping()).await, Ok(Ok(())));
        let now = answered && !api.stop.is_cancelled();
        if serving != Some(now) {
            let status = if now { ServingStatus::Serving } else { ServingStatus::NotServing };
            tell_health(&health, status).await;
            if serving.is_some() && !now && !api.stop.is_cancelled() {
                warn!("the database does not answer; not serving until it does");
            }
            serving = Some(now);
        }
        if api.stop.is_cancelled() {
            return;
        }
        tokio::select! {
            () = api.stop.cancelled() => {}
            () = time::sleep(HEALTH_INTERVAL) => {}
        }
    }
}

/// Tells the health of every service, and under the empty name that of the server as a whole.
async fn tell_health(health: &HealthReporter, status: ServingStatus) {
    for service in std::iter::once("").chain(SERVICES) {
        health.set_service_status(service, status).await;
    }
}
