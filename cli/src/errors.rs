//! What went wrong, for a person and for a script: a cause, every violation, the next step, an exit code.

use std::{
    error::Error as _,
    fmt::{self, Write as _},
    io,
    process::ExitCode,
    time::Duration,
};

use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::problem::{self, Located};

/// How many problems of job files are drawn: nobody reads more of them before mending the first ones.
const PROBLEMS_DRAWN_MAX: usize = 50;

/// How the program ends. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// Something else went wrong.
    Error = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// Not allowed.
    Denied = 4,
    /// It is not in a state that allows this, or exists already.
    Conflict = 5,
    /// No scheduler answered.
    Unreachable = 6,
    /// The job that was waited for FAILED.
    JobFailed = 7,
    /// The job that was waited for was TERMINATED.
    JobTerminated = 8,
    /// The job that was waited for was SKIPPED.
    JobSkipped = 9,
    /// `diff` found differences.
    Differences = 10,
    /// Ctrl-C ended the command before its time; what it showed goes on.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line was read but makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something on this side went wrong.
    #[error("{message}")]
    Local {
        /// What.
        message: String,
        /// What to do about it.
        next: Option<String>,
    },
    /// Job files have problems.
    #[error("{}", problem::count(.0))]
    Invalid(Vec<Located>),
    /// No connection came about.
    #[error("cannot reach a scheduler at {address}: {cause}")]
    Unreachable {
        /// Where.
        address: String,
        /// The deepest cause the network gave.
        cause: String,
    },
    /// The scheduler took longer than `--timeout`.
    #[error("the scheduler at {address} gave no answer within {seconds} s")]
    TimedOut {
        /// Where.
        address: String,
        /// The limit.
        seconds: f64,
    },
    /// The scheduler refused.
    #[error("{}", .0.message())]
    Refused(Box<Status>),
    /// Whoever read our output has gone; nothing is left to say.
    #[error("the reader of the output is gone")]
    PipeClosed,
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::local(error),
        }
    }
}

impl Error {
    /// A failure of this side without a next step.
    pub fn local(message: impl fmt::Display) -> Self {
        Self::Local { message: message.to_string(), next: None }
    }

    /// A failure of this side, and what to do about it.
    pub fn with_next(message: impl fmt::Display, next: impl Into<String>) -> Self {
        Self::Local { message: message.to_string(), next: Some(next.into()) }
    }

    /// The exit code that goes with it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Local { .. } | Self::Invalid(_) => Exit::Error,
            Self::Unreachable { .. } | Self::TimedOut { .. } => Exit::Unreachable,
            Self::Refused(status) => exit_of(status.code()),
            Self::PipeClosed => Exit::Ok,
        }
    }

    /// The stable reason, if the scheduler gave one.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Refused(status) => {
                status.get_details_error_info().map(|info| info.reason).filter(|reason| !reason.is_empty())
            }
            _ => None,
        }
    }

    /// Every field that is wrong, with its path.
    pub fn violations(&self) -> Vec<(String, String)> {
        let Self::Refused(status) = self else { return Vec::new() };
        let details = status.get_error_details();
        let fields = details.bad_request().into_iter().flat_map(|bad| &bad.field_violations);
        let mut found: Vec<_> = fields.map(|one| (one.field.clone(), one.description.clone())).collect();
        let conditions = details.precondition_failure().into_iter().flat_map(|failure| &failure.violations);
        found.extend(conditions.map(|one| (one.subject.clone(), one.description.clone())));
        found
    }

    /// How many more fields are wrong than the scheduler could tell in one answer.
    pub fn violations_left_out(&self) -> usize {
        let Self::Refused(status) = self else { return 0 };
        let info = status.get_details_error_info();
        info.and_then(|info| info.metadata.get("violations_left_out")?.parse().ok()).unwrap_or_default()
    }

    /// What to do next, if there is something.
    pub fn next(&self) -> Option<String> {
        match self {
            Self::Usage(_) => Some("see `baton help`".to_owned()),
            Self::Local { next, .. } => next.clone(),
            Self::Unreachable { .. } => Some("start one with `baton dev`, or set --address / BATON_ADDRESS".to_owned()),
            Self::TimedOut { .. } => Some("try again, or give it longer with --timeout".to_owned()),
            Self::Refused(status) => next_after(status),
            Self::Invalid(_) | Self::PipeClosed => None,
        }
    }

    /// The message for a terminal, without a newline at its end.
    pub fn to_text(&self, color: bool) -> String {
        let mut text = String::new();
        if let Self::Invalid(problems) = self {
            for located in problems.iter().take(PROBLEMS_DRAWN_MAX) {
                let _ = writeln!(text, "{}", located.to_text(color));
            }
            if let Some(more) = problems.len().checked_sub(PROBLEMS_DRAWN_MAX).filter(|more| *more > 0) {
                let _ = writeln!(text, "… and {more} more, which -o json lists\n");
            }
        }
        let _ = write!(text, "{} {self}", if color { "\x1b[1;31merror:\x1b[0m" } else { "error:" });
        let shown = self.to_string();
        for (field, description) in self.violations() {
            // A message that is its only violation need not be said twice.
            if shown.contains(&description) && (field.is_empty() || shown.contains(&field)) {
                continue;
            }
            let line = if field.is_empty() { description } else { format!("{field}: {description}") };
            let _ = write!(text, "\n  {}", line.replace('\n', "\n  "));
        }
        if self.violations_left_out() > 0 {
            let _ = write!(text, "\n  … and {} more", self.violations_left_out());
        }
        if let Some(next) = self.next() {
            let _ = write!(text, "\nnext: {next}");
        }
        text
    }

    /// The same as JSON.
    pub fn to_json(&self) -> Value {
        let code = match self {
            Self::Refused(status) => code_name(status.code()),
            Self::Usage(_) | Self::Invalid(_) => "INVALID_ARGUMENT",
            Self::Unreachable { .. } => "UNAVAILABLE",
            Self::TimedOut { .. } => "DEADLINE_EXCEEDED",
            Self::Local { .. } | Self::PipeClosed => "UNKNOWN",
        };
        let mut error = json!({"code": code, "message": self.to_string(), "exitCode": self.exit() as u8});
        if let Some(reason) = self.reason() {
            error["reason"] = reason.into();
        }
        let violations: Vec<_> = if let Self::Invalid(problems) = self {
            problems.iter().map(Located::to_json).collect()
        } else {
            let each = self.violations().into_iter();
            each.map(|(field, description)| json!({"field": field, "description": description})).collect()
        };
        if !violations.is_empty() {
            error["violations"] = violations.into();
        }
        if self.violations_left_out() > 0 {
            error["violationsLeftOut"] = self.violations_left_out().into();
        }
        if let Some(next) = self.next() {
            error["next"] = next.into();
        }
        json!({ "error": error })
    }
}

/// The exit code of a gRPC code.
fn exit_of(code: Code) -> Exit {
    match code {
        Code::Ok => Exit::Ok,
        Code::NotFound => Exit::NotFound,
        Code::PermissionDenied | Code::Unauthenticated => Exit::Denied,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => Exit::Conflict,
        Code::Unavailable | Code::DeadlineExceeded => Exit::Unreachable,
        _ => Exit::Error,
    }
}

/// What the scheduler advises, else what its code suggests.
fn next_after(status: &Status) -> Option<String> {
    if let Some(help) = status.get_details_help()
        && let Some(link) = help.links.first()
    {
        let address = if link.url.is_empty() { String::new() } else { format!(" ({})", link.url) };
        return Some(format!("{}{address}", link.description));
    }
    let advice = match status.code() {
        Code::Unimplemented => "the scheduler does not know this call: use a scheduler and a `baton` of one version",
        Code::Unavailable => "the scheduler answers but cannot serve now: try again in a moment, or look at its log",
        Code::Unauthenticated => "this scheduler asks for a token, which this version of `baton` cannot send",
        Code::Internal | Code::Unknown | Code::DataLoss => "look at the scheduler's log, which says more",
        // These say in their message what is wrong and what would be right.
        Code::NotFound | Code::InvalidArgument => return None,
        _ => {
            let reason = status.get_details_error_info()?.reason;
            return crate::commands::errors::known(&reason).then(|| format!("`baton errors {reason}` says more"));
        }
    };
    Some(advice.to_owned())
}

/// The deepest cause, which is the one that says something: "connection refused", not "transport error".
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    if text == "deadline has elapsed" {
        return "nothing answers".to_owned();
    }
    // The system's text ends in "(os error 111)", which helps no one.
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

/// What to say when something answers that is no scheduler: a web server, or a proxy in between.
pub fn not_a_scheduler(status: &Status) -> Option<String> {
    if let Some(rest) = status.message().strip_prefix("grpc-status header missing, mapped from ") {
        return Some(format!("something else answers there, with {rest}"));
    }
    let cause = root_cause(status.source()?);
    // What HTTP/1 says when it is spoken to in HTTP/2.
    cause
        .contains("frame with invalid size")
        .then(|| "something else answers there, which does not speak gRPC".to_owned())
}

/// When the scheduler says that the same request may work, if it does.
pub fn retry_after(status: &Status) -> Option<Duration> {
    status.get_details_retry_info()?.retry_delay
}

/// Whether the connection broke, as opposed to a scheduler that refused.
pub fn is_broken_connection(status: &Status) -> bool {
    let transport = status.source().is_some();
    matches!(status.code(), Code::Unavailable)
        || transport && matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled)
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic_types::{ErrorDetails, FieldViolation};

    use super::*;

    fn refused(code: Code, details: &ErrorDetails) -> Error {
        Status::with_error_details(code, "the job file has 2 problems", details.clone()).into()
    }

    #[test]
    fn every_violation_is_printed_on_a_line_of_its_own() {
        let mut details = ErrorDetails::with_error_info("INVALID_DEFINITION", "baton", HashMap::new());
        details.set_bad_request(vec![
            FieldViolation::new("tasks[0].needs", "3:5: needs itself"),
            FieldViolation::new("tasks[1].name", "4:5: is empty"),
        ]);
        let error = refused(Code::InvalidArgument, &details);
        let text = error.to_text(false);
        assert!(
            text.starts_with("error: the job file has 2 problems\n  tasks[0].needs: 3:5: needs itself\n"),
            "{text}"
        );
        assert!(text.contains("\n  tasks[1].name: 4:5: is empty"), "{text}");
        let json = error.to_json();
        assert_eq!(json["error"]["reason"], "INVALID_DEFINITION");
        assert_eq!(json["error"]["violations"][1]["field"], "tasks[1].name");
        assert_eq!(json["error"]["exitCode"], 1);
    }

    #[test]
    fn a_scheduler_that_knows_the_next_step_is_believed() {
        let details = ErrorDetails::with_help_link("apply it first with `baton apply -f FILE`", "");
        let error = refused(Code::NotFound, &details);
        assert_eq!(error.next().as_deref(), Some("apply it first with `baton apply -f FILE`"));
        assert_eq!(error.exit(), Exit::NotFound);
    }

    #[test]
    fn exit_codes_follow_the_grpc_code() {
        for (code, exit) in [
            (Code::NotFound, 3),
            (Code::PermissionDenied, 4),
            (Code::Unauthenticated, 4),
            (Code::AlreadyExists, 5),
            (Code::FailedPrecondition, 5),
            (Code::Aborted, 5),
            (Code::Unavailable, 6),
            (Code::DeadlineExceeded, 6),
            (Code::InvalidArgument, 1),
            (Code::Internal, 1),
        ] {
            assert_eq!(exit_of(code) as u8, exit, "{code:?}");
        }
    }

    #[test]
    fn an_unreachable_scheduler_says_what_to_do() {
        let error = Error::Unreachable { address: "127.0.0.1:7420".into(), cause: "connection refused".into() };
        assert_eq!(
            error.to_text(false),
            "error: cannot reach a scheduler at 127.0.0.1:7420: connection refused\n\
             next: start one with `baton dev`, or set --address / BATON_ADDRESS"
        );
        assert_eq!(error.exit(), Exit::Unreachable);
    }
}
