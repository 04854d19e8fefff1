//! The scheduler's side of the heartbeat protocol, as tables: what a report means given what its slot was given, what
//! becomes of what a runner brings along, and whether a hello counts.
//!
//! Numbers in brackets are the rules of `docs/protocol.md`.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use uuid::Uuid;

use super::{
    task::{Ending, TaskState},
    time::Timestamp,
};

/// One dispatch of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskRef {
    /// The task.
    pub task: Uuid,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The fencing token.
    pub lease: u64,
}

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotStatus {
    /// It holds nothing.
    Idle,
    /// It holds a task that starts, runs or stops.
    Running,
    /// It holds a result 0.
    Finished,
    /// It holds another result.
    Failed,
}

/// The runner's answer to a command that it did not carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The slot holds another live task.
    RejectedBusy,
    /// The runner is draining.
    RejectedDraining,
    /// The command came when its time was over.
    RejectedLate,
    /// The runner does not know this kind of target.
    RejectedTarget,
    /// The run spec makes no sense to it.
    RejectedSpec,
    /// The lease is lower than one already seen for the task.
    Stale,
    /// It holds neither the task nor a result of it.
    NotHeld,
    /// It does not know this kind of command.
    Unsupported,
}

/// How a task came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// Its main process exited.
    Exit,
    /// A signal that Baton did not send ended it.
    Signal,
    /// It ran into its timeout.
    Timeout,
    /// A RESET ended it.
    Reset,
    /// Its runner stopped as planned.
    RunnerStop,
    /// Its runner was cut off or died.
    SelfStop,
    /// It could not be started.
    StartFailed,
}

/// How a task ended, as its runner reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskResult {
    /// How it came to its end.
    pub end_reason: EndReason,
    /// The exit code, if it exited.
    pub exit_code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
    /// What happened, in words.
    pub message: String,
    /// What it wrote to `BATON_OUTPUT`.
    pub output: Vec<u8>,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
}

impl TaskResult {
    /// What this result means for its task.
    pub fn ending(&self) -> Ending {
        match self.end_reason {
            EndReason::Exit if self.exit_code == Some(0) => Ending::Success,
            EndReason::RunnerStop => Ending::RunnerStop,
            EndReason::SelfStop => Ending::Lost { death: false },
            // A RESET that came before the start: nothing ran and nothing can, which is proof and no failure [3].
            EndReason::Reset if self.exit_code.is_none() && self.signal.is_none() => Ending::Gone,
            _ => Ending::Failure,
        }
    }

    /// The same in words, for the task's `reason`; empty for a success.
    pub fn reason(&self) -> String {
        let said = match self.end_reason {
            EndReason::Exit => match self.exit_code {
                Some(0) => return String::new(),
                Some(code) => format!("exit code {code}"),
                // Its runner refused what it left behind, and says why.
                None if !self.message.is_empty() => return self.message.clone(),
                None => "ended without an exit code".to_owned(),
            },
            EndReason::Signal => match self.signal {
                Some(signal) => format!("killed by signal {signal}"),
                None => "killed by a signal".to_owned(),
            },
            EndReason::Timeout => "timed out".to_owned(),
            EndReason::Reset => "terminated".to_owned(),
            EndReason::RunnerStop => "its runner was stopped".to_owned(),
            EndReason::SelfStop => "stopped: its runner was cut off or died".to_owned(),
            EndReason::StartFailed => "failed to start".to_owned(),
        };
        if self.message.is_empty() { said } else { format!("{said}: {}", self.message) }
    }
}

/// What a slot has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReport {
    /// Which slot.
    pub slot: u32,
    /// What it does.
    pub status: SlotStatus,
    /// The task it holds, or the one the answer is about.
    pub task: Option<TaskRef>,
    /// An answer to a command that was not carried out.
    pub answer: Option<Answer>,
    /// The answer in words.
    pub message: String,
    /// How the task ended; sent once a session and in the hello.
    pub result: Option<TaskResult>,
}

/// Whether a runner takes new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// It does.
    Working,
    /// It finishes what it has.
    Draining,
    /// It is leaving and holds nothing.
    Leaving,
}

/// A frame from a runner, after its hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Grows by one with each frame of the stream.
    pub seq: u64,
    /// The highest command seq taken in.
    pub ack: u64,
    /// What slots have to say.
    pub slots: Vec<SlotReport>,
    /// Whether the runner takes new work; `None` means as before.
    pub drain: Option<Drain>,
}

/// Who a runner is and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The name it was started with.
    pub runner_id: String,
    /// Tells two hosts with one runner id apart.
    pub install_id: String,
    /// New for each process start.
    pub boot_id: String,
    /// Which start of its installation it is, from 1; 0 when it does not count them.
    pub boot_number: u64,
    /// Raised at each dial.
    pub conn: u64,
    /// The protocol version it speaks.
    pub protocol_version: u32,
    /// Its software version.
    pub version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How many slots it has.
    pub slots: u32,
    /// What it can run.
    pub capabilities: Vec<String>,
    /// What it holds, unacknowledged results included.
    pub inventory: Vec<SlotReport>,
    /// What an earlier boot held and whose processes were ended without a result.
    pub ended: Vec<TaskRef>,
    /// Whether it takes new work.
    pub drain: Option<Drain>,
}

/// What the scheduler gave to a slot in this session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The dispatch.
    pub task: TaskRef,
    /// The seq of the frame that carried it: RUN_NEW, or the welcome that adopted it.
    pub run_seq: u64,
    /// It was reported RUNNING.
    pub started: bool,
}

/// What a report means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Nothing new.
    Nothing,
    /// The slot's task runs.
    Started,
    /// The slot's task ended; the report carries the result.
    Result,
    /// The slot's task ended without a result.
    Ended(Ending),
    /// The slot is idle although its RUN_NEW was taken in: what that means depends on how far the task was.
    IdlePastAck,
    /// The slot holds something that it was not given in this session: have it ended.
    Stray,
    /// The slot holds a result nobody waits for: have it forgotten.
    StrayResult,
}

/// Reads a report, given what its slot was given and the frame's ack.
pub fn read(held: Option<&Held>, report: &SlotReport, ack: u64) -> Reading {
    let given = held.filter(|held| report.task.is_none_or(|task| task == held.task));
    match (given, report.task, report.answer, report.status) {
        // An answer about something else changes nothing; the slot's own state comes with the next beat.
        (None, _, Some(_), _) | (None, None, None, _) => Reading::Nothing,
        (None, Some(_), None, SlotStatus::Running) => Reading::Stray,
        (None, Some(_), None, SlotStatus::Finished | SlotStatus::Failed) => Reading::StrayResult,
        (None, Some(_), None, SlotStatus::Idle) => Reading::Nothing,

        (Some(_), Some(_), Some(answer), _) => Reading::Ended(match answer {
            // It will do as soon as that runner, or another, has room.
            Answer::RejectedBusy | Answer::RejectedDraining => Ending::NeverStarted { counted: false },
            Answer::RejectedLate | Answer::RejectedTarget | Answer::RejectedSpec | Answer::Unsupported => {
                Ending::NeverStarted { counted: true }
            }
            // A runner that has seen a higher lease never starts this one [4].
            Answer::Stale => Ending::NeverStarted { counted: true },
            Answer::NotHeld => Ending::Gone,
        }),
        (Some(held), Some(_), None, SlotStatus::Running) if !held.started => Reading::Started,
        (Some(_), Some(_), None, SlotStatus::Finished | SlotStatus::Failed) if report.result.is_some() => {
            Reading::Result
        }
        // An IDLE frame can cross RUN_NEW on the wire: infer only past the ack [2].
        (Some(held), None, None, SlotStatus::Idle) if ack >= held.run_seq => Reading::IdlePastAck,
        (Some(_), ..) => Reading::Nothing,
    }
}

/// What IDLE past the ack means for a task in this state.
pub fn idle_past_ack(state: TaskState) -> Ending {
    match state {
        // It was taken in and is not there: it failed to start.
        TaskState::Dispatched => Ending::Failure,
        _ => Ending::Gone,
    }
}

/// What becomes of something a runner brings along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on: it is yours.
    Adopt,
    /// End it: it was taken back, replaced, has ended or is unknown.
    Reset,
    /// End it: it is being terminated.
    Cancel,
    /// The result is stored, or no longer wanted.
    Ack,
    /// The result is wanted: store it, then [`Verdict::Ack`].
    Apply,
}

/// Judges an item of a hello's inventory, given the task's state and lease (`None` when there is no such task) [6].
pub fn judge(row: Option<(TaskState, u64)>, lease: u64, status: SlotStatus) -> Verdict {
    let ended = matches!(status, SlotStatus::Finished | SlotStatus::Failed);
    match row {
        Some((state, current)) if current == lease && state.holds_slot() => match (ended, state) {
            (true, _) => Verdict::Apply,
            (false, TaskState::Terminating) => Verdict::Cancel,
            (false, _) => Verdict::Adopt,
        },
        _ if ended => Verdict::Ack,
        _ => Verdict::Reset,
    }
}

/// What the scheduler knows of a runner when its hello comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// See [`Hello::install_id`].
    pub install_id: String,
    /// See [`Hello::boot_id`].
    pub boot_id: String,
    /// See [`Hello::boot_number`].
    pub boot_number: u64,
    /// See [`Hello::conn`].
    pub conn: u64,
    /// Whether a session counts: false once the runner left or was given up.
    pub has_session: bool,
    /// When it was last heard, as committed.
    pub last_seen_at: Timestamp,
    /// A planned stop holds its tasks until then.
    pub hold_until: Option<Timestamp>,
}

/// Whether a hello counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// A runner not seen before.
    New,
    /// The same process dials again: what it does not hold it does not run.
    SameBoot,
    /// A new process of the same installation: what ran before is gone.
    NewBoot,
    /// Another installation takes over an id whose earlier holder left or was silent for too long.
    TakenOver,
    /// A newer stream of the same process, or a newer process, counts already.
    Superseded,
    /// Another host with this id is alive, or another copy of this installation.
    Duplicate,
}

/// Decides whether a hello counts [7, 11].
pub fn admit(known: Option<&Known>, hello: &Hello, now: Timestamp, lost_after: Duration) -> Admission {
    let Some(known) = known else { return Admission::New };
    let silent = known.last_seen_at + lost_after <= now && known.hold_until.is_none_or(|until| until <= now);
    if known.install_id != hello.install_id {
        return if known.has_session && !silent { Admission::Duplicate } else { Admission::TakenOver };
    }
    if known.boot_id != hello.boot_id {
        // Once the newer one is silent, an older number is a state directory that was brought back from a copy.
        if silent || known.boot_number == 0 || hello.boot_number == 0 {
            return Admission::NewBoot;
        }
        return match hello.boot_number.cmp(&known.boot_number) {
            Ordering::Greater => Admission::NewBoot,
            // Late: that process has ended, for the state directory is held by the newer one.
            Ordering::Less => Admission::Superseded,
            // A number is given once: this is another copy of the state directory.
            Ordering::Equal => Admission::Duplicate,
        };
    }
    if hello.conn > known.conn { Admission::SameBoot } else { Admission::Superseded }
}

/// What the absence of a task from a hello proves about it. `stops` says whether it ends by itself when its runner is cut
/// off.
pub fn missing_from_hello(admission: Admission, state: TaskState, stops: bool) -> Ending {
    match (admission, state) {
        // Another host says nothing of what goes on at the earlier one.
        (Admission::TakenOver, _) if !stops => Ending::LostUnproven,
        // The process that could have started it says it did not, and its stream is a new one.
        (Admission::SameBoot, TaskState::Dispatched) => Ending::NeverStarted { counted: true },
        (Admission::SameBoot, TaskState::Running) => Ending::Lost { death: false },
        (_, TaskState::Terminating) => Ending::Gone,
        // The work may have begun, and whatever had begun died with its runner.
        _ => Ending::Lost { death: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: TaskRef = TaskRef { task: Uuid::nil(), attempt: 1, lease: 4 };
    const HELD: Held = Held { task: TASK, run_seq: 9, started: false };

    fn report(status: SlotStatus, task: Option<TaskRef>, answer: Option<Answer>) -> SlotReport {
        SlotReport { slot: 0, status, task, answer, message: String::new(), result: None }
    }

    #[test]
    fn a_reset_that_came_before_the_start_is_proof_and_no_failure() {
        let result = |end_reason, signal| TaskResult {
            end_reason,
            exit_code: None,
            signal,
            message: String::new(),
            output: Vec::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
        };
        assert_eq!(result(EndReason::Reset, None).ending(), Ending::Gone);
        assert_eq!(result(EndReason::Reset, Some(15)).ending(), Ending::Failure);
        assert_eq!(result(EndReason::StartFailed, None).ending(), Ending::Failure);
    }

    #[test]
    fn an_idle_frame_that_crosses_run_new_proves_nothing() {
        let idle = report(SlotStatus::Idle, None, None);
        assert_eq!(read(Some(&HELD), &idle, 8), Reading::Nothing);
        assert_eq!(read(Some(&HELD), &idle, 9), Reading::IdlePastAck);
    }

    #[test]
    fn a_report_under_an_old_lease_is_a_stray() {
        let old = TaskRef { lease: 3, ..TASK };
        assert_eq!(read(Some(&HELD), &report(SlotStatus::Running, Some(old), None), 9), Reading::Stray);
        assert_eq!(read(Some(&HELD), &report(SlotStatus::Failed, Some(old), None), 9), Reading::StrayResult);
    }

    #[test]
    fn running_is_news_once() {
        let running = report(SlotStatus::Running, Some(TASK), None);
        assert_eq!(read(Some(&HELD), &running, 9), Reading::Started);
        assert_eq!(read(Some(&Held { started: true, ..HELD }), &running, 9), Reading::Nothing);
    }

    #[test]
    fn not_held_is_proof_and_an_answer_about_another_task_is_none() {
        let not_held = report(SlotStatus::Idle, Some(TASK), Some(Answer::NotHeld));
        assert_eq!(read(Some(&HELD), &not_held, 12), Reading::Ended(Ending::Gone));
        let other = TaskRef { lease: 1, ..TASK };
        let about_other = report(SlotStatus::Idle, Some(other), Some(Answer::NotHeld));
        assert_eq!(read(Some(&HELD), &about_other, 12), Reading::Nothing);
    }

    #[test]
    fn what_a_runner_brings_along_is_judged_by_lease_and_state() {
        use SlotStatus::{Failed, Finished, Running};
        assert_eq!(judge(Some((TaskState::Running, 4)), 4, Running), Verdict::Adopt);
        assert_eq!(judge(Some((TaskState::Dispatched, 4)), 4, Running), Verdict::Adopt);
        assert_eq!(judge(Some((TaskState::Terminating, 4)), 4, Running), Verdict::Cancel);
        assert_eq!(judge(Some((TaskState::Queued, 5)), 4, Running), Verdict::Reset);
        assert_eq!(judge(Some((TaskState::Failed, 4)), 4, Running), Verdict::Reset);
        assert_eq!(judge(None, 4, Running), Verdict::Reset);
        assert_eq!(judge(Some((TaskState::Running, 4)), 4, Finished), Verdict::Apply);
        assert_eq!(judge(Some((TaskState::Finished, 4)), 4, Finished), Verdict::Ack);
        assert_eq!(judge(Some((TaskState::Queued, 5)), 4, Failed), Verdict::Ack);
    }

    fn hello(install: &str, boot: &str, conn: u64) -> Hello {
        Hello {
            runner_id: "r".into(),
            install_id: install.into(),
            boot_id: boot.into(),
            boot_number: 0,
            conn,
            protocol_version: 1,
            version: String::new(),
            labels: BTreeMap::new(),
            slots: 1,
            capabilities: Vec::new(),
            inventory: Vec::new(),
            ended: Vec::new(),
            drain: None,
        }
    }

    #[test]
    fn the_second_host_with_an_id_waits_until_the_first_is_lost() {
        let lost_after = Duration::from_mins(1);
        let known = Known {
            install_id: "a".into(),
            boot_id: "1".into(),
            boot_number: 0,
            conn: 3,
            has_session: true,
            last_seen_at: Timestamp(0),
            hold_until: None,
        };
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        assert_eq!(admit(Some(&known), &hello("b", "9", 1), at(59), lost_after), Admission::Duplicate);
        assert_eq!(admit(Some(&known), &hello("b", "9", 1), at(60), lost_after), Admission::TakenOver);
        let held = Known { hold_until: Some(at(600)), ..known.clone() };
        assert_eq!(admit(Some(&held), &hello("b", "9", 1), at(60), lost_after), Admission::Duplicate);
        let left = Known { has_session: false, ..known.clone() };
        assert_eq!(admit(Some(&left), &hello("b", "9", 1), at(1), lost_after), Admission::TakenOver);
        assert_eq!(admit(Some(&known), &hello("a", "1", 3), at(1), lost_after), Admission::Superseded);
        assert_eq!(admit(Some(&known), &hello("a", "1", 4), at(1), lost_after), Admission::SameBoot);
        assert_eq!(admit(Some(&known), &hello("a", "2", 1), at(1), lost_after), Admission::NewBoot);
    }

    #[test]
    fn a_late_hello_of_an_older_boot_does_not_push_the_newer_one_out() {
        let lost_after = Duration::from_mins(1);
        let known = Known {
            install_id: "a".into(),
            boot_id: "newer".into(),
            boot_number: 7,
            conn: 1,
            has_session: true,
            last_seen_at: Timestamp(0),
            hold_until: None,
        };
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        let numbered = |boot: &str, boot_number| Hello { boot_number, ..hello("a", boot, 1) };
        assert_eq!(admit(Some(&known), &numbered("older", 6), at(1), lost_after), Admission::Superseded);
        assert_eq!(admit(Some(&known), &numbered("copy", 7), at(1), lost_after), Admission::Duplicate);
        assert_eq!(admit(Some(&known), &numbered("newest", 8), at(1), lost_after), Admission::NewBoot);
        // Brought back from a copy, it is let in once the one that counted is silent.
        assert_eq!(admit(Some(&known), &numbered("older", 6), at(60), lost_after), Admission::NewBoot);
        // Whoever does not count its boots is believed.
        assert_eq!(admit(Some(&known), &numbered("uncounted", 0), at(1), lost_after), Admission::NewBoot);
        let uncounted = Known { boot_number: 0, ..known };
        assert_eq!(admit(Some(&uncounted), &numbered("older", 6), at(1), lost_after), Admission::NewBoot);
    }
}
