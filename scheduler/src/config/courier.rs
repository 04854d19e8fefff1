//! The settings of callbacks: whom webhooks may reach, how hard it is tried, and the mail server.

use std::{path::PathBuf, time::Duration};

use super::Values;
use crate::{
    domain::{
        callback::{
            address::Network,
            delivery::{BACKOFF_BASE, BACKOFF_MAX, Backoff, TRIES_MAX},
        },
        definition::span,
    },
    flow::courier::{Mail, Password, Settings, Tls},
};

/// How often a callback may be tried at most.
const TRIES_LIMIT: u32 = 100;

impl Values {
    pub(super) fn courier(&mut self) -> Settings {
        let allow = self.parsed("callback_allow", "", |text| {
            text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(Network::parse).collect::<Result<_, _>>()
        });
        let base = self.parsed("callback_backoff", &span::format(BACKOFF_BASE), |text| match span::parse(text)? {
            Duration::ZERO => Err("must be more than nothing".to_owned()),
            base if base > BACKOFF_MAX => Err(format!("at most {}", span::format(BACKOFF_MAX))),
            base => Ok(base),
        });
        let tries = self.parsed("callback_tries", &TRIES_MAX.to_string(), |text| match text.parse() {
            Ok(tries) if (1..=TRIES_LIMIT).contains(&tries) => Ok(tries),
            _ => Err(format!("{text:?} is not a whole number from 1 to {TRIES_LIMIT}")),
        });
        let secrets_dir = Some(self.text("secrets_dir", "")).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Settings {
            allow: allow.unwrap_or_default(),
            secrets_dir,
            backoff: Backoff { base: base.unwrap_or(BACKOFF_BASE), tries: tries.unwrap_or(TRIES_MAX) },
            mail: self.mail(),
        }
    }

    fn mail(&mut self) -> Option<Mail> {
        let host = self.text("smtp_host", "");
        let tls = self.parsed("smtp_tls", "starttls", |text| {
            let known = Tls::ALL.into_iter().find(|tls| tls.name() == text);
            known.ok_or_else(|| format!("{text:?} is unknown; starttls, implicit or none"))
        });
        let tls = tls.unwrap_or(Tls::Starttls);
        let port = self.parsed("smtp_port", &tls.port().to_string(), |text| {
            text.parse::<u16>().map_err(|_| format!("{text:?} is no port"))
        });
        let from = self.text("smtp_from", "");
        let user = self.text("smtp_user", "");
        let password = self.parsed("smtp_password", "", |text| match text {
            "" => Ok(None),
            text => Password::parse(text).map(Some),
        });
        if host.is_empty() {
            let given = [("smtp_from", &from), ("smtp_user", &user)].into_iter().find(|(_, text)| !text.is_empty());
            if let Some((name, _)) = given {
                let flag = name.replace('_', "-");
                self.problems.push(format!("--{flag} means nothing without --smtp-host"));
            }
            return None;
        }
        if from.is_empty() {
            self.problems.push("--smtp-from: letters must be from somebody; set it with --smtp-host".to_owned());
        } else if from.parse::<lettre::message::Mailbox>().is_err() {
            self.problems.push(format!("--smtp-from: {from:?} is no mail address"));
        }
        let login = match (user.is_empty(), password.flatten()) {
            (false, Some(password)) => Some((user, password)),
            (true, None) => None,
            (false, None) => {
                self.problems.push("--smtp-user: it needs --smtp-password, as env:NAME or file:PATH".to_owned());
                None
            }
            (true, Some(_)) => {
                self.problems.push("--smtp-password means nothing without --smtp-user".to_owned());
                None
            }
        };
        if login.is_some() && tls == Tls::None && !matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1") {
            self.problems.push("--smtp-tls: none would show the password to everybody on the way".to_owned());
        }
        Some(Mail { host, port: port.unwrap_or_else(|| tls.port()), tls, login, from })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, problems};
    use super::*;

    #[test]
    fn without_settings_webhooks_stay_outside_and_no_mail_is_sent() {
        assert_eq!(config(&[]).courier, Settings::default());
    }

    #[test]
    fn a_mail_server_is_understood() {
        let mail = |arguments: &[&str]| config(arguments).courier.mail.unwrap();
        let plain = mail(&["--smtp-host", "mail", "--smtp-from", "Baton <baton@example.com>"]);
        assert_eq!((plain.port, plain.tls, plain.login), (587, Tls::Starttls, None));
        let full = mail(&[
            "--smtp-host=mail",
            "--smtp-from=b@example.com",
            "--smtp-tls=implicit",
            "--smtp-user=u",
            "--smtp-password=env:P",
        ]);
        assert_eq!(full.port, 465);
        assert_eq!(full.login, Some(("u".to_owned(), Password::Variable("P".to_owned()))));
    }

    #[test]
    fn what_is_wrong_is_told_and_no_password_with_it() {
        let told = problems(&[
            "--smtp-host=m",
            "--smtp-user=u",
            "--smtp-password=hunter2",
            "--callback-allow=x",
            "--callback-tries=0",
        ]);
        let all = told.join("\n");
        for part in
            ["--smtp-from", "--smtp-password: is no reference", "--callback-allow", "--callback-tries", "--smtp-user"]
        {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(!all.contains("hunter2"), "{all}");
        let open = problems(&[
            "--smtp-host=m",
            "--smtp-from=a@b",
            "--smtp-tls=none",
            "--smtp-user=u",
            "--smtp-password=env:P",
        ]);
        assert!(open[0].contains("show the password"), "{open:?}");
    }
}
