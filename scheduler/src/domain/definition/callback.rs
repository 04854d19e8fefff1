//! What a definition says about callbacks: which events are told, to whom and how.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::callback::Event;

/// Something that is told to others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Callback {
    /// What is told.
    pub events: Vec<Event>,
    /// How.
    pub action: Action,
    /// Whether the task is held in CALLBACK until it is delivered or given up.
    pub blocking: bool,
}

/// How something is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A webhook is called.
    Http(Webhook),
    /// A mail is sent.
    Email(Email),
    /// A job is started.
    Job(StartJob),
}

impl Default for Action {
    fn default() -> Self {
        Self::Http(Webhook::default())
    }
}

impl Action {
    /// What it does and to whom, in a few words.
    pub fn words(&self) -> String {
        match self {
            Self::Http(webhook) => format!("http {}", webhook.url),
            Self::Email(email) => format!("email to {}", email.to.join(", ")),
            Self::Job(job) => format!("job {}", job.name),
        }
    }

    /// The key of a job file that says it.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Email(_) => "email",
            Self::Job(_) => "job",
        }
    }
}

/// A web server that is sent events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// Where it is.
    pub url: String,
    /// Headers as they are.
    pub headers: BTreeMap<String, String>,
    /// Headers whose values are secrets: a reference to each.
    pub secret_headers: BTreeMap<String, String>,
    /// A reference to the key that signs; empty means not signed.
    pub secret: String,
}

/// People who are sent events.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Email {
    /// Their addresses.
    pub to: Vec<String>,
    /// The subject, a template over the event; empty means one that says what happened.
    pub subject: String,
}

/// A job that an event starts, of a job config in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StartJob {
    /// The name of its job config.
    pub name: String,
    /// Values of its parameters, templates over the event.
    pub params: BTreeMap<String, String>,
}

/// Where a secret is found on a scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// In a variable of its environment.
    Variable(String),
    /// In a file of its `--secrets-dir`.
    File(String),
}

/// What the variables of secrets begin with: a definition can name no other variable of a scheduler.
pub const SECRET_VARIABLE: &str = "BATON_SECRET_";

impl Secret {
    /// Reads a reference: `env:BATON_SECRET_NAME` or `file:NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        const HOW: &str = "write env:BATON_SECRET_NAME, or file:NAME for a file in the scheduler's --secrets-dir";
        match text.split_once(':') {
            Some(("env", name)) => {
                let rest = name.strip_prefix(SECRET_VARIABLE).unwrap_or_default();
                if rest.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    return Err(format!(
                        "a secret's variable is named {SECRET_VARIABLE}… with letters, digits and \"_\"; {HOW}"
                    ));
                }
                Ok(Self::Variable(name.to_owned()))
            }
            Some(("file", name)) => {
                let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                if name.is_empty() || name.starts_with('.') || !name.bytes().all(good) {
                    return Err(format!("a secret's file is a plain name without a directory; {HOW}"));
                }
                Ok(Self::File(name.to_owned()))
            }
            // The text itself may be the secret: it is not repeated.
            _ => Err(format!("this is no reference to a secret; {HOW}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_reference_that_leads_nowhere_else() {
        assert_eq!(Secret::parse("env:BATON_SECRET_HOOK"), Ok(Secret::Variable("BATON_SECRET_HOOK".to_owned())));
        assert_eq!(Secret::parse("file:hook.key"), Ok(Secret::File("hook.key".to_owned())));
        for text in [
            "",
            "hunter2",
            "env:PATH",
            "env:BATON_SECRET_",
            "env:BATON_SECRET_a b",
            "file:../etc/passwd",
            "file:/x",
            "file:.x",
            "file:",
        ] {
            let problem = Secret::parse(text).expect_err(text);
            assert!(!problem.contains("hunter2"), "{problem} repeats what may be a secret");
        }
    }
}
