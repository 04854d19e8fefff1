//! The frames of the heartbeat protocol as values, both ways.

use std::{collections::HashSet, time::Duration};

use baton::v1;
use prost_types::Timestamp as WireTime;
use uuid::Uuid;

use super::convert;
use crate::{
    domain::{
        command::{Command, Disconnect, DisconnectReason, Down, LOG_LIMIT_BYTES, RunSpec, Welcome},
        definition::Target,
        heartbeat::{Answer, Drain, EndReason, Frame, Hello, SlotReport, SlotStatus, TaskRef, TaskResult, Verdict},
        runner,
        time::Timestamp,
        timing::Timing,
    },
    flow::REASON_CHARS_MAX,
};

/// How many slots a runner may have.
pub(super) const SLOTS_MAX: u32 = 10_000;
/// How many labels, and capabilities, a runner may have.
const LABELS_MAX: usize = 100;
/// How long a name, a label or an id may be.
const WORD_BYTES_MAX: usize = 256;

/// A rule of the protocol that a frame breaks, in words.
pub(super) type Violation = String;

/// Reads a hello, the first frame of a stream.
pub(super) fn hello(wire: v1::Heartbeat) -> Result<Hello, Violation> {
    let slots = reports(&wire.slots)?;
    let drain = drain(wire.drain);
    let wire = wire.hello.ok_or("the first frame of a stream carries hello")?;
    if !runner::is_id(&wire.runner_id) {
        return Err("hello.runner_id is 1 to 100 of a-z, A-Z, 0-9, \"-\", \"_\" and \".\"".to_owned());
    }
    if wire.slots == 0 || wire.slots > SLOTS_MAX {
        return Err(format!("hello.slots is 1 to {SLOTS_MAX}"));
    }
    if !words_fit(&wire) {
        return Err(format!("the words of a hello have at most {WORD_BYTES_MAX} bytes and no NUL"));
    }
    if wire.install_id.is_empty() || wire.boot_id.is_empty() {
        return Err("hello.install_id and hello.boot_id are not empty".to_owned());
    }
    if wire.labels.len() > LABELS_MAX || wire.capabilities.len() > LABELS_MAX {
        return Err(format!("a hello has at most {LABELS_MAX} labels and capabilities"));
    }
    let mut inventory = reports(&wire.inventory)?;
    inventory.extend(slots.into_iter().filter(|report| report.task.is_some()));
    let mut named = HashSet::new();
    inventory.retain(|report| report.task.is_none_or(|task| named.insert(task)));
    let mut taken = HashSet::new();
    for report in inventory.iter().filter(|report| report.status == SlotStatus::Running) {
        if report.slot >= wire.slots || !taken.insert(report.slot) {
            return Err(format!("a hello names a task for each of its {} slots at most once", wire.slots));
        }
    }
    Ok(Hello {
        runner_id: wire.runner_id,
        install_id: wire.install_id,
        boot_id: wire.boot_id,
        boot_number: wire.boot_number,
        conn: wire.conn,
        protocol_version: wire.protocol_version,
        version: wire.version,
        labels: wire.labels.into_iter().collect(),
        slots: wire.slots,
        capabilities: wire.capabilities,
        inventory,
        ended: wire.ended.iter().map(reference).collect::<Result<_, _>>()?,
        drain,
    })
}

fn words_fit(hello: &v1::Hello) -> bool {
    let words = [&hello.install_id, &hello.boot_id, &hello.version].into_iter();
    let mut words = words.chain(hello.labels.iter().flat_map(|(key, value)| [key, value])).chain(&hello.capabilities);
    words.all(|word| word.len() <= WORD_BYTES_MAX && !word.contains('\0'))
}

/// Reads a frame after the first.
pub(super) fn frame(wire: &v1::Heartbeat) -> Result<Frame, Violation> {
    if wire.hello.is_some() {
        return Err("hello is in the first frame only".to_owned());
    }
    Ok(Frame { seq: wire.seq, ack: wire.ack, slots: reports(&wire.slots)?, drain: drain(wire.drain) })
}

fn drain(wire: i32) -> Option<Drain> {
    match v1::DrainState::try_from(wire) {
        Ok(v1::DrainState::Working) => Some(Drain::Working),
        Ok(v1::DrainState::Draining) => Some(Drain::Draining),
        Ok(v1::DrainState::Leaving) => Some(Drain::Leaving),
        _ => None,
    }
}

fn reports(wire: &[v1::SlotReport]) -> Result<Vec<SlotReport>, Violation> {
    wire.iter().filter_map(|report| slot_report(report).transpose()).collect()
}

/// Reads what a slot says; `None` when its status is one that this version does not know.
fn slot_report(wire: &v1::SlotReport) -> Result<Option<SlotReport>, Violation> {
    let status = match v1::SlotStatus::try_from(wire.status) {
        Ok(v1::SlotStatus::Idle) => SlotStatus::Idle,
        Ok(v1::SlotStatus::Running) => SlotStatus::Running,
        Ok(v1::SlotStatus::Finished) => SlotStatus::Finished,
        Ok(v1::SlotStatus::Failed) => SlotStatus::Failed,
        _ => return Ok(None),
    };
    let answer = match v1::Answer::try_from(wire.answer) {
        Ok(v1::Answer::RejectedBusy) => Some(Answer::RejectedBusy),
        Ok(v1::Answer::RejectedDraining) => Some(Answer::RejectedDraining),
        Ok(v1::Answer::RejectedLate) => Some(Answer::RejectedLate),
        Ok(v1::Answer::RejectedTarget) => Some(Answer::RejectedTarget),
        Ok(v1::Answer::RejectedSpec) => Some(Answer::RejectedSpec),
        Ok(v1::Answer::Stale) => Some(Answer::Stale),
        Ok(v1::Answer::NotHeld) => Some(Answer::NotHeld),
        Ok(v1::Answer::Unsupported) => Some(Answer::Unsupported),
        Ok(v1::Answer::Unspecified) | Err(_) => None,
    };
    let task = wire.task.as_ref().map(reference).transpose()?;
    let result = wire.result.as_deref().map(result);
    Ok(Some(SlotReport { slot: wire.slot, status, task, answer, message: tidy(&wire.message), result }))
}

/// Reads a reference to a dispatch.
pub(super) fn reference(wire: &v1::TaskRef) -> Result<TaskRef, Violation> {
    let task = Uuid::parse_str(&wire.task_id).map_err(|_| format!("task_id {:?} is not a UUID", wire.task_id))?;
    Ok(TaskRef { task, attempt: wire.attempt, lease: wire.lease })
}

fn result(wire: &v1::TaskResult) -> TaskResult {
    let end_reason = match v1::EndReason::try_from(wire.end_reason) {
        Ok(v1::EndReason::Signal) => EndReason::Signal,
        Ok(v1::EndReason::Timeout) => EndReason::Timeout,
        Ok(v1::EndReason::Reset) => EndReason::Reset,
        Ok(v1::EndReason::RunnerStop) => EndReason::RunnerStop,
        Ok(v1::EndReason::SelfStop) => EndReason::SelfStop,
        Ok(v1::EndReason::StartFailed) => EndReason::StartFailed,
        // A reason that this version does not know is told by its exit code.
        Ok(v1::EndReason::Exit | v1::EndReason::Unspecified) | Err(_) => EndReason::Exit,
    };
    TaskResult {
        end_reason,
        exit_code: wire.exit_code,
        signal: wire.signal,
        message: tidy(&wire.message),
        output: wire.output.to_vec(),
        stdout_bytes: wire.stdout_bytes,
        stderr_bytes: wire.stderr_bytes,
    }
}

/// A text as the databases take it: without NUL, and cut to what is kept.
fn tidy(text: &str) -> String {
    let text = if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() };
    match text.char_indices().nth(REASON_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}… (cut)", &text[..at]),
    }
}

/// Writes a frame to a runner.
pub(super) fn down(frame: Down, timing: &Timing) -> v1::Command {
    v1::Command {
        seq: frame.seq,
        ack: frame.ack,
        welcome: frame.welcome.map(|welcome| self::welcome(*welcome, timing)),
        commands: frame.commands.into_iter().map(|command| self::command(command, timing)).collect(),
    }
}

fn welcome(welcome: Welcome, timing: &Timing) -> v1::Welcome {
    let verdicts = welcome.verdicts.into_iter().map(|(task, verdict, grace)| {
        let kind = match verdict {
            Verdict::Adopt => v1::VerdictKind::Adopt,
            Verdict::Reset => v1::VerdictKind::Reset,
            Verdict::Cancel => v1::VerdictKind::Cancel,
            Verdict::Ack | Verdict::Apply => v1::VerdictKind::Ack,
        };
        v1::Verdict { task: Some(written(task)), kind: kind.into(), grace: grace.map(span) }
    });
    v1::Welcome {
        session_id: welcome.session_id.to_string(),
        scheduler_id: welcome.scheduler_id.to_string(),
        heartbeat_interval: Some(span(timing.heartbeat_interval)),
        lost_after: Some(span(timing.lost_after)),
        accept_timeout: Some(span(timing.accept_timeout)),
        verdicts: verdicts.collect(),
        answer_timeout: Some(span(timing.answer_timeout)),
        backoff_base: Some(span(timing.backoff_base)),
        backoff_max: Some(span(timing.backoff_max)),
        endpoints: welcome.endpoints,
        drained: welcome.drained,
        protocol_version: baton::PROTOCOL_VERSION,
        notice: welcome.notice,
    }
}

fn command(command: Command, timing: &Timing) -> v1::SlotCommand {
    use v1::CommandKind as Kind;
    let about = |kind: Kind, slot: u32, task: TaskRef| v1::SlotCommand {
        kind: kind.into(),
        slot,
        task: Some(written(task)),
        ..v1::SlotCommand::default()
    };
    let bare = |kind: Kind| v1::SlotCommand { kind: kind.into(), ..v1::SlotCommand::default() };
    match command {
        Command::GoOn { degraded } => v1::SlotCommand { degraded, ..bare(Kind::GoOn) },
        Command::RunNew { slot, task, spec } => {
            v1::SlotCommand { run: Some(Box::new(run_spec(*spec, timing))), ..about(Kind::RunNew, slot, task) }
        }
        Command::Reset { slot, task, grace } => {
            v1::SlotCommand { grace: grace.map(span), ..about(Kind::Reset, slot, task) }
        }
        Command::ResultAck { slot, task, message } => v1::SlotCommand { message, ..about(Kind::ResultAck, slot, task) },
        Command::Drain => bare(Kind::Drain),
        Command::Resume => bare(Kind::Resume),
        Command::Disconnect(disconnect) => {
            v1::SlotCommand { disconnect: Some(self::disconnect(disconnect)), ..bare(Kind::Disconnect) }
        }
    }
}

fn disconnect(disconnect: Disconnect) -> v1::Disconnect {
    use v1::DisconnectReason as Reason;
    let reason = match disconnect.reason {
        DisconnectReason::Shutdown => Reason::Shutdown,
        DisconnectReason::Replaced => Reason::Replaced,
        DisconnectReason::DuplicateId => Reason::DuplicateId,
        DisconnectReason::Unresponsive => Reason::Unresponsive,
        DisconnectReason::Protocol => Reason::Protocol,
        DisconnectReason::Lost => Reason::Lost,
    };
    v1::Disconnect {
        reason: reason.into(),
        reconnect_after: disconnect.reconnect_after.map(span),
        hold_for: disconnect.hold_for.map(span),
        message: disconnect.message,
    }
}

fn run_spec(spec: RunSpec, timing: &Timing) -> v1::RunSpec {
    let target = match spec.target {
        Target::Command(argv) => Some(v1::run_spec::Target::Command(v1::CommandTarget { argv })),
        Target::Shell(script) => Some(v1::run_spec::Target::Shell(script)),
        // Never given out; a runner would refuse it.
        Target::Job(_) => None,
        Target::Http(http) => Some(v1::run_spec::Target::Http(convert::http::target(&http))),
    };
    let (shard_index, shard_count, shard_item) = match spec.shard {
        Some((index, count, item)) => (Some(index), Some(count), item),
        None => (None, None, String::new()),
    };
    v1::RunSpec {
        job_id: spec.job_id.to_string(),
        namespace: spec.namespace,
        job_name: spec.job_name,
        task_name: spec.task_name,
        target,
        env: spec.env.into_iter().collect(),
        working_dir: spec.working_dir,
        timeout: spec.timeout.map(span),
        grace: Some(span(timing.grace)),
        self_stop_after: spec.self_stop_after.map(span),
        params: spec.params.into_iter().collect(),
        shard_index,
        shard_count,
        shard_item,
        log_limit_bytes: LOG_LIMIT_BYTES,
        fire_time: spec.fire_time.map(instant),
        completion: spec.callback.map(|callback| v1::HttpCompletion { token: callback.token, url: callback.url }),
    }
}

fn written(task: TaskRef) -> v1::TaskRef {
    v1::TaskRef { task_id: task.task.to_string(), attempt: task.attempt, lease: task.lease }
}

fn span(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: span.subsec_nanos().cast_signed(),
    }
}

fn instant(at: Timestamp) -> WireTime {
    let micros = at.0.rem_euclid(1_000_000);
    WireTime { seconds: at.0.div_euclid(1_000_000), nanos: i32::try_from(micros * 1_000).unwrap_or_default() }
}
