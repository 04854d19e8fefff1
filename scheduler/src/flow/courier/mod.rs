//! Carries to others what they are to be told, outside of any turn: nobody's slowness is ours.

mod http;
mod mail;
mod secret;

use std::{path::PathBuf, time::Duration};

use tokio::time::timeout;

pub(super) use self::http::chance;
pub use self::{
    mail::{Mail, Tls},
    secret::Password,
};
use super::callbacker::Outcome;
use crate::{
    domain::{
        callback::{
            address::Network,
            delivery::{Backoff, Verdict},
        },
        definition::callback::Action,
    },
    store::callback::Claimed,
};

/// How long one try may take from its first step to its last.
pub(super) const TRY_MAX: Duration = Duration::from_secs(30);
/// How long a receiver may take to be reached.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// What a courier may do, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Addresses that webhooks may be at although they are private, loopback or the like.
    pub allow: Vec<Network>,
    /// Where the files of secrets are.
    pub secrets_dir: Option<PathBuf>,
    /// How hard it tries.
    pub backoff: Backoff,
    /// The mail server; none means that there is no mail.
    pub mail: Option<Mail>,
}

/// Carries what callbacks tell.
#[derive(Debug)]
pub(super) struct Courier {
    settings: Settings,
    http: http::Sender,
}

impl Courier {
    /// A courier on its way.
    pub(super) fn new(settings: Settings) -> Self {
        let http = http::Sender::new(&settings.allow, ANSWER_MAX);
        Self { settings, http }
    }

    /// How hard it tries.
    pub(super) fn backoff(&self) -> Backoff {
        self.settings.backoff
    }

    /// Tries to deliver a callback, once.
    pub(super) async fn deliver(&self, callback: &Claimed) -> Outcome {
        let attempt = async {
            match &callback.action {
                Action::Http(webhook) => self.http.post(callback, webhook, self.settings.secrets_dir.as_deref()).await,
                Action::Email(email) => {
                    if let Some(mail) = &self.settings.mail {
                        return mail.send(callback, email).await;
                    }
                    let problem = "no mail server is set: start the scheduler with --smtp-host and --smtp-from";
                    Outcome::failed(Verdict::GiveUp, problem)
                }
                Action::Job(_) => Outcome::failed(Verdict::GiveUp, "a job is started by a turn"),
            }
        };
        let silent = |_| Outcome::failed(Verdict::Retry, format!("no answer within {} s", TRY_MAX.as_secs()));
        timeout(TRY_MAX, attempt).await.unwrap_or_else(silent)
    }
}
