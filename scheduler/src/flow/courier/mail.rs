//! Mail over SMTP: an event as a letter to people.

use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{Mailbox, header::ContentType},
    transport::smtp::{
        Error,
        authentication::Credentials,
        client::{Tls as Wrapping, TlsParameters},
    },
};

use super::{ANSWER_MAX, Outcome, Password};
use crate::{
    domain::{
        callback::{
            delivery::{self, Verdict},
            letter,
        },
        definition::callback::Email,
    },
    store::callback::Claimed,
};

/// The mail server and what it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the conversation is kept secret.
    pub tls: Tls,
    /// Whom it is told that we are, and where the password is.
    pub login: Option<(String, Password)>,
    /// Whom letters are from.
    pub from: String,
}

/// How a conversation with a mail server is kept secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// From its first byte.
    Implicit,
    /// From STARTTLS on; without it there is no conversation.
    Starttls,
    /// Not at all.
    None,
}

impl Tls {
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Starttls, Self::Implicit, Self::None];

    /// Its name in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Implicit => "implicit",
            Self::Starttls => "starttls",
            Self::None => "none",
        }
    }

    /// The port that is usual for it.
    pub fn port(self) -> u16 {
        match self {
            Self::Implicit => 465,
            Self::Starttls => 587,
            Self::None => 25,
        }
    }
}

impl Mail {
    /// Sends one letter, once.
    pub(super) async fn send(&self, callback: &Claimed, email: &Email) -> Outcome {
        let (letter, server) = match (self.letter(callback, email), self.server()) {
            (Ok(letter), Ok(server)) => (letter, server),
            (Err(problem), _) => return Outcome::failed(Verdict::GiveUp, problem),
            // A password may be there at the next try.
            (_, Err(problem)) => return Outcome::failed(Verdict::Retry, problem),
        };
        match server.send(letter).await {
            Ok(response) => {
                let code = Some(i32::from(u16::from(response.code())));
                Outcome { verdict: Verdict::Delivered, code, error: String::new(), asked: None }
            }
            Err(error) => failed(&error),
        }
    }

    fn letter(&self, callback: &Claimed, email: &Email) -> Result<Message, String> {
        let mailbox = |address: &str| address.parse::<Mailbox>().map_err(|error| format!("{address:?}: {error}"));
        // The same for every try, so that a mail server can tell a repetition.
        let id = format!("<{}@baton>", callback.id);
        let mut letter = Message::builder()
            .from(mailbox(&self.from)?)
            .subject(email.subject.as_str())
            .message_id(Some(id))
            .header(ContentType::TEXT_PLAIN);
        for address in &email.to {
            letter = letter.to(mailbox(address)?);
        }
        letter.body(letter::body(&callback.payload)).map_err(|error| error.to_string())
    }

    fn server(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
        let parameters = || TlsParameters::new(self.host.clone()).map_err(|error| format!("TLS: {error}"));
        let wrapping = match self.tls {
            Tls::Implicit => Wrapping::Wrapper(parameters()?),
            Tls::Starttls => Wrapping::Required(parameters()?),
            Tls::None => Wrapping::None,
        };
        let mut server = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(self.host.as_str())
            .port(self.port)
            .timeout(Some(ANSWER_MAX))
            .tls(wrapping);
        if let Some((user, password)) = &self.login {
            server = server.credentials(Credentials::new(user.clone(), password.look_up()?));
        }
        Ok(server.build())
    }
}

fn failed(error: &Error) -> Outcome {
    let code = error.status().map(u16::from);
    let verdict = code.map_or(Verdict::Retry, delivery::of_reply);
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    Outcome { verdict, code: code.map(i32::from), error: format!("the mail server: {text}"), asked: None }
}
