//! What goes wrong, as gRPC statuses: the one place where codes are chosen.
//!
//! | code | reason | when |
//! |---|---|---|
//! | `INVALID_ARGUMENT` | `INVALID_REQUEST` | fields are wrong; each of them is named |
//! | `INVALID_ARGUMENT` | `AMBIGUOUS_ID` | a part of an id fits several |
//! | `NOT_FOUND` | `JOB_NOT_FOUND`, … | there is no such thing; the closest name is told |
//! | `NOT_FOUND` | `EXPIRED` | it was there, and is not kept any more |
//! | `ALREADY_EXISTS` | `REQUEST_ID_REUSED` | another request came under this id |
//! | `FAILED_PRECONDITION` | such as `JOB_ENDED` | the request does not fit what is |
//! | `ABORTED` | `CONTENDED` | others were in the way; the same may work at once |
//! | `RESOURCE_EXHAUSTED` | `BUSY` | too much waits; try again later |
//! | `UNAVAILABLE` | `UNAVAILABLE` | the database is away or the scheduler stops; try again, perhaps elsewhere |
//! | `INTERNAL` | `INTERNAL` | a fault of ours; the log says more |

use std::{collections::HashMap, error::Error as _, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use tracing::error;
use uuid::Uuid;

use crate::{domain::definition::closest, flow::request, store};

/// Whose reasons these are.
const DOMAIN: &str = "baton";
/// How many bytes of a message are sent. A status travels in HTTP/2 trailers, of which some clients take no more than
/// 8 KiB in all: with what is sent of the details, in Base64, it has to stay below that even where every byte of the
/// message is escaped.
const MESSAGE_BYTES_MAX: usize = 600;
/// How many bytes of violations are sent; the rest is counted.
const VIOLATIONS_BYTES_MAX: usize = 3_000;
/// How many bytes of one value that a request brought are told back.
const VALUE_BYTES_MAX: usize = 300;
/// How many of several candidates are told.
const CANDIDATES_TOLD_MAX: usize = 10;
/// When to try again what was refused for a moment.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Something wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The path of the field, such as `config.tasks[3].timeout`.
    pub(crate) field: String,
    /// What is wrong with it and what would be right.
    pub(crate) description: String,
}

impl Violation {
    /// Says what is wrong with a field.
    pub(crate) fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

/// What can be looked for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    JobConfig,
    Version,
    Job,
    Task,
    Runner,
    Scheduler,
    Callback,
    Calendar,
    Token,
    Backfill,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::JobConfig,
        Self::Version,
        Self::Job,
        Self::Task,
        Self::Runner,
        Self::Scheduler,
        Self::Calendar,
        Self::Token,
        Self::Callback,
        Self::Backfill,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::JobConfig => "job config",
            Self::Version => "version",
            Self::Job => "job",
            Self::Task => "task",
            Self::Runner => "runner",
            Self::Scheduler => "scheduler",
            Self::Callback => "callback",
            Self::Calendar => "calendar",
            Self::Token => "token",
            Self::Backfill => "backfill",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::JobConfig => "JOB_CONFIG_NOT_FOUND",
            Self::Version => "VERSION_NOT_FOUND",
            Self::Job => "JOB_NOT_FOUND",
            Self::Task => "TASK_NOT_FOUND",
            Self::Runner => "RUNNER_NOT_FOUND",
            Self::Scheduler => "SCHEDULER_NOT_FOUND",
            Self::Callback => "CALLBACK_NOT_FOUND",
            Self::Calendar => "CALENDAR_NOT_FOUND",
            Self::Token => "TOKEN_NOT_FOUND",
            Self::Backfill => "BACKFILL_NOT_FOUND",
        }
    }

    /// Where to look when no name comes close.
    fn next_step(self) -> &'static str {
        match self {
            Self::JobConfig => "`baton get configs` lists what there is",
            Self::Version => "`baton get versions NAME` lists what there is",
            Self::Job => "`baton get jobs` lists what there is",
            Self::Task => "`baton get tasks` lists what there is",
            Self::Runner => "`baton get runners` lists what there is",
            Self::Scheduler => "`baton get schedulers` lists what there is",
            Self::Callback => "`baton get callbacks` lists what there is",
            Self::Calendar => "`baton calendar get` lists what there is",
            Self::Token => "it is the last part of the url that the called service was given",
            Self::Backfill => "`baton get backfills` lists what there is",
        }
    }
}

/// Why a request is not answered.
#[derive(Debug)]
pub(crate) enum Error {
    /// Fields of it are wrong.
    Invalid(Vec<Violation>),
    /// A part of an id fits several.
    Ambiguous { field: &'static str, part: String, candidates: Vec<Uuid> },
    /// There is no such thing.
    NotFound { kind: Kind, name: String, suggestion: Option<String> },
    /// The engine refused it.
    Refused(request::Error),
    /// The question could not be answered.
    Store(store::Error),
}

impl Error {
    /// One field is wrong.
    pub(crate) fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, description)])
    }

    /// There is no such thing, and nothing like it is known.
    pub(crate) fn not_found(kind: Kind, name: impl Into<String>) -> Self {
        Self::NotFound { kind, name: name.into(), suggestion: None }
    }

    /// There is no such thing; the closest of the known names is told.
    pub(crate) fn unknown<'a>(kind: Kind, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self::NotFound { kind, name: name.to_owned(), suggestion: closest(name, known).map(str::to_owned) }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<request::Error> for Error {
    fn from(error: request::Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(violations) => invalid(&violations),
            Error::Ambiguous { field, part, candidates } => {
                let told: Vec<String> = candidates.iter().take(CANDIDATES_TOLD_MAX).map(Uuid::to_string).collect();
                let candidates = told.join(", ");
                let part = cut(&part, VALUE_BYTES_MAX);
                let message = format!("{part:?} fits several: {candidates}; give more digits");
                let mut details = details("AMBIGUOUS_ID", [("candidates", candidates)]);
                details.add_bad_request_violation(field, &message);
                status(Code::InvalidArgument, &message, details)
            }
            Error::NotFound { kind, name, suggestion } => {
                not_found(kind.words(), kind.reason(), kind.next_step(), &name, suggestion)
            }
            Error::Refused(refusal) => refused(refusal),
            Error::Store(error) => store_failed(&error),
        }
    }
}

fn invalid(violations: &[Violation]) -> Status {
    let told = |violation: &Violation| {
        let Violation { field, description } = violation;
        (cut(field, VALUE_BYTES_MAX), cut(description, MESSAGE_BYTES_MAX))
    };
    let (mut fields, mut bytes) = (Vec::new(), 0);
    for violation in violations {
        let (field, description) = told(violation);
        bytes += field.len() + description.len();
        if bytes > VIOLATIONS_BYTES_MAX {
            break;
        }
        fields.push((field, description));
    }
    let message = match (fields.first(), violations.len()) {
        (None, _) => "the request is invalid".to_owned(),
        (Some((field, description)), 1) => format!("{field}: {description}"),
        (Some((field, description)), count) => format!("{field}: {description} (and {} more)", count - 1),
    };
    let left_out = violations.len() - fields.len();
    let left_out = (left_out > 0).then(|| ("violations_left_out", left_out.to_string()));
    let mut details = details("INVALID_REQUEST", left_out);
    for (field, description) in fields {
        details.add_bad_request_violation(field, description);
    }
    status(Code::InvalidArgument, &message, details)
}

/// A status that fits into the trailers of every client.
fn status(code: Code, message: &str, details: ErrorDetails) -> Status {
    Status::with_error_details(code, cut(message, MESSAGE_BYTES_MAX), details)
}

/// A text of at most so many bytes, on the boundary of a character; what was cut is marked.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes_max - '…'.len_utf8())])
}

fn not_found(words: &str, reason: &str, next_step: &str, name: &str, suggestion: Option<String>) -> Status {
    let name = &cut(name, VALUE_BYTES_MAX);
    let next = suggestion.as_ref().map_or_else(|| next_step.to_owned(), |name| format!("did you mean {name:?}?"));
    let message = format!("{words} {name:?} does not exist; {next}");
    let mut facts = vec![("kind", words.to_owned()), ("name", name.to_owned())];
    facts.extend(suggestion.map(|suggestion| ("suggestion", suggestion)));
    let mut details = details(reason, facts);
    details.set_resource_info(words, name, "", &next);
    status(Code::NotFound, &message, details)
}

/// What retention removed, or has begun to remove.
fn expired(words: &str, name: &str) -> Status {
    let name = &cut(name, VALUE_BYTES_MAX);
    let message = format!("{words} {name:?} is not kept any more, or not all of it; make a new one with `baton run`");
    let mut details = details("EXPIRED", [("kind", words.to_owned()), ("name", name.to_owned())]);
    details.set_resource_info(words, name, "", &message);
    status(Code::NotFound, &message, details)
}

fn refused(refusal: request::Error) -> Status {
    match refusal {
        request::Error::NotFound { kind, name } => match Kind::ALL.into_iter().find(|known| known.words() == kind) {
            Some(kind) => Error::not_found(kind, name).into(),
            None => not_found(kind, "NOT_FOUND", "look at its name", &name, None),
        },
        request::Error::Expired { kind, name } => expired(kind, &name),
        request::Error::Invalid(wrong) => {
            let violations: Vec<Violation> =
                wrong.into_iter().map(|(field, message)| Violation::new(field, message)).collect();
            invalid(&violations)
        }
        request::Error::Conflict { reason, message } => {
            let code = match reason {
                "REQUEST_ID_REUSED" => Code::AlreadyExists,
                "CONTENDED" => Code::Aborted,
                _ => Code::FailedPrecondition,
            };
            status(code, &message, details(reason, []))
        }
        request::Error::Busy(what) => {
            let message = format!("the scheduler is busy: {what}; try again in a moment");
            status(Code::ResourceExhausted, &message, later("BUSY"))
        }
        request::Error::Unavailable(message) => unavailable(&message),
        request::Error::Internal(message) => internal(&message),
    }
}

fn store_failed(error: &store::Error) -> Status {
    if error.is_unreachable() {
        return unavailable(&format!("{error}; try again in a moment"));
    }
    if let store::Error::Slow(_) = error {
        return status(Code::DeadlineExceeded, &error.to_string(), details("TOO_SLOW", []));
    }
    if error.is_contended() {
        let message = "other changes were in the way; try again";
        return status(Code::Aborted, message, later("CONTENDED"));
    }
    let mut causes = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        causes = format!("{causes}: {cause}");
        source = cause.source();
    }
    internal(&causes)
}

fn unavailable(message: &str) -> Status {
    status(Code::Unavailable, message, later("UNAVAILABLE"))
}

/// What went wrong inside goes to the log, with a mark that leads there, and not to the client.
fn internal(causes: &str) -> Status {
    let mark = Uuid::new_v4().simple().to_string();
    error!(%mark, causes, "a request failed inside");
    let message = format!("something went wrong inside the scheduler; its log says more under {mark}");
    status(Code::Internal, &message, details("INTERNAL", [("mark", mark)]))
}

fn details(reason: &str, facts: impl IntoIterator<Item = (&'static str, String)>) -> ErrorDetails {
    let facts: HashMap<String, String> = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    ErrorDetails::with_error_info(reason, DOMAIN, facts)
}

fn later(reason: &str) -> ErrorDetails {
    let mut details = details(reason, []);
    details.set_retry_info(Some(RETRY_DELAY));
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(status: &Status) -> String {
        status.get_error_details().error_info().unwrap().reason.clone()
    }

    #[test]
    fn every_refusal_has_one_code_and_one_reason() {
        let conflict = |reason| request::Error::Conflict { reason, message: "no".to_owned() };
        let table = [
            (request::Error::NotFound { kind: "job", name: "x".to_owned() }, Code::NotFound, "JOB_NOT_FOUND"),
            (
                request::Error::NotFound { kind: "job config", name: "x".to_owned() },
                Code::NotFound,
                "JOB_CONFIG_NOT_FOUND",
            ),
            (
                request::Error::Invalid(vec![("params".to_owned(), "no".to_owned())]),
                Code::InvalidArgument,
                "INVALID_REQUEST",
            ),
            (conflict("JOB_ENDED"), Code::FailedPrecondition, "JOB_ENDED"),
            (conflict("REQUEST_ID_REUSED"), Code::AlreadyExists, "REQUEST_ID_REUSED"),
            (conflict("CONTENDED"), Code::Aborted, "CONTENDED"),
            (request::Error::Busy("queue".to_owned()), Code::ResourceExhausted, "BUSY"),
            (request::Error::Unavailable("stopping".to_owned()), Code::Unavailable, "UNAVAILABLE"),
            (request::Error::Internal("secret".to_owned()), Code::Internal, "INTERNAL"),
        ];
        for (refusal, code, expected) in table {
            let status = Status::from(Error::from(refusal));
            assert_eq!((status.code(), reason(&status).as_str()), (code, expected));
            assert_eq!(status.get_error_details().error_info().unwrap().domain, DOMAIN);
        }
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let status = Status::from(Error::Invalid(vec![Violation::new("a", "is bad"), Violation::new("b.c", "too")]));
        assert_eq!(status.message(), "a: is bad (and 1 more)");
        let fields: Vec<String> = status
            .get_error_details()
            .bad_request()
            .unwrap()
            .field_violations
            .iter()
            .map(|violation| violation.field.clone())
            .collect();
        assert_eq!(fields, ["a", "b.c"]);
    }

    #[test]
    fn the_first_of_a_thousand_problems_fit_into_the_trailers_of_every_client() {
        let long = "ü".repeat(40_000);
        let violations: Vec<_> = (0..1_000).map(|at| Violation::new(format!("tasks[{at}].needs[0]"), &long)).collect();
        let short: Vec<_> = (0..1_000).map(|at| Violation::new(format!("tasks[{at}]"), "is no task")).collect();
        let table = [
            Status::from(Error::Invalid(violations)),
            Status::from(Error::Invalid(short.clone())),
            Status::from(Error::not_found(Kind::Task, &long)),
            Status::from(Error::unknown(Kind::JobConfig, &long, ["a"])),
            Status::from(Error::from(request::Error::Conflict { reason: "JOB_ENDED", message: long })),
        ];
        for status in &table {
            let mut trailers = tonic::metadata::MetadataMap::new().into_headers();
            status.add_header(&mut trailers).unwrap();
            // As HTTP/2 counts them.
            let size: usize = trailers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(size < 8 * 1024, "{size} bytes of trailers");
        }
        let details = table[1].get_error_details();
        let told = details.bad_request().unwrap().field_violations.len();
        let left_out: usize = details.error_info().unwrap().metadata["violations_left_out"].parse().unwrap();
        assert_eq!(told + left_out, 1_000);
        assert!(told > 50, "{told} are told");
        assert_eq!(table[1].message(), "tasks[0]: is no task (and 999 more)");
    }

    #[test]
    fn an_unknown_name_meets_the_one_that_was_meant() {
        let status = Status::from(Error::unknown(Kind::Task, "extrct", ["load", "extract"]));
        assert_eq!(status.code(), Code::NotFound);
        assert_eq!(status.message(), "task \"extrct\" does not exist; did you mean \"extract\"?");
        let status = Status::from(Error::unknown(Kind::Task, "zebra", ["load", "extract"]));
        assert!(status.message().ends_with("`baton get tasks` lists what there is"));
    }

    #[test]
    fn what_goes_wrong_inside_stays_inside() {
        let status = Status::from(Error::from(request::Error::Internal("constraint xyz".to_owned())));
        assert!(!status.message().contains("xyz"));
    }
}
