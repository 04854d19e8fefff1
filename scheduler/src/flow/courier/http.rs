//! Webhooks: an event is posted as JSON, signed, to an address that may be dialed.

use std::{
    error::Error as _,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use chrono::Utc;
use reqwest::{
    Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use uuid::Uuid;

use super::{CONNECT_MAX, Outcome, secret};
use crate::{
    domain::{
        callback::{
            address::{Network, may_dial},
            delivery::{self, Verdict},
            signature,
        },
        definition::callback::Webhook,
    },
    store::callback::Claimed,
};

/// Bytes of an answer that are shown when it says that something is wrong.
const ANSWER_SHOWN_MAX: usize = 500;

/// Posts events.
#[derive(Debug)]
pub(super) struct Sender {
    client: Client,
    allow: Arc<[Network]>,
}

/// An address that must not be dialed.
#[derive(Debug, thiserror::Error)]
#[error("{host} is at {address}, {what}: the scheduler dials it only when started with --callback-allow")]
struct Refused {
    host: String,
    address: IpAddr,
    what: &'static str,
}

impl Sender {
    /// Of a receiver that takes longer than `answer_max` nothing more is expected.
    pub(super) fn new(allow: &[Network], answer_max: Duration) -> Self {
        let allow: Arc<[Network]> = allow.into();
        let client = Client::builder()
            .tls_backend_preconfigured(tls())
            // What a name means is looked at after it was looked up: a name can mean any address.
            .dns_resolver(Arc::new(Guard { allow: allow.clone() }))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_MAX)
            .timeout(answer_max)
            .user_agent(concat!("baton-scheduler/", env!("CARGO_PKG_VERSION")))
            .build()
            .expect("the settings of the client are ours");
        Self { client, allow }
    }

    /// Posts one event, once.
    pub(super) async fn post(&self, callback: &Claimed, webhook: &Webhook, secrets: Option<&Path>) -> Outcome {
        let headers = match headers(callback, webhook, secrets) {
            Ok(headers) => headers,
            // It may be there at the next try.
            Err(problem) => return Outcome::failed(Verdict::Retry, problem),
        };
        let url = match self.url(&webhook.url) {
            Ok(url) => url,
            Err(problem) => return Outcome::failed(Verdict::GiveUp, problem),
        };
        let request = self.client.post(url).headers(headers).body(callback.payload.clone());
        match request.send().await {
            Ok(response) => answered(response).await,
            Err(error) => unanswered(&error),
        }
    }

    /// A name is looked at once it was looked up; an address is looked at here.
    fn url(&self, text: &str) -> Result<Url, String> {
        let url = Url::parse(text).map_err(|error| format!("{text}: {error}"))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            may_dial(address, &self.allow).map_err(|what| Refused { host, address, what }.to_string())?;
        }
        Ok(url)
    }
}

/// Trusts who this machine trusts.
fn tls() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the usual versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Looks names up, and leaves out what must not be dialed.
#[derive(Debug)]
struct Guard {
    allow: Arc<[Network]>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let allow = self.allow.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let mut refused = None;
            let mut allowed = Vec::with_capacity(found.len());
            for address in found {
                match may_dial(address.ip(), &allow) {
                    Ok(()) => allowed.push(address),
                    Err(what) => refused = Some(Refused { host: host.clone(), address: address.ip(), what }),
                }
            }
            match refused.filter(|_| allowed.is_empty()) {
                Some(refused) => Err(refused.into()),
                None => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

fn headers(callback: &Claimed, webhook: &Webhook, secrets: Option<&Path>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let mut set = |name: &str, value: &str, secret: bool| {
        let wrong = || format!("header {name} cannot be sent: its value is no printable ASCII");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(secret);
        headers.insert(key, value);
        Ok::<_, String>(())
    };
    for (name, value) in &webhook.headers {
        set(name, value, false)?;
    }
    for (name, reference) in &webhook.secret_headers {
        set(name, &secret::look_up(reference, secrets)?, true)?;
    }
    set(CONTENT_TYPE.as_str(), "application/json", false)?;
    let id = callback.id.to_string();
    set("Idempotency-Key", &id, false)?;
    set("Baton-Callback-Id", &id, false)?;
    set("Baton-Event-Id", &callback.event_id.to_string(), false)?;
    set("Baton-Event", callback.event.name(), false)?;
    set("Baton-Try", &callback.tries.to_string(), false)?;
    if !webhook.secret.is_empty() {
        let key = secret::look_up(&webhook.secret, secrets)?;
        // Receivers compare it with their own clock.
        let seconds = Utc::now().timestamp();
        set(signature::HEADER, &signature::sign(key.as_bytes(), seconds, callback.payload.as_bytes()), false)?;
    }
    Ok(headers)
}

async fn answered(response: Response) -> Outcome {
    let status = response.status().as_u16();
    let verdict = delivery::of_status(status);
    let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let asked = header(RETRY_AFTER).and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let code = Some(i32::from(status));
    if verdict == Verdict::Delivered {
        return Outcome { verdict, code, error: String::new(), asked: None };
    }
    let redirect =
        if response.status().is_redirection() { "; redirects are not followed: name the place itself" } else { "" };
    let said = said(response).await;
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    Outcome { verdict, code, error: format!("it answered {status}{said}{redirect}"), asked }
}

/// The beginning of what a receiver said, on one line.
async fn said(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < ANSWER_SHOWN_MAX {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk[..chunk.len().min(ANSWER_SHOWN_MAX - bytes.len())]),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Why there was no answer. The url is left out: it is in the definition, and may hold what is not for everybody.
fn unanswered(error: &reqwest::Error) -> Outcome {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = error.source();
    let mut deepest = String::new();
    while let Some(error) = cause {
        if error.is::<Refused>() {
            return Outcome::failed(Verdict::GiveUp, error.to_string());
        }
        deepest = error.to_string();
        cause = error.source();
    }
    let what = match (error.is_connect(), error.is_timeout()) {
        (true, true) => "it could not be reached in time",
        (true, false) => "it could not be reached",
        (false, true) => "it did not answer in time",
        (false, false) => "it gave no answer that makes sense",
    };
    let why = if deepest.is_empty() || error.is_timeout() { String::new() } else { format!(": {deepest}") };
    Outcome::failed(Verdict::Retry, format!("{what}{why}"))
}

/// Spreads waits: a number from 0 to 1.
pub(in crate::flow) fn chance() -> f64 {
    let bits = u32::try_from(Uuid::new_v4().as_u128() & u128::from(u32::MAX)).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt as _, net::TcpListener};

    use super::*;
    use crate::domain::{callback::Event, definition::callback::Action};

    #[tokio::test]
    async fn a_receiver_that_never_answers_is_left_alone_until_the_next_try() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        // It takes everything in and says nothing.
        let silent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut taken = 0;
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                taken += count;
            }
            taken
        });
        let webhook = Webhook { url, ..Webhook::default() };
        let callback = Claimed {
            id: Uuid::from_u128(1),
            event_id: Uuid::from_u128(2),
            event: Event::Failed,
            namespace: "default".to_owned(),
            action: Action::Http(webhook.clone()),
            payload: "{}".to_owned(),
            job_id: None,
            holds: None,
            depth: 0,
            tries: 1,
        };
        let sender = Sender::new(&[Network::parse("127.0.0.0/8").unwrap()], Duration::from_millis(200));
        let outcome = sender.post(&callback, &webhook, None).await;
        let expected = Outcome::failed(Verdict::Retry, "it did not answer in time");
        assert_eq!(outcome, expected);
        // The connection is given up, too.
        assert!(silent.await.unwrap() > 0);
    }
}
