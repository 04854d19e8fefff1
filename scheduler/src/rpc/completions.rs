//! Completes tasks that wait for their callbacks, for whoever has the token: by gRPC, or by a plain
//! `POST /v1/complete/TOKEN` on the same port.
//!
//! | answer | when |
//! |---|---|
//! | 200 | the task is completed, and that survives any crash |
//! | 400 | the body or the query cannot be understood; the token stays good |
//! | 404 | nobody was given such a token |
//! | 408 | the body did not come in time |
//! | 409 | the token was used before |
//! | 410 | the attempt it belongs to is over: timed out, terminated, lost or followed by another |
//! | 413 | the body is too large |
//! | 503 | the scheduler cannot reach its database, or is busy or stopping; try again |

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{HeaderValue, StatusCode, Version, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::post,
};
use baton::v1;
use serde_json::json;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{
    api::Api,
    status::{Error, Kind},
};
use crate::{
    domain::{
        completion::{self, MESSAGE_MAX, TOKEN_LEN},
        output::{self, OUTPUT_MAX},
    },
    flow::request,
};

/// Bytes of a plain body: an output at its largest, escaped as it may be, and a message.
const BODY_MAX: usize = 2 * OUTPUT_MAX + 2 * MESSAGE_MAX;
/// How long a plain body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// How a task is completed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Completion {
    failed: bool,
    output: String,
    message: String,
}

impl Api {
    /// Completes the task that a token belongs to. When this returns, that survives any crash.
    pub(super) async fn complete_task(
        &self,
        request: v1::CompleteTaskRequest,
    ) -> Result<v1::CompleteTaskResponse, Error> {
        let failed = match v1::CompletionResult::try_from(request.result) {
            Ok(v1::CompletionResult::Unspecified | v1::CompletionResult::Finished) => false,
            Ok(v1::CompletionResult::Failed) => true,
            Err(_) => return Err(Error::invalid("result", "is neither FINISHED nor FAILED")),
        };
        self.complete(&request.token, Completion { failed, output: request.output, message: request.message }).await
    }

    async fn complete(&self, token: &str, how: Completion) -> Result<v1::CompleteTaskResponse, Error> {
        // What is wrong is told before the token is spent.
        if how.message.len() > MESSAGE_MAX {
            return Err(Error::invalid("message", format!("has at most {MESSAGE_MAX} bytes")));
        }
        output::parse(how.output.as_bytes()).map_err(|problem| Error::invalid("output", problem))?;
        let unknown = || Error::not_found(Kind::Token, "***");
        if token.len() != TOKEN_LEN {
            return Err(unknown());
        }
        let token_hash = completion::hash(token);
        let right = self.store.completion(&token_hash).await?.ok_or_else(unknown)?.right;
        let order = request::Complete {
            token_hash,
            job_id: right.job_id,
            failed: how.failed,
            output: how.output,
            message: how.message,
        };
        self.engine.complete(order).await?;
        Ok(v1::CompleteTaskResponse { job_id: right.job_id.to_string(), task_id: right.task.task.to_string() })
    }
}

/// The plain paths beside the services, and what HTTP/1 may ask: nothing else.
pub(super) fn plain(services: Router, api: Api) -> Router {
    let plain = Router::new().route("/v1/complete/{token}", post(complete)).with_state(api);
    services.merge(plain).layer(middleware::from_fn(old_http))
}

async fn old_http(request: Request, next: Next) -> Response {
    if request.version() < Version::HTTP_2 && !request.uri().path().starts_with("/v1/") {
        let message = "this port speaks gRPC, which needs HTTP/2, and takes POST /v1/complete/TOKEN";
        return answer(StatusCode::NOT_FOUND, &json!({ "error": message }));
    }
    next.run(request).await
}

async fn complete(State(api): State<Api>, Path(token): Path<String>, request: Request) -> Response {
    let how = match read(request).await {
        Ok(how) => how,
        Err((status, message)) => return answer(status, &json!({ "error": message })),
    };
    match api.complete(&token, how).await {
        Ok(done) => answer(StatusCode::OK, &json!({ "job_id": done.job_id, "task_id": done.task_id })),
        Err(error) => refused(&error.into()),
    }
}

/// The body and the query of a plain request; either may say each thing, and none has to.
async fn read(request: Request) -> Result<Completion, (StatusCode, String)> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = to_bytes(request.into_body(), BODY_MAX);
    let body = match tokio::time::timeout(BODY_PATIENCE, body).await {
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, format!("the body did not come within {BODY_PATIENCE:?}"))),
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            let large = std::error::Error::source(&error)
                .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
            return Err(if large {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {BODY_MAX} bytes"))
            } else {
                (StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}"))
            });
        }
    };
    said(&query, &body).map_err(|message| (StatusCode::BAD_REQUEST, message))
}

fn said(query: &str, body: &[u8]) -> Result<Completion, String> {
    const KNOWN: &str = "there is result (finished or failed), output (an object) and message";
    let mut words: Vec<(String, serde_json::Value)> = Vec::new();
    if !body.trim_ascii().is_empty() {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(body).map_err(|error| format!("the body is no JSON object: {error}; {KNOWN}"))?;
        words.extend(object);
    }
    words.extend(
        url::form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into(), value.into_owned().into())),
    );
    let mut how = Completion::default();
    let mut seen: Vec<String> = Vec::new();
    for (name, value) in words {
        match (name.as_str(), value) {
            (_, _) if seen.contains(&name) => return Err(format!("{name} is given twice")),
            ("result", serde_json::Value::String(result)) => {
                how.failed = match result.as_str() {
                    "finished" => false,
                    "failed" => true,
                    _ => return Err(format!("result is {result:?}; it is finished or failed")),
                }
            }
            ("message", serde_json::Value::String(message)) => how.message = message,
            ("output", serde_json::Value::String(output)) => how.output = output,
            ("output", object @ serde_json::Value::Object(_)) => how.output = object.to_string(),
            ("output", serde_json::Value::Null) => {}
            ("result" | "message" | "output", _) => {
                return Err(format!("{name} has a value that means nothing; {KNOWN}"));
            }
            _ => return Err(format!("{name:?} is unknown; {KNOWN}")),
        }
        seen.push(name);
    }
    Ok(how)
}

/// A refusal in the words of HTTP. Codes are chosen where all of them are; here they are translated.
fn refused(status: &Status) -> Response {
    let details = status.get_error_details();
    let reason = details.error_info().map_or("", |info| &info.reason);
    let code = match status.code() {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::FailedPrecondition if reason == request::TOKEN_USED => StatusCode::CONFLICT,
        Code::FailedPrecondition => StatusCode::GONE,
        Code::Unavailable | Code::ResourceExhausted | Code::Aborted => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = answer(code, &json!({ "error": status.message(), "reason": reason }));
    if code == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn answer(status: StatusCode, body: &serde_json::Value) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, headers, Body::from(format!("{body}\n"))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(failed: bool, output: &str, message: &str) -> Completion {
        Completion { failed, output: output.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn a_plain_request_may_say_little_or_much() {
        for (query, body, expected) in [
            ("", "", completion(false, "", "")),
            ("", " \n", completion(false, "", "")),
            ("", "{}", completion(false, "", "")),
            ("result=failed", "", completion(true, "", "")),
            ("result=finished&message=a%20b+c", "", completion(false, "", "a b c")),
            ("", r#"{"result": "failed", "message": "no room"}"#, completion(true, "", "no room")),
            ("message=m", r#"{"output": {"rows": 3}}"#, completion(false, "{\"rows\":3}", "m")),
            ("output=rows%3D3", "", completion(false, "rows=3", "")),
            ("", r#"{"output": null}"#, completion(false, "", "")),
        ] {
            assert_eq!(said(query, body.as_bytes()), Ok(expected), "{query} {body}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused_before_the_token_is_spent() {
        for (query, body, why) in [
            ("result=ok", "", "finished or failed"),
            ("", "rows=3", "no JSON object"),
            ("", "[1]", "no JSON object"),
            ("", r#"{"output": [1]}"#, "means nothing"),
            ("", r#"{"result": 0}"#, "means nothing"),
            ("", r#"{"outptu": {}}"#, "is unknown"),
            ("result=failed", r#"{"result": "failed"}"#, "given twice"),
            ("x=1", "", "is unknown"),
        ] {
            let refusal = said(query, body.as_bytes()).expect_err(why);
            assert!(refusal.contains(why), "{refusal}");
        }
    }
}
