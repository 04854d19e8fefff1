//! Messages of the protocol to the runner's own words, and back. Total: what cannot be understood becomes an answer.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    time::{Duration, SystemTime},
};

use baton::v1::{self, run_spec};
use tracing::warn;

use super::Identity;
use crate::{
    machine::{Answer, Drain, Frame, Order, Received, Report, Status, Verdict, VerdictKind, Welcome as MachineWelcome},
    task::{Callback, EndReason, HttpRequest, MESSAGE_MAX, Redirects, RunSpec, Target, TaskRef, TaskResult, truncate},
};

pub(crate) fn task_to_proto(task: TaskRef) -> v1::TaskRef {
    v1::TaskRef { task_id: task.id.to_string(), attempt: task.attempt, lease: task.lease }
}

pub(crate) fn task_from_proto(task: &v1::TaskRef) -> Result<TaskRef, String> {
    let id = task.task_id.parse().map_err(|_| format!("task id `{}` is not a UUID", task.task_id))?;
    Ok(TaskRef { id, attempt: task.attempt, lease: task.lease })
}

/// What a stream needs to know of a welcome beside what the machine does.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) backoff_base: Duration,
    pub(crate) backoff_max: Duration,
    pub(crate) endpoints: Vec<String>,
    pub(crate) notice: String,
    pub(crate) session: String,
    pub(crate) scheduler: String,
}

/// Why the scheduler closes a stream, for the log.
#[derive(Debug, Clone)]
pub(crate) struct Farewell {
    pub(crate) duplicate: bool,
    pub(crate) reconnect_after: Duration,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A frame from the scheduler, with what in it concerns the stream rather than the machine.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) received: Received,
    pub(crate) terms: Option<Terms>,
    pub(crate) farewell: Option<Farewell>,
}

pub(crate) fn command(command: v1::Command, settings: &crate::machine::Settings) -> Incoming {
    let mut farewell = None;
    let mut orders = Vec::with_capacity(command.commands.len());
    for one in command.commands {
        if one.kind() == v1::CommandKind::Disconnect {
            let how = one.disconnect.clone().unwrap_or_default();
            let text = if how.message.is_empty() { one.message.clone() } else { how.message.clone() };
            let reason = how.reason().as_str_name().trim_start_matches("DISCONNECT_REASON_").to_lowercase();
            let duplicate = how.reason() == v1::DisconnectReason::DuplicateId;
            let reconnect_after = span(how.reconnect_after).ok().flatten().unwrap_or_default();
            farewell = Some(Farewell { duplicate, reconnect_after, reason, message: text });
        }
        orders.extend(order(one));
    }
    let mut terms = None;
    let welcome = command.welcome.map(|welcome| {
        let duration = |given: Option<prost_types::Duration>, default| span(given).ok().flatten().unwrap_or(default);
        // A beat of nothing would be a flood.
        let beat = duration(welcome.heartbeat_interval, settings.heartbeat_interval).max(BEAT_MIN);
        terms = Some(Terms {
            backoff_base: duration(welcome.backoff_base, beat / 10),
            backoff_max: duration(welcome.backoff_max, beat * 4 / 5),
            endpoints: welcome.endpoints,
            notice: welcome.notice,
            session: welcome.session_id,
            scheduler: welcome.scheduler_id,
        });
        MachineWelcome {
            heartbeat_interval: beat,
            answer_timeout: duration(welcome.answer_timeout, beat / 2),
            verdicts: welcome.verdicts.into_iter().filter_map(|one| verdict(&one)).collect(),
            drained: welcome.drained,
        }
    });
    Incoming { received: Received { seq: command.seq, ack: command.ack, welcome, orders }, terms, farewell }
}

/// The shortest beat that is obeyed.
const BEAT_MIN: Duration = Duration::from_millis(10);

fn verdict(verdict: &v1::Verdict) -> Option<Verdict> {
    let kind = match verdict.kind() {
        v1::VerdictKind::Adopt => VerdictKind::Adopt,
        v1::VerdictKind::Reset | v1::VerdictKind::Cancel => VerdictKind::Reset,
        v1::VerdictKind::Ack => VerdictKind::Ack,
        v1::VerdictKind::Unspecified => {
            warn!(kind = verdict.kind, "a verdict of a kind unknown to this version is passed over");
            return None;
        }
    };
    let task = verdict.task.as_ref().and_then(|task| task_from_proto(task).ok())?;
    Some(Verdict { task, kind, grace: span(verdict.grace).ok().flatten() })
}

fn order(command: v1::SlotCommand) -> Option<Order> {
    let task = command.task.as_ref().map(task_from_proto);
    let slot = command.slot;
    let wanted = |task: Option<Result<TaskRef, String>>| match task {
        Some(Ok(task)) => Some(task),
        Some(Err(problem)) => {
            warn!(problem, "a command cannot be understood");
            None
        }
        None => {
            warn!("a command names no task");
            None
        }
    };
    // A command whose task cannot be read can be answered without one only.
    let unknown = Order::Unknown { kind: command.kind, slot, task: task.clone().and_then(Result::ok) };
    Some(match command.kind() {
        v1::CommandKind::GoOn => Order::GoOn,
        v1::CommandKind::RunNew => match wanted(task) {
            Some(task) => Order::RunNew { slot, task, spec: run_spec(command.run).map(Box::new) },
            None => unknown,
        },
        v1::CommandKind::Reset => match wanted(task) {
            Some(task) => Order::Reset { slot, task, grace: span(command.grace).ok().flatten() },
            None => unknown,
        },
        v1::CommandKind::ResultAck => {
            if !command.message.is_empty() {
                warn!(task = ?task, reason = command.message, "the scheduler did not take the result as it was");
            }
            Order::ResultAck { task: wanted(task)? }
        }
        v1::CommandKind::Drain => Order::Drain,
        v1::CommandKind::Resume => Order::Resume,
        v1::CommandKind::Disconnect => {
            let how = command.disconnect.unwrap_or_default();
            Order::Disconnect { hold_for: span(how.hold_for).ok().flatten().unwrap_or_default() }
        }
        v1::CommandKind::Unspecified => {
            warn!(kind = command.kind, "a command of a kind unknown to this version is answered as unsupported");
            unknown
        }
    })
}

fn run_spec(spec: Option<Box<v1::RunSpec>>) -> Result<RunSpec, String> {
    let spec = *spec.ok_or("RUN_NEW came without a run spec")?;
    let named = |name: &str, value| span(value).map_err(|problem| format!("{name}: {problem}"));
    Ok(RunSpec {
        timeout: named("timeout", spec.timeout)?,
        grace: named("grace", spec.grace)?,
        self_stop_after: named("self_stop_after", spec.self_stop_after)?,
        target: match spec.target {
            Some(run_spec::Target::Command(command)) if command.argv.first().is_none_or(String::is_empty) => {
                return Err("command: argv is empty".to_owned());
            }
            Some(run_spec::Target::Command(command)) => Target::Command(command.argv),
            Some(run_spec::Target::Shell(script)) => Target::Shell(script),
            Some(run_spec::Target::Http(target)) => Target::Http(Box::new(http(target)?)),
            None => Target::Unknown,
        },
        job_id: spec.job_id,
        namespace: spec.namespace,
        job_name: spec.job_name,
        task_name: spec.task_name,
        env: spec.env.into_iter().collect(),
        working_dir: spec.working_dir,
        params: spec.params.into_iter().collect::<BTreeMap<_, _>>(),
        shard_index: spec.shard_index,
        shard_count: spec.shard_count,
        shard_item: spec.shard_item,
        log_limit_bytes: spec.log_limit_bytes,
        fire_time: spec.fire_time.and_then(|time| SystemTime::try_from(time).ok()),
        callback: spec.completion.map(|callback| Callback { token: callback.token, url: callback.url }),
    })
}

/// A request; what is not set is ours to say.
fn http(target: v1::HttpTarget) -> Result<HttpRequest, String> {
    let named = |name: &str, value, default| match span(value) {
        Ok(span) => Ok(span.unwrap_or(default)),
        Err(problem) => Err(format!("http.{name}: {problem}")),
    };
    let redirects = match target.redirects() {
        v1::Redirects::Unspecified | v1::Redirects::SameHost => Redirects::SameHost,
        v1::Redirects::None => Redirects::None,
        v1::Redirects::Any => Redirects::Any,
    };
    let success = target.success_when.unwrap_or_default().status;
    let success: Result<Vec<_>, _> = success.iter().map(|text| statuses(text)).collect();
    let success = success.map(|ranges| if ranges.is_empty() { vec![200..=299] } else { ranges })?;
    let method = match (target.method.as_str(), target.body.is_empty()) {
        ("", true) => "GET".to_owned(),
        ("", false) => "POST".to_owned(),
        _ => target.method,
    };
    if target.urls.is_empty() {
        return Err("http: urls is empty".to_owned());
    }
    Ok(HttpRequest {
        method,
        connect_timeout: named("connect_timeout", target.connect_timeout, HttpRequest::CONNECT_TIMEOUT)?,
        read_timeout: named("read_timeout", target.read_timeout, HttpRequest::READ_TIMEOUT)?,
        request_timeout: named("request_timeout", target.request_timeout, HttpRequest::REQUEST_TIMEOUT)?,
        urls: target.urls,
        headers: target.headers.into_iter().collect(),
        body: target.body,
        success,
        redirects,
        response_max: if target.max_response_bytes == 0 {
            HttpRequest::RESPONSE_MAX
        } else {
            target.max_response_bytes
        },
        wait_for_callback: target.wait_for_callback,
    })
}

/// "404" or "200-299".
fn statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) => Ok(low..=high),
        _ => Err(format!("http.success_when: `{text}` is neither a status nor a range")),
    }
}

fn span(span: Option<prost_types::Duration>) -> Result<Option<Duration>, String> {
    span.map(|span| Duration::try_from(span).map_err(|_| "a negative duration".to_owned())).transpose()
}

fn duration(span: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(span).ok()
}

/// A frame to the scheduler. `conn` is that of the stream it goes on.
pub(crate) fn heartbeat(frame: Frame, conn: u64, identity: &Identity) -> v1::Heartbeat {
    let hello = frame.hello.map(|inventory| v1::Hello {
        runner_id: identity.id.clone(),
        install_id: identity.install_id.clone(),
        boot_id: identity.boot_id.clone(),
        boot_number: identity.boot_number,
        conn,
        protocol_version: baton::PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        labels: identity.labels.clone().into_iter().collect(),
        slots: identity.slots,
        capabilities: identity.capabilities.clone(),
        inventory: inventory.held.into_iter().map(report).collect(),
        ended: inventory.ended.into_iter().map(task_to_proto).collect(),
    });
    let drain = match frame.drain {
        Drain::Working => v1::DrainState::Working,
        Drain::Draining => v1::DrainState::Draining,
        Drain::Leaving => v1::DrainState::Leaving,
    };
    v1::Heartbeat {
        seq: frame.seq,
        ack: frame.ack,
        hello,
        slots: frame.slots.into_iter().map(report).collect(),
        drain: drain.into(),
        load: None,
    }
}

/// How busy the machine is, as far as it can be told.
pub(crate) fn load() -> Option<v1::Load> {
    let average = std::fs::read_to_string("/proc/loadavg").ok()?;
    let memory = std::fs::read_to_string("/proc/meminfo").ok()?;
    let available = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.split_ascii_whitespace().next()?.parse().ok()?;
    Some(v1::Load { load_average: average.split(' ').next()?.parse().ok()?, memory_available_bytes: kib * 1024 })
}

fn report(report: Report) -> v1::SlotReport {
    let status = match report.status {
        Status::Idle => v1::SlotStatus::Idle,
        Status::Running => v1::SlotStatus::Running,
        Status::Finished => v1::SlotStatus::Finished,
        Status::Failed => v1::SlotStatus::Failed,
    };
    let answer = match report.answer {
        None => v1::Answer::Unspecified,
        Some(Answer::RejectedBusy) => v1::Answer::RejectedBusy,
        Some(Answer::RejectedDraining) => v1::Answer::RejectedDraining,
        Some(Answer::RejectedLate) => v1::Answer::RejectedLate,
        Some(Answer::RejectedTarget) => v1::Answer::RejectedTarget,
        Some(Answer::RejectedSpec) => v1::Answer::RejectedSpec,
        Some(Answer::Stale) => v1::Answer::Stale,
        Some(Answer::NotHeld) => v1::Answer::NotHeld,
        Some(Answer::Unsupported) => v1::Answer::Unsupported,
    };
    let mut message = report.message;
    truncate(&mut message, MESSAGE_MAX);
    v1::SlotReport {
        slot: report.slot,
        status: status.into(),
        task: report.task.map(task_to_proto),
        answer: answer.into(),
        message,
        pid: report.pid.unwrap_or(0),
        start_time: report.start_time.map(Into::into),
        result: report.result.map(|told| Box::new(result(*told))),
        progress_percent: None,
    }
}

fn result(result: TaskResult) -> v1::TaskResult {
    let reason = match result.end_reason {
        EndReason::Exit => v1::EndReason::Exit,
        EndReason::Signal => v1::EndReason::Signal,
        EndReason::Timeout => v1::EndReason::Timeout,
        EndReason::Reset => v1::EndReason::Reset,
        EndReason::RunnerStop => v1::EndReason::RunnerStop,
        EndReason::SelfStop => v1::EndReason::SelfStop,
        EndReason::StartFailed => v1::EndReason::StartFailed,
    };
    v1::TaskResult {
        end_reason: reason.into(),
        exit_code: result.exit_code,
        signal: result.signal,
        message: result.message,
        output: result.output.into(),
        stdout_bytes: result.stdout_bytes,
        stderr_bytes: result.stderr_bytes,
        start_time: result.start_time.map(Into::into),
        end_time: result.end_time.map(Into::into),
        run_time: duration(result.run_time),
    }
}
