//! One url is asked, with the redirects that follow.

use std::{error::Error, time::Duration};

use reqwest::{
    Client, Method, Response, Url,
    header::{
        ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
        USER_AGENT,
    },
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    answer::{self, Answer, Body},
    failover::Failure,
    network::{Connections, Lookup, Progress, root},
    redirect::{self, Next},
    transcript::Transcript,
};
use crate::{
    task::{HttpRequest, RunSpec, TaskRef},
    units::format_duration,
};

/// What another host is sent of the headers of a task.
const HARMLESS: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT];

/// Characters of a url in a message.
const SHOWN_MAX: usize = 200;

/// A request, ready to be made of any url.
pub(super) struct Call<'a> {
    connections: &'a Connections,
    client: Client,
    progress: Progress,
    http: &'a HttpRequest,
    method: Method,
    headers: HeaderMap,
}

/// One request on its way.
struct Hop {
    url: Url,
    method: Method,
    with_body: bool,
    headers: HeaderMap,
}

impl<'a> Call<'a> {
    /// `Err` is why this can be asked of nobody.
    pub(super) async fn new(
        connections: &'a Connections,
        task: TaskRef,
        spec: &RunSpec,
        http: &'a HttpRequest,
    ) -> Result<Self, String> {
        let method = http.method.parse().map_err(|_| format!("`{}` is no method", http.method))?;
        let headers = headers(task, spec, http)?;
        let (client, progress) = connections.client().await?;
        Ok(Self { connections, client, progress, http, method, headers })
    }

    /// Asks a url, and whomever it sends us to.
    pub(super) async fn make(&self, url: &str, transcript: &mut Transcript) -> Result<Answer, Failure> {
        let url = Url::parse(url).map_err(|error| Failure::Unusable(format!("`{url}` is no url: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Failure::Unusable(format!("{url} is no place to ask by HTTP")));
        }
        let what = shown(&self.method, &url);
        let limit = self.http.request_timeout;
        timeout(limit, self.hops(url, transcript)).await.unwrap_or_else(|_| {
            Err(Failure::Overdue(format!("{what} took longer than {} (request_timeout)", format_duration(limit))))
        })
    }

    async fn hops(&self, url: Url, transcript: &mut Transcript) -> Result<Answer, Failure> {
        let (method, headers) = (self.method.clone(), self.headers.clone());
        let mut hop = Hop { url, method, with_body: true, headers };
        for hops in 0.. {
            // Whoever sent us on has been asked, and may have done something.
            let beyond = |failure| if hops > 0 { Failure::Beyond(Box::new(failure)) } else { failure };
            let next = self.hop(hops, &hop, transcript).await.map_err(beyond)?;
            match next {
                Step::Answered(answer) => return Ok(answer),
                Step::SentOn(next) => {
                    if next.elsewhere {
                        let names: Vec<HeaderName> = hop.headers.keys().cloned().collect();
                        for name in names.into_iter().filter(|name| !HARMLESS.contains(name)) {
                            hop.headers.remove(name);
                        }
                    }
                    // A body that was dropped on the way does not come back.
                    let with_body = hop.with_body && next.with_body;
                    hop = Hop { url: next.url, method: next.method, with_body, headers: hop.headers };
                }
            }
        }
        unreachable!("redirects are counted")
    }

    async fn hop(&self, hops: usize, hop: &Hop, transcript: &mut Transcript) -> Result<Step, Failure> {
        let what = shown(&hop.method, &hop.url);
        transcript.asked(&format!("{} {}", hop.method, hop.url)).await;
        self.connections.check(&hop.url).map_err(|refused| Failure::Refused(format!("{what}: {refused}")))?;
        let since = Instant::now();
        let connected = self.progress.begin();
        let response = self.send(hop, connected.clone(), &what).await?;
        let status = response.status();
        let connected = connected.borrow().map_or(Duration::ZERO, |at| at - since);
        let times = format!("connected after {}, answered after {}", millis(connected), millis(since.elapsed()));
        transcript.answered(&format!("{status} ({times})")).await;
        for (name, value) in response.headers() {
            transcript.header(name.as_str(), value.as_bytes()).await;
        }
        let success = self.http.succeeds(status.as_u16());
        if !success && redirect::is_redirect(status.as_u16()) {
            let location = response.headers().get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
            let policy = self.http.redirects;
            return redirect::next(policy, hops, &hop.url, &hop.method, status.as_u16(), location.as_deref())
                .map(Step::SentOn)
                .map_err(|why| Failure::Redirect(format!("{what} answered {status} and {why}")));
        }
        let encoding =
            response.headers().get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (body, fault) = self.read(response, &what, transcript).await;
        let cut = if body.cut { ", and no more is read (max_response_bytes)" } else { "" };
        transcript.note(&format!("{} bytes after {}{cut}", body.bytes, millis(since.elapsed()))).await;
        if !success {
            // It failed whatever became of its words.
            return Err(Failure::Status(status.as_u16(), format!("{what} answered {status}")));
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        let (output, note) = answer::output(&body, encoding.as_deref());
        Ok(Step::Answered(Answer { output, note }))
    }

    /// Sends a request and waits for the head of the answer.
    async fn send(
        &self,
        hop: &Hop,
        mut connected: watch::Receiver<Option<Instant>>,
        what: &str,
    ) -> Result<Response, Failure> {
        let mut request = self.client.request(hop.method.clone(), hop.url.clone()).headers(hop.headers.clone());
        if hop.with_body && !self.http.body.is_empty() {
            request = request.body(self.http.body.clone());
        }
        let (connect_timeout, read_timeout) = (self.http.connect_timeout, self.http.read_timeout);
        let patience = async {
            let stands = timeout(connect_timeout, connected.wait_for(Option::is_some)).await;
            match stands.ok().and_then(|stands| *stands.ok()?) {
                None => {
                    let limit = format_duration(connect_timeout);
                    Failure::ConnectTimeout(format!("{what}: no connection within {limit} (connect_timeout)"))
                }
                Some(at) => {
                    sleep_until(at + read_timeout).await;
                    let limit = format_duration(read_timeout);
                    Failure::Silent(format!("{what}: no answer within {limit} (read_timeout)"))
                }
            }
        };
        tokio::select! {
            biased;
            sent = request.send() => sent.map_err(|error| unsent(&error, what)),
            failure = patience => Err(failure),
        }
    }

    /// Reads a body into the log, and what may become output into memory.
    async fn read(&self, mut response: Response, what: &str, transcript: &mut Transcript) -> (Body, Option<Failure>) {
        let mut body = Body::default();
        let limit = self.http.read_timeout;
        while !body.cut {
            let piece = match timeout_at(Instant::now() + limit, response.chunk()).await {
                Ok(Ok(Some(piece))) => piece,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    let bytes = body.bytes;
                    let fault = format!("{what}: the answer broke off after {bytes} bytes: {}", root(&error));
                    return (body, Some(Failure::CutOff(fault)));
                }
                Err(_) => {
                    let (bytes, limit) = (body.bytes, format_duration(limit));
                    let fault = format!("{what}: the answer stalled after {bytes} bytes for {limit} (read_timeout)");
                    return (body, Some(Failure::Stalled(fault)));
                }
            };
            let counted = body.take(&piece, self.http.response_max);
            transcript.body(counted).await;
        }
        (body, None)
    }
}

/// What came of one request.
enum Step {
    Answered(Answer),
    SentOn(Next),
}

/// The headers of a request: those of the task, and those that tell whose it is.
fn headers(task: TaskRef, spec: &RunSpec, http: &HttpRequest) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &http.headers {
        let named = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is no name of a header"))?;
        let value = HeaderValue::from_bytes(value.as_bytes());
        headers.insert(named, value.map_err(|_| format!("the value of the header {name} cannot be sent"))?);
    }
    let mut own = vec![
        ("user-agent", concat!("baton/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("accept", "*/*".to_owned()),
        // What is packed would be no output.
        ("accept-encoding", "identity".to_owned()),
        // The same for every url and for an attempt that is given out again, another one for the next attempt.
        ("idempotency-key", format!("{}-{}", task.id, task.attempt)),
    ];
    if !http.body.is_empty() {
        let json = serde_json::from_str::<serde::de::IgnoredAny>(&http.body).is_ok();
        let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
        own.push(("content-type", kind.to_owned()));
    }
    own.retain(|(name, _)| !headers.contains_key(*name));
    own.extend([
        ("baton-job-id", spec.job_id.clone()),
        ("baton-job-name", spec.job_name.clone()),
        ("baton-task-id", task.id.to_string()),
        ("baton-task-name", spec.task_name.clone()),
        ("baton-attempt", task.attempt.to_string()),
    ]);
    if let Some(callback) = &spec.callback {
        own.push(("baton-callback-url", callback.url.clone()));
        own.push(("baton-callback-token", callback.token.clone()));
    }
    for (name, value) in own {
        let value =
            HeaderValue::from_str(&value).map_err(|_| format!("the value of the header {name} cannot be sent"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// Why a request got no answer.
fn unsent(error: &reqwest::Error, what: &str) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<Lookup>() {
            Some(Lookup::Refused(refused)) => return Failure::Refused(format!("{what}: {refused}")),
            Some(Lookup::Failed(error)) => {
                return Failure::Unresolved(format!("{what}: the name of its host cannot be resolved: {error}"));
            }
            None => cause = error.source(),
        }
    }
    if error.is_builder() {
        Failure::Unusable(format!("{what} cannot be asked: {}", root(error)))
    } else if error.is_connect() {
        Failure::Unconnected(format!("{what}: cannot connect: {}", root(error)))
    } else {
        Failure::Broken(format!("{what}: no answer, the connection broke: {}", root(error)))
    }
}

/// A request in a message: without what its query may hold.
fn shown(method: &Method, url: &Url) -> String {
    let text = format!("{method} {}{}", url.origin().ascii_serialization(), url.path());
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn millis(span: Duration) -> String {
    format!("{} ms", span.as_millis())
}
