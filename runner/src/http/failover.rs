//! How a request can fail, and after which failures the next url is asked.
//!
//! One rule decides: another service is asked when the first one certainly did nothing, or when doing it twice does no harm.
//! An answer is an answer: the urls of a task lead to one and the same service, so that what one of them refuses the others
//! would refuse too.

use std::fmt;

/// How a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The address or a header is none, or the runner lacks something to ask with.
    Unusable(String),
    /// The name leads nowhere.
    Unresolved(String),
    /// Nobody allowed the address.
    Refused(String),
    /// Connecting failed, the handshake of TLS included.
    Unconnected(String),
    /// Connecting took too long.
    ConnectTimeout(String),
    /// The connection broke before an answer began.
    Broken(String),
    /// No answer began in time.
    Silent(String),
    /// The status is no success.
    Status(u16, String),
    /// A redirect that is not followed.
    Redirect(String),
    /// The connection broke within the answer.
    CutOff(String),
    /// The answer stalled.
    Stalled(String),
    /// The request took too long as a whole.
    Overdue(String),
    /// A redirect was followed, and then this happened.
    Beyond(Box<Failure>),
}

/// What the service may have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing, for certain.
    Nothing,
    /// What was asked, or not.
    Perhaps,
    /// It answered.
    Answered,
}

impl Failure {
    /// What the service may have done.
    pub(crate) fn done(&self) -> Done {
        match self {
            Self::Unresolved(_) | Self::Refused(_) | Self::Unconnected(_) | Self::ConnectTimeout(_) => Done::Nothing,
            // By its meaning it says that nothing was done, and load balancers without a service behind them say it.
            Self::Status(503, _) => Done::Nothing,
            // These speak of a service behind the one that answers.
            Self::Status(502 | 504, _) => Done::Perhaps,
            Self::Broken(_) | Self::Silent(_) | Self::CutOff(_) | Self::Stalled(_) | Self::Overdue(_) => Done::Perhaps,
            Self::Unusable(_) | Self::Status(..) | Self::Redirect(_) => Done::Answered,
            // The one that sent us on may have done it before.
            Self::Beyond(failure) => match failure.done() {
                Done::Nothing => Done::Perhaps,
                done => done,
            },
        }
    }

    /// The status that was answered, if that is what failed.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status, _) => Some(*status),
            Self::Beyond(failure) => failure.status(),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(text)
            | Self::Unresolved(text)
            | Self::Refused(text)
            | Self::Unconnected(text)
            | Self::ConnectTimeout(text)
            | Self::Broken(text)
            | Self::Silent(text)
            | Self::Status(_, text)
            | Self::Redirect(text)
            | Self::CutOff(text)
            | Self::Stalled(text)
            | Self::Overdue(text) => f.write_str(text),
            Self::Beyond(failure) => failure.fmt(f),
        }
    }
}

/// Whether the next url is asked.
pub(crate) fn goes_on(method: &str, failure: &Failure) -> bool {
    match failure.done() {
        Done::Nothing => true,
        Done::Perhaps => is_idempotent(method),
        Done::Answered => false,
    }
}

/// Whether asking twice is the same as asking once, by the meaning of the method (RFC 9110, 9.2.2).
fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::drawn;

    /// Every way to fail, in words.
    fn ways() -> Vec<(&'static str, Failure)> {
        let text = String::new;
        vec![
            ("the name leads nowhere", Failure::Unresolved(text())),
            ("the address is not allowed", Failure::Refused(text())),
            ("connecting, or the handshake of TLS, fails", Failure::Unconnected(text())),
            ("`connect_timeout`", Failure::ConnectTimeout(text())),
            ("503", Failure::Status(503, text())),
            ("the connection breaks before the answer", Failure::Broken(text())),
            ("`read_timeout` before the answer", Failure::Silent(text())),
            ("502, 504", Failure::Status(502, text())),
            ("the connection breaks within the answer", Failure::CutOff(text())),
            ("`read_timeout` within the answer", Failure::Stalled(text())),
            ("`request_timeout`", Failure::Overdue(text())),
            ("after a redirect, one of the first five", Failure::Beyond(Box::new(Failure::Unresolved(text())))),
            ("any other status that is no success", Failure::Status(500, text())),
            ("a redirect that is not followed", Failure::Redirect(text())),
        ]
    }

    #[test]
    fn the_next_url_is_asked_when_that_does_no_harm() {
        let mut table =
            "| what happens | the service did it | `GET` `HEAD` `OPTIONS` `PUT` `DELETE` | `POST` `PATCH` |\n\
                         |---|---|---|---|\n"
                .to_owned();
        for (way, failure) in ways() {
            let done = match failure.done() {
                Done::Nothing => "no",
                Done::Perhaps => "perhaps",
                Done::Answered => "it answered",
            };
            let next = |method| if goes_on(method, &failure) { "next url" } else { "the attempt fails" };
            let (get, post) = (next("GET"), next("POST"));
            for (other, like) in [("PUT", get), ("DELETE", get), ("HEAD", get), ("OPTIONS", get), ("PATCH", post)] {
                assert_eq!(next(other), like, "{other}: {way}");
            }
            writeln!(table, "| {way} | {done} | {get} | {post} |").unwrap();
        }
        drawn::hold("docs/http.md", "failover", &table);
    }

    #[test]
    fn what_may_have_been_done_is_never_asked_of_another_with_post() {
        for (way, failure) in ways() {
            assert!(!goes_on("POST", &failure) || failure.done() == Done::Nothing, "{way}");
        }
        let beyond = Failure::Beyond(Box::new(Failure::Status(503, String::new())));
        assert!(!goes_on("POST", &beyond) && goes_on("GET", &beyond));
        assert_eq!(beyond.status(), Some(503));
    }
}
